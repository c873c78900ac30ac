"""drf: the job with the lower dominant share goes first (scheduling/Q-25). Shares are exact fractions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from scheduling.cycle.accounts import sums_of
from scheduling.cycle.job import Job, Task
from scheduling.cycle.plugin import Plugin
from scheduling.resources import Vector

_NONE = Fraction(0)
#: Shares this close are equal (Q-25).
DELTA = Fraction(1, 1_000_000)


class DrfPlugin(Plugin):
    """Keeps what each job has of the cluster, trial placements included."""

    name = "drf"

    def opened(self) -> None:
        self._total = {name: value for name, value in self.session.total.items() if value > 0}
        self._held: dict[str, dict[str, int]] = {}
        self._shares: dict[str, Fraction] = {}

    def _of(self, job: Job) -> dict[str, int]:
        """Return what a job has."""
        found = self._held.get(job.key)
        if found is None:
            found = self._held[job.key] = dict(sums_of(self.session, job).requested)
        return found

    def job_key(self, job: Job) -> Any:
        return self.share(job)

    def share(self, job: Job) -> Fraction:
        """Return a job's dominant share."""
        found = self._shares.get(job.key)
        if found is None:
            found = self._shares[job.key] = self._share(self._of(job))
        return found

    def _share(self, held: Vector) -> Fraction:
        total = self._total
        return max(
            (Fraction(value, total[name]) for name, value in held.items() if value and name in total), default=_NONE
        )

    def allocated(self, task: Task) -> None:
        self._change(task, 1)

    def deallocated(self, task: Task) -> None:
        self._change(task, -1)

    def _change(self, task: Task, by: int) -> None:
        held = self._of(task.job)
        for name, value in task.traits.request.items():
            held[name] = held.get(name, 0) + by * value
        self._shares.pop(task.job.key, None)

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        """Name whom the preemptor's job, after placement, is below or level with, after removal (Q-25).

        Asked among equal priorities only (PG-11b).
        """
        own = self._share(_sum([self._of(preemptor.job), preemptor.traits.request]))
        left: dict[str, dict[str, int]] = {}
        named = []
        for task in candidates:
            if task.job.priority != preemptor.job.priority:
                continue
            held = left.setdefault(task.job.key, dict(self._of(task.job)))
            for name, value in task.traits.request.items():
                held[name] = held.get(name, 0) - value
            if own <= self._share(held) + DELTA:
                named.append(task)
        return named

    def shares(self, victim: Task, preemptor: Task) -> tuple[Fraction, Fraction]:
        """Return the share of the victim's job without it, and of the preemptor's with it."""
        gone = dict(self._of(victim.job))
        for name, value in victim.traits.request.items():
            gone[name] = gone.get(name, 0) - value
        return self._share(gone), self._share(_sum([self._of(preemptor.job), preemptor.traits.request]))


def _sum(vectors: Iterable[Vector]) -> dict[str, int]:
    total: dict[str, int] = {}
    for vector in vectors:
        for name, value in vector.items():
            total[name] = total.get(name, 0) + value
    return total
