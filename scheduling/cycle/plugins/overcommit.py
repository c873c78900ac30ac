"""overcommit: no more is let in than the cluster could hold, with a surcharge (scheduling/CFG-13, E-8)."""

from __future__ import annotations

from fractions import Fraction

from scheduling import resources
from scheduling.config.arguments import number
from scheduling.cycle.accounts import gated, min_resources, over, reserves_nothing, sums_of
from scheduling.cycle.job import Job
from scheduling.cycle.plugin import Plugin, Vote
from scheduling.reasons.kinds import Overused

_DEFAULT = Fraction(12, 10)


class OvercommitPlugin(Plugin):
    """Gates the enqueue action on the whole cluster."""

    name = "overcommit"

    def opened(self) -> None:
        factor = number(self.arguments, "overcommit-factor", _DEFAULT)
        self._factor = factor if factor >= 1 else _DEFAULT
        self._used = resources.total(self.session.views[name].used for name in self.session.names)
        self._inqueue = resources.total(sums_of(self.session, job).reserved for job in self.session.jobs.values())

    def enqueueable(self, job: Job) -> Vote:
        least = min_resources(self.session, job)
        if least is None:
            return Vote.YES
        names = set(least) | set(self.session.total)
        free = {
            name: self.session.total.get(name, 0) * self._factor - self._used.get(name, 0) for name in sorted(names)
        }
        over_names = over(resources.add(self._inqueue, least), free, least)
        if not over_names:
            return Vote.YES
        job.refusal = job.event = Overused(tuple(over_names))
        return Vote.NO

    def enqueued(self, job: Job) -> None:
        least = min_resources(self.session, job)
        if least is not None and not reserves_nothing(job):
            kept = resources.subtract(least, gated(job))
            self._inqueue = resources.add(self._inqueue, {name: max(value, 0) for name, value in kept.items()})
