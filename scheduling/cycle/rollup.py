"""What the tasks of a gang wait for, summed up from what the cycle found (scheduling/MSG-1 to MSG-7, POD-1)."""

from __future__ import annotations

from collections.abc import Callable

from scheduling.cycle.job import PENDING_PHASE, Job, Task
from scheduling.reasons.kinds import FitsForGang, FitsOnceReleased, GangDetail, Gated, NoNode, Reason, RoleSkipped
from scheduling.reasons.tree import GangReason
from scheduling.status import ALLOC, TaskStatus


def gang(job: Job) -> GangReason:
    """Return a gang's tasks, counted, and what stands against it."""
    able = sum(_schedulable(task) for task in job.tasks)
    origin, task = _origin(job)
    detail = GangDetail(
        ready=job.filled,
        minimum=job.minimum,
        counts={status.value: count for status, count in job.counts.items() if count},
        pending=job.pending,
        schedulable=able,
        origin=origin,
        origin_task=task,
        invalid=job.invalid,
    )
    # Never below 0 (MSG-1).
    lacking = max(job.minimum - job.ready - able, 0)
    return GangReason(job.key, job.queue.name, lacking, len(job.tasks), detail, held(job))


def _schedulable(task: Task) -> bool:
    return task.status is TaskStatus.PENDING and task.trial is not None and task.trial[0] in ALLOC


def _origin(job: Job) -> tuple[Reason | None, str]:
    """Return why, of the first task in task order that nodes refused (MSG-4), else of the queue (Q-24, Q-24a)."""
    if not job.pending:
        return None, ""
    first: Reason | None = None
    for task in job.tasks:
        if task.status is TaskStatus.PENDING:
            if isinstance(task.reason, NoNode | RoleSkipped):
                return task.reason, task.name
            first = first or task.traits.refused or task.reason or job.refusal
    return first, ""


def held(job: Job) -> Reason | None:
    """Return why a job is not let in, whether it has tasks or not, None if it is."""
    return (job.event or job.refusal) if job.phase == PENDING_PHASE else None


def pod(task: Task, detail_of: Callable[[Job], GangDetail]) -> Reason:
    """Return why a task waits (POD-1): its own reason, else its job's, else what its gang lacks."""
    if task.traits.gated:
        return Gated()
    if task.traits.refused:
        return task.traits.refused
    if task.trial is not None:
        status, node = task.trial
        kind = FitsOnceReleased if status is TaskStatus.PIPELINED else FitsForGang
        return kind(task.pod.key, node)
    return task.reason or task.job.refusal or detail_of(task.job)
