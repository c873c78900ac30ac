"""Eviction gang by gang: a needy job against bundles of others (scheduling/GP-2 to GP-6).

Bundles are added one by one. As soon as the sums could do, all that the job lacks is tried with filters and cards; if
it fits, bundles without which it fits as well are given back, the last added first, and the rest is committed as one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from scheduling.config.arguments import boolean
from scheduling.cycle.eviction.bundles import Bundle, covers, freed, lacking, ranked, room_in_future
from scheduling.cycle.eviction.needy import may_preempt, needs
from scheduling.cycle.eviction.trade import Rules, Trade
from scheduling.cycle.job import Job, Task
from scheduling.cycle.session import Session


def allows_whole(session: Session, action: str) -> bool:
    """Return the argument ``allowWholeBundle`` (GP-1). ``maxDomains`` means nothing: the cluster is the one domain."""
    return boolean(session.config.action_arguments.get(action, {}), "allowWholeBundle", True)


class GangTrade:
    """Room for all that one job lacks; ``may`` says which of its tasks may take places at all."""

    def __init__(self, rules: Rules, job: Job, may: Callable[[Task], bool]) -> None:
        self._rules, self._session, self._job, self._may = rules, rules.session, job, may
        self._gangs = bool(rules.session.plugins("pipelined"))
        self._free: int | None = 0
        self._tasks = [task for task in job.waiting() if not task.traits.refused and may_preempt(task)]

    def make_room(
        self,
        bundles: Sequence[Bundle],
        place: Callable[[Job], Any],
        shrink: Callable[[Sequence[Bundle], Bundle], Bundle | None] = lambda _, bundle: bundle,
    ) -> bool:
        """Evict as few bundles as it takes; nobody if nothing fits. Tell whether it was committed.

        ``shrink`` says what of a bundle may still go when others were added before.
        """
        self._free = self._places([]) if self._tasks else None
        if self._free is None:
            return False
        asked = lacking(self._job, self._tasks)
        room = room_in_future(self._session)
        added: list[Bundle] = []
        for bundle in ranked(self._session, bundles, asked, place, self._session.total):
            left = shrink(added, bundle)
            if left is None:
                continue
            added.append(left)
            if covers(room, freed(added), asked) and self._fits(added):
                return self._commit(self._give_back(added))
        return False

    def _give_back(self, added: list[Bundle]) -> list[Bundle]:
        """Leave out bundles that it can do without, the last added first (GP-5); the very last one is needed."""
        kept = list(added)
        for bundle in reversed(added[:-1]):
            without = [other for other in kept if other is not bundle]
            if self._fits(without):
                kept = without
        return kept

    def _fits(self, bundles: Sequence[Bundle]) -> bool:
        places = self._places(bundles)
        return places is None or (not self._gangs and places > (self._free or 0))

    def _places(self, bundles: Sequence[Bundle]) -> int | None:
        """Return how many places there are without these bundles, None if that is enough; nothing is changed.

        Where no plugin knows gangs, it is never enough: there each bundle must give one place more.
        """
        tried = [(task, task.trial) for task in self._tasks]
        trade = self._tried(bundles)
        places = None if self._gangs and trade.complete else trade.places
        trade.drop()
        for task, trial in tried:
            task.trial = trial
        return places

    def _commit(self, bundles: Iterable[Bundle]) -> bool:
        return self._tried(bundles).close()

    def _tried(self, bundles: Iterable[Bundle]) -> Trade:
        """Evict the bundles and place what the job needs."""
        trade = Trade(self._rules, self._job)
        for bundle in bundles:
            for victim in bundle.tasks:
                trade.evict(self._tasks[0], victim)
        for task in self._tasks:
            if needs(self._session, self._job, task) and self._may(task):
                trade.take_free(task)
        return trade
