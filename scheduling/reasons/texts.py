"""Every reason in words (scheduling section 2.5, POD-1, PG-3a, PG-3b, PG-4a, Q-4a, Q-4b, Q-24, E-5 to E-8, F-2, F-3).

The grammar is that of MSG-1 to MSG-7; entries of a histogram are sorted as strings, count included (MSG-3).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import assert_never

from scheduling.reasons.kinds import (
    BindFailed,
    FitsForGang,
    FitsOnceReleased,
    GangDetail,
    Gated,
    GroupMissing,
    HasChildren,
    Invalid,
    NoConfiguration,
    NoNode,
    NotOpen,
    OverCommitted,
    Overused,
    PodOwnReason,
    PreBindFailed,
    QueueMissing,
    QueueReason,
    QueueShort,
    Reason,
    RequestRefused,
    ReservationReleased,
    RoleSkipped,
    RootTakesNone,
    TooFewOfRole,
    TooFewSubGroups,
    TooFewTasks,
)
from scheduling.reasons.tree import GangReason

READY, NOT_READY = "pod group is ready", "pod group is not ready"
NOT_ENOUGH_RESOURCES = "NotEnoughResources"
TASKS_READY = "tasks in gang are ready to be scheduled"
QUEUE_NOT_FOUND = "QueueNotFound"
UNSCHEDULABLE, SCHEDULABLE, SCHEDULER_ERROR = "Unschedulable", "Schedulable", "SchedulerError"
TOPOLOGY_IGNORED = "NetworkTopologyIgnored"
TOPOLOGY_TEXT = "networkTopology is not supported, the PodGroup is scheduled without it"
_DETAILS_MAX = 5


def histogram(counts: Mapping[str, int]) -> str:
    """Return ``<count> <word>, ...`` sorted as strings (MSG-3)."""
    return ", ".join(sorted(f"{count} {word}" for word, count in counts.items() if count or word == "minAvailable"))


# --- pods ---


def code(reason: Reason) -> str:
    """Return the reason of a waiting pod's condition (POD-1, POD-3)."""
    if isinstance(reason, FitsForGang):
        return SCHEDULABLE
    return SCHEDULER_ERROR if isinstance(reason, BindFailed | PreBindFailed) else UNSCHEDULABLE


def text(reason: Reason) -> str:
    """Return the message of a waiting pod's condition (POD-1), or what stands behind "origin" (MSG-4, Q-24a).

    The kinds that most pods wait for come first.
    """
    match reason:
        case QueueShort() | NotOpen() | HasChildren() | RootTakesNone() | OverCommitted():
            return _of_queue(reason)
        case NoNode():
            return node_summary(reason)
        case GangDetail():
            return gang_detail(reason, text(reason.origin) if reason.origin else "")
        case FitsForGang(pod, node):
            return f"Pod {pod} can possibly be assigned to {node}, once minAvailable is satisfied"
        case FitsOnceReleased(pod, node):
            released = "once resource is released and minAvailable is satisfied"
            return f"Pod {pod} can possibly be assigned to {node}, {released}"
        case RoleSkipped(task, role):
            return f"Task {task} with role spec {role} has already predicated failed, skip"
        case Overused(names):
            return f"resource in cluster is overused: {_each('overused', names)}"
        case ReservationReleased(timeout):
            return f"no task within {timeout}, reservation released"
        case _:
            return _of_pod(reason)


def _of_queue(reason: QueueReason) -> str:
    """Return why a queue does not take something (Q-4a, Q-4b, Q-24; CFG-13 for capacity)."""
    match reason:
        case QueueShort(queue, names):
            return f"queue {queue} resource quota insufficient: {_each('insufficient', names)}"
        case NotOpen(queue, state):
            return f"queue {queue} is not open (state {state})"
        case HasChildren(queue):
            return f"queue {queue} has child queues, submit to one of them"
        case RootTakesNone():
            return "queue root takes no jobs"
        case OverCommitted(queue, promise, names):
            promised = f"{promise} more {', '.join(names)} than it has"
            return f"queue {queue} is over-committed: its child queues are {promised}"
        case _:
            assert_never(reason)


def _of_pod(reason: PodOwnReason) -> str:
    match reason:
        case Gated():
            return ""
        case RequestRefused(words):
            return words
        case GroupMissing(group):
            return f"PodGroup {group} does not exist"
        case QueueMissing(group):
            return f"PodGroup {group}: {queue_missing(reason)}"
        case NoConfiguration(errors):
            return f"no valid scheduler configuration: {'; '.join(errors)}"
        case BindFailed(node, error):
            return f"failed to bind to node {node}: {error}"
        case PreBindFailed(pod, error):
            return f"execute preBind for pod {pod} failed: {error}, resync the task"
        case _:
            assert_never(reason)


def _each(word: str, names: Sequence[str]) -> str:
    return f", {word} ".join(("", *names))[2:]


def node_summary(reason: NoNode) -> str:
    """Return M-3, with what the filters say of at most five nodes behind it (devices/F-6)."""
    found = f"0/{reason.nodes} nodes are unavailable"
    if reason.counts:
        found += f": {histogram(reason.counts)}."
    if reason.details:
        found += " Details: " + "; ".join(f"{node}: {detail}" for node, detail in reason.details[:_DETAILS_MAX])
    return found


# --- gangs ---


def gang_detail(detail: GangDetail, origin: str) -> str:
    """Return M-2; ``origin`` is what stands against the gang first, in words."""
    found = f"{READY if detail.ready else NOT_READY}, {histogram({**detail.counts, 'minAvailable': detail.minimum})}"
    if detail.pending:
        able = detail.schedulable
        found += "; Pending: " + histogram({SCHEDULABLE: able, UNSCHEDULABLE: detail.pending - able})
    if detail.origin is None:
        return found
    whose = f" {detail.origin_task}" if detail.origin_task else ""
    return f"{found}. Origin reason is{whose}: {origin}"


def condition(gang: GangReason, detail: str) -> str:
    """Return M-1; ``detail`` is M-2."""
    return f"{gang.lacking}/{gang.tasks} tasks in gang unschedulable: {detail}"


def event(gang: GangReason, detail: str) -> str:
    """Return E-5: its first number is the count of Pending tasks; ``detail`` is M-2."""
    return f"{gang.detail.pending}/{gang.tasks} tasks in gang unschedulable: {detail}"


def gang_summary(gang: GangReason) -> str:
    """Return what keeps a gang waiting, for explanations: what ``GangReason.cause`` is the word of."""
    detail = gang.detail
    if gang.held is not None:
        return text(gang.held)
    if detail.invalid is not None:
        return invalid(detail.invalid)
    if detail.origin is None:
        return gang_detail(detail, "")
    return f"{detail.origin_task}: {text(detail.origin)}" if detail.origin_task else text(detail.origin)


def held_event(reason: Reason) -> str:
    """Return the event of a PodGroup that is not let in: E-7 does not name the queue, the others are as elsewhere."""
    if isinstance(reason, QueueShort):
        return f"queue resource quota insufficient: {_each('insufficient', reason.resources)}"
    return text(reason)


def queue_missing(reason: QueueMissing) -> str:
    """Return the condition message of PG-3a."""
    return f"queue {reason.queue} does not exist"


def invalid(reason: Invalid) -> str:
    """Return why a gang is not tried (PG-9)."""
    match reason:
        case TooFewOfRole():
            return "Not enough valid pods of each task for gang-scheduling"
        case TooFewSubGroups():
            return "Not enough valid subGroups of each task for gang-scheduling"
        case TooFewTasks(valid, minimum):
            return f"Not enough valid tasks for gang-scheduling, valid: {valid}, min: {minimum}"
        case _:
            assert_never(reason)
