"""The jobs of a state as they stand from cycle to cycle, so that a cycle costs what changed and not what there is.

A cycle looks at the jobs that are ``active``: new or changed ones, and those of which something new may be said. All
others rest (``cycle.resting``): nothing that they follow from has changed, so the cycle would do with them and say of
them what the one before did. They are still counted in the sums of their queue, found by their key, and seen by
everyone who walks over all jobs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heapify, heappop, heappush
from typing import Final

from scheduling.cycle.job import Job, Task
from scheduling.cycle.resting import INSIDE, OUTSIDE, Bench, Rest
from scheduling.cycle.waterfill import Amounts
from scheduling.devices.environment import DeviceEnv
from scheduling.objects import Queue
from scheduling.resources import EMPTY, Vector
from scheduling.state.changes import Changes
from scheduling.state.model import Model

_SLACK: Final = 64


@dataclass
class Totals:
    """What the jobs of one queue add up to before any trial (Q-11); ``request`` with what pending tasks may come to."""

    charged: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    reserved: dict[str, int] = field(default_factory=dict)
    elastic: dict[str, int] = field(default_factory=dict)
    request: dict[str, int] = field(default_factory=dict)
    jobs: int = 0
    version: int = 0


@dataclass(frozen=True)
class Split:
    """What a queue deserves (Q-12): as it was worked out, in fractions, and the whole numbers below and above."""

    amounts: Amounts
    deserved: Mapping[str, Fraction]
    floors: Mapping[str, int]
    ceilings: Mapping[str, int]


class Standing:
    """Jobs by PodGroup key, in no order; the queues that they are in; all their tasks by pod uid.

    ``active`` are keys of PodGroups, with a job or without, ``attempted`` those with refused bindings (F-2),
    ``touched`` those that the last cycle tried something with: they are made anew. ``in_percent`` are those whose
    pending tasks ask for memory in percent of a card, counted with the ``largest`` card (Q-21). ``total`` is what the
    cluster had, ``limits`` what each queue may have, worked out for ``limits_of`` (``cycle.accounts``), ``shares`` and
    ``splits`` what it has and deserves of the cluster, worked out for what was ``asked``; ``benches`` are the jobs that
    wait at rest, by where and queue.
    """

    def __init__(self, env: DeviceEnv, raw: bool) -> None:
        self.env, self.raw = env, raw
        self.jobs: dict[str, Job] = {}
        self.tasks: dict[str, Task] = {}
        self.queues: dict[str, Queue] = {}
        self.totals: dict[str, Totals] = {}
        self.active: set[str] = set()
        self.attempted: set[str] = set()
        self.touched: set[str] = set()
        self.in_percent: set[str] = set()
        self.largest, self.total = 0, EMPTY
        self.benches: dict[str, dict[str, Bench]] = {OUTSIDE: {}, INSIDE: {}}
        self.limits: dict[str, tuple[Queue, Vector, Vector, Vector]] = {}
        self.limits_of: tuple[Vector, Vector] | None = None
        self.shares: dict[str, tuple[int, Mapping[str, Fraction], Fraction]] = {}
        self.asked: object = None
        self.splits: dict[str, Split] = {}
        self._version = 0
        self._read: tuple[Changes, int] | None = None
        self._keys: dict[str, set[str]] = {}
        self._queue_of: dict[str, str] = {}
        self._structures: dict[str, object] = {}
        self._ordered: list[Job] | None = None
        self._alarms: list[tuple[int, str]] = []
        self._time_ms = 0

    # --- keeping up with the state ---

    def begin(self, model: Model, time_ms: int) -> set[str] | None:
        """Return the PodGroups whose jobs are to be made anew; None if that is all of them, and nothing stands."""
        changes = model.changes
        found = changes.since(self._read[1]) if self._read is not None and self._read[0] is changes else None
        if found is None or time_ms < self._time_ms:
            return None
        self._read, self._time_ms = (changes, changes.place), time_ms
        groups, queues = found
        groups |= self.touched
        self.touched = set()
        for name in queues:
            groups |= self._queue_changed(name, model.queues.get(name))
        self._ring(time_ms)
        return groups

    def begin_anew(self, model: Model, time_ms: int) -> set[str]:
        """Read the state as if for the first time; return all PodGroups."""
        self._read, self._time_ms = (model.changes, model.changes.place), time_ms
        self._structures = {name: _structure(queue) for name, queue in model.queues.items()}
        return {*model.groups, *model.members}

    def _queue_changed(self, name: str, queue: Queue | None) -> set[str]:
        """Take in a Queue as it is now; return the PodGroups that are another job by it."""
        before, now = self._structures.pop(name, None), None if queue is None else _structure(queue)
        if before != now:
            self.wake_all()
        if queue is not None:
            self._structures[name] = now
        if before is None or queue is None:
            return set(self._keys.get(name, ()))
        if name in self.queues:
            self.queues[name] = queue
            for key in self._keys[name]:
                self.jobs[key].queue = queue
        return set()

    def _ring(self, time_ms: int) -> None:
        """Wake those whose time has come."""
        while self._alarms and self._alarms[0][0] <= time_ms:
            alarm = heappop(self._alarms)
            if self._waited_for(alarm):
                self.wake(self.jobs[alarm[1]])

    def _waited_for(self, alarm: tuple[int, str]) -> bool:
        until, key = alarm
        job = self.jobs.get(key)
        return job is not None and job.rest is not None and job.rest.until == until

    # --- jobs come and go ---

    def without(self, model: Model, key: str, queue: str | None) -> None:
        """A PodGroup has no job: it, or its Queue, does not exist. Its pods, if there are any, are told so (PG-3)."""
        self._place(key, queue)
        if queue is not None or key in model.members:
            self.active.add(key)

    def add(self, job: Job, wished: Vector) -> None:
        """Take in a new job; ``wished`` is what its pending tasks may come to hold."""
        self._place(job.key, job.queue.name)
        self.jobs[job.key] = job
        self._ordered = None
        self.tasks.update((task.uid, task) for task in job.tasks)
        self.active.add(job.key)
        if job.entry.attempts:
            self.attempted.add(job.key)
        self.queues[job.queue.name] = job.queue
        job.wished = wished
        self._count(job, 1)

    def remove(self, key: str) -> None:
        """Forget what stands of a PodGroup."""
        job = self.jobs.pop(key, None)
        self.active.discard(key)
        self._place(key, None)
        if job is None:
            return
        self._ordered = None
        for task in job.tasks:
            known = self.tasks.get(task.uid)
            if known is not None and known.job is job:
                del self.tasks[task.uid]
        self.attempted.discard(key)
        self.in_percent.discard(key)
        self._leave_bench(job)
        self._count(job, -1)

    def _place(self, key: str, queue: str | None) -> None:
        """Note which Queue a PodGroup names, whether that exists or not."""
        before = self._queue_of.pop(key, None)
        if before is not None:
            self._keys[before].discard(key)
            if not self._keys[before]:
                del self._keys[before]
        if queue is not None:
            self._queue_of[key] = queue
            self._keys.setdefault(queue, set()).add(key)

    def _count(self, job: Job, by: int) -> None:
        name, sums = job.queue.name, job.sums
        assert sums is not None, "a job's sums are known before it is taken in"
        totals = self.totals.setdefault(name, Totals())
        for total, vector in (
            (totals.charged, sums.charged),
            (totals.held, sums.held),
            (totals.reserved, sums.reserved),
            (totals.elastic, sums.elastic),
            (totals.request, sums.charged),
            (totals.request, job.wished),
        ):
            _add(total, vector, by)
        totals.jobs += by
        self._version += 1
        totals.version = self._version
        if not totals.jobs:
            del self.totals[name], self.queues[name]
            self.limits.pop(name, None)
            self.shares.pop(name, None)

    def wishes(self, job: Job, wished: Vector) -> None:
        """What a job's pending tasks may come to hold is another amount now."""
        totals = self.totals[job.queue.name]
        _add(totals.request, job.wished, -1)
        _add(totals.request, wished, 1)
        self._version += 1
        totals.version = self._version
        job.wished = wished

    def in_key_order(self) -> list[Job]:
        """Return all jobs in the order of their keys."""
        if self._ordered is None:
            self._ordered = [self.jobs[key] for key in sorted(self.jobs)]
        return self._ordered

    def measure(self, total: Vector) -> None:
        """Take in what the cluster has: by another amount, who was refused may not be, and the order is another."""
        if total != self.total:
            self.wake_all()
        self.total = total

    # --- resting ---

    def lie_down(self) -> None:
        """End a cycle: a set that once held everybody stays as large as it was, until it is made anew."""
        self.active = set(self.active)

    def rest(self, job: Job, rest: Rest) -> None:
        """A job needs no look until something changes that its outcome rests on."""
        self.active.discard(job.key)
        job.rest = rest
        if rest.until is not None:
            if len(self._alarms) > 2 * len(self.jobs) + _SLACK:
                self._alarms = [alarm for alarm in set(self._alarms) if self._waited_for(alarm)]
                heapify(self._alarms)
            heappush(self._alarms, (rest.until, job.key))
        if rest.where:
            self.benches[rest.where].setdefault(job.queue.name, Bench()).add(rest)

    def wake(self, job: Job) -> None:
        """A resting job is to be looked at."""
        self._leave_bench(job)
        job.begin_again()
        self.active.add(job.key)

    def wake_all(self) -> None:
        """Every resting job is to be looked at."""
        for job in self.jobs.values():
            if job.rest is not None:
                self.wake(job)

    def _leave_bench(self, job: Job) -> None:
        rest, job.rest = job.rest, None
        if rest is not None and rest.where:
            benches = self.benches[rest.where]
            bench = benches[job.queue.name]
            bench.remove(rest)
            if not bench.waiting:
                del benches[job.queue.name]


def _structure(queue: Queue) -> tuple[object, ...]:
    """Return what of a Queue may make jobs depend on something else than before."""
    return sorted(queue.capability or ()), queue.parent


def _add(total: dict[str, int], vector: Mapping[str, int], by: int) -> None:
    for name, value in vector.items():
        total[name] = total.get(name, 0) + by * value
