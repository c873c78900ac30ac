"""The cards of all nodes in columns, for demands of one container that any card may serve (devices/F-2).

Arrays are laid out card by card, so that one question to all nodes is one pass over memory. A card that takes nobody
(F-2 tests 2, 4 and 9: not usable, no share left, another kind of device) has less than nothing free.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scheduling.devices.arguments import BINPACK, SPREAD
from scheduling.devices.books import NodeDevices
from scheduling.devices.cards import Card
from scheduling.devices.record import DEVICE_TYPE
from scheduling.devices.request import ContainerRequest, Demand

Truths: TypeAlias = NDArray[np.bool_]
Integers: TypeAlias = NDArray[np.int64]
Places: TypeAlias = NDArray[np.intp]

#: Amounts of a card above these are none of the columns' matter.
MEMORY_MAX, CORES_MAX, SHARES_MAX = 1 << 40, 1 << 14, 1 << 14


def plain_demand(demand: Demand) -> bool:
    """Tell whether the columns can answer a demand: one container, no choice of cards, no mode, no rules."""
    if demand.kind != "vgpu" or demand.refusal or len(demand.requests) != 1 or demand.chooses:
        return False
    request = demand.requests[0]
    return not (demand.mode or demand.spread or demand.rules) and 0 <= request.memory < MEMORY_MAX


class CardColumns:
    """One row of arrays for each place of a card on a node, one column a node."""

    def __init__(self, nodes: int, cards: int) -> None:
        shape = (cards, nodes)
        self.free = np.full(shape, -1, dtype=np.int64)
        self.memory = np.zeros(shape, dtype=np.int64)
        self.cores = np.zeros(shape, dtype=np.int16)
        self.shares = np.zeros(shape, dtype=np.int16)
        self.index = np.zeros(shape, dtype=np.int64)
        self.count = np.zeros(nodes, dtype=np.int64)
        self.registered = np.zeros(nodes, dtype=np.bool_)

    def read(self, place: int, devices: NodeDevices) -> bool:
        """Read the cards of one node; False if the columns cannot speak for them."""
        cards = devices.cards
        if devices.faulty or len(cards) > len(self.free) or not all(map(_plain, cards)):
            return False
        missing = len(self.free) - len(cards)
        self.free[:, place] = [_free(card) for card in cards] + [-1] * missing
        self.memory[:, place] = [card.spec.memory for card in cards] + [0] * missing
        self.cores[:, place] = [card.used_cores for card in cards] + [0] * missing
        self.shares[:, place] = [len(card.holders) for card in cards] + [0] * missing
        self.index[:, place] = [card.spec.index for card in cards] + [0] * missing
        self.count[place], self.registered[place] = len(cards), devices.is_vgpu_node
        return True

    def takes(self, request: ContainerRequest, where: Places | slice) -> Truths:
        """Return which cards take a share of a request (F-2 tests 2 to 10)."""
        free, cores = self.free[:, where], self.cores[:, where]
        found: Truths = free >= self._asked(request, where)
        if request.cores:
            found &= cores <= 100 - request.cores
            if request.cores == 100:
                found &= self.shares[:, where] == 0
        else:
            found &= cores != 100
        return found

    def _asked(self, request: ContainerRequest, where: Places | slice) -> Integers | int:
        if request.percentage is None:
            return request.memory
        memory = self.memory[:, where]
        return memory if request.percentage == 100 else memory * request.percentage // 100

    def enough(self, takes: Truths, request: ContainerRequest) -> Truths:
        """Return which nodes have as many such cards as are asked for."""
        if request.count == 1:
            some: Truths = np.logical_or.reduce(takes, axis=0)
            return some
        many: Truths = np.add.reduce(takes, axis=0, dtype=np.int64) >= request.count
        return many

    def score(self, takes: Truths, request: ContainerRequest, policy: str, where: Places | slice) -> Integers:
        """Return the node score of one card (F-12, F-13), before its weight, for nodes with a card that takes it."""
        nodes = np.arange(takes.shape[1])
        memory, shares = self.memory[:, where], self.shares[:, where].astype(np.int64)
        if policy == SPREAD:
            order = np.where(takes, shares, np.iinfo(np.int64).max)
            chosen = self._first(order, where)
            empty = (shares[chosen, nodes] == 0) & (memory[chosen, nodes] > 0)
            return np.where(empty, 100, 0)
        if policy != BINPACK:
            return np.zeros(takes.shape[1], dtype=np.int64)
        used = memory - self.free[:, where]
        chosen = self._first(np.where(takes, -used, np.iinfo(np.int64).max), where)
        asked = self._asked(request, where)
        after = used[chosen, nodes] + (asked if isinstance(asked, int) else asked[chosen, nodes])
        whole = memory[chosen, nodes]
        # Rounded half up: floor(x + 1/2).
        return np.where(whole > 0, (200 * after + whole) // np.maximum(2 * whole, 1), 0)

    def _first(self, order: Integers, where: Places | slice) -> Places:
        """Return the card with the least value of each node, of equal ones the least index (F-5)."""
        best = order.min(axis=0)
        index = np.where(order == best, self.index[:, where], np.iinfo(np.int64).max)
        chosen: Places = index.argmin(axis=0)
        return chosen


def _plain(card: Card) -> bool:
    return (
        not card.is_mig
        and 0 <= card.used_memory < MEMORY_MAX
        and 0 <= card.spec.memory < MEMORY_MAX
        and 0 <= card.used_cores < CORES_MAX
        and len(card.holders) < SHARES_MAX
    )


def _free(card: Card) -> int:
    if not card.usable or len(card.holders) >= card.spec.shares or DEVICE_TYPE not in card.spec.type:
        return -1
    return max(card.spec.memory - card.used_memory, -1)
