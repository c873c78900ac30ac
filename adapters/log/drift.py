"""Drift: where a log and the cluster that it speaks of differ.

The log says of every object how it was last seen, and of every placement of ours who was given which node and cards.
The API server says what is there now. One of the two is always a little ahead, so they are compared again and again,
the log folded on in between: a difference counts if it stays the same until patience ends.

- an object is there and the log does not know it, or the other way round, or it is there in another form;
- a pod bears a decision that the log does not have, or that has another node or other cards; or its mark is gone.

A decision from before the log's front, which was cut, cannot be compared; those pods are counted.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from adapters.cluster.port import ApiError, ClusterApi, pages
from adapters.log.follower import Follower
from adapters.log.port import Log
from events import names
from events.canonical import Json
from events.codec import NotWritable
from events.kinds import OBSERVED_KINDS, POD, Kind
from events.projection import Scope, compare_key, project, relevant, scope_in
from events.records import Batch, Genesis, Member, Observed, Opened, Outcome, Record
from scheduling.state.fold import APPLIED, Fold

#: How often the two are compared at most, and how long the log is waited for in between.
LOOKS: Final = 10
PAUSE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Difference:
    """One object that differs: where the log speaks of it last, in which record or decision, and how it differs."""

    position: int
    record: str
    problem: str


@dataclass
class DriftReport:
    """What was compared, and the differences in the order of the log. ``unchecked`` pods bear decisions of before."""

    objects: int = 0
    placements: int = 0
    unchecked: int = 0
    differences: tuple[Difference, ...] = ()


async def compare(log: Log, api: ClusterApi, *, looks: int = LOOKS, pause_s: float = PAUSE_S) -> DriftReport:
    """Compare a log with its cluster. Raises LogError, ApiError, ApiUnknown."""
    told = _Told()
    follower = Follower(log, told)
    first, _ = await log.bounds()
    if first:
        await follower.begin_at_front()
    kept: set[Difference] | None = None
    for look in range(looks):
        if look:
            await log.wait(follower.position, pause_s)
        await follower.catch_up()
        report = await _look(api, told, whole=not first)
        kept = set(report.differences) if kept is None else kept & set(report.differences)
        if not kept:
            break
    report.differences = tuple(sorted(kept or (), key=lambda found: (found.position, found.problem)))
    return report


@dataclass(frozen=True, slots=True)
class _Placed:
    position: int
    member: Member


class _Told:
    """What the log tells: the state, where each object was last observed, and every placement that counted."""

    def __init__(self) -> None:
        self.fold = Fold()
        self.scope = Scope()
        self.placed: dict[str, _Placed] = {}
        self.bound: dict[str, str] = {}
        self.seen: dict[tuple[str, str], tuple[int, str]] = {}
        self.incarnations: set[str] = set()
        self.end = 0

    def apply(self, position: int, record: Record, chain_before: str) -> str:
        """Fold one record."""
        verdict = self.fold.apply(position, record, chain_before)
        self.end = position + 1
        if verdict.startswith(APPLIED):
            self._note(position, record)
        return verdict

    def set_aside(self, position: int, reason: str, chain_before: str) -> None:
        """Fold a message that is no record."""
        self.fold.set_aside(position, reason, chain_before)
        self.end = position + 1

    def _note(self, position: int, record: Record) -> None:
        body = record.body
        if isinstance(body, Genesis):
            self.incarnations.add(body.incarnation)
        elif isinstance(body, Opened) and body.role == "watcher":
            self.scope = scope_in(body.config)
        elif isinstance(body, Observed):
            self.seen[f"{body.api_version}/{body.kind}", _key(body.object)] = (position, record.id)
        elif isinstance(body, Batch):
            self._place(position, body)
        elif isinstance(body, Outcome) and (body.verb, body.result) == ("bind", "applied"):
            self.bound[body.uid] = body.command

    def _place(self, position: int, batch: Batch) -> None:
        """Keep the placements that count; an overtaken command leaves none."""
        for member in (member for command in batch.binds for member in command.members):
            entry = self.fold.model.pods.get(member.uid)
            if entry is not None and entry.placement is member:
                self.placed[entry.placement_id] = _Placed(position, member)


async def _look(api: ClusterApi, told: _Told, *, whole: bool) -> DriftReport:
    """Compare once. ``whole``: the log has its front, so it has every decision that ever counted."""
    report = DriftReport()
    found: list[Difference] = []
    for kind in OBSERVED_KINDS:
        there = await _there(api, kind, told.scope)
        report.objects += len(there)
        found += _objects(kind, there, told)
        if kind == POD:
            for key, item in there.items():
                found += _placement(key, item, told, report, whole=whole)
    report.differences = tuple(found)
    return report


async def _there(api: ClusterApi, kind: Kind, scope: Scope) -> dict[str, Json]:
    """Return the objects of a kind that are observed; a kind that the server does not have, has none."""
    items: list[Json] = []
    try:
        async for page in pages(api, kind):
            items += page.items
    except ApiError as error:
        if error.status != 404:
            raise
    return {_key(item): item for item in items if relevant(kind, item, scope)}


def _objects(kind: Kind, there: dict[str, Json], told: _Told) -> Iterator[Difference]:
    """Compare the objects of a kind with how the log saw them last."""
    name = f"{kind.api_version}/{kind.name}"
    known = dict(told.fold.objects(name))
    for key in sorted(there.keys() | known.keys()):
        position, record = told.seen.get((name, key), (told.end, ""))
        if key not in known:
            yield Difference(told.end, "", f"{kind.name} {key} is on the API server, the log does not know it")
        elif key not in there:
            yield Difference(position, record, f"{kind.name} {key} is on the log, the API server does not have it")
        else:
            problem = _form(kind, there[key], known[key], told.scope)
            if problem:
                yield Difference(position, record, f"{kind.name} {key}: {problem}")


def _form(kind: Kind, item: Json, known: Json, scope: Scope) -> str:
    """Say how two forms of an object differ, empty if they do not; what no log can hold is not compared."""
    try:
        now, then = compare_key(kind, project(kind, item, scope)), compare_key(kind, known)
    except NotWritable:
        return ""
    if now == then:
        return ""
    path, here, there = _first_difference(json.loads(now), json.loads(then), "")
    return f"{path.lstrip('.')} is {_short(here)} on the API server, {_short(there)} on the log"


def _placement(key: str, item: Json, told: _Told, report: DriftReport, *, whole: bool) -> Iterator[Difference]:
    """Compare a bound pod with the decision that it bears."""
    meta, node = item["metadata"], (item.get("spec") or {}).get("nodeName")
    if not node:
        return
    notes = meta.get("annotations") or {}
    decision, by = notes.get(names.DECISION, ""), told.bound.get(meta.get("uid", ""), "")
    placed = told.placed.get(decision)
    if not decision:
        if by:
            yield Difference(told.placed[by].position, by, f"Pod {key} was bound by this decision and bears it no more")
    elif placed is None:
        if whole or _incarnation(decision) in told.incarnations:
            yield Difference(told.end, decision, f"Pod {key} bears a decision that the log does not have")
        else:
            report.unchecked += 1
    else:
        report.placements += 1
        member = placed.member
        for what, here, there in (
            ("uid", meta.get("uid", ""), member.uid),
            ("spec.nodeName", node, member.node),
            (names.VGPU_IDS, notes.get(names.VGPU_IDS, ""), member.allocation),
            (names.GPU_INDEX, notes.get(names.GPU_INDEX, ""), member.gpu_index),
        ):
            if here != there:
                problem = f"Pod {key}: {what} is {_short(here)} on the API server, decided was {_short(there)}"
                yield Difference(placed.position, decision, problem)


def _first_difference(here: Any, there: Any, path: str) -> tuple[str, Any, Any]:
    """Return the path of the first place at which two JSON values differ, and what each has there."""
    if isinstance(here, dict) and isinstance(there, dict):
        key = next(key for key in sorted(here.keys() | there.keys()) if here.get(key) != there.get(key))
        return _first_difference(here.get(key), there.get(key), f"{path}.{key}")
    if isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        index = next(index for index, (one, two) in enumerate(zip(here, there, strict=True)) if one != two)
        return _first_difference(here[index], there[index], f"{path}[{index}]")
    return path, here, there


def _short(value: Any) -> str:
    text = "nothing" if value is None or value == "" else json.dumps(value, sort_keys=True)
    return text if len(text) <= 120 else f"{text[:117]}..."


def _incarnation(decision: str) -> str:
    parts = decision.rsplit("/", 3)
    return parts[1] if len(parts) == 4 else ""


def _key(item: Json) -> str:
    meta = item["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])
