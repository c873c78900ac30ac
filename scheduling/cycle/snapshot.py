"""The jobs, tasks and queues of one cycle, out of the folded state (scheduling/AL-1, PG-3, AS-1, AS-2).

Left out are PodGroups whose Queue does not exist and pods whose PodGroup does not exist; the close of the cycle says
so on them (PG-3a, PG-3b). Only jobs that changed are made anew, the others stand as they were (``cycle.standing``).
"""

from __future__ import annotations

from scheduling.config.model import SchedulerConfig
from scheduling.cycle.accounts import sums_of, wished
from scheduling.cycle.job import PENDING_PHASE, Job, Task
from scheduling.cycle.memo import Memo
from scheduling.cycle.standing import Standing
from scheduling.cycle.traits import Traits, charged
from scheduling.objects import PriorityClass
from scheduling.resources import Vector
from scheduling.state.model import GroupEntry, Model, PodEntry
from scheduling.status import TERMINAL, TaskStatus

#: Plugins that account queues, and their argument for how (Q-21).
_QUEUE_PLUGINS = ("proportion", "capacity")
_ACCOUNTING = "queue.vgpuAccounting"


def raw_accounting(config: SchedulerConfig) -> bool:
    """Tell whether queues are charged as the reference does (Q-21, ``queue.vgpuAccounting: raw``)."""
    options = (config.plugin(name) for name in _QUEUE_PLUGINS)
    return any(option is not None and option.arguments.get(_ACCOUNTING) == "raw" for option in options)


def take(model: Model, config: SchedulerConfig, memo: Memo, time_ms: int = 0) -> Standing:
    """Return the jobs of a state. The memo has them again once the cycle is over (``Memo.standing``)."""
    memo.begin(model.env, config, raw_accounting(config))
    standing, memo.standing = memo.standing, None
    changed = standing.begin(model, time_ms) if standing is not None else None
    if standing is None or changed is None:
        standing = Standing(model.env, memo.raw)
        changed = standing.begin_anew(model, time_ms)
    for key in standing.active - changed:
        if key in standing.jobs:
            standing.jobs[key].begin_again()
    default_class = _default_class(model)
    for key in sorted(changed):
        standing.remove(key)
        _look(model, standing, key, default_class, memo)
    return standing


def _look(model: Model, standing: Standing, key: str, default: PriorityClass | None, memo: Memo) -> None:
    """Make the job of a PodGroup, if it has one."""
    entry = model.groups.get(key)
    queue = model.queues.get(entry.group.queue) if entry else None
    if entry is None or queue is None:
        standing.without(model, key, entry.group.queue if entry else None)
        return
    job = Job(key, entry, queue, _priority(model, entry, default), entry.book.phase or PENDING_PHASE)
    for uid in sorted(model.members.get(key, ())):
        job.add(_task(model, job, model.pods[uid], memo))
    sums_of(standing, job)
    standing.add(job, wished(standing, job))


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
