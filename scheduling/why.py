"""Why something waits, found by deciding again: the reasons that a cycle over the state finds, as one tree.

The texts of conditions and events are made of the same reasons. What no node takes says so node by node, and where it
is the cards, card by card with the audit word (devices/F-2).
"""

from __future__ import annotations

from dataclasses import replace

from scheduling.cycle import rollup
from scheduling.cycle.job import Job
from scheduling.cycle.memo import Memo
from scheduling.cycle.run import acted
from scheduling.reasons.tree import GangReason, PodReason
from scheduling.state.model import Model
from scheduling.status import TaskStatus


def why(model: Model, group: str, time_ms: int) -> GangReason | None:
    """Return why a PodGroup waits, down to nodes and cards; None if it does not, or its queue is not there."""
    if model.config is None and model.config_report.errors:
        return None
    job = acted(model, time_ms, Memo(), explains=group).jobs.get(group)
    return _reason(job) if job is not None and _waits(job) else None


def queue(model: Model, name: str, time_ms: int) -> list[GangReason]:
    """Return the PodGroups that wait in a queue, in job order, each with why its pods wait."""
    if model.config is None and model.config_report.errors:
        return []
    session = acted(model, time_ms, Memo())
    waiting = [job for job in session.jobs.values() if job.queue.name == name and _waits(job)]
    return [_reason(job) for job in sorted(waiting, key=session.job_order)]


def _waits(job: Job) -> bool:
    return bool(job.pending) or rollup.held(job) is not None


def _reason(job: Job) -> GangReason:
    found = rollup.gang(job)
    waiting = (task for task in job.tasks if task.status is TaskStatus.PENDING)
    return replace(
        found, pods=tuple(PodReason(task.pod.key, rollup.pod(task, lambda _: found.detail)) for task in waiting)
    )
