"""The nodes in columns: what judging and scoring need of each node as arrays of integers, one place a node.

The columns stand beside the immutable books (``NodeView``) and follow them: a row is read again when its view is
another one. They say nothing that the books do not say; ``scheduling.cycle.bulk`` judges thousands of rows at once.
Rows that the columns cannot speak for (``special``: something ends or is promised there, MIG, an unreadable record,
amounts beyond 64 bits) are judged one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduling.devices.columns import CardColumns
from scheduling.nodes.view import NodeView
from scheduling.objects import Node
from scheduling.resources import CPU, MEMORY, PODS

Integers: TypeAlias = NDArray[np.int64]
Codes: TypeAlias = NDArray[np.int16]
Where: TypeAlias = NDArray[np.intp] | slice

#: The code of no reason: the node takes the pod.
FITS = 0

#: Above these a node is special: products of two such amounts stay within 64 bits, or are found not to.
CPU_MAX, MEMORY_MAX, AMOUNT_MAX = 1 << 31, 1 << 50, 1 << 60


class Reasons:
    """Reasons by code; 0 is none."""

    def __init__(self) -> None:
        self.words: list[str] = [""]
        self._codes: dict[str, int] = {}

    def code(self, word: str) -> int:
        """Return the code of a reason."""
        found = self._codes.get(word)
        if found is None:
            found = self._codes[word] = len(self.words)
            self.words.append(word)
        return found


class NodeColumns:
    """The rows of all nodes that exist, in the order of their names.

    ``read`` is how much of the list of changes they have taken in. ``fixed`` keeps, for each kind of rule about nodes
    themselves, the code of every node.
    """

    def __init__(self, names: list[str], views: Mapping[str, NodeView], reasons: Reasons) -> None:
        count = len(names)
        self.names, self.read, self.reasons = names, 0, reasons
        self.place = {name: index for index, name in enumerate(names)}
        self.special = np.zeros(count, dtype=np.bool_)
        self.live, self.pods = _zeros(count), _zeros(count)
        # What is divided by is never 0, in rows that are special neither.
        self.room = {CPU: _zeros(count) + 1, MEMORY: _zeros(count) + 1}
        self.used = {CPU: _zeros(count), MEMORY: _zeros(count)}
        self.assumed = {CPU: _zeros(count), MEMORY: _zeros(count)}
        self.views: list[NodeView] = [views[name] for name in names]
        self.cards = CardColumns(count, max((len(view.devices.books) for view in self.views), default=0))
        self._idle: dict[str, Integers] = {}
        self._more: dict[str, tuple[Integers, Integers]] = {}
        self._fixed: dict[object, Codes | None] = {}
        for index in range(count):
            self._read(index)

    def update(self, names: Iterable[str], views: Mapping[str, NodeView]) -> None:
        """Read the rows of these nodes again."""
        for name in names:
            index = self.place.get(name)
            if index is None:
                continue
            before, view = self.views[index], views[name]
            if view is before:
                continue
            self.views[index] = view
            if not _alike(before.node, view.node):
                self._fixed.clear()
            self._read(index)

    def _read(self, index: int) -> None:
        view = self.views[index]
        sums, room = view.sums, view.room
        cpu, memory = room.get(CPU, 0), room.get(MEMORY, 0)
        used_cpu, used_memory = sums.used.get(CPU, 0), sums.used.get(MEMORY, 0)
        odd = not (0 < cpu < CPU_MAX and 0 < memory < MEMORY_MAX)
        odd = odd or max(used_cpu, sums.cpu) >= CPU_MAX or max(used_memory, sums.memory) >= MEMORY_MAX
        odd = odd or bool(sums.releasing) or bool(sums.pipelined) or room.get(PODS, 0) >= AMOUNT_MAX
        odd = odd or not self.cards.read(index, view.devices)
        odd = odd or any(abs(value) >= AMOUNT_MAX for value in view.idle.values())
        self.special[index] = odd
        if odd:
            return
        self.live[index], self.pods[index] = sums.live, room.get(PODS, 0)
        self.room[CPU][index], self.room[MEMORY][index] = cpu, memory
        self.used[CPU][index], self.used[MEMORY][index] = used_cpu, used_memory
        self.assumed[CPU][index], self.assumed[MEMORY][index] = sums.cpu, sums.memory
        for name, column in self._idle.items():
            column[index] = view.idle.get(name, 0)
        for name, (rooms, useds) in self._more.items():
            rooms[index], useds[index] = room.get(name, 0), sums.used.get(name, 0)

    def idle(self, name: str) -> Integers:
        """Return what is idle of a resource."""
        found = self._idle.get(name)
        if found is None:
            found = self._idle[name] = self._column(lambda view: view.idle.get(name, 0))
        return found

    def room_and_used(self, name: str) -> tuple[Integers, Integers]:
        """Return what there is of a resource, and what of it is used."""
        if name in self.room:
            return self.room[name], self.used[name]
        found = self._more.get(name)
        if found is None:
            found = self._more[name] = (
                self._column(lambda view: view.room.get(name, 0)),
                self._column(lambda view: view.used.get(name, 0)),
            )
        return found

    def _column(self, value: Callable[[NodeView], int]) -> Integers:
        found = _zeros(len(self.names))
        for index, view in enumerate(self.views):
            if not self.special[index]:
                found[index] = value(view)
        return found

    def fixed(self, key: object, code: Callable[[Node], int]) -> Codes | None:
        """Return what a kind of rule (``key``) says of each node itself; None if it is nothing of any node."""
        if key not in self._fixed:
            nodes = (view.node for view in self.views)
            codes = np.array([code(node) if node is not None else 0 for node in nodes], dtype=np.int16)
            self._fixed[key] = codes if codes.any() else None
        return self._fixed[key]


def _zeros(count: int) -> Integers:
    return np.zeros(count, dtype=np.int64)


def _alike(before: Node | None, after: Node | None) -> bool:
    """Tell whether rules about nodes say the same of two forms of a node."""
    if before is after:
        return True
    if before is None or after is None:
        return False
    return (before.labels, before.taints, before.unschedulable) == (after.labels, after.taints, after.unschedulable)
