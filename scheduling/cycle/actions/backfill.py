"""backfill: best-effort tasks onto nodes (scheduling/AL-14 to AL-16)."""

from __future__ import annotations

from scheduling.cycle.finder import Finder
from scheduling.cycle.fitting import choose, placement_of
from scheduling.cycle.job import PENDING_PHASE, Job, Task
from scheduling.cycle.session import Session
from scheduling.cycle.statement import Statement
from scheduling.status import TaskStatus

NAME = "backfill"


def execute(session: Session) -> None:
    """Place every best-effort task that fits somewhere; one that does not stops nobody."""
    queues: dict[str, list[Job]] = {}
    for job in session.active.values():
        if job.phase == PENDING_PHASE or job.undone or not job.pending or not tasks_of(job):
            continue
        job.invalid = session.invalid(job)
        if not job.invalid and not session.closed(job.queue):
            queues.setdefault(job.queue.name, []).append(job)
    for name in sorted(queues, key=lambda name: session.queue_order(session.queues[name])):
        for job in sorted(queues[name], key=session.job_order):
            finder = Finder(session, NAME)
            for task in tasks_of(job):
                if session.full:
                    job.deferred = True
                    break
                _place(session, finder, job, task)


def tasks_of(job: Job) -> list[Task]:
    """Return the best-effort tasks of a job that wait."""
    return [
        task
        for task in job.tasks
        if task.status is TaskStatus.PENDING and task.traits.best_effort and not task.traits.gated
    ]


def _place(session: Session, finder: Finder, job: Job, task: Task) -> None:
    found = finder.find(task)
    if not found.candidates:
        task.reason = found.reason
        return
    statement = Statement(session)
    best = choose(session, task, found.candidates)
    (statement.allocate if best.now else statement.pipeline)(task, placement_of(task, best))
    if session.ready(job):
        statement.commit(job)
    else:
        statement.keep()
