"""What is wrong with nodes and their cards: warnings as events on the Node, a log line where a node holds too much.

Sources: devices/N-5, N-7, N-10, N-13, A-18; scheduling/F-8.
"""

from __future__ import annotations

from collections.abc import Iterator

import structlog

from events.kinds import NODE
from scheduling import resources
from scheduling.nodes.view import NodeView
from scheduling.state.model import Model
from services.binder.recorder import Recorder
from services.binder.written import Due
from services.runtime.kube_events import Subject

_LOG = structlog.get_logger("nodes")


class NodeStatus:
    """Tells each text once for each node; a node that has not changed is not looked at again."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._views: dict[str, NodeView] = {}
        self._told: dict[str, set[str]] = {}
        self._exceeded: dict[str, list[str]] = {}

    def due(self, model: Model) -> Iterator[Due]:
        """Record what is new; there is nothing to write."""
        for name, view in model.nodes.items():
            before = self._views.get(name)
            if view.node is None or before is view:
                continue
            self._views[name] = view
            if before is None or before.devices is not view.devices:
                self._warn(view, view.node.uid)
            self._compare(view)
        for name in self._views.keys() - model.nodes.keys():
            del self._views[name], self._told[name], self._exceeded[name]
        yield from ()

    def _warn(self, view: NodeView, uid: str) -> None:
        texts = set(view.devices.warnings)
        subject = Subject(NODE, "", view.name, uid)
        for text in sorted(texts - self._told.get(view.name, set())):
            self._recorder.emit(subject, "Warning", "DeviceWarning", text, again=False)
        self._told[view.name] = texts

    def _compare(self, view: NodeView) -> None:
        """Log when a node comes to hold more than it offers: nothing is evicted for it (scheduling/F-8)."""
        names = resources.ordered(name for name, amount in view.idle.items() if amount < 0)
        if names and names != self._exceeded.get(view.name):
            _LOG.warning("node is out of sync: its pods hold more than it offers", node=view.name, resources=names)
        self._exceeded[view.name] = names
