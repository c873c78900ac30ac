"""Room for one task on one node: whom it takes, one by one, and whom it can do without.

Victims are taken in their order until queue, resources and filters, cards included, accept the task there; then each
whom it can do without is given back, the last taken first (scheduling/CFG-13). Where all of them are not enough, the
node gets back exactly what it had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from scheduling.cycle.fitting import Candidate, judge
from scheduling.cycle.job import Task
from scheduling.cycle.session import Session
from scheduling.cycle.statement import Statement
from scheduling.reasons.kinds import Refused
from scheduling.state.model import Evicted
from scheduling.status import TaskStatus

#: Whose place may be asked for by preempt; reclaim takes running ones only.
PLACED = (TaskStatus.BOUND, TaskStatus.RUNNING)
Namer = Callable[[Task, Sequence[Task]], list[Task]]
Reason = Callable[[Task, Task], Evicted]


def accepts(session: Session, task: Task, name: str) -> Candidate | None:
    """Return the place that a node has for a task as things stand, once all that terminates is gone."""
    if session.allocatable(task):
        return None
    answer = judge(session, task, session.views[name])
    if isinstance(answer, Refused) or (answer.fit and session.holds(task, answer.fit.charge)):
        return None
    return answer


def in_victim_order(session: Session, tasks: Iterable[Task]) -> list[Task]:
    """Return tasks as they are taken: of the lowest job first, inside a job the last in task order (PG-11a)."""
    by_job: dict[str, list[Task]] = {}
    for task in tasks:
        by_job.setdefault(task.job.key, []).append(task)
    jobs = sorted((session.jobs[key] for key in by_job), key=session.job_order, reverse=True)
    return [task for job in jobs for task in sorted(by_job[job.key], key=session.task_order, reverse=True)]


class Room:
    """Room for one task: ``name`` says whom it may evict of those who are there, ``reason`` what is recorded of it."""

    def __init__(self, session: Session, statement: Statement, task: Task, name: Namer, reason: Reason) -> None:
        self._session, self._statement, self._task = session, statement, task
        self._name, self._reason = name, reason

    def on(self, node: str, there: Sequence[Task], named: Sequence[Task]) -> Candidate | None:
        """Evict as few as it takes for the task to fit a node; None, and nobody goes, if it never does.

        ``named`` are those who may go of those who are ``there``, both in the order in which they are taken. If these
        do not make room, the count that gangs and queues keep may have been spent on tasks whose places are of no use:
        then all who could go alone are tried, and those who are left after giving back must be named together.
        """
        chosen = self._chosen(node, named)
        if not chosen:
            alone = [victim for victim in there if self._name(self._task, [victim])]
            chosen = self._chosen(node, alone) if len(alone) > len(named) else []
            if self._name(self._task, chosen) != chosen:
                return None
        if not chosen:
            return None
        for victim in chosen:
            self._evict(victim)
        return accepts(self._session, self._task, node)

    def _evict(self, victim: Task) -> None:
        self._statement.evict(victim, self._reason(self._task, victim))

    def _chosen(self, node: str, victims: Sequence[Task]) -> list[Task]:
        """Return whom it takes of these, in their order: nobody if all are not enough. Nothing is changed."""
        size = len(self._statement)
        needed: list[Task] = []
        for index, victim in enumerate(victims):
            self._evict(victim)
            if accepts(self._session, self._task, node) is not None:
                needed = self._without_useless(node, victims[: index + 1])
                break
        self._statement.undo(size)
        return needed

    def _without_useless(self, node: str, taken: Sequence[Task]) -> list[Task]:
        """Spare whom the task can do without, the last taken first; without the very last it did not fit."""
        spared = set()
        for victim in reversed(taken[:-1]):
            self._statement.spare(victim)
            if accepts(self._session, self._task, node) is None:
                self._evict(victim)
            else:
                spared.add(victim.uid)
        return [victim for victim in taken if victim.uid not in spared]
