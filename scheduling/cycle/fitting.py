"""Where a task fits, and the best place among them (scheduling/AL-7, AL-17 to AL-23, Q-17a).

A node is judged against two futures. What is bound now must fit what is idle, with the shares of terminating pods
still held (F-6); what is only promised (pipelined) may use what they will leave. Promised shares count as taken in
both, so nobody is bound on a card that another task is waiting for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from scheduling import resources
from scheduling.cycle.job import Placement, Task
from scheduling.devices.books import Fit, Misfit, NodeDevices
from scheduling.nodes.cluster import without_releasing
from scheduling.nodes.predicates import resource_fit
from scheduling.nodes.view import NodeView
from scheduling.reasons.kinds import NoNode, Reason, Refused
from scheduling.status import TaskStatus

if TYPE_CHECKING:
    from scheduling.cycle.session import Session

_UNRESOLVABLE = 3  # devices/C-31
DETAILS_MAX = 5  # devices/F-6


_NOBODY_ASKED = NoNode()


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node that takes the task: ``now`` on what is idle, else on what is being released. ``fit`` are its cards."""

    view: NodeView
    now: bool
    fit: Fit | None


@dataclass
class Search:
    """What a search found: candidates in visiting order, or why there are none.

    ``reason`` is the queue's where nodes were passed over for its hard limit (Q-17a), else what the nodes say.
    """

    candidates: list[Candidate] = field(default_factory=list)
    reason: Reason = _NOBODY_ASKED


def _books(session: Session, view: NodeView) -> tuple[NodeDevices, NodeDevices]:
    """Return the devices now, and once all that terminates is gone (devices/A-16: for promises only)."""
    planned = session.planned.get(view.name, {})
    if not planned and not view.releasing:
        return view.devices, view.devices
    known = session.device_books.get(view.name)
    if known is not None and known[0] is view and known[1] is planned:
        return known[2]
    now, later = view.devices, view.devices
    for uid, task in view.tasks.items():
        if task.status is TaskStatus.RELEASING:
            later = later.without_claim(uid)
    for claim in planned.values():
        now, later = now.with_claim(claim), later.with_claim(claim)
    session.device_books[view.name] = (view, planned, (now, later))
    return now, later


def fits_idle(task: Task, view: NodeView) -> bool:
    """Tell whether a task's request fits what is idle (AL-22)."""
    return not resources.exceeded(task.traits.request, view.idle, task.traits.request)


def device_fit(session: Session, task: Task, view: NodeView, waits: bool = False) -> tuple[bool, Fit | Misfit]:
    """Return whether the task may be bound now, and the cards that it gets now, else (or if it ``waits``) later."""
    now, later = _books(session, view)
    fit = now.fit(task.traits.demand)
    if not waits and isinstance(fit, Fit) and fits_idle(task, view):
        return True, fit
    return False, fit if later is now else later.fit(task.traits.demand)


def _once_gone(view: NodeView) -> NodeView | None:
    """Return a node as it will be once all that terminates is gone, None if nothing does."""
    if not view.releasing:
        return None
    gone = without_releasing(view)
    devices = view.devices
    for uid in view.tasks:
        if uid not in gone.tasks:
            devices = devices.without_claim(uid)
    return replace(gone, devices=devices)


def refused_by_devices(answer: Misfit) -> Refused:
    """Return a misfit as what the node says (devices/F-6)."""
    return Refused(answer.reason, answer.detail, answer.code != _UNRESOLVABLE, answer.words)


def judge(session: Session, task: Task, view: NodeView) -> Candidate | Refused:
    """Judge one node: resources first, then the filters in tier order (AL-19).

    What only a terminating pod stands against (its host port, its place among the node's pods) is open to a promise.
    The cards are looked at whatever is configured: a pod that asks for some is never bound without (devices/R-1a).
    """
    short = resource_fit(task.traits.request, view)
    if short is not None:
        return Refused(short)
    refused = session.check(task, view)
    if refused is not None:
        gone = _once_gone(view)
        if gone is None or not refused.resolvable or session.check(task, gone) is not None:
            return refused
    if task.traits.demand.kind == "none":
        return Candidate(view, refused is None and fits_idle(task, view), None)
    now, fit = device_fit(session, task, view, waits=refused is not None)
    return refused_by_devices(fit) if isinstance(fit, Misfit) else Candidate(view, now, fit)


def no_node(session: Session, task: Task, refused: Mapping[str, Refused]) -> NoNode:
    """Return what nodes that do not take a task say together (MSG-5, devices/F-6)."""
    counts: dict[str, int] = {}
    for answer in refused.values():
        counts[answer.reason] = counts.get(answer.reason, 0) + 1
    details = sorted((name, answer.detail) for name, answer in refused.items() if answer.detail)
    return explained(session, task, NoNode(len(refused), counts, tuple(details[:DETAILS_MAX])), lambda: refused)


def explained(session: Session, task: Task, found: NoNode, refused: Callable[[], Mapping[str, Refused]]) -> NoNode:
    """Return a reason with the answer of every node, down to the cards, if that is what the session is for."""
    if task.job.key != session.explains:
        return found
    return replace(found, answers={name: _to_the_cards(session, task, name, item) for name, item in refused().items()})


def _to_the_cards(session: Session, task: Task, node: str, answer: Refused) -> Refused:
    """Where something else stood against the node first, the cards are asked besides."""
    if answer.words or task.traits.demand.kind == "none":
        return answer
    fit = device_fit(session, task, session.views[node])[1]
    return replace(answer, words=fit.words) if isinstance(fit, Misfit) else answer


def choose(session: Session, task: Task, candidates: list[Candidate]) -> Candidate:
    """Return the best candidate: idle before future idle (AL-22), then score, then name (AL-23, devices/F-14)."""
    group = [item for item in candidates if item.now] or candidates
    if len(group) == 1:
        return group[0]
    scores = session.scores(task, [item.view for item in group])
    return min(group, key=lambda item: (-scores[item.view.name], item.view.name))


def placement_of(task: Task, candidate: Candidate) -> Placement:
    """Return what placing a task on a candidate means; with ``raw`` accounting it is charged as asked (Q-21)."""
    fit = candidate.fit
    if fit is None:
        return Placement(candidate.view.name, held=task.traits.asked)
    held = task.traits.asked if task.traits.raw else fit.charge
    return Placement(candidate.view.name, fit.allocation, fit.gpu_index, fit.score, held)
