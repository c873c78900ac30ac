"""The shape of assertions: which keys go together, and the type of each.

An item has one or more subjects (``pod``, ``queue``, ``invariants``, ...); the other keys belong to a subject and are
malformed without it.
"""

from __future__ import annotations

import re
from typing import Any

from services.simulator.judge import (
    Check,
    Judge,
    anything,
    either,
    filled,
    flag,
    is_whole,
    join,
    list_of,
    map_of,
    one_of,
    shape,
    text,
    whole,
    yes,
)
from services.simulator.objectshapes import known_kind, object_name, pod_name

POD_PHASES = ("bound", "pending", "notBound", "absent")
GROUP_PHASES = ("Pending", "Inqueue", "Running", "Unknown", "Completed")
INVARIANTS = (
    "no-oversubscription", "one-bind-per-pod", "gang-atomic", "queue-cap", "annotation-matches-node",
    "no-dead-node-binding", "exclusive-rule", "pending-has-no-claim", "released", "replay-equal", "no-crash",
)  # fmt: skip

_TEXTS = list_of(text)
_PODS = list_of(pod_name, filled_list=True)
_AMOUNT = either("a number or a quantity", is_whole, lambda value: isinstance(value, str | float))
_SHARE = shape({"uuid": text, "mem": whole()})
_REASONS = {"reasonContains": text, "reasonAnyOf": list_of(text, filled_list=True)}


def _regex(value: Any, at: str, judge: Judge) -> None:
    if not isinstance(value, str):
        judge.say(at, "must be text")
        return
    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError) as error:
        judge.say(at, f"is no regular expression: {error}")


def _bound_count(value: Any, at: str, judge: Judge) -> None:
    shape({"of": _PODS}, {"equals": whole(0), "min": whole(0), "max": whole(0)})(value, at, judge)
    if isinstance(value, dict) and not {"equals", "min", "max"} & value.keys():
        judge.say(at, "needs equals, min or max")


def _any_of(value: Any, at: str, judge: Judge) -> None:
    list_of(check_items, filled_list=True)(value, at, judge)


def _replay(value: Any, at: str, judge: Judge) -> None:
    shape({}, {"decisionsEqual": flag, "stateEqual": flag, "commandsSent": whole(0)})(value, at, judge)
    if value == {}:
        judge.say(at, "must not be empty")


#: Subject -> (its own check, the keys that belong to it, keys of which one at least is needed).
_SUBJECTS: dict[str, tuple[Check, dict[str, Check], tuple[str, ...]]] = {
    "pod": (
        pod_name,
        {
            "phase": one_of(*POD_PHASES), "node": _TEXTS, "notNode": _TEXTS, "gpu": _TEXTS, "gpuIn": _TEXTS,
            "notGpu": _TEXTS, "gpuCount": whole(0), "gpuIndex": list_of(whole(0)),
            "containers": list_of(list_of(_SHARE)),
            "slice": shape({}, {"uuid": text, "group": text, "memory": whole(0)}), "distinctSlices": whole(0),
            "bindings": whole(0), **_REASONS,
        },
        (),
    ),
    "annotation": (filled, {"equals": text, "matches": _regex, "absent": yes}, ("equals", "matches", "absent")),
    "boundCount": (_bound_count, {}, ()),
    "sameGpu": (_PODS, {}, ()),
    "disjointGpus": (_PODS, {}, ()),
    "podgroup": (pod_name, {"podgroupPhase": list_of(one_of(*GROUP_PHASES), filled_list=True), **_REASONS}, ()),
    "queue": (filled, {"allocated": map_of(_AMOUNT)}, ("allocated",)),
    "device": (
        filled,
        {"usedMem": whole(), "usedCores": whole(), "usedSlots": whole()},
        ("usedMem", "usedCores", "usedSlots"),
    ),
    "config": (
        one_of("scheduler", "device"),
        {"accepted": flag, "warns": flag, **_REASONS},
        ("accepted", "warns", "reasonContains", "reasonAnyOf"),
    ),
    "object": (
        object_name,
        {"exists": flag, "contains": map_of(anything), "refused": flag, **_REASONS},
        ("exists", "contains", "refused", "reasonContains", "reasonAnyOf"),
    ),
    "objects": (shape({"kind": known_kind, "equals": whole(0)}), {}, ()),
    "replay": (_replay, {}, ()),
    "anyOf": (_any_of, {}, ()),
    "invariants": (list_of(one_of(*INVARIANTS), filled_list=True), {}, ()),
}  # fmt: skip
_KNOWN = {*_SUBJECTS, *(key for _, keys, _ in _SUBJECTS.values() for key in keys)}


def check_items(value: Any, at: str, judge: Judge) -> None:
    """Judge a list of assertions."""
    list_of(_check_item)(value, at, judge)


def _check_item(value: Any, at: str, judge: Judge) -> None:
    if not isinstance(value, dict):
        judge.say(at, "must be a mapping")
        return
    subjects = [key for key in value if key in _SUBJECTS]
    allowed: dict[str, Check] = {}
    for subject in subjects:
        check, keys, needed = _SUBJECTS[subject]
        check(value[subject], join(at, subject), judge)
        allowed.update(keys)
        if needed and not any(key in value for key in needed):
            judge.say(at, f"{subject} needs {', '.join(needed[:-1])}{' or ' if needed[:-1] else ''}{needed[-1]}")
    if "annotation" in subjects and "pod" not in subjects:
        judge.say(join(at, "pod"), "is missing")
    if not subjects and not (value.keys() - _KNOWN):
        judge.say(at, "names nothing to look at (pod, podgroup, queue, device, ...)")
    for key in (key for key in value if key not in _SUBJECTS):
        if key not in _KNOWN:
            judge.say(join(at, key), "unknown assertion")
        elif key in allowed:
            allowed[key](value[key], join(at, key), judge)
        elif subjects:
            judge.say(join(at, key), f"does not belong to {', '.join(subjects)}")
