"""Why something waits: one typed tree from card to node to pod to gang to queue, found by deciding again.

The texts of conditions and events are those of ``cycle.messages``; here is what they sum up. ``why`` runs one cycle on
the state and places the gang's tasks once more in what the cycle left: where a task finds no node, every node says why,
and where it is the cards, every card does with its audit word (devices/F-2).

``cause_of`` tells the kind of a reason from what was recorded of a pod, for metrics: it decides nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from events.records import PodBook
from scheduling.cycle import messages
from scheduling.cycle.finder import Finder
from scheduling.cycle.fitting import choose, device_fit, judge, placement_of
from scheduling.cycle.job import PENDING_PHASE, Job, Task
from scheduling.cycle.memo import Memo
from scheduling.cycle.plugin import Refused
from scheduling.cycle.run import acted
from scheduling.cycle.session import Session
from scheduling.cycle.statement import Statement
from scheduling.devices.fitting import Misfit
from scheduling.state.model import Model
from scheduling.status import TaskStatus


class Cause(StrEnum):
    """What keeps a pod waiting."""

    CONFIGURATION = "no-configuration"
    MISSING = "queue-or-group-missing"
    GATED = "gated"
    REQUEST = "request-refused"
    CLOSED = "queue-takes-none"
    QUEUE = "queue-limit"
    CLUSTER = "cluster-overcommitted"
    LEAVING = "waits-for-leaving"
    GANG = "waits-for-gang"
    NODES = "no-node"
    OTHER = "other"


@dataclass(frozen=True)
class CardReason:
    """A card and its audit word."""

    gpu: str
    word: str


@dataclass(frozen=True)
class NodeReason:
    """A node, the word that is counted (POD-4), and what else it says."""

    node: str
    reason: str
    detail: str
    cards: tuple[CardReason, ...] = ()


@dataclass(frozen=True)
class PodReason:
    """A waiting pod; ``nodes`` are those that refused it, in name order."""

    pod: str
    cause: Cause
    text: str
    nodes: tuple[NodeReason, ...] = ()


@dataclass(frozen=True)
class GangReason:
    """A PodGroup: how many tasks its gang lacks, the text of its condition (M-1), its waiting pods in task order."""

    group: str
    queue: str
    lacking: int
    text: str
    pods: tuple[PodReason, ...] = ()


@dataclass(frozen=True)
class QueueReason:
    """A queue: how many pods wait in it, by cause."""

    queue: str
    waiting: Mapping[Cause, int]


def why(model: Model, group: str, time_ms: int) -> GangReason | None:
    """Return why a PodGroup waits; None if it does not, or there is none in a queue that is there."""
    if model.config is None and model.config_report.errors:
        return None
    session = acted(model, time_ms, Memo())
    job = session.jobs.get(group)
    if job is None or not job.pending:
        return None
    waiting = [task for task in job.tasks if task.status is TaskStatus.PENDING]
    said = {task.uid: messages.pod_reason(task, messages.job_detail)[1] for task in waiting}
    causes = {task.uid: _cause(task, said[task.uid]) for task in waiting}
    text = messages.condition(job, messages.job_detail(job))
    lacking = messages.unready(job)
    nodes = _refusals(session, job)
    pods = tuple(PodReason(task.pod.key, causes[task.uid], said[task.uid], nodes.get(task.uid, ())) for task in waiting)
    return GangReason(job.key, job.queue.name, lacking, text, pods)


def queues(model: Model) -> list[QueueReason]:
    """Return every queue in which pods wait, by name, from what was said of them last."""
    found: dict[str, Counter[Cause]] = {}
    for entry in model.pods.values():
        if entry.book.reason and not entry.node and entry.status is TaskStatus.PENDING:
            group = model.groups.get(entry.pod.group_key)
            name = group.group.queue if group else ""
            found.setdefault(name, Counter())[cause_of(entry.book)] += 1
    return [QueueReason(name, dict(sorted(found[name].items()))) for name in sorted(found)]


# --- nodes and cards ---


def _refusals(session: Session, job: Job) -> dict[str, tuple[NodeReason, ...]]:
    """Place a gang's tasks as far as they go, undo it, and return what the nodes said to those that found none."""
    found: dict[str, tuple[NodeReason, ...]] = {}
    if job.phase == PENDING_PHASE:
        return found
    statement, finder = Statement(session), Finder(session, "allocate")
    for task in job.waiting():
        if task.traits.refused or session.allocatable(task):
            continue
        search = finder.find(task)
        if search.candidates:
            best = choose(session, task, search.candidates)
            (statement.allocate if best.now else statement.pipeline)(task, placement_of(task, best))
            if session.ready(job):
                break
        else:
            found[task.uid] = _nodes(session, task)
    statement.discard()
    return found


def _nodes(session: Session, task: Task) -> tuple[NodeReason, ...]:
    said = []
    for name in session.names:
        view = session.views[name]
        answer = judge(session, task, view)
        if not isinstance(answer, Refused):
            continue
        cards: tuple[CardReason, ...] = ()
        if task.traits.demand.kind != "none":
            fit = device_fit(session, task, view)[1]
            if isinstance(fit, Misfit):
                cards = tuple(CardReason(gpu, word) for gpu, word in fit.words)
        said.append(NodeReason(name, answer.reason, answer.detail, cards))
    return tuple(said)


# --- causes ---

_OF_TEXT: Final = (
    (re.compile(r"no valid scheduler configuration: "), Cause.CONFIGURATION),
    (re.compile(r"PodGroup \S+ does not exist$|PodGroup \S+: queue .* does not exist$"), Cause.MISSING),
    (re.compile(r"queue \S+ (is not open|has child queues)|queue root takes no jobs$"), Cause.CLOSED),
    (re.compile(r"queue \S+ resource quota insufficient: "), Cause.QUEUE),
    (re.compile(r"resource in cluster is overused: "), Cause.CLUSTER),
    (re.compile(r"Pod \S+ can possibly be assigned to \S+, once resource is released"), Cause.LEAVING),
    (re.compile(r"Pod \S+ can possibly be assigned to \S+, once minAvailable"), Cause.GANG),
    (re.compile(r"\d+/\d+ nodes are unavailable|Task \S+ with role spec |all nodes are unavailable$"), Cause.NODES),
    (re.compile(r"pod group is (not )?ready"), Cause.GANG),
)


def cause_of(book: PodBook) -> Cause:
    """Return the kind of what was said of a waiting pod (POD-1)."""
    return _of_text(book.message)


def _of_text(text: str) -> Cause:
    return next((cause for pattern, cause in _OF_TEXT if pattern.match(text)), Cause.OTHER)


def _cause(task: Task, text: str) -> Cause:
    if task.traits.gated:
        return Cause.GATED
    if task.traits.refused:
        return Cause.REQUEST
    return _of_text(text)
