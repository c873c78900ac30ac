"""The plugin's arguments: devices/P-1 to P-16, X-1 to X-3."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling.devices.arguments import DeviceShareArgs, matching, parse_deviceshare, parse_rules, rule_id

VGPU, SHARING, NUMBER = (f"deviceshare.{name}" for name in ("VGPUEnable", "GPUSharingEnable", "GPUNumberEnable"))
RULES = "deviceshare.GPUExclusiveRules"


def test_p1_to_p9_defaults() -> None:
    """devices/P-1 to P-9, P-13: what is not there is at its default, whatever was there before"""
    expected = (DeviceShareArgs(), (), ())
    assert parse_deviceshare(None, None) == parse_deviceshare({}, {}) == expected
    assert DeviceShareArgs() == DeviceShareArgs(
        False, False, False, False, "", 0, "volcano-vgpu-device-config", "kube-system", ()
    )


def test_every_argument() -> None:
    """devices/P-1 to P-9"""
    values, errors, warnings = parse_deviceshare(
        {
            VGPU: True,
            "deviceshare.NodeLockEnable": True,
            "deviceshare.SchedulePolicy": "spread",
            "deviceshare.ScheduleWeight": 10,
            "deviceshare.KnownGeometriesCMName": "cm",
            "deviceshare.KnownGeometriesCMNamespace": "ns",
            RULES: [{"b": "2", "a": "1"}],
        },
        None,
    )
    assert (errors, warnings) == ((), ())
    assert values == DeviceShareArgs(True, False, False, True, "spread", 10, "cm", "ns", ((("a", "1"), ("b", "2")),))


@pytest.mark.parametrize("word", ["1", "t", "T", "TRUE", "true", "True"])
def test_p11_true_words(word: str) -> None:
    """devices/P-11"""
    assert parse_deviceshare({VGPU: word}, None) == (DeviceShareArgs(vgpu=True), (), ())


@pytest.mark.parametrize("word", ["0", "f", "F", "FALSE", "false", "False"])
def test_p11_false_words(word: str) -> None:
    """devices/P-11"""
    assert parse_deviceshare({VGPU: word}, None) == (DeviceShareArgs(), (), ())


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (VGPU, "yes", f"Could not parse argument: yes for key {VGPU} to bool"),
        (VGPU, 1, f"Could not parse argument: 1 for key {VGPU} to bool"),
        ("deviceshare.ScheduleWeight", "10", "Could not parse argument: 10 for key deviceshare.ScheduleWeight to int"),
        (
            "deviceshare.ScheduleWeight",
            True,
            "Could not parse argument: true for key deviceshare.ScheduleWeight to int",
        ),
        ("deviceshare.ScheduleWeight", 1.5, "Could not parse argument: 1.5 for key deviceshare.ScheduleWeight to int"),
        ("deviceshare.SchedulePolicy", 7, "Could not parse argument: 7 for key deviceshare.SchedulePolicy to string"),
        (
            "deviceshare.SchedulePolicy",
            [1],
            "Could not parse argument: [1] for key deviceshare.SchedulePolicy to string",
        ),
    ],
)
def test_p11_a_wrong_type_keeps_the_default(key: str, value: Any, text: str) -> None:
    """devices/P-11"""
    assert parse_deviceshare({key: value}, None) == (DeviceShareArgs(), (), (text,))


def test_p10_ascend_is_out_of_scope() -> None:
    """devices/P-10"""
    key = "deviceshare.AscendHAMiVNPUEnable"
    assert parse_deviceshare({key: True}, None)[2] == (f"{key} is out of scope and has no effect",)
    assert parse_deviceshare({key: False}, None)[2] == ()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({SHARING: True, NUMBER: True}, "can not define true in both gpu sharing and gpu number"),
        ({SHARING: True, NUMBER: True, VGPU: True}, "can not define true in both gpu sharing and gpu number"),
        ({SHARING: True, VGPU: True}, "gpu-share and vgpu can't be used together"),
        ({NUMBER: True, VGPU: True}, "gpu-share and vgpu can't be used together"),
    ],
)
def test_p12_conflicts(arguments: dict[str, bool], text: str) -> None:
    """devices/P-12"""
    assert parse_deviceshare(arguments, None)[1] == (text,)


def test_p14_unknown_policy_and_negative_weight() -> None:
    """devices/P-14"""
    values, errors, warnings = parse_deviceshare(
        {"deviceshare.SchedulePolicy": "BinPack", "deviceshare.ScheduleWeight": -3}, None
    )
    assert (values, errors) == (DeviceShareArgs(), ())
    assert warnings == ('unknown deviceshare.SchedulePolicy "BinPack"',)


def test_p15_the_old_style_counts_too() -> None:
    """devices/P-15, P-12, P-16: a true in either place, conflicts on the union"""
    old = {"predicate.GPUSharingEnable": True}
    assert parse_deviceshare(None, old)[0] == DeviceShareArgs(sharing=True)
    assert parse_deviceshare({SHARING: False}, old)[0].sharing
    assert parse_deviceshare({NUMBER: True}, {"predicate.GPUNumberEnable": False})[0].number
    assert parse_deviceshare({VGPU: True}, old)[1] == ("gpu-share and vgpu can't be used together",)
    assert parse_deviceshare({NUMBER: True}, old)[1] == ("can not define true in both gpu sharing and gpu number",)


@pytest.mark.parametrize("value", [None, []])
def test_x2_no_rules(value: Any) -> None:
    """devices/X-2"""
    assert parse_rules(value) == ((), (), ())


@pytest.mark.parametrize(
    ("value", "word"),
    [("x", "string"), (1, "integer"), (1.5, "number"), (True, "boolean"), ({"a": "b"}, "map")],
)
def test_x2_not_a_list(value: Any, word: str) -> None:
    """devices/X-2"""
    text = f"deviceshare.GPUExclusiveRules must be a list of label maps, got {word}"
    assert parse_deviceshare({RULES: value}, None)[1] == (text,)


@pytest.mark.parametrize(("value", "word"), [("x", "string"), (None, "null"), (["a"], "list"), (3, "integer")])
def test_x2_not_a_map(value: Any, word: str) -> None:
    """devices/X-2"""
    rules, errors, _ = parse_rules([{"a": "b"}, value])
    assert rules == ()
    assert errors == (f"deviceshare.GPUExclusiveRules[1] must be a map of label to value, got {word}",)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (1, "integer 1"),
        (1.5, "number 1.5"),
        (True, "boolean true"),
        (None, "null null"),
        (["a"], 'list ["a"]'),
        ({"x": "y"}, 'map {"x":"y"}'),
    ],
)
def test_x2_a_value_that_is_no_string_refuses_the_file(value: Any, shown: str) -> None:
    """devices/X-2: a rule is never used in part"""
    rules, errors, _ = parse_rules([{"workloadType": "batch", "tier": value}])
    assert rules == ()
    assert errors == (f"deviceshare.GPUExclusiveRules[0].tier must be a string, got {shown}",)


def test_x2_an_empty_map_is_skipped() -> None:
    """devices/X-2"""
    rules, errors, warnings = parse_rules([{}, {"a": "b"}])
    assert (rules, errors) == (((("a", "b"),),), ())
    assert warnings == ("deviceshare.GPUExclusiveRules[0] is empty and is skipped",)


def test_x3_a_rule_is_its_sorted_pairs() -> None:
    """devices/X-3"""
    rules, _, _ = parse_rules([{"b": "2", "a": "1"}, {"a": "1", "b": "2"}, {"a": "1"}])
    assert [rule_id(rule) for rule in rules] == ["a=1,b=2", "a=1"]


def test_x1_matching() -> None:
    """devices/X-1"""
    rules, _, _ = parse_rules([{"t": "x"}, {"t": "x", "p": "high"}])
    assert matching(rules, {}) == ()
    assert matching(rules, {"t": "y", "p": "high"}) == ()
    assert matching(rules, {"t": "x", "more": "z"}) == rules[:1]
    assert matching(rules, {"t": "x", "p": "high"}) == rules
