"""What one job needs, as one statement: places for its tasks, and those who make way for them.

A trade is committed only if the job becomes pipelined with it; else nobody goes (scheduling/CFG-13). What was
committed is kept for its tasks until they are bound (PG-11c). Every eviction says who made way for whom, by which
rule, and what both sides' shares were before and after.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from scheduling import resources
from scheduling.cycle.eviction.needy import needs, seekers
from scheduling.cycle.eviction.room import Namer, Room, in_victim_order
from scheduling.cycle.finder import Finder
from scheduling.cycle.fitting import Candidate, choose, placement_of
from scheduling.cycle.job import Job, Task
from scheduling.cycle.plugin import Vote
from scheduling.cycle.session import Session
from scheduling.cycle.statement import Statement
from scheduling.state.model import Evicted
from scheduling.status import ALLOC, TaskStatus

_HELD = ALLOC | {TaskStatus.PIPELINED}
_DIGITS = 4
Share = Callable[[Job], Fraction]


@dataclass
class Rules:
    """What tells one kind of eviction from another.

    ``reason`` is the word of E-3, ``rule`` says for the record why a victim makes way, ``name`` whom plugins let go,
    ``share`` what the records show of both sides; ``inside`` evicts of the task's own job only, else of others.
    ``failed`` are kinds of tasks (queue, priority and ``Traits.kind``)
    for which no room was found since the last eviction: for another of the kind nobody is asked again.
    """

    session: Session
    reason: str
    rule: Callable[[Task, Task], str]
    name: Namer
    share: Share
    inside: bool = False
    failed: set[Hashable] = field(default_factory=set)


class Trade:
    """Places for one job against victims that are named for it."""

    def __init__(self, rules: Rules, job: Job) -> None:
        self._rules, self._session, self._job = rules, rules.session, job
        session, share = rules.session, rules.share
        self._statement = Statement(session)
        self._before: dict[str, Fraction] = {job.key: share(job)}

    def place_all(self, candidates: Mapping[str, list[Task]], may: Callable[[Task], bool]) -> bool:
        """Find places for the tasks that the job needs; commit if it becomes pipelined, else undo everything."""
        tasks = seekers(self._job)
        for index, task in enumerate(tasks):
            if not needs(self._session, self._job, task) or not may(task):
                continue
            if not self.place(task, candidates) and not self._reaches(len(tasks) - index - 1):
                break
        return self.close()

    def _reaches(self, left: int) -> bool:
        """Tell whether so many more places could still make the gang ready."""
        job = self._job
        if not self._session.plugins("pipelined"):
            return True
        return job.ready + job.pipelined + job.pending_best_effort + left >= job.minimum

    def place(self, task: Task, candidates: Mapping[str, list[Task]]) -> bool:
        """Find a place for one task: where nobody must go, else on the best node where enough may (CFG-13)."""
        free = self._free(task)
        if free is not None:
            # What is free already is for backfill to give to a best-effort task.
            if not task.traits.best_effort:
                self._put(task, free)
            return True
        kind = None if task.traits.kind is None else (task.job.queue.name, task.job.priority, task.traits.kind)
        clean = not len(self._statement)
        if self._session.prepare(task) or (clean and kind in self._rules.failed):
            return False
        room = Room(self._session, self._statement, task, self._rules.name, self._evicted)
        for name in self._by_score(task, candidates):
            there = self._there(task, name, candidates[name])
            named = self._rules.name(task, there) if there else []
            found = room.on(name, there, named) if named else None
            if found is not None:
                self._put(task, found)
                task.nominated = name
                return True
        if clean and kind is not None:
            self._rules.failed.add(kind)
        return False

    def evict(self, task: Task, victim: Task) -> None:
        """Make a victim go, for a task of the job."""
        self._statement.evict(victim, self._evicted(task, victim))

    def spare(self, victim: Task) -> None:
        """Let a victim stay after all."""
        self._statement.spare(victim)

    def undo_places(self) -> None:
        """Take the places back that were found since the last eviction."""
        places = self._statement.places
        self._statement.undo(len(self._statement) - len(places))

    @property
    def places(self) -> int:
        """How many tasks have a place by it."""
        return len(self._statement.places)

    def take_free(self, task: Task) -> None:
        """Find a place for a task where nobody must go any more."""
        free = None if self._session.prepare(task) else self._free(task)
        if free is not None:
            self._put(task, free)

    def _free(self, task: Task) -> Candidate | None:
        if self._session.allocatable(task):
            return None
        found = Finder(self._session, self._rules.reason).find(task).candidates
        return choose(self._session, task, found) if found else None

    def _there(self, task: Task, name: str, candidates: Sequence[Task]) -> list[Task]:
        """Return who may be asked on a node, in the order in which they are taken (PG-11a).

        Nobody where all of them would not leave enough: that is seen at once.
        """
        asked = [victim for victim in candidates if self._may_ask(task, victim)]
        request = task.traits.request
        room = resources.total([self._session.views[name].future_idle, *(victim.traits.request for victim in asked)])
        if resources.exceeded(request, room, request):
            return []
        return in_victim_order(self._session, asked)

    def _may_ask(self, task: Task, victim: Task) -> bool:
        """A best-effort task never evicts one that is not (CFG-13)."""
        if victim.status not in ALLOC or (victim.job is task.job) is not self._rules.inside:
            return False
        return victim.traits.best_effort or not task.traits.best_effort

    def _by_score(self, task: Task, names: Iterable[str]) -> list[str]:
        views = [self._session.views[name] for name in sorted(names)]
        if len(views) < 2:
            return [view.name for view in views]
        scores = self._session.scores(task, views)
        return sorted(scores, key=lambda name: (-scores[name], name))

    def _evicted(self, task: Task, victim: Task) -> Evicted:
        self._before.setdefault(victim.job.key, self._rules.share(victim.job))
        return Evicted(victim.uid, self._rules.reason, for_group=self._job.key, rule=self._rules.rule(task, victim))

    def _put(self, task: Task, found: Candidate) -> None:
        self._statement.pipeline(task, placement_of(task, found))

    def close(self) -> bool:
        """Commit if somebody goes and the job becomes pipelined; else undo everything. Tell which."""
        if not self._statement.evicted or not self.complete:
            self._statement.discard()
            return False
        for task in self._statement.places:
            self._session.promise(task)
        self._job.turn_failed = False
        self._rules.failed.clear()
        self._statement.explain(self._told)
        self._statement.keep()
        return True

    @property
    def complete(self) -> bool:
        """Tell whether the job becomes pipelined, and nobody says no: sla's yes makes no gang whole."""
        plugins = self._session.plugins("pipelined")
        return self._session.pipelined(self._job) and all(p.pipelined(self._job) is not Vote.NO for p in plugins)

    def drop(self) -> None:
        """Undo everything that was not committed."""
        self._statement.discard()

    def _told(self, victim: Task, evicted: Evicted) -> Evicted:
        return replace(evicted, victim_share=self._shown(victim.job), preemptor_share=self._shown(self._job))

    def _shown(self, job: Job) -> str:
        return f"{_text(self._before[job.key])} -> {_text(self._rules.share(job))}"


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


def by_node(session: Session, tasks: Iterable[Task]) -> dict[str, list[Task]]:
    """Return by node those of the tasks that may be asked to go (AS-11); the node must be known (AL-1)."""
    found: dict[str, list[Task]] = {}
    for task in tasks:
        view = session.views.get(task.node)
        if task.traits.preemptable and view is not None and view.node is not None:
            found.setdefault(task.node, []).append(task)
    return found


def tasks_of(session: Session) -> Iterator[Task]:
    """Visit all tasks, in the order of their jobs' keys."""
    for job in session.standing.in_key_order():
        yield from job.tasks
