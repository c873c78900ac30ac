"""Each numbered rule of docs/spec is named by a test or a played scenario; what cannot be is listed with why.

A row of the tables of known faults (devices K-, S-) is covered by the rules that its last column requires.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_ID = r"[A-Z]+-\d+[a-z]?"
_DEFINED = re.compile(rf"^(?:\| |\*\*)?({_ID})(?:\.| \||\*\*)", re.MULTILINE)
_EXEMPT = Path(__file__).parent / "untested_rules.txt"


def defined(spec: str) -> set[str]:
    return set(_DEFINED.findall((_ROOT / "docs" / "spec" / f"{spec}.md").read_text()))


def named(spec: str, *, ranges: bool = True) -> set[str]:
    """Rules that tests and played scenarios name, as ``devices/F-8`` in a list or a range: ``devices/F-8, F-9``."""
    tests = [path for path in (_ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    texts = [path.read_text() for path in (*tests, *(_ROOT / "tests" / "scenarios").rglob("*.yaml"))]
    found: set[str] = set()
    for text in texts:
        for match in re.finditer(rf"{spec}/({_ID}(?:(?:, | and |, and | to ){_ID})*)", text):
            found |= set(re.findall(_ID, match.group(1)))
            if ranges:
                for kind, first, last in re.findall(r"([A-Z]+)-(\d+) to [A-Z]+-(\d+)", match.group(1)):
                    found |= {f"{kind}-{number}" for number in range(int(first), int(last) + 1)}
    return found


def exempt() -> dict[str, str]:
    lines = [line for line in _EXEMPT.read_text().splitlines() if line and not line.startswith("#")]
    return dict(line.split(": ", 1) for line in lines)


def by_table(spec: str, covered: set[str]) -> set[str]:
    """Rows whose last column requires rules that are all covered."""
    rows: set[str] = set()
    for line in (_ROOT / "docs" / "spec" / f"{spec}.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("|") and re.fullmatch(r"[KS]-\d+", cells[0]):
            required = set(re.findall(_ID, cells[-1])) & defined(spec)
            if required and required <= covered:
                rows.add(cells[0])
    return rows


@pytest.mark.parametrize("spec", ["devices", "scheduling"])
def test_every_rule_is_named_by_a_test(spec: str) -> None:
    covered = named(spec)
    covered |= by_table(spec, covered)
    missing = {rule for rule in defined(spec) - covered if f"{spec}/{rule}" not in exempt()}
    assert not missing, f"no test names {sorted(missing)}"


def test_an_exempt_rule_exists_and_is_not_tested_after_all() -> None:
    for entry in exempt():
        spec, rule = entry.split("/")
        assert rule in defined(spec), f"{entry} is no rule"
        assert rule not in named(spec, ranges=False), f"{entry} has a test: it needs no exemption"


def test_no_test_names_a_rule_that_does_not_exist() -> None:
    for spec in ("devices", "scheduling"):
        unknown = named(spec) - defined(spec)
        assert not unknown, f"{spec}: {sorted(unknown)}"
