"""What one job needs, as one statement: places for its tasks, and those who make way for them.

A trade is committed only if the job becomes pipelined with it; else nobody goes (scheduling/CFG-13). What was
committed is kept for its tasks until they are bound (PG-11c). Every eviction says who made way for whom, by which
rule, and what both sides' shares were before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from scheduling.cycle.eviction.needy import needs, seekers
from scheduling.cycle.eviction.room import Namer, Room, accepts, in_victim_order
from scheduling.cycle.fitting import Candidate, placement_of
from scheduling.cycle.job import Job, Task
from scheduling.cycle.session import Session
from scheduling.cycle.statement import Statement
from scheduling.state.model import Evicted
from scheduling.status import ALLOC, TaskStatus

_HELD = ALLOC | {TaskStatus.PIPELINED}
_DIGITS = 4
Share = Callable[[Job], Fraction]


class Trade:
    """Places for one job against victims that are named for it.

    ``places`` are the tasks that may be asked to go, by node. ``share`` is what the records show of both sides.
    """

    def __init__(
        self, session: Session, job: Job, reason: str, rule: Callable[[Task, Task], str], name: Namer, share: Share
    ) -> None:
        self._session, self._job = session, job
        self._reason, self._rule, self._name, self._share = reason, rule, name, share
        self._statement = Statement(session)
        self._before: dict[str, Fraction] = {job.key: share(job)}

    def place_all(self, candidates: Mapping[str, list[Task]], may: Callable[[Task], bool]) -> bool:
        """Find places for the tasks that the job needs; commit if it becomes pipelined, else undo everything."""
        for task in seekers(self._job):
            if needs(self._session, self._job, task) and may(task):
                self.place(task, candidates)
        return self.close()

    def place(self, task: Task, candidates: Mapping[str, list[Task]]) -> bool:
        """Find a place for one task: where nobody must go, else on the best node where enough may (CFG-13)."""
        free = self._free(task)
        if free is not None:
            # What is free already is for backfill to give to a best-effort task.
            if not task.traits.best_effort:
                self._put(task, free)
            return True
        room = Room(self._session, self._statement, task, self._name, self._evicted)
        there = self._there(task, candidates)
        named = self._named(task, there)
        for name in self._by_score(task, named):
            found = room.on(name, there[name], named[name])
            if found is not None:
                self._put(task, found)
                task.nominated = name
                return True
        return False

    def _free(self, task: Task) -> Candidate | None:
        names = self._by_score(task, {name: [] for name in self._session.names if accepts(self._session, task, name)})
        return accepts(self._session, task, names[0]) if names else None

    def _there(self, task: Task, candidates: Mapping[str, list[Task]]) -> dict[str, list[Task]]:
        """Return by node who may be asked, in the order in which they are taken (PG-11a)."""
        found = {}
        for name in sorted(candidates):
            asked = [victim for victim in candidates[name] if self._may_ask(task, victim)]
            if asked:
                found[name] = in_victim_order(self._session, asked)
        return found

    def _named(self, task: Task, there: Mapping[str, list[Task]]) -> dict[str, list[Task]]:
        """Return by node whom the plugins name."""
        found = {name: self._name(task, asked) for name, asked in there.items()}
        return {name: named for name, named in found.items() if named}

    @staticmethod
    def _may_ask(task: Task, victim: Task) -> bool:
        """A best-effort task never evicts one that is not (CFG-13)."""
        return victim.status in ALLOC and (victim.traits.best_effort or not task.traits.best_effort)

    def _by_score(self, task: Task, named: Mapping[str, list[Task]]) -> list[str]:
        views = [self._session.views[name] for name in sorted(named)]
        if len(views) < 2:
            return [view.name for view in views]
        scores = self._session.scores(task, views)
        return sorted(named, key=lambda name: (-scores[name], name))

    def _evicted(self, task: Task, victim: Task) -> Evicted:
        self._before.setdefault(victim.job.key, self._share(victim.job))
        return Evicted(victim.uid, self._reason, for_group=self._job.key, rule=self._rule(task, victim))

    def _put(self, task: Task, found: Candidate) -> None:
        self._statement.pipeline(task, placement_of(task, found))

    def close(self) -> bool:
        """Commit if somebody goes and the job becomes pipelined; else undo everything. Tell which."""
        if not self._statement.evicted or not self._session.pipelined(self._job):
            self._statement.discard()
            return False
        for task in self._statement.places:
            task.promised = True
        self._job.turn_failed = False
        self._statement.explain(self._told)
        self._statement.commit(self._job)
        return True

    def drop(self) -> None:
        """Undo everything that was not committed."""
        self._statement.discard()

    def _told(self, victim: Task, evicted: Evicted) -> Evicted:
        return replace(evicted, victim_share=self._shown(victim.job), preemptor_share=self._shown(self._job))

    def _shown(self, job: Job) -> str:
        return f"{_text(self._before[job.key])} -> {_text(self._share(job))}"


def _text(share: Fraction) -> str:
    """Return a share in decimals, rounded down."""
    scaled = int(share * 10**_DIGITS)
    return f"{scaled // 10**_DIGITS}.{scaled % 10**_DIGITS:0{_DIGITS}d}"


def share_of(session: Session, tasks: Iterable[Task]) -> Fraction:
    """Return the largest part of the cluster that tasks hold of a resource (as Q-25), promised places included."""
    held: dict[str, int] = {}
    for task in tasks:
        if task.status in _HELD:
            for name, value in task.charge.items():
                held[name] = held.get(name, 0) + value
    shares = (Fraction(value, session.total[name]) for name, value in held.items() if session.total.get(name, 0) > 0)
    return max(shares, default=Fraction(0))


def candidates_by_node(session: Session, may_go: Callable[[Task], bool]) -> dict[str, list[Task]]:
    """Return the tasks that may be asked to go, by node."""
    found: dict[str, list[Task]] = {}
    for job in session.jobs.values():
        for task in job.tasks:
            if task.traits.preemptable and may_go(task):
                view = session.views.get(task.node)
                if view is not None and view.node is not None:
                    found.setdefault(task.node, []).append(task)
    return found
