"""Judging one class of plain pods on many nodes at once, over the columns (design section 5).

What it says of a node is what ``fitting.judge`` and ``Session.scores`` say of it; rows that are ``special`` it does not
speak for. It needs every plugin that filters or scores to answer for columns too; without that, and for demands that
choose among cards, every node is judged by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from scheduling import resources
from scheduling.cycle.job import Task
from scheduling.cycle.plugin import Plugin
from scheduling.devices.columns import plain_demand
from scheduling.devices.fitting import REASON
from scheduling.nodes.columns import AMOUNT_MAX, CPU_MAX, FITS, MEMORY_MAX, Codes, Integers, NodeColumns, Where
from scheduling.resources import CPU, MEMORY, PODS

if TYPE_CHECKING:
    from scheduling.cycle.session import Session

#: Weights above this are nobody's; with those below, scores stay within 64 bits.
WEIGHT_MAX = 1_000_000


class Bulk:
    """The plugins of one session as far as they answer for columns."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._checks, self._scores = session.plugins("check"), session.plugins("scores")
        self.able = all(type(plugin).check_at is not Plugin.check_at for plugin in self._checks)
        self.able = self.able and all(type(plugin).scores_at is not Plugin.scores_at for plugin in self._scores)
        self._cards_are_checked = any(plugin.name == "deviceshare" for plugin in self._checks)
        weights: Sequence[int] = [weight for plugin in self._scores for weight in plugin.weights()]
        self.bounded = all(abs(weight) <= WEIGHT_MAX for weight in weights)

    def speaks_for(self, task: Task) -> bool:
        """Tell whether a task's class can be judged in columns at all."""
        demand, request, asked = task.traits.demand, task.traits.request, task.pod.request
        if not self.able or demand.refusal or (demand.kind != "none" and not plain_demand(demand)):
            return False
        if any(abs(value) >= AMOUNT_MAX for value in request.values()):
            return False
        return abs(asked.get(CPU, 0)) < CPU_MAX and abs(asked.get(MEMORY, 0)) < MEMORY_MAX

    def judge(self, task: Task, where: Where) -> tuple[Codes, Integers] | None:
        """Return each node's reason as a code, and its score, which counts where the code is 0.

        None if the columns cannot say.
        """
        columns = self._session.memo.columns_of(self._session)
        scores = np.zeros(len(columns.live[where]), dtype=np.int64)
        with self._session.stages.during("scoring"):
            for plugin in self._scores:
                found = plugin.scores_at(task, columns, where)
                if found is None:
                    return None
                scores += found
        codes = short_at(task, columns, where)
        for plugin in self._checks:
            plugin.check_at(task, columns, where, codes)
        if not self._cards_are_checked:
            # Whatever is configured, the cards are looked at (devices/R-1a).
            cards_at(task, columns, where, codes)
        return codes, scores


def short_at(task: Task, columns: NodeColumns, where: Where) -> Codes:
    """Return the first dimension that is short, as a code (AL-19)."""
    codes: Codes = np.zeros(len(columns.live[where]), dtype=np.int16)
    request = task.traits.request
    for name in resources.ordered(name for name, asked in request.items() if asked > 0 and name != PODS):
        short = columns.idle(name)[where] < request[name]
        if short.any():
            codes[short & (codes == FITS)] = columns.reasons.code(f"Insufficient {name}")
    return codes


def cards_at(task: Task, columns: NodeColumns, where: Where, codes: Codes) -> None:
    """Note where the cards do not take a task: no registered node, or too few cards with a share (devices/F-1)."""
    demand = task.traits.demand
    if demand.kind == "none":
        return
    request, cards = demand.requests[0], columns.cards
    fits = cards.registered[where] & cards.enough(cards.takes(request, where), request)
    codes[(codes == FITS) & ~fits] = columns.reasons.code(REASON)
