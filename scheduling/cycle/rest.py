"""Who needs no look in the next cycle (``cycle.standing``): of whom everything was said, and nothing may change alone.

Jobs with something to place rest on what the outcome of their turns follows from (``cycle.resting``). Where an action
evicts, keeps room or lends, they are looked at in every cycle: what becomes of them follows from all the others.
"""

from __future__ import annotations

from scheduling.config.arguments import boolean, integer
from scheduling.cycle.actions import allocate, backfill, enqueue, reserving
from scheduling.cycle.eviction.needy import seekers
from scheduling.cycle.job import PENDING_PHASE, Job
from scheduling.cycle.plugins.proportion import BORROW
from scheduling.cycle.resting import INSIDE, OUTSIDE, Rest
from scheduling.cycle.session import Session
from scheduling.state.model import CycleResult

#: Actions after which a job that waits depends on nothing but its own turns.
_PLAIN = frozenset({enqueue.NAME, allocate.NAME, backfill.NAME})


def lay(session: Session, result: CycleResult) -> None:
    """Lay to rest whoever may."""
    alone = _alone(session)
    for key in session.looked_at():
        job = session.jobs.get(key)
        if job is None:
            _without_job(session, key, result)
        elif job.touched:
            session.standing.touched.add(key)
        elif _all_said(job, result) and (job.phase == PENDING_PHASE or alone or not seekers(job)):
            _rest(session, job)
    session.standing.lie_down()


def _alone(session: Session) -> bool:
    arguments = session.config.action_arguments.get(allocate.NAME, {})
    lender = session.plugin("proportion")
    return (
        set(session.config.actions) <= _PLAIN
        and integer(arguments, reserving.ARGUMENT, 0) <= 0
        and not (lender is not None and boolean(lender.arguments, BORROW, False))
    )


def _all_said(job: Job, result: CycleResult) -> bool:
    """Tell whether the job is as it was, and the cycle says of it and its pods what is said already."""
    if job.admitted or job.deferred or job.held_back or job.undone or job.entry.attempts:
        return False
    if job.phase != (job.book.phase or PENDING_PHASE) or result.groups.get(job.key) != job.book:
        return False
    return all(result.pods.get(task.uid, task.book) == task.book for task in job.tasks)


def _rest(session: Session, job: Job) -> None:
    rest = job.notes or Rest(job)
    if not rest.lasting:
        return
    if job.phase != PENDING_PHASE and _waits_for_backfill(session, job):
        return
    rest.where = "" if job.notes is None else OUTSIDE if job.phase == PENDING_PHASE else INSIDE
    rest.order, rest.door = session.job_order(job), session.door(job.queue)
    times = (enqueue.until(session, job), *(plugin.until(job) for plugin in session.all_plugins()))
    rest.until = min((time for time in times if time is not None), default=None)
    session.standing.rest(job, rest)


def _waits_for_backfill(session: Session, job: Job) -> bool:
    return backfill.NAME in session.config.actions and bool(backfill.tasks_of(job))


def _without_job(session: Session, key: str, result: CycleResult) -> None:
    """A PodGroup without a Queue, pods without a PodGroup: once they were told, they wait for a change."""
    model = session.model
    entry = model.groups.get(key)
    said = entry is None or result.groups.get(key) == entry.book
    pods = (model.pods[uid] for uid in model.members.get(key, ()))
    if said and all(result.pods.get(pod.pod.uid, pod.book) == pod.book for pod in pods):
        session.standing.active.discard(key)
