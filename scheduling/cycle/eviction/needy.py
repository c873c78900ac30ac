"""Who may make room for itself (scheduling/PG-11, CFG-13), and in which order."""

from __future__ import annotations

from collections.abc import Iterator

from scheduling.cycle.answers import in_order
from scheduling.cycle.job import PENDING_PHASE, Job, Task
from scheduling.cycle.session import Session
from scheduling.status import TaskStatus

_NEVER = "Never"


def needy_jobs(session: Session) -> dict[str, list[Job]]:
    """Return the starving, valid jobs that are not Pending and had their turn in this cycle, in order, by queue."""
    found: dict[str, list[Job]] = {}
    for job in session.active.values():
        if job.phase == PENDING_PHASE or job.undone or job.deferred or not seekers(job):
            continue
        if session.starving(job) and not session.closed(job.queue) and not session.invalid(job):
            found.setdefault(job.queue.name, []).append(job)
    return {name: in_order(jobs, session) for name, jobs in found.items()}


def queues_in_order(session: Session, jobs: dict[str, list[Job]]) -> Iterator[str]:
    """Visit the queues, each time the first of those left: their order moves with every placement (O-1)."""
    left = set(jobs)
    while left:
        name = min(left, key=lambda name: session.queue_order(session.queues[name]))
        left.remove(name)
        yield name


def seekers(job: Job) -> list[Task]:
    """Return the tasks of a job that look for a place, in task order."""
    return [task for task in job.tasks if seeks(task)]


def seeks(task: Task) -> bool:
    """Tell whether a task waits and could run if there were room."""
    return task.status is TaskStatus.PENDING and not task.traits.gated and not task.traits.refused


def may_preempt(task: Task) -> bool:
    """Tell whether a task may evict others at all (``preemptionPolicy: Never`` may not, CFG-13)."""
    return task.pod.preemption_policy != _NEVER


def needs(session: Session, job: Job, task: Task) -> bool:
    """Tell whether a job still needs a place for one more task: an elastic one no more than its minMember (CFG-13).

    Pending best-effort tasks count as ready (PG-10), so nobody goes for what they make up.
    """
    if not session.starving(job):
        return False
    filled = bool(session.plugins("ready")) and session.ready(job)
    return task.traits.best_effort or not filled
