"""A statement: trial changes that are committed as a whole or undone exactly (scheduling/AL-10, AL-11).

Undoing goes backwards, so every node gets back the very view that it had. What was tried is remembered on the tasks
(status and node), since the messages of the cycle speak of it (MSG-1, MSG-7, POD-1).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from scheduling.cycle.job import Job, Placement, Task
from scheduling.cycle.session import Session
from scheduling.state.model import Evicted, Gang, Placed
from scheduling.status import TaskStatus


@dataclass(frozen=True, slots=True)
class _Done:
    """One operation: ``before`` is the status that the task had. ``evicted`` says why a victim goes."""

    task: Task
    before: TaskStatus
    evicted: Evicted | None = None
    placement: Placement | None = None


class Statement:
    """Operations since it was opened. Statements do not interleave: one ends before the next begins."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._done: list[_Done] = []
        self._search_start = session.search_start

    def __len__(self) -> int:
        return len(self._done)

    @property
    def places(self) -> list[Task]:
        """The tasks that this statement has put on nodes."""
        return [done.task for done in self._done if done.evicted is None and done.placement is None]

    @property
    def evicted(self) -> list[Task]:
        """The tasks that this statement makes go."""
        return [done.task for done in self._done if done.evicted is not None]

    def allocate(self, task: Task, placement: Placement) -> None:
        """Place a task on what is idle."""
        self._put(task, TaskStatus.ALLOCATED, placement)

    def pipeline(self, task: Task, placement: Placement) -> None:
        """Promise a task what is being released."""
        self._put(task, TaskStatus.PIPELINED, placement)

    def _put(self, task: Task, status: TaskStatus, placement: Placement) -> None:
        assert task.status is TaskStatus.PENDING, f"{task.uid} is placed already"
        self._session.put(task, status, placement)
        task.trial = (status, placement.node)
        self._done.append(_Done(task, TaskStatus.PENDING))

    def withdraw(self, task: Task) -> None:
        """Take a promise back, so that the task can be placed anew (PG-11c)."""
        placement = task.placement
        assert placement is not None, f"{task.uid} has no promise"
        self._session.take_off(task)
        self._done.append(_Done(task, TaskStatus.PIPELINED, placement=placement))

    def evict(self, task: Task, evicted: Evicted) -> None:
        """Make a placed task go."""
        before = task.status
        self._session.release(task)
        self._done.append(_Done(task, before, evicted))

    def spare(self, task: Task) -> None:
        """Give back one task that was to be evicted: it keeps exactly what it had (devices/K-38)."""
        index = next(i for i, done in enumerate(self._done) if done.task is task and done.evicted is not None)
        self._session.restore(task, self._done.pop(index).before)

    def explain(self, told: Callable[[Task, Evicted], Evicted]) -> None:
        """Let what is recorded of each eviction be completed before the commit."""
        self._done = [
            replace(done, evicted=told(done.task, done.evicted)) if done.evicted is not None else done
            for done in self._done
        ]

    def commit(self, job: Job) -> None:
        """Hand over for a job that is ready: Allocated tasks become one command and Binding (AL-10); the rest is kept.

        What earlier statements of the cycle kept for the job (AL-9) made it ready, too, and is bound with it.
        """
        placed = [*_bound(job, (done.task for done in self._done if done.evicted is None))]
        if job.count((TaskStatus.ALLOCATED,)):
            placed += _bound(job, job.tasks)
        if placed:
            self._session.placements += len(placed)
            self._session.gangs.append(Gang(job.key, placed))
        self.keep()

    def keep(self) -> None:
        """Leave everything as it is for the rest of the cycle (AL-9): promises stand, victims go, nothing is bound."""
        self._session.evictions += (done.evicted for done in self._done if done.evicted is not None)
        self._done.clear()

    def discard(self) -> None:
        """Undo everything, last first (AL-11); the search for nodes starts again where it started (AL-18)."""
        self.undo(0)
        self._session.search_start = self._search_start

    def undo(self, size: int) -> None:
        """Undo what was done since the statement had this length."""
        while len(self._done) > size:
            done = self._done.pop()
            if done.evicted is not None:
                self._session.restore(done.task, done.before)
            elif done.placement is not None:
                self._session.put(done.task, done.before, done.placement)
            else:
                self._session.take_off(done.task)


def _bound(job: Job, tasks: Iterable[Task]) -> Iterator[Placed]:
    """Yield the placements of those that are Allocated, which are Binding then."""
    for task in tasks:
        if task.status is TaskStatus.ALLOCATED and task.placement is not None:
            placed = _placed(task, task.placement)
            job.set_status(task, TaskStatus.BINDING)
            yield placed


def _placed(task: Task, placement: Placement) -> Placed:
    return Placed(task.uid, placement.node, placement.allocation, placement.gpu_index, placement.score)
