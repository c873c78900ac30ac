"""overcommit: no more is let in than the cluster could hold, with a surcharge (scheduling/CFG-13, E-8)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property
from typing import Final

from scheduling import resources
from scheduling.config.arguments import number
from scheduling.cycle.accounts import gated, min_resources, reserves_nothing
from scheduling.cycle.job import Job
from scheduling.cycle.plugin import Plugin, Vote
from scheduling.reasons.kinds import Overused

_DEFAULT = Fraction(12, 10)
_GATE: Final = ("overcommit", "cluster", "")


class OvercommitPlugin(Plugin):
    """Gates the enqueue action on the whole cluster."""

    name = "overcommit"

    def opened(self) -> None:
        factor = number(self.arguments, "overcommit-factor", _DEFAULT)
        self._factor = factor if factor >= 1 else _DEFAULT
        self._inqueue = resources.total(sums.reserved for sums in self.session.standing.totals.values())

    @cached_property
    def _free(self) -> dict[str, Fraction]:
        """What the cluster has with the surcharge, beyond what was used before anything was tried."""
        used = resources.total(self.session.model.nodes[name].used for name in self.session.names)
        names = {*used, *self.session.total}
        return {name: self.session.total.get(name, 0) * self._factor - used.get(name, 0) for name in names}

    def enqueueable(self, job: Job) -> Vote:
        least = min_resources(self.session, job)
        if least is None:
            return Vote.YES
        over_names = self.over(_GATE, least, self._room)
        if not over_names:
            return Vote.YES
        job.refusal = job.event = Overused(tuple(over_names))
        return Vote.NO

    def _room(self, name: str) -> Fraction:
        return self._free.get(name, Fraction(0)) - self._inqueue.get(name, 0)

    def room(self, what: str, queue: str) -> Callable[[str], int | Fraction]:
        return self._room

    def enqueued(self, job: Job) -> None:
        least = min_resources(self.session, job)
        if least is not None and not reserves_nothing(job):
            kept = resources.subtract(least, gated(job))
            self._inqueue = resources.add(self._inqueue, {name: max(value, 0) for name, value in kept.items()})
