"""A gang that could not be bound as a whole is undone (scheduling/F-2).

Its missing members are placed anew first. If its bindings were refused too often, or its missing members find no place,
the bound ones are evicted, so that they do not hold what they cannot use. A gang that was complete once is never
touched: who lost a member keeps the others (F-9).
"""

from __future__ import annotations

from typing import Final

from scheduling.cycle.job import Job
from scheduling.cycle.session import Session
from scheduling.state.model import Evicted
from scheduling.status import TaskStatus

#: K of F-2: refused bindings after which a gang is not tried again.
ATTEMPTS_MAX: Final = 5
REASON: Final = "gang incomplete"
_ON_NODES = (TaskStatus.BOUND, TaskStatus.RUNNING)


def undo_hopeless(session: Session) -> None:
    """Before the actions: undo what was refused too often."""
    for job in _attempted(session):
        if job.entry.attempts >= ATTEMPTS_MAX and _incomplete(job):
            _undo(session, job)


def undo_stuck(session: Session) -> None:
    """After the actions: undo what was refused and finds no place for its missing members."""
    for job in _attempted(session):
        if job.turn_failed and not job.undone and _incomplete(job) and not session.invalid(job):
            _undo(session, job)


def _attempted(session: Session) -> list[Job]:
    """Return the jobs with refused bindings, in key order."""
    return [session.jobs[key] for key in sorted(session.standing.attempted)]


def _incomplete(job: Job) -> bool:
    """Whether a part is on nodes, and nothing is on its way; attempts are counted of gangs that never were complete."""
    return (
        job.entry.attempts > 0 and not job.filled and not job.count((TaskStatus.BINDING,)) and job.count(_ON_NODES) > 0
    )


def _undo(session: Session, job: Job) -> None:
    job.undone = True
    for task in job.tasks:
        if task.status in _ON_NODES:
            session.evictions.append(Evicted(task.uid, REASON, for_group=job.key, rule="scheduling/F-2"))
            session.release(task)
