"""The books of one node: a value that is never changed, so a trial is a new value and undoing it is the old one.

Source: scheduling/AL-3 (bookkeeping by task status), devices/N-21a and R-11 (what adds to the scalar totals).
The sums over the tasks are worked out when they are first asked for, and from then on handed from value to value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from scheduling import resources
from scheduling.devices.books import NodeDevices
from scheduling.nodes.sums import NodeTask, Sums, sums_of
from scheduling.objects import Node
from scheduling.resources import Vector

__all__ = ["NodeTask", "NodeView"]


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
    def sums(self) -> Sums:
        """What its tasks add up to."""
        return sums_of((task, self._counted(task)) for task in self.tasks.values())

    @property
    def used(self) -> Vector:
        """Requests of everything that takes room: neither ended nor only promised (AL-3)."""
        return self.sums.used

    @property
    def releasing(self) -> Vector:
        return self.sums.releasing

    @property
    def pipelined(self) -> Vector:
        return self.sums.pipelined

    @cached_property
    def idle(self) -> Vector:
        return resources.subtract(self.room, self.used)

    @cached_property
    def future_idle(self) -> Vector:
        sums = self.sums
        if not sums.releasing and not sums.pipelined:
            return self.idle
        return resources.subtract(resources.add(self.idle, sums.releasing), sums.pipelined)

    def crowded_for(self, uid: str, *, pods: bool) -> list[str]:
        """Return what this pod asks for of which everything here takes more than there is: it or another is too much.

        Cards have books of their own. ``pods`` says whether the number of pods counts (AL-20).
        """
        task = self.tasks.get(uid)
        if task is None:
            return []
        ours = self.devices.resource_names
        asked = {name: value for name, value in task.request.items() if name not in ours}
        full = pods and self.sums.live > self.room.get(resources.PODS, 0)
        return resources.exceeded(self.used, self.room, asked) + [resources.PODS] * full

    def _counted(self, task: NodeTask) -> Vector:
        """A pod all of whose shares are orphans adds nothing to the totals of our resource names (N-21a)."""
        if not self.devices.only_orphans(task.pod.uid):
            return task.request
        ours = self.devices.resource_names
        return {name: value for name, value in task.request.items() if name not in ours}

    def with_task(self, task: NodeTask, devices: NodeDevices | None = None) -> NodeView:
        """Return the books with this task added or replaced (same uid), and its devices if they change too.

        ``devices`` differ from those before in nothing but this pod's claim.
        """
        return self._next({**self.tasks, task.pod.uid: task}, task.pod.uid, devices or self.devices)

    def without_task(self, uid: str) -> NodeView:
        """Return the books without this pod: its request and its devices are gone together."""
        rest = {key: task for key, task in self.tasks.items() if key != uid}
        return self._next(rest, uid, self.devices.without_claim(uid))

    def _next(self, tasks: Mapping[str, NodeTask], uid: str, devices: NodeDevices) -> NodeView:
        """Return the books with another task of this uid, the sums carried over if they are known."""
        view = NodeView(self.name, self.node, tasks, devices)
        sums: Sums | None = self.__dict__.get("sums")
        if sums is not None and devices.registration is self.devices.registration:
            before, after = self.tasks.get(uid), tasks.get(uid)
            if before is not None:
                sums = sums.moved(before, self._counted(before), -1)
            if after is not None:
                sums = sums.moved(after, view._counted(after), 1)
            view.__dict__["sums"] = sums
        return view

    def with_node(self, node: Node | None, devices: NodeDevices) -> NodeView:
        """Return the books with the node as it is now, devices rebuilt from its registration."""
        view = NodeView(self.name, node, self.tasks, devices)
        if "sums" in self.__dict__ and devices.registration is self.devices.registration:
            view.__dict__["sums"] = self.sums
        return view
