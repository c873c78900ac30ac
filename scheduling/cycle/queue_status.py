"""What the statuses of Queues and PodGroups show, out of the folded state (scheduling/Q-6 to Q-8, PG-2).

The cycle does not use it: a status is a view for people and tools.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from scheduling import quantity, resources
from scheduling.cycle.job import COMPLETED, INQUEUE, PENDING_PHASE, RUNNING, UNKNOWN
from scheduling.devices.request import node_request
from scheduling.resources import CPU, MEMORY, PODS, Vector
from scheduling.state.model import Model, PodEntry
from scheduling.status import ALLOC, TaskStatus

ROOT = "root"
#: The counters of a Queue's status by the phase that they count (Q-1, Q-8).
_COUNTERS: Mapping[str, str] = {
    PENDING_PHASE: "pending",
    INQUEUE: "inqueue",
    RUNNING: "running",
    UNKNOWN: "unknown",
    COMPLETED: "completed",
}


def charge(model: Model, entry: PodEntry) -> Vector:
    """Return what a placed pod is charged: what its devices really hold, else its request (Q-7, devices/R-13)."""
    view = model.nodes.get(entry.node)
    held = view.devices.charge(entry.pod.uid) if view else None
    return node_request(entry.pod, model.env) if held is None else held


def allocated(model: Model) -> dict[str, Vector]:
    """Return what each queue holds: its placed tasks, and those of all queues below it (Q-6). All queues are there."""
    total: dict[str, dict[str, int]] = {name: {} for name in sorted(model.queues)}
    for key in sorted(model.members):
        group = model.groups.get(key)
        if group is None or group.group.queue not in total:
            continue
        chain = list(_upwards(model, group.group.queue))
        for uid in sorted(model.members[key]):
            entry = model.pods[uid]
            if entry.status in ALLOC:
                for name, value in charge(model, entry).items():
                    for queue in chain:
                        total[queue][name] = total[queue].get(name, 0) + value
    return dict(total)


def _upwards(model: Model, name: str) -> Iterator[str]:
    """Go from a queue to the root; a circle of parents ends where it closes."""
    seen: set[str] = set()
    while name in model.queues and name not in seen:
        seen.add(name)
        yield name
        name = model.queues[name].parent or ("" if name == ROOT else ROOT)


def as_status(vector: Vector) -> dict[str, str]:
    """Return a vector as ``status.allocated`` shows it: cpu and memory are always there, other zeros are not (Q-6)."""
    shown = {CPU: quantity.from_milli(vector.get(CPU, 0)), MEMORY: quantity.from_bytes(vector.get(MEMORY, 0))}
    for name in resources.ordered(vector):
        value = vector[name]
        if value and name not in shown:
            shown[name] = str(value) if name == PODS else quantity.from_milli(value)
    return shown


def group_counts(model: Model) -> dict[str, dict[str, int]]:
    """Return the counters of each queue's status: PodGroups by phase (Q-8)."""
    found = {name: dict.fromkeys(_COUNTERS.values(), 0) for name in sorted(model.queues)}
    for entry in model.groups.values():
        counters = found.get(entry.group.queue)
        if counters is not None:
            counters[_COUNTERS.get(entry.book.phase, "pending")] += 1
    return found


def task_counts(model: Model, group: str) -> dict[str, int]:
    """Return ``running``, ``succeeded`` and ``failed`` of a PodGroup's status (PG-2)."""
    counts = dict.fromkeys(("running", "succeeded", "failed"), 0)
    words = {TaskStatus.RUNNING: "running", TaskStatus.SUCCEEDED: "succeeded", TaskStatus.FAILED: "failed"}
    for uid in model.members.get(group, ()):
        word = words.get(model.pods[uid].status)
        if word:
            counts[word] += 1
    return counts
