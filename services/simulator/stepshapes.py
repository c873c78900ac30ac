"""The shape of steps: one verb each, its body, and the documents that it names.

What can be told from the file is judged here: unknown verbs and keys, wrong types, documents that do not exist or are
named ambiguously, documents that no step uses, a clock that would go backwards.
"""

from __future__ import annotations

from typing import Any

from services.simulator import clocktext
from services.simulator.crashpoints import CRASH_POINTS
from services.simulator.itemshapes import check_items
from services.simulator.judge import Check, Judge, flag, is_whole, join, list_of, map_of, one_of, shape, text, whole
from services.simulator.judge import anything as _anything
from services.simulator.objectshapes import object_name, observed_kind, pod_name

ROLES = ("scheduler", "binder", "watcher", "controller", "all")


def document_ref(value: Any, at: str, judge: Judge) -> None:
    """A document by its number or by the object in it; notes that it is used."""
    if is_whole(value):
        if value in judge.numbers:
            judge.used.add(value)
        else:
            judge.say(at, f"there is no document {value}")
    elif isinstance(value, str):
        found = judge.holders.get(value, [])
        if len(found) == 1:
            judge.used.add(found[0])
        elif found:
            judge.say(at, f"{value} is in documents {', '.join(map(str, found))}: use a number")
        else:
            judge.say(at, f"no document holds {value}")
    else:
        judge.say(at, "must be the number of a document, or Kind/namespace/name")


def _deleted(value: Any, at: str, judge: Judge) -> None:
    """A document, or the name of an object that a controller makes from one."""
    if not isinstance(value, str) or value in judge.holders or value not in judge.possible:
        document_ref(value, at, judge)


def _settle(value: Any, at: str, judge: Judge) -> None:
    if value is True:
        return
    if isinstance(value, dict):
        shape({"rounds": whole(1)})(value, at, judge)
    else:
        judge.say(at, "must be true or {rounds: N}")


def _duration(value: Any, at: str, judge: Judge) -> None:
    if clocktext.duration_ms(value) is None:
        judge.say(at, "must be a duration such as 30s or 1h30m")


def _clock(value: Any, at: str, judge: Judge) -> None:
    if isinstance(value, str) and value.startswith("+"):
        _duration(value[1:], at, judge)
    else:
        _time(value, at, judge)


def _time(value: Any, at: str, judge: Judge) -> None:
    if clocktext.time_ms(value) is None:
        judge.say(at, "must be a time such as 2026-01-01T00:00:00Z")


def _redeliver(value: Any, at: str, judge: Judge) -> None:
    shape({}, {"add": document_ref, "delete": document_ref})(value, at, judge)
    if isinstance(value, dict) and len(value) != 1:
        judge.say(at, "needs one of add, delete")


def _version(value: Any, at: str, judge: Judge) -> None:
    if not is_whole(value) and not (isinstance(value, str) and value):
        judge.say(at, "must be a resourceVersion")


_DOCUMENTS = list_of(document_ref)
_POD_PHASE = shape({"pod": pod_name, "phase": one_of("Succeeded", "Failed", "Running")})
VERBS: dict[str, Check] = {
    "add": _DOCUMENTS,
    "apply": _DOCUMENTS,
    "modify": document_ref,
    "patch": shape({"object": object_name, "merge": map_of(_anything)}),
    "delete": _deleted,
    "finish": _POD_PHASE,
    "podPhase": _POD_PHASE,
    "settle": _settle,
    "assert": check_items,
    "advance": _duration,
    "clock": _clock,
    "restart": one_of(*ROLES),
    "pause": one_of("scheduler", "binder"),
    "resume": one_of("scheduler", "binder"),
    "failover": one_of("scheduler"),
    "crash": shape({"who": one_of("scheduler", "binder"), "at": one_of(*CRASH_POINTS)}),
    "bindResult": shape(
        {"pod": pod_name, "result": one_of("conflict", "error", "timeout", "notfound")},
        {"times": whole(1), "then": shape({}, {"cordonChosenNode": flag})},
    ),
    "nodeLost": shape({"ofPod": pod_name}),
    "stale": document_ref,
    "redeliver": _redeliver,
    "watchError": shape({"code": whole(100), "kind": observed_kind}),
    "relist": shape({"kind": observed_kind, "objects": list_of(document_ref)}),
    "bookmark": shape({"kind": observed_kind, "resourceVersion": _version}),
    "rebalance": shape({"who": one_of("scheduler", "binder", "watcher"), "uncommitted": whole(0)}),
    "zombieCommand": shape({"pod": pod_name, "node": text, "uuids": list_of(text), "mem": whole(0)}),
    "truncateLog": shape({"keepLast": whole(0)}),
    "replay": shape({"clock": _time}),
}


def check_steps(value: Any, at: str, judge: Judge) -> None:
    """Judge the steps: each for itself, then the course of the clock."""
    if not isinstance(value, list):
        judge.say(at, "must be a list")
        return
    for index, step in enumerate(value):
        _check_step(step, f"{at}[{index}]", judge)
    _check_clock(value, at, judge)


def _check_step(step: Any, at: str, judge: Judge) -> None:
    if not isinstance(step, dict) or len(step) != 1:
        judge.say(at, "must be a mapping with one verb")
        return
    ((verb, body),) = step.items()
    if verb in VERBS:
        VERBS[verb](body, join(at, verb), judge)
    else:
        judge.say(join(at, verb), "unknown verb")


def _check_clock(steps: list[Any], at: str, judge: Judge) -> None:
    now = clocktext.START_MS
    for index, step in enumerate(steps):
        if not isinstance(step, dict) or len(step) != 1:
            continue
        ((verb, body),) = step.items()
        target = clock_after(now, verb, body)
        if target is not None and target < now:
            judge.say(f"{at}[{index}].{verb}", f"goes backwards, the clock stands at {clocktext.time_text(now)}")
        now = max(now, target or now)


def clock_after(now_ms: int, verb: str, body: Any) -> int | None:
    """Return where a step sets the clock, None if it does not."""
    if verb not in ("advance", "clock"):
        return None
    if verb == "clock" and not (isinstance(body, str) and body.startswith("+")):
        return clocktext.time_ms(body)
    moved = clocktext.duration_ms(body.removeprefix("+") if verb == "clock" else body)
    return None if moved is None else now_ms + moved
