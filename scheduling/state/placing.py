"""Where each pod is booked: the node views follow the pods, whatever order the events come in (devices/N-23a, A-16).

A pod is on the books of the node that it is assigned to, as observed or as decided (A-17), until it is gone. Its
devices are held while it is live: a terminating pod still holds them, an ended one does not.
"""

from __future__ import annotations

from scheduling.devices.books import NodeDevices
from scheduling.devices.claims import Claim, claim_of, planned_claim
from scheduling.devices.environment import DeviceEnv
from scheduling.devices.request import node_request
from scheduling.nodes.view import NodeTask, NodeView
from scheduling.objects import Node
from scheduling.state.model import Model, PodEntry
from scheduling.status import TERMINAL


class Placing:
    """Keeps ``model.nodes`` in line with ``model.pods`` and the nodes that were observed."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._where: dict[str, str] = {}

    def book(self, entry: PodEntry) -> None:
        """Bring the books in line with one pod as it is now."""
        uid, node = entry.pod.uid, entry.node
        before = self._where.get(uid)
        if before and before != node:
            self.remove(uid)
        if node:
            self._where[uid] = node
            self._model.nodes[node] = self._with(self._view(node), entry)

    def remove(self, uid: str) -> None:
        """Take a pod off the books: request and devices together (devices/A-16a; twice is the same as once)."""
        name = self._where.pop(uid, None)
        if name is None:
            return
        view = self._model.nodes[name].without_task(uid)
        if view.node is None and not view.tasks:
            del self._model.nodes[name]
        else:
            self._model.nodes[name] = view

    def set_node(self, name: str, node: Node | None) -> None:
        """The node is there in this form, or gone; what pods hold there is kept (devices/N-21, N-23a)."""
        before = self._view(name)
        view = before.with_node(node, before.devices.with_node(node))
        if view.devices.registration is not before.devices.registration:
            # What pods hold on cards depends on which cards there are (devices/N-21a).
            for uid in view.tasks:
                self._model.changes.group(self._model.pods[uid].pod.group_key)
        if node is None and not view.tasks:
            self._model.nodes.pop(name, None)
        else:
            self._model.nodes[name] = view

    def rebuild(self) -> None:
        """Build all books anew under the present device environment (devices/N-16, X-10)."""
        self._model.changes.everything()
        for name, view in list(self._model.nodes.items()):
            fresh = NodeView(name, view.node, {}, self._empty(name).with_node(view.node))
            for uid in sorted(view.tasks):
                fresh = self._with(fresh, self._model.pods[uid])
            self._model.nodes[name] = fresh

    def _view(self, name: str) -> NodeView:
        return self._model.nodes.get(name) or NodeView(name, None, {}, self._empty(name))

    def _empty(self, name: str) -> NodeDevices:
        return NodeDevices.empty(name, self._model.env)

    def _with(self, view: NodeView, entry: PodEntry) -> NodeView:
        env = self._model.env
        task = NodeTask(entry.pod, node_request(entry.pod, env), entry.status)
        claim = None if entry.status in TERMINAL else held_by(entry, env)
        devices = view.devices.with_claim(claim) if claim else view.devices.without_claim(entry.pod.uid)
        return view.with_task(task, devices)


def held_by(entry: PodEntry, env: DeviceEnv) -> Claim | None:
    """Return what a live pod holds: by its own record once it is seen assigned (A-17), by our decision before."""
    if entry.pod.node:
        return claim_of(entry.pod, env)
    if entry.placement:
        return planned_claim(entry.pod, env, entry.placement.allocation, entry.placement.gpu_index)
    return None
