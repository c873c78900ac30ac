"""Places that evictions made are kept from cycle to cycle (scheduling/PG-11c).

At the beginning of a cycle each promise stands on its node, its cards and in its queue as a pipelined task does;
allocate gives it to its task before all others. At the end, what is still promised is told again.
"""

from __future__ import annotations

from events.records import Promise
from scheduling.cycle.eviction.needy import seeks
from scheduling.cycle.job import Job, Placement, Task
from scheduling.cycle.session import Session
from scheduling.devices.claims import planned_claim
from scheduling.resources import Vector
from scheduling.status import TaskStatus


def restore(session: Session) -> None:
    """Put every promise that can still be kept in its place."""
    for uid, promise in session.model.promises.items():
        task, view = session.tasks.get(uid), session.views.get(promise.node)
        if task is None or not seeks(task) or view is None or view.node is None:
            continue
        if task.job.rest is not None:
            session.wake(task.job)
        held = _held(session, task, promise)
        placement = Placement(promise.node, promise.allocation, promise.gpu_index, held=held)
        session.put(task, TaskStatus.PIPELINED, placement)
        session.promise(task)


def _held(session: Session, task: Task, promise: Promise) -> Vector:
    if session.raw or not promise.allocation:
        return task.traits.asked
    claim = planned_claim(task.pod, session.env, promise.allocation, "")
    held = session.views[promise.node].devices.with_claim(claim).charge(task.uid)
    return task.traits.asked if held is None else held


def drop(session: Session, task: Task) -> None:
    """Take back the place that was promised to a task."""
    task.promised = False
    if task.status is TaskStatus.PIPELINED:
        session.take_off(task)


def drop_all(session: Session, job: Job) -> None:
    """Take back all places that were promised to a job."""
    for task in job.tasks:
        if task.promised:
            drop(session, task)


def drop_hopeless(session: Session) -> None:
    """After the actions: take back what was promised to gangs that cannot become ready with it."""
    for job in session.promised_jobs():
        if not session.ready(job) and not session.pipelined(job):
            drop_all(session, job)


def standing(session: Session) -> list[Promise]:
    """Return what is promised now: older promises first, in their order.

    A binding that is on its way may still be overtaken or refused, and then the place is there as before.
    """
    known = [uid for uid in session.model.promises if uid in session.tasks]
    new = sorted(uid for uid, task in session.promised.items() if task.promised and uid not in session.model.promises)
    found = (_promise(session, session.tasks[uid]) for uid in (*known, *new))
    return [promise for promise in found if promise is not None]


def _promise(session: Session, task: Task) -> Promise | None:
    placement = task.placement
    if task.status is TaskStatus.BINDING:
        return session.model.promises.get(task.uid)
    if not task.promised or placement is None or task.status not in (TaskStatus.PIPELINED, TaskStatus.ALLOCATED):
        return None
    return Promise(uid=task.uid, node=placement.node, allocation=placement.allocation, gpu_index=placement.gpu_index)
