"""scheduling/CFG-1, CFG-6: the bounded YAML reader, and the typed arguments of CFG-11."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scheduling.config import arguments
from scheduling.config.parse import parse
from scheduling.config.plain import DEPTH_MAX, LENGTH_MAX, Unreadable, load


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("7", 7), ("-7", -7), ("0x1F", 31), ("010", 8), ("0o17", 15), ("1_000", 1000), ("0", 0),
        ("1.5", 1.5), ("1e3", 1000.0), (".5", 0.5), ("-.inf", float("-inf")),
        ("true", True), ("Yes", True), ("off", False), ("null", None), ("~", None), ("", None),
        ("'7'", "7"), ("1:30", "1:30"), ("2026-01-01", "2026-01-01"), ("10:00-21:00", "10:00-21:00"), ("089", "089"),
        ("!!str 7", "7"), ("=", "="),
    ],
)  # fmt: skip
def test_scalars(text: str, value: Any) -> None:
    """scheduling/CFG-11: whole numbers, numbers, booleans, null and text; no dates, nothing of base 60."""
    found = load(f"[{text}]" if text else "")[0]
    assert found == ([value] if text else None)
    if text:
        assert type(found[0]) is type(value)


def test_aliases_and_merges() -> None:
    """scheduling/CFG-1: they may be used; a key of the map itself wins, and of several maps the first."""
    text = "base: &b {x: 1, y: 2}\nother: &o {y: 3, z: 4}\nboth: {<<: [*b, *o], x: 5}\nsame: *b\n"
    found, warnings = load(text)
    assert found["both"] == {"x": 5, "y": 2, "z": 4}
    assert found["same"] == {"x": 1, "y": 2}
    assert warnings == []


def test_keys() -> None:
    """scheduling/CFG-1: keys are text; one that is given twice warns."""
    found, warnings = load("1: a\ntrue: b\nx: 1\nx: 2\n")
    assert found == {"1": "a", "true": "b", "x": 2}
    assert warnings == ["line 4: key x is given twice, the last one counts"]


BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{new}: &{new} [{','.join(['*' + old] * 10)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        "a: &a [*a]",
        "[" * 100_000,
        "{a: " * 1000,
        "- " * 5000,
        "a: " + "9" * 5000,
        "x" * (LENGTH_MAX + 1),
        "!!python/object/apply:os.system [x]",
        "!!binary aGk=",
        "!!set {a, b}",
        "!!omap [a: 1]",
        "!!timestamp x",
        "!!int ''",
        "!!bool maybe",
        "!!float ''",
        "a: 1\n---\nb: 2",
        "? [a]\n: 1",
        "<<: 7",
        "a: \ud800",
        "\x00",
    ],
    ids=range(20),
)
def test_hostile_text_is_refused(text: str) -> None:
    """scheduling/CFG-6: bounded in length, depth and number of values; only plain values."""
    with pytest.raises(Unreadable, match=r"^yaml: [^\n]+$"):
        load(text)
    assert parse(text).config is None


def test_depth_is_bounded_where_it_should_be() -> None:
    """scheduling/CFG-6: an honest file is far from the bound."""
    assert load("[" * DEPTH_MAX + "]" * DEPTH_MAX)[0]
    with pytest.raises(Unreadable):
        load("[" * (DEPTH_MAX + 1) + "]" * (DEPTH_MAX + 1))


def test_empty_documents_behind_the_first_are_nothing() -> None:
    """scheduling/CFG-1: a file may end with a separator."""
    assert load("---\na: 1\n---\n")[0] == {"a": 1}


@given(st.text(alphabet=st.sampled_from("ab:-[]{}&*!|>'\"#%@`,? \n\t0179.e<=~"), max_size=60))
def test_parse_never_raises(text: str) -> None:
    """scheduling/CFG-6: any text gives a report with a configuration or a reason, never both."""
    report = parse(text)
    assert (report.config is None) == bool(report.errors)


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
_SHAPED = st.fixed_dictionaries(
    {},
    optional={
        "actions": st.just("allocate") | _PLAIN,
        "tiers": _PLAIN | st.lists(st.fixed_dictionaries({"plugins": st.lists(_PLAIN, max_size=2)}), max_size=2),
        "configurations": _PLAIN,
        "metrics": _PLAIN,
    },
)


@given(_SHAPED)
def test_parse_takes_any_shape(document: Any) -> None:
    """scheduling/CFG-6b: whatever stands where a list or a map should, the answer is a report."""
    report = parse(yaml.safe_dump(document))
    assert (report.config is None) == bool(report.errors)


@pytest.mark.parametrize("word", ["1", "t", "T", "TRUE", "true", "True"])
def test_true_words(word: str) -> None:
    """scheduling/CFG-11: the strings that are true."""
    assert arguments.boolean({"k": word}, "k", False) is True


@pytest.mark.parametrize("word", ["0", "f", "F", "FALSE", "false", "False"])
def test_false_words(word: str) -> None:
    """scheduling/CFG-11: the strings that are false."""
    assert arguments.boolean({"k": word}, "k", True) is False


@pytest.mark.parametrize(
    ("read", "default", "value", "kind"),
    [
        (arguments.integer, 3, "10", "int"),
        (arguments.integer, 3, 1.0, "int"),
        (arguments.integer, 3, True, "int"),
        (arguments.integer, 3, None, "int"),
        (arguments.number, Fraction(3), "1.5", "float"),
        (arguments.number, Fraction(3), float("inf"), "float"),
        (arguments.number, Fraction(3), float("nan"), "float"),
        (arguments.number, Fraction(3), True, "float"),
        (arguments.boolean, True, "no", "bool"),
        (arguments.boolean, True, 0, "bool"),
        (arguments.string, "d", 5, "string"),
        (arguments.duration, 9, "1x", "duration"),
        (arguments.duration, 9, "-5m", "duration"),
        (arguments.duration, 9, "5", "duration"),
        (arguments.duration, 9, 5, "duration"),
        (arguments.duration, 9, "", "duration"),
        (arguments.duration, 9, "1h " * 90, "duration"),
    ],
)
def test_wrong_types_keep_the_default(read: Any, default: Any, value: Any, kind: str) -> None:
    """scheduling/CFG-11, devices/P-11: and warn once."""
    warnings: list[str] = []
    assert read({"k": value}, "k", default, warnings) == default
    (warning,) = warnings
    assert warning.startswith("Could not parse argument: ")
    assert warning.endswith(f" for key k to {kind}")
    assert read({}, "k", default, warnings) == default
    assert len(warnings) == 1


def test_numbers_are_exact() -> None:
    """scheduling/CFG-11: as they are written; floats accept integers."""
    assert arguments.number({"k": 1.1}, "k", Fraction(0)) == Fraction(11, 10)
    assert arguments.number({"k": 2}, "k", Fraction(0)) == 2
    assert arguments.integer({"k": -4}, "k", 0) == -4


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("10m", 600_000), ("1h30m", 5_400_000), ("1.5h", 5_400_000), ("90s", 90_000), ("250ms", 250), ("0", 0),
        (0, 0), ("0s", 0), ("1h2m3s4ms", 3_723_004), ("1500us", 1), ("1500µs", 1), (".5s", 500), ("+5s", 5000),
    ],
)  # fmt: skip
def test_durations(text: str | int, milliseconds: int) -> None:
    """scheduling/PG-4a: durations in milliseconds."""
    assert arguments.duration({"k": text}, "k", 7) == milliseconds


@pytest.mark.parametrize("text", ['a: "\\UFFFFFFFF"', 'a: "\\U00110000"', "[" * 3000, "\x00"])
def test_what_trips_the_reader_is_unreadable_and_nothing_else(text: str) -> None:
    with pytest.raises(Unreadable):
        load(text)
