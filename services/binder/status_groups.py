"""Status and events of PodGroups (scheduling/PG-2, PG-12, PG-15, PG-16, E-5 to E-8, EV-1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from adapters.clock import rfc3339
from adapters.cluster.port import ApiError, ClusterApi
from events.canonical import Json
from events.kinds import POD_GROUP
from events.records import GroupBook
from scheduling.cycle.queue_status import task_counts
from scheduling.state.model import GroupEntry, Model
from scheduling.status import TaskStatus
from services.binder.conditions import conditions_of, with_conditions
from services.binder.recorder import Recorder
from services.binder.written import Due, Pace, Patience, Written, forget
from services.runtime.kube_events import Subject

#: The same event is recorded again after this time while it still holds (EV-1).
REPEAT_MS: Final = 5 * 60 * 1000
READY_REASON: Final = "tasks in gang are ready to be scheduled"
_WAITING: Final = ("", "Pending", "Inqueue", "Unknown")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a PodGroup's status should say."""

    phase: str
    counts: tuple[tuple[str, int], ...]
    unschedulable: bool | None
    reason: str
    message: str
    scheduled: bool

    @property
    def code(self) -> tuple[Any, ...]:
        """What is written at once when it changes: everything but the text."""
        return self.phase, self.counts, self.unschedulable, self.reason, self.scheduled


class GroupStatus:
    """Brings PodGroup status up to date."""

    def __init__(self, api: ClusterApi, recorder: Recorder, pace: Pace) -> None:
        self._api, self._recorder, self._pace = api, recorder, pace
        self._status: dict[str, Written] = {}
        self._events: dict[str, Written] = {}

    def due(self, model: Model) -> Iterator[Due]:
        """Yield the writes that are due, and record the events that are new."""
        uids = {entry.group.uid for entry in model.groups.values()}
        self._status = {uid: written for uid, written in self._status.items() if uid in uids}
        self._events = {uid: written for uid, written in self._events.items() if uid in uids}
        for entry in model.groups.values():
            wanted = wanted_status(entry, model)
            written = self._status.setdefault(entry.group.uid, Written())
            if self._pace.due(written, wanted, wanted.code, patience=partial(_patience, entry, model)):
                mark = f"{model.terms['scheduler'].number}.{model.time_ms}" if "scheduler" in model.terms else "0.0"
                yield partial(self._write, entry, wanted, written, mark)
            self._event(entry)

    def forget(self, count: int | None = None) -> None:
        """What was written of so many may not be there any more: it is read before it is written again."""
        forget(self._status, count)

    async def _write(self, entry: GroupEntry, wanted: Wanted, written: Written, mark: str) -> bool:
        group = entry.group
        item, written.item = written.item, None
        try:
            item = item or _untouched(entry, written) or await self._api.get(POD_GROUP, group.namespace, group.name)
            if item["metadata"].get("uid") == group.uid:
                written.item = await self._patch(item, entry, wanted, mark)
        except ApiError as error:
            if error.status != 404:
                raise
        self._pace.note(written, wanted, wanted.code)
        return True

    async def _patch(self, item: Json, entry: GroupEntry, wanted: Wanted, mark: str) -> Json:
        """Write the difference; return the object as it is then."""
        status = status_of(item, wanted, mark, rfc3339(self._pace.now_ms))
        if not status:
            return item
        group = entry.group
        meta = {"uid": group.uid, "resourceVersion": item["metadata"].get("resourceVersion", "")}
        merge = {"metadata": meta, "status": status}
        return await self._api.patch(POD_GROUP, group.namespace, group.name, merge, "status")

    def _event(self, entry: GroupEntry) -> None:
        book = entry.book
        if not book.event_reason:
            return
        content = (book.event_type, book.event_reason, book.event_message)
        written = self._events.setdefault(entry.group.uid, Written())
        first = written.content is None
        again = self._pace.now_ms - written.at_ms >= REPEAT_MS and book.phase in _WAITING
        if self._pace.due(written, content, content[:2]) or (written.content == content and again):
            self._pace.note(written, content, content[:2])
            self._recorder.emit(_subject(entry), *content, again=not first)


def _patience(entry: GroupEntry, model: Model) -> Patience:
    """Nobody waits for the status of a group that has its pods; that it may have some is what its job waits for."""
    members = [model.pods[uid].status for uid in model.members.get(entry.group.key, ())]
    soon_runs = TaskStatus.BOUND in members and entry.book.phase == "Inqueue"
    if soon_runs or TaskStatus.BINDING in members:
        return "moving"
    return "patient" if members else "urgent"


def _untouched(entry: GroupEntry, written: Written) -> Json | None:
    """Return the PodGroup as the log knows it if nobody had written its status then; a conflict tells if one did since.

    What the log keeps of a status is too little to be merged into.
    """
    group = entry.group
    if written.guessed or group.has_status or not group.version:
        return None
    written.guessed = True
    return {"metadata": {"uid": group.uid, "resourceVersion": group.version}}


def wanted_status(entry: GroupEntry, model: Model) -> Wanted:
    """Return what the state says of a PodGroup, its running, succeeded and failed tasks counted (PG-2)."""
    book: GroupBook = entry.book
    return Wanted(
        phase=book.phase,
        counts=tuple(task_counts(model, entry.group.key).items()),
        unschedulable=book.unschedulable,
        reason=book.reason,
        message=book.message,
        scheduled=book.scheduled,
    )


def status_of(item: Json, wanted: Wanted, mark: str, now: str) -> Json:
    """Return the part of the status that differs from the object's; empty if nothing does (PG-15)."""
    found = item.get("status")
    old = found if isinstance(found, dict) else {}
    fields: Json = {"phase": wanted.phase}
    for field, count in wanted.counts:
        if count or old.get(field):
            fields[field] = count
    changed = {key: value for key, value in fields.items() if old.get(key) != value}
    conditions = with_conditions(item, _conditions(item, wanted, mark), now)
    if conditions is not None:
        changed["conditions"] = conditions
    return changed


def _conditions(item: Json, wanted: Wanted, mark: str) -> list[Json]:
    """Return the conditions that the gang plug-in sets (PG-12), an older Unschedulable one put to False (PG-16)."""
    conditions = []
    old = next((entry for entry in conditions_of(item) if entry.get("type") == "Unschedulable"), None)
    if wanted.unschedulable:
        reason = wanted.reason or "NotEnoughResources"
        conditions.append(_condition("Unschedulable", "True", reason, wanted.message, mark))
    elif wanted.unschedulable is False and old is not None:
        reason, message = str(old.get("reason", "")), str(old.get("message", ""))
        conditions.append(_condition("Unschedulable", "False", reason, message, mark))
    if wanted.scheduled:
        conditions.append(_condition("Scheduled", "True", READY_REASON, "", mark))
    return conditions


def _condition(kind: str, status: str, reason: str, message: str, mark: str) -> Json:
    return {"type": kind, "status": status, "transitionID": mark, "reason": reason, "message": message}


def _subject(entry: GroupEntry) -> Subject:
    group = entry.group
    return Subject(POD_GROUP, group.namespace, group.name, group.uid)
