"""The jobs, tasks and queues of one cycle, out of the folded state (scheduling/AL-1, PG-3, AS-1, AS-2).

Left out are PodGroups whose Queue does not exist and pods whose PodGroup does not exist; the close of the cycle says
so on them (PG-3a, PG-3b).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from scheduling.config.model import SchedulerConfig
from scheduling.cycle.job import PENDING_PHASE, Job, Task
from scheduling.cycle.memo import Memo
from scheduling.cycle.traits import Traits, charged
from scheduling.objects import PriorityClass, Queue
from scheduling.resources import Vector
from scheduling.state.model import GroupEntry, Model, PodEntry
from scheduling.status import TERMINAL, TaskStatus

#: Plugins that account queues, and their argument for how (Q-21).
_QUEUE_PLUGINS = ("proportion", "capacity")
_ACCOUNTING = "queue.vgpuAccounting"


@dataclass
class Snapshot:
    """Jobs by PodGroup key, in key order; the queues that they are in; all their tasks by pod uid."""

    jobs: dict[str, Job] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    tasks: dict[str, Task] = field(default_factory=dict)


def raw_accounting(config: SchedulerConfig) -> bool:
    """Tell whether queues are charged as the reference does (Q-21, ``queue.vgpuAccounting: raw``)."""
    options = (config.plugin(name) for name in _QUEUE_PLUGINS)
    return any(option is not None and option.arguments.get(_ACCOUNTING) == "raw" for option in options)


def take(model: Model, config: SchedulerConfig, memo: Memo) -> Snapshot:
    """Return the snapshot of a state."""
    snapshot = Snapshot()
    memo.begin(model.env, config, raw_accounting(config))
    default_class = _default_class(model)
    for key in sorted(model.groups):
        entry = model.groups[key]
        queue = model.queues.get(entry.group.queue)
        if queue is None:
            continue
        members = [model.pods[uid] for uid in sorted(model.members.get(key, ()))]
        priority = _priority(model, entry, default_class)
        seen = _seen(model, entry, queue, priority, members)
        job = memo.known(key, seen)
        if job is None:
            job = Job(key, entry, queue, priority, entry.book.phase or PENDING_PHASE)
            for member in members:
                job.add(_task(model, job, member, memo))
            memo.watch(job, seen)
        elif job.settled:
            job.entry = entry
        else:
            job.begin_again(entry, entry.book.phase or PENDING_PHASE)
        snapshot.tasks.update((task.uid, task) for task in job.tasks)
        snapshot.jobs[key] = job
        snapshot.queues.setdefault(queue.name, queue)
    return snapshot


def _seen(model: Model, entry: GroupEntry, queue: Queue, priority: int, members: Sequence[PodEntry]) -> list[object]:
    """Return what a job follows from: the group, its pods as observed and decided, the cards of their nodes."""
    seen: list[object] = [entry.group, entry.book, entry.attempts, queue, priority]
    for member in members:
        node = member.node
        view = model.nodes.get(node) if node else None
        cards = view.devices.registration if view else None
        seen += (member.pod, member.placement, member.evicting, member.lost, member.book, cards)
    return seen


def _default_class(model: Model) -> PriorityClass | None:
    """Return the cluster's global default class (PG-3); of several the highest, then the first by name."""
    classes = [item for item in model.priority_classes.values() if item.global_default]
    return min(classes, key=lambda item: (-item.value, item.name), default=None)


def _priority(model: Model, entry: GroupEntry, default: PriorityClass | None) -> int:
    found = model.priority_classes.get(entry.group.priority_class) or default
    return found.value if found else 0


def _task(model: Model, job: Job, entry: PodEntry, memo: Memo) -> Task:
    traits = memo.traits_of(entry.pod)
    status, node = entry.status, entry.node
    held = _held(model, entry, status, node, traits)
    charge = traits.asked if held is traits.asked else charged(traits, held, model.env.number_name)
    return Task(job, entry.pod, traits, entry.book, status, node, charge, held)


def _held(model: Model, entry: PodEntry, status: TaskStatus, node: str, traits: Traits) -> Vector:
    """Return what a task really holds: what its devices do once it is placed, else as asked (R-13, A-4a)."""
    if traits.raw or not node or status in TERMINAL or traits.demand.kind == "none":
        return traits.asked
    view = model.nodes.get(node)
    found = view.devices.charge(entry.pod.uid) if view else None
    return traits.asked if found is None else found
