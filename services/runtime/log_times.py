"""How long jobs and tasks took, by the times on the log, and how often jobs were refused (scheduling section 8).

From an object's creation, which the API server gives in whole seconds, to the record that says how far it got. Times
are never negative (ME-4). A job's times stand as long as its PodGroup does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal

from events.kinds import POD
from events.records import Batch, Observed, Outcome, Record
from scheduling.objects import Meta
from scheduling.state.model import Model

Reached = Literal["Watched", "Assumed", "Bound", "job"]
#: So many entries more than there are objects may be left before those of objects that are gone are dropped.
_SLACK: Final = 1000


@dataclass(slots=True)
class JobTimes:
    """One PodGroup (by uid): when a decision first spoke of it, and when one last placed a pod of it (Unix ms).

    ``retries`` are the decisions that said its gang was not ready.
    """

    uid: str
    first_ms: int
    placed_ms: int = 0
    retries: int = 0


class LogTimes:
    """Takes note of times as one reader of the log folds it; begins with the state that it stands at."""

    def __init__(self, model: Model) -> None:
        self._jobs: dict[str, JobTimes] = {}
        self._watched = set(model.pods)

    def folded(self, model: Model, record: Record) -> list[tuple[Reached, int]]:
        """Take note of a record that was applied; return who got how far with it, and how long that took in ms.

        ``job`` is from a PodGroup's creation to its latest placement, once for each batch that places pods of it.
        """
        body = record.body
        if isinstance(body, Batch):
            return list(self._decided(model, body))
        if isinstance(body, Observed) and body.kind == POD.name:
            return self._observed(model, body, record.time_ms)
        if isinstance(body, Outcome) and body.verb == "bind" and body.result == "applied":
            entry = model.pods.get(body.uid)
            return _since(entry.pod, "Bound", body.time_ms) if entry is not None else []
        return []

    def jobs(self, model: Model) -> Iterator[tuple[str, JobTimes]]:
        """Yield the times of the PodGroups that exist, in key order."""
        for key in sorted(self._jobs):
            entry = model.groups.get(key)
            if entry is not None and entry.group.uid == self._jobs[key].uid:
                yield key, self._jobs[key]

    def _observed(self, model: Model, body: Observed, time_ms: int) -> list[tuple[Reached, int]]:
        uid = str(body.object.get("metadata", {}).get("uid", ""))
        entry = model.pods.get(uid)
        if entry is None or uid in self._watched:
            return []
        if len(self._watched) > 2 * len(model.pods) + _SLACK:
            self._watched &= model.pods.keys()
        self._watched.add(uid)
        return _since(entry.pod, "Watched", time_ms) if model.ours(entry.pod) and not entry.pod.node else []

    def _decided(self, model: Model, batch: Batch) -> Iterator[tuple[Reached, int]]:
        for change in batch.groups:
            job = self._job(model, change.group, batch.time_ms)
            if job is not None and change.book.unschedulable:
                job.retries += 1
        for command in batch.binds:
            placed = [entry for item in command.members if (entry := model.pods.get(item.uid)) is not None
                      and entry.placement is item]  # fmt: skip
            for entry in placed:
                yield from _since(entry.pod, "Assumed", batch.time_ms)
            group = model.groups.get(command.group)
            job = self._job(model, command.group, batch.time_ms)
            if placed and group is not None and job is not None:
                job.placed_ms = batch.time_ms
                yield from _since(group.group, "job", batch.time_ms)

    def _job(self, model: Model, key: str, time_ms: int) -> JobTimes | None:
        """Return a job's times; they begin now if a decision speaks of it for the first time."""
        entry, known = model.groups.get(key), self._jobs.get(key)
        if entry is None:
            return None
        if known is None or known.uid != entry.group.uid:
            if len(self._jobs) > 2 * len(model.groups) + _SLACK:
                self._jobs = dict(self.jobs(model))
            known = self._jobs[key] = JobTimes(entry.group.uid, time_ms)
        return known


def _since(item: Meta, reached: Reached, time_ms: int) -> list[tuple[Reached, int]]:
    """Return the time since an object was created; nothing if that is not known."""
    return [(reached, max(time_ms - item.created * 1000, 0))] if item.created else []
