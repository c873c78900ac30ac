"""What the tasks of a gang wait for, summed up from what the cycle found (scheduling/MSG-1 to MSG-7, POD-1)."""

from __future__ import annotations

from collections.abc import Callable

from scheduling.cycle.job import PENDING_PHASE, Job, Task
from scheduling.reasons.kinds import FitsForGang, FitsOnceReleased, GangDetail, Gated, NoNode, Reason, RoleSkipped
from scheduling.reasons.tree import GangReason
from scheduling.status import ALLOC, TaskStatus


def gang(job: Job) -> GangReason:
    """Return a gang's tasks, counted, and what stands against it.

    Its origin is why nodes refused the first task in task order (MSG-4), else what its queue says (Q-24, Q-24a).
    """
    able = 0
    refused: Task | None = None
    first: Reason | None = None
    for task in job.tasks:
        if task.status is not TaskStatus.PENDING:
            continue
        if task.trial is not None and task.trial[0] in ALLOC:
            able += 1
        if refused is None and isinstance(task.reason, NoNode | RoleSkipped):
            refused = task
        first = first or task.traits.refused or task.reason or job.refusal
    detail = GangDetail(
        ready=job.filled,
        minimum=job.minimum,
        counts={status.value: count for status, count in job.counts.items() if count},
        pending=job.pending,
        schedulable=able,
        origin=refused.reason if refused else first,
        origin_task=refused.name if refused else "",
        invalid=job.invalid,
    )
    # Never below 0 (MSG-1).
    lacking = max(job.minimum - job.ready - able, 0)
    return GangReason(job.key, job.queue.name, lacking, len(job.tasks), detail, held(job))


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
