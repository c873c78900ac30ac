"""What would help a group that waits: the least change under which a decision places it, and who is ahead of it.

Nothing is guessed: a change is made on a copy of the state, and the state is decided again. Changes are tried from the
one that costs nobody anything (a queue's limit) to the one that ends somebody's work, each kind from the smallest on,
and only so many that the answer stays cheap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice

from events import names
from scheduling import cycle, resources
from scheduling.config.parse import default_config
from scheduling.cycle import snapshot
from scheduling.cycle.memo import Memo
from scheduling.cycle.plugins import PLUGINS
from scheduling.cycle.session import Session
from scheduling.devices.cards import Card
from scheduling.devices.request import demand_of
from scheduling.nodes.view import NodeView
from scheduling.objects import Node, Pod, Queue
from scheduling.quantity import from_milli
from scheduling.resources import Vector
from scheduling.state.model import Model, PodEntry
from scheduling.status import ALLOC, TaskStatus

#: How many changes of one kind are decided again at the most.
TRIALS_MAX = 48


@dataclass(frozen=True)
class Remedy:
    """A change under which the group would run. ``kind``: queue, memory, node or pod; ``text`` says it to people."""

    kind: str
    text: str


def least_change(model: Model, group: str, time_ms: int) -> Remedy | None:
    """Return the least change that lets a PodGroup run; None if it runs anyway or nothing that is tried helps."""
    waiting = [entry for entry in members(model, group) if entry.status is TaskStatus.PENDING]
    if group not in model.groups or _runs(model, group, time_ms):
        return None
    for kind in (_queues, _memory, _nodes, _pods):
        for changed, remedy in islice(kind(model, group, waiting), TRIALS_MAX):
            if _runs(changed, group, time_ms):
                return remedy
    return None


def ahead(model: Model, group: str, time_ms: int) -> list[str]:
    """Return the PodGroups of the same queue that wait and come before this one in the job order (scheduling 4.7)."""
    entry = model.groups.get(group)
    if entry is None or (model.config is None and model.config_report.errors):
        return []
    config = model.config or default_config()
    session = Session(model, config, snapshot.take(model, config, Memo()), time_ms, Memo(), None)
    session.open(PLUGINS)
    waiting = [job for job in session.jobs.values() if job.queue.name == entry.group.queue and any(job.waiting())]
    ordered = [job.key for job in sorted(waiting, key=session.job_order)]
    return ordered[: ordered.index(group)] if group in ordered else []


def members(model: Model, group: str) -> list[PodEntry]:
    """Return the pods of a PodGroup by name."""
    found = (model.pods[uid] for uid in model.members.get(group, ()))
    return sorted(found, key=lambda entry: entry.pod.key)


def _runs(model: Model, group: str, time_ms: int) -> bool:
    """Decide once and see whether the group is bound, or, while it has no pods, admitted."""
    result = cycle.run(model, time_ms)
    if any(gang.group == group for gang in result.gangs):
        return True
    book = result.groups.get(group)
    return not model.members.get(group) and book is not None and book.phase != "Pending"


# --- a queue's capability ---


def _queues(model: Model, group: str, waiting: list[PodEntry]) -> Iterator[tuple[Model, Remedy]]:
    """Raise the capability of the group's queue, and of its ancestors, to what the group would bring it to."""
    needed = resources.total(demand_of(entry.pod, model.env).charge_before(model.env) for entry in waiting)
    least = model.groups[group].group.min_resources
    if not waiting and least is not None:
        needed = resources.vector(least)
    raised: dict[str, Queue] = {}
    texts: list[str] = []
    queue = model.queues.get(model.groups[group].group.queue)
    while queue is not None and queue.name not in raised:
        limits = _raised(model, queue, needed)
        if limits:
            raised[queue.name] = replace(queue, capability={**(queue.capability or {}), **limits})
            texts += [_limit_text(queue, name, value) for name, value in limits.items()]
            yield replace(model, queues={**model.queues, **raised}), Remedy("queue", " and ".join(texts))
        queue = model.queues.get(queue.parent)


def _raised(model: Model, queue: Queue, needed: Vector) -> dict[str, str]:
    future = resources.add(_charged(model, queue.name), needed)
    limits = resources.vector(queue.capability or {})
    found = {}
    for name in resources.ordered(limits):
        if future.get(name, 0) > limits[name]:
            found[name] = str(future[name]) if name == resources.MEMORY else _plain(future[name])
    return found


def _plain(amount: int) -> str:
    """Thousandths as people write them in a queue: 6000000 is ``6000``."""
    return str(amount // 1000) if amount % 1000 == 0 else from_milli(amount)


def _charged(model: Model, queue: str) -> Vector:
    keys = [key for key, entry in model.groups.items() if _within(model, entry.group.queue, queue)]
    held = []
    for entry in (item for key in keys for item in members(model, key) if item.status in ALLOC):
        view = model.nodes.get(entry.node)
        charge = view.devices.charge(entry.pod.uid) if view else None
        held.append(charge if charge is not None else demand_of(entry.pod, model.env).charge_before(model.env))
    return resources.total(held)


def _within(model: Model, queue: str, ancestor: str) -> bool:
    seen: set[str] = set()
    while queue and queue not in seen:
        if queue == ancestor:
            return True
        seen.add(queue)
        found = model.queues.get(queue)
        queue = found.parent if found else ""
    return False


def _limit_text(queue: Queue, name: str, value: str) -> str:
    return f"queue {queue.name}'s capability {name} were {value} (is {(queue.capability or {}).get(name)})"


# --- memory on a card ---


def _memory(model: Model, group: str, waiting: list[PodEntry]) -> Iterator[tuple[Model, Remedy]]:
    """Let memory free up on one card: as much as one more share needs, then two, and so on."""
    shares = [asked for entry in waiting for asked in _asked(model, entry.pod)]
    options = []
    for name, view in sorted(model.nodes.items()):
        if view.node is None:
            continue
        for card in view.devices.cards:
            for count in range(1, len(shares) + 1):
                missing = sum(sorted(shares)[:count]) - (card.memory - card.used_memory)
                if missing > 0 and card.mode == "hami-core":
                    options.append((missing, name, card.uuid, view, card))
    for missing, name, uuid, view, card in sorted(options, key=lambda option: option[:3]):
        grown = _with_memory(model, view, card, missing)
        if grown is not None:
            text = f"{missing} MiB freed up on {uuid} of node {name}"
            yield replace(model, nodes={**model.nodes, name: grown}), Remedy("memory", text)


def _asked(model: Model, pod: Pod) -> list[int]:
    demand = demand_of(pod, model.env)
    return [asked.memory for asked in demand.requests for _ in range(asked.count) if asked.memory > 0]


def _with_memory(model: Model, view: NodeView, card: Card, missing: int) -> NodeView | None:
    """A card with so much more memory fits exactly what the card would fit with so much freed up."""
    node = view.node
    assert node is not None, "only nodes that exist are asked about"
    register = node.annotations.get(names.NODE_REGISTER, "")
    parts = [part.split(",") for part in register.split(":")]
    for fields in parts:
        if len(fields) > 2 and fields[0] == card.uuid:
            fields[2] = str(card.memory + missing)
    memory = model.env.memory_name
    room = resources.vector(node.allocatable or {}).get(memory, 0) + missing * 1000
    fresh: Node = replace(
        node,
        annotations={**node.annotations, names.NODE_REGISTER: ":".join(",".join(fields) for fields in parts)},
        allocatable={**(node.allocatable or {}), memory: from_milli(room)},
    )
    return view.with_node(fresh, view.devices.with_node(fresh))


# --- a node, a pod ---


def _nodes(model: Model, group: str, waiting: list[PodEntry]) -> Iterator[tuple[Model, Remedy]]:
    """Let a cordoned or tainted node take pods."""
    for name, view in sorted(model.nodes.items()):
        if view.node is not None and (view.node.unschedulable or view.node.taints):
            fresh = replace(view.node, unschedulable=False, taints=())
            changed = replace(model, nodes={**model.nodes, name: view.with_node(fresh, view.devices)})
            word = "were schedulable" if view.node.unschedulable else "had no taints"
            yield changed, Remedy("node", f"node {name} {word}")


def _pods(model: Model, group: str, waiting: list[PodEntry]) -> Iterator[tuple[Model, Remedy]]:
    """Let one pod end, those that hold the least first."""
    placed = [entry for entry in model.pods.values() if entry.node and entry.pod.group_key != group]
    for entry in sorted(placed, key=lambda item: (_held(model, item), item.pod.key)):
        pod = entry.pod
        view = model.nodes[entry.node]
        pods = {uid: other for uid, other in model.pods.items() if uid != pod.uid}
        of_group = {uid for uid in model.members.get(pod.group_key, ()) if uid != pod.uid}
        changed = replace(
            model,
            pods=pods,
            members={**model.members, pod.group_key: of_group},
            nodes={**model.nodes, entry.node: view.without_task(pod.uid)},
        )
        yield changed, Remedy("pod", f"pod {pod.key} on node {entry.node} ended")


def _held(model: Model, entry: PodEntry) -> int:
    view = model.nodes.get(entry.node)
    charge = view.devices.charge(entry.pod.uid) if view else None
    return (charge or {}).get(model.env.memory_name, 0)
