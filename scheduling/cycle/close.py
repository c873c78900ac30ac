"""The end of a cycle: phase and condition of every PodGroup, the message of every waiting pod, in words.

Sources: scheduling/PG-6 to PG-8, PG-12 to PG-17, POD-1, E-5 to E-8, EV-1, PG-3a, PG-3b, CFG-6a. What is said follows
from the state alone, so a cycle that changes nothing says the same again.
"""

from __future__ import annotations

from typing import Any

from events.records import GroupBook, PodBook
from scheduling.config.arguments import boolean
from scheduling.cycle import rollup
from scheduling.cycle.job import COMPLETED, INQUEUE, PENDING_PHASE, RUNNING, UNKNOWN, Job, Task
from scheduling.cycle.plugins.gang import REPORT_UNSCHEDULABLE
from scheduling.cycle.session import Session
from scheduling.devices.request import demand_of
from scheduling.reasons import texts
from scheduling.reasons.kinds import (
    GangDetail,
    Gated,
    GroupMissing,
    NoConfiguration,
    QueueMissing,
    Reason,
    RequestRefused,
)
from scheduling.reasons.tree import GangReason
from scheduling.state.model import CycleResult, GroupEntry, Model, PodEntry
from scheduling.status import TaskStatus

_WAITING = (TaskStatus.PENDING, TaskStatus.ALLOCATED, TaskStatus.PIPELINED)


class Details:
    """Each job at the end of the cycle, summed up once, and what many pods have in common put into words once.

    ``conditions`` tells whether a plugin sets any (PG-12). ``hides_schedulable``: pods of a blocked gang get the reason
    Unschedulable too (scheduling section 9 row 16).
    """

    def __init__(self, session: Session) -> None:
        self._gangs: dict[str, GangReason] = {}
        self._texts: dict[int, tuple[Reason, str]] = {}
        gang = session.plugin("gang")
        self.conditions = gang is not None
        self.hides_schedulable = gang is not None and boolean(gang.arguments, REPORT_UNSCHEDULABLE, False)

    def gang(self, job: Job) -> GangReason:
        found = self._gangs.get(job.key)
        if found is None:
            found = self._gangs[job.key] = rollup.gang(job)
        return found

    def detail(self, job: Job) -> GangDetail:
        return self.gang(job).detail

    def text(self, reason: Reason) -> str:
        """Return a reason in words: put into words once, as a job, its origin and its pods share one."""
        known = self._texts.get(id(reason))
        if known is not None:
            return known[1]
        if isinstance(reason, GangDetail):
            found = texts.gang_detail(reason, self.text(reason.origin) if reason.origin else "")
        else:
            found = texts.text(reason)
        self._texts[id(reason)] = (reason, found)
        return found


def groups(session: Session, details: Details) -> dict[str, GroupBook]:
    """Return the book of every PodGroup that was looked at."""
    found = {}
    for key in session.looked_at():
        job = session.jobs.get(key)
        if job is None:
            if key in session.model.groups:
                found[key] = _left_out(session.model.groups[key])
        elif not job.deferred:
            found[key] = _book(session, job, details)
    return found


def _left_out(entry: GroupEntry) -> GroupBook:
    """PG-3a: its Queue does not exist."""
    reason = QueueMissing(entry.group.key, entry.group.queue)
    said = {"reason": texts.QUEUE_NOT_FOUND, "message": texts.queue_missing(reason), "cause": reason.cause.value}
    return entry.book.model_copy(update={"unschedulable": True, **said})


def _book(session: Session, job: Job, details: Details) -> GroupBook:
    before, filled = job.book, job.filled
    waits = bool(job.tasks) and not filled and not _only_terminating(job)
    condition = _condition(job, waits, details) if details.conditions else _as_before(job)
    phase = _phase(job, waits and details.conditions)
    kind, reason, message = _event(job, phase, details)
    turned = job.turn_failed or not (job.admitted or before.reserves)
    return GroupBook(
        phase=phase,
        phase_since_ms=before.phase_since_ms if phase == before.phase else session.time_ms,
        event_type=kind,
        event_reason=reason,
        event_message=message,
        reserves=phase != INQUEUE or not turned,
        evicted_ms=job.evicted_ms or before.evicted_ms,
        passed_over=0 if filled else before.passed_over if job.passed_over is None else job.passed_over,
        cause=_cause(job, waits and phase != COMPLETED, details),
        **condition,
    )


# --- conditions (PG-12 to PG-16) ---


def _condition(job: Job, waits: bool, details: Details) -> dict[str, Any]:
    """Return the condition's fields."""
    before = job.book
    if waits:
        gang = details.gang(job)
        message = texts.condition(gang, details.text(gang.detail))
        reason = texts.NOT_ENOUGH_RESOURCES
        return {"unschedulable": True, "reason": reason, "message": message, "scheduled": before.scheduled}
    if job.tasks and job.filled:
        # The older condition is taken back, not left True beside the new one (PG-16).
        older = None if before.unschedulable is None else False
        reason = texts.TASKS_READY if older is False else ""
        return {"unschedulable": older, "reason": reason, "message": "", "scheduled": True}
    return _as_before(job)


def _as_before(job: Job) -> dict[str, Any]:
    """Return the condition as it was, but for a complaint about a Queue that is there now (PG-3a)."""
    before = job.book
    kept = {"unschedulable": before.unschedulable, "reason": before.reason, "message": before.message}
    if before.reason == texts.QUEUE_NOT_FOUND:
        kept = {"unschedulable": False, "reason": "", "message": ""}
    return {**kept, "scheduled": before.scheduled}


def _cause(job: Job, waits: bool, details: Details) -> str:
    """Return what keeps a job waiting, empty if nothing does; one that is not let in need not have any task."""
    held = rollup.held(job)
    if held is not None:
        return held.cause.value
    return details.gang(job).cause.value if waits else ""


def _only_terminating(job: Job) -> bool:
    """Tell whether a job is not ready only because scheduled tasks are terminating (PG-13)."""
    if job.pending or job.pipelined:
        return False
    releasing = job.releasing_with_node
    return releasing > 0 and job.scheduled + releasing >= job.minimum


# --- phases (PG-6 to PG-7a) ---


def _phase(job: Job, unschedulable: bool) -> str:
    if unschedulable and job.count((TaskStatus.RUNNING,)):
        return UNKNOWN
    scheduled = job.scheduled + job.releasing_with_node
    if job.done == len(job.tasks):
        # All have ended, or there is none: Completed stays so when its finished pods are deleted (PG-7a).
        if job.phase == COMPLETED or (job.tasks and scheduled >= job.minimum):
            return COMPLETED
    elif scheduled and scheduled >= job.minimum:
        return RUNNING
    return INQUEUE if job.phase == INQUEUE else PENDING_PHASE


# --- events (E-5 to E-8, EV-1) ---


def _event(job: Job, phase: str, details: Details) -> tuple[str, str, str]:
    """Return the newest event of the PodGroup; it is recorded when its text changes."""
    if job.event is not None:
        return "Normal", texts.UNSCHEDULABLE, texts.held_event(job.event)
    before = job.book
    if job.group.spec.get("networkTopology") and not before.event_message:
        return "Warning", texts.TOPOLOGY_IGNORED, texts.TOPOLOGY_TEXT
    if phase in (RUNNING, COMPLETED):
        if phase != before.phase:
            return "Normal", "Scheduled", texts.READY
    elif job.pending or (job.tasks and not job.filled):
        gang = details.gang(job)
        return "Warning", texts.UNSCHEDULABLE, texts.event(gang, details.text(gang.detail))
    return before.event_type, before.event_reason, before.event_message


# --- pods (POD-1, PG-3a, PG-3b) ---


def pods(session: Session, details: Details) -> dict[str, PodBook]:
    """Return the book of every waiting pod of ours that belongs to a PodGroup that was looked at."""
    model = session.model
    found: dict[str, PodBook] = {}
    for key in session.looked_at():
        job = session.jobs.get(key)
        if job is None:
            for uid in sorted(model.members.get(key, ())):
                if model.pods[uid].status is TaskStatus.PENDING:
                    found[uid] = _stray(model, key, model.pods[uid])
        elif not job.deferred:
            for task in job.tasks:
                if task.status in _WAITING:
                    found[task.uid] = _pod_book(task, details)
    return found


def _pod_book(task: Task, details: Details) -> PodBook:
    warnings = list(task.traits.demand.warnings)
    nominated = task.nominated or (task.node if task.promised else task.book.nominated_node)
    reason = rollup.pod(task, details.detail)
    book = _said(reason, details.text(reason), warnings, nominated)
    if details.hides_schedulable and book.reason == texts.SCHEDULABLE:
        return book.model_copy(update={"reason": texts.UNSCHEDULABLE})
    return book


def _said(reason: Reason, message: str, warnings: list[str], nominated: str = "") -> PodBook:
    """Return a reason as a pod's book; of a gated pod nothing is said but that it is (AS-12)."""
    code = "" if isinstance(reason, Gated) else texts.code(reason)
    return PodBook(reason=code, message=message, cause=reason.cause.value, nominated_node=nominated, warnings=warnings)


def _stray(model: Model, key: str, entry: PodEntry) -> PodBook:
    """Return the book of a pod whose PodGroup, or whose Queue, does not exist."""
    demand = demand_of(entry.pod, model.env)
    reason: Reason
    group = model.groups.get(key)
    if entry.pod.gates:
        reason = Gated()
    elif demand.refusal:
        reason = RequestRefused(demand.refusal)
    else:
        reason = QueueMissing(key, group.group.queue) if group else GroupMissing(key)
    return _said(reason, texts.text(reason), list(demand.warnings))


def without_configuration(model: Model, reason: NoConfiguration) -> CycleResult:
    """Return the result while nothing may be decided (CFG-6a): all that waits says why, all else stays."""
    waiting = {}
    said = {"reason": texts.code(reason), "message": texts.text(reason), "cause": reason.cause.value}
    for uid in sorted(model.pods):
        entry = model.pods[uid]
        if model.ours(entry.pod) and entry.status is TaskStatus.PENDING and not entry.pod.gates:
            waiting[uid] = entry.book.model_copy(update=said)
    return CycleResult(
        groups={key: model.groups[key].book for key in sorted(model.groups)},
        pods=waiting,
        promises=list(model.promises.values()),
        search_start=model.search_start,
    )
