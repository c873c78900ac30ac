"""Eviction gang by gang: a needy job against bundles of others (scheduling/GP-2 to GP-6).

Bundles are added one by one. As soon as the sums could do, all that the job lacks is tried with filters and cards; if
it fits, bundles without which it fits as well are given back, the last added first, and the rest is committed as one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
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
        self._tasks = [task for task in job.waiting() if not task.traits.refused and may_preempt(task)]
        self._trials = [(task, task.trial) for task in self._tasks]
        self._trade = Trade(rules, job)
        self._free = 0

    def make_room(
        self,
        bundles: Sequence[Bundle],
        place: Callable[[Job], Any],
        shrink: Callable[[Bundle], Bundle | None] = lambda bundle: bundle,
    ) -> bool:
        """Evict as few bundles as it takes; nobody if nothing fits. Tell whether it was committed.

        ``shrink`` says what of a bundle may still go once others were added before.
        """
        kind = self._kind()
        if not self._tasks or kind in self._rules.failed or not self._lacks():
            return False
        chosen = self._give_back(self._added(bundles, place, shrink))
        self._trade.drop()
        if not chosen:
            self._forget()
            if kind is not None:
                self._rules.failed.add(kind)
            return False
        for bundle in chosen:
            self._evict(bundle)
        self._place()
        return self._trade.close()

    def _kind(self) -> Hashable | None:
        """Return what the answer depends on besides the state, None if other jobs do not have the same."""
        kinds = tuple(task.traits.kind for task in self._tasks)
        missing = max(self._job.minimum - self._job.ready - self._job.pipelined, 0)
        return None if None in kinds else (self._job.queue.name, self._job.priority, missing, kinds)

    def _lacks(self) -> bool:
        """Tell whether it does not fit without anybody going; where no plugin knows gangs, more is always better."""
        self._place()
        enough = self._gangs and self._trade.complete
        self._free = self._trade.places
        self._trade.undo_places()
        return not enough

    def _added(
        self, bundles: Sequence[Bundle], place: Callable[[Job], Any], shrink: Callable[[Bundle], Bundle | None]
    ) -> list[Bundle]:
        """Evict bundle by bundle until what the job lacks fits; nobody in the list if it never does."""
        asked = lacking(self._job, self._tasks)
        room = room_in_future(self._session)
        if not covers(room, freed(bundles), asked):
            return []
        added: list[Bundle] = []
        for bundle in ranked(self._session, bundles, asked, place, self._session.total):
            left = shrink(bundle)
            if left is None:
                continue
            added.append(left)
            self._evict(left)
            if covers(room, freed(added), asked) and self._fits():
                return added
        return []

    def _give_back(self, added: list[Bundle]) -> list[Bundle]:
        """Leave out bundles that it can do without, the last added first (GP-5); the very last one is needed."""
        kept = list(added)
        for bundle in reversed(added[:-1]):
            for victim in bundle.tasks:
                self._trade.spare(victim)
            if self._fits():
                kept.remove(bundle)
            else:
                self._evict(bundle)
        return kept

    def _evict(self, bundle: Bundle) -> None:
        for victim in bundle.tasks:
            self._trade.evict(self._tasks[0], victim)

    def _place(self) -> None:
        for task in self._tasks:
            if needs(self._session, self._job, task) and self._may(task):
                self._trade.take_free(task)

    def _fits(self) -> bool:
        """Tell whether there are the places that the job lacks now; they are not taken."""
        self._place()
        fits = self._trade.complete and self._trade.places > self._free
        self._trade.undo_places()
        return fits

    def _forget(self) -> None:
        """Nobody goes, so nothing is said of the places that were tried."""
        for task, trial in self._trials:
            task.trial = trial
