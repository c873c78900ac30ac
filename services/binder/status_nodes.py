"""Warnings about nodes and their cards, told as events on the Node (devices/N-5, N-7, N-10, N-13, A-18)."""

from __future__ import annotations

from collections.abc import Iterator

from events.kinds import NODE
from scheduling.devices.books import NodeDevices
from scheduling.state.model import Model
from services.binder.recorder import Recorder, Subject
from services.binder.written import Due


class NodeStatus:
    """Tells each text once for each node; books that have not changed are not looked at again."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._books: dict[str, NodeDevices] = {}
        self._told: dict[str, set[str]] = {}

    def due(self, model: Model) -> Iterator[Due]:
        """Record what is new; there is nothing to write."""
        for name, view in model.nodes.items():
            if view.node is None or self._books.get(name) is view.devices:
                continue
            self._books[name] = view.devices
            texts = set(view.devices.warnings)
            subject = Subject(NODE, "", name, view.node.uid)
            for text in sorted(texts - self._told.get(name, set())):
                self._recorder.emit(subject, "Warning", "DeviceWarning", text, again=False)
            self._told[name] = texts
        for name in self._books.keys() - model.nodes.keys():
            del self._books[name], self._told[name]
        yield from ()
