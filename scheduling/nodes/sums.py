"""What the tasks of one node add up to, carried from one value of its books to the next.

Source: scheduling/AL-3 (what each status takes), AL-25 (assumed requests). A change of one task moves the sums by that
task alone; a resource of which nothing is left has no entry, so the sums are the same whatever way they came about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from scheduling.nodes.requests import assumed_request
from scheduling.objects import Pod
from scheduling.resources import CPU, MEMORY, Vector
from scheduling.status import TERMINAL, TaskStatus


@dataclass(frozen=True, slots=True)
class NodeTask:
    """One pod on a node: its request in the node's totals (devices/R-11 applied) and its status (T-1, T-2)."""

    pod: Pod
    request: Vector
    status: TaskStatus


@dataclass(frozen=True, slots=True)
class Sums:
    """``used`` are the requests of everything that takes room: neither ended nor only promised (AL-3).

    ``live`` counts the pods that have not ended, ``cpu`` and ``memory`` what these are assumed to use (AL-25),
    ``carrying`` those of them with a rule about other pods, or about nodes.
    """

    used: Vector = field(default_factory=dict)
    releasing: Vector = field(default_factory=dict)
    pipelined: Vector = field(default_factory=dict)
    live: int = 0
    carrying: int = 0
    cpu: int = 0
    memory: int = 0

    def moved(self, task: NodeTask, counted: Vector, by: int) -> Sums:
        """Return the sums with one task more (1) or less (-1); ``counted`` is what it adds to the totals."""
        status = task.status
        if status in TERMINAL:
            return self
        used, releasing, pipelined = self.used, self.releasing, self.pipelined
        if status is TaskStatus.PIPELINED:
            pipelined = _moved(pipelined, counted, by)
        else:
            used = _moved(used, counted, by)
            if status is TaskStatus.RELEASING:
                releasing = _moved(releasing, counted, by)
        assumed = assumed_request(task.pod)
        return Sums(
            used,
            releasing,
            pipelined,
            self.live + by,
            self.carrying + by * bool(task.pod.spec.get("affinity")),
            self.cpu + by * assumed[CPU],
            self.memory + by * assumed[MEMORY],
        )


def sums_of(counted: Iterable[tuple[NodeTask, Vector]]) -> Sums:
    """Return the sums of tasks, each with what it adds to the totals."""
    sums = Sums()
    for task, vector in counted:
        sums = sums.moved(task, vector, 1)
    return sums


def _moved(total: Vector, vector: Mapping[str, int], by: int) -> Vector:
    found = dict(total)
    for name, value in vector.items():
        after = found.get(name, 0) + by * value
        if after:
            found[name] = after
        else:
            found.pop(name, None)
    return found
