"""The books of one node: a value that is never changed, so a trial is a new value and undoing it is the old one.

Source: scheduling/AL-3 (bookkeeping by task status), devices/N-21a and R-11 (what adds to the scalar totals).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from scheduling import resources
from scheduling.devices.books import NodeDevices
from scheduling.objects import Node, Pod
from scheduling.resources import Vector
from scheduling.status import TERMINAL, TaskStatus


@dataclass(frozen=True, slots=True)
class NodeTask:
    """One pod on a node: its request in the node's totals (devices/R-11 applied) and its status (T-1, T-2)."""

    pod: Pod
    request: Vector
    status: TaskStatus


@dataclass(frozen=True)
class NodeView:
    """One node with its tasks by pod uid and the books of its devices.

    ``node`` is None for a name that only pods refer to; such a node is never a candidate (scheduling/AL-1).
    """

    name: str
    node: Node | None
    tasks: Mapping[str, NodeTask]
    devices: NodeDevices

    @cached_property
    def room(self) -> Vector:
        return self.node.room if self.node else resources.EMPTY

    @cached_property
    def used(self) -> Vector:
        """Requests of everything that takes room: neither ended nor only promised (AL-3)."""
        return resources.total(
            self._counted(task)
            for task in self.tasks.values()
            if task.status not in TERMINAL and task.status is not TaskStatus.PIPELINED
        )

    @cached_property
    def releasing(self) -> Vector:
        return resources.total(
            self._counted(task) for task in self.tasks.values() if task.status is TaskStatus.RELEASING
        )

    @cached_property
    def pipelined(self) -> Vector:
        return resources.total(
            self._counted(task) for task in self.tasks.values() if task.status is TaskStatus.PIPELINED
        )

    @cached_property
    def idle(self) -> Vector:
        return resources.subtract(self.room, self.used)

    @cached_property
    def future_idle(self) -> Vector:
        return resources.subtract(resources.add(self.idle, self.releasing), self.pipelined)

    def _counted(self, task: NodeTask) -> Vector:
        """A pod all of whose shares are orphans adds nothing to the totals of our resource names (N-21a)."""
        if not self.devices.only_orphans(task.pod.uid):
            return task.request
        ours = self.devices.resource_names
        return {name: value for name, value in task.request.items() if name not in ours}

    def with_task(self, task: NodeTask, devices: NodeDevices | None = None) -> NodeView:
        """Return the books with this task added or replaced (same uid), and its devices if they change too."""
        return replace(self, tasks={**self.tasks, task.pod.uid: task}, devices=devices or self.devices)

    def without_task(self, uid: str) -> NodeView:
        """Return the books without this pod: its request and its devices are gone together."""
        rest = {key: task for key, task in self.tasks.items() if key != uid}
        return replace(self, tasks=rest, devices=self.devices.without_claim(uid))

    def with_node(self, node: Node | None, devices: NodeDevices) -> NodeView:
        """Return the books with the node as it is now, devices rebuilt from its registration."""
        return replace(self, node=node, devices=devices)
