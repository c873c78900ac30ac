"""Victims gang by gang (scheduling/GP-3, GP-4): what a job can spare, and what is left of it, each evicted as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from scheduling import resources
from scheduling.cycle.eviction.room import PLACED
from scheduling.cycle.job import Job, Task
from scheduling.cycle.session import Session
from scheduling.resources import PODS, Vector
from scheduling.status import ALLOC


@dataclass(frozen=True)
class Bundle:
    """Tasks of one job, in the order in which they are taken. A ``whole`` bundle goes entirely or not at all."""

    job: Job
    tasks: tuple[Task, ...]
    whole: bool


def bundles_of(job: Job, may_go: Callable[[Task], bool], whole: bool) -> list[Bundle]:
    """Return at most two bundles of a job: what it has above its minMember, then (if ``whole``) the rest.

    All of a job that is below its minMember already can be spared. The rest counts only if every task of it may go.
    """
    placed = [task for task in reversed(job.tasks) if task.status in ALLOC]
    spare = len(placed) if job.ready < job.minimum else job.ready - job.minimum
    free = [task for task in placed if task.status in PLACED and may_go(task)]
    safe = free[:spare]
    found = [Bundle(job, tuple(safe), False)] if safe else []
    taken = {task.uid for task in safe}
    rest = [task for task in placed if task.uid not in taken]
    if whole and rest and {task.uid for task in rest} <= {task.uid for task in free}:
        found.append(Bundle(job, tuple(rest), True))
    return found


def lacking(job: Job, tasks: Sequence[Task]) -> dict[str, int]:
    """Return what the first of these tasks ask that the job needs to be ready."""
    missing = max(job.minimum - job.ready - job.pipelined, 0)
    asked = resources.total(task.traits.request for task in tasks[:missing])
    return {name: value for name, value in asked.items() if value > 0 and name != PODS}


def room_in_future(session: Session) -> dict[str, int]:
    """Return what is idle or being released on all nodes, beyond what is promised there."""
    found: dict[str, int] = {}
    for name in session.names:
        for key, value in session.views[name].future_idle.items():
            if value > 0:
                found[key] = found.get(key, 0) + value
    return found


def freed(bundles: Iterable[Bundle]) -> dict[str, int]:
    """Return what the tasks of bundles leave on their nodes."""
    return resources.total(task.traits.request for bundle in bundles for task in bundle.tasks)


def covers(room: Vector, more: Vector, asked: Vector) -> bool:
    """Tell whether room and what is freed together are what is asked."""
    return all(room.get(name, 0) + more.get(name, 0) >= value for name, value in asked.items())


def ranked(
    session: Session, bundles: Sequence[Bundle], asked: Vector, place: Callable[[Job], Any], total: Mapping[str, int]
) -> list[Bundle]:
    """Return bundles in the order in which they are added (GP-4): safe ones first; then by the job's ``place``, the
    last first; then more relief per share that the job loses; then by name.
    """

    def relief(bundle: Bundle) -> Fraction:
        more = freed([bundle])
        gain = sum((Fraction(min(more.get(name, 0), value), value) for name, value in asked.items()), Fraction(0))
        lost = (Fraction(value, total[name]) for name, value in more.items() if total.get(name, 0) > 0)
        share = max(lost, default=Fraction(0))
        return gain / share if share else gain

    order = sorted(bundles, key=lambda bundle: bundle.job.key)
    order.sort(key=relief, reverse=True)
    order.sort(key=lambda bundle: place(bundle.job), reverse=True)
    order.sort(key=lambda bundle: bundle.whole)
    return order
