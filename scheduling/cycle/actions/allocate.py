"""allocate: tasks onto nodes, gang by gang (scheduling/AL-5 to AL-13).

The best queue's best job has its turn: its tasks are placed one by one until it is ready, and then bound together; if
it cannot become ready, everything is undone. Tasks beyond the minimum are placed one a turn, in competition with all.
Jobs that an eviction made room for come first (PG-11c).
"""

from __future__ import annotations

import heapq
from collections import deque
from typing import Any

from scheduling.cycle import promises
from scheduling.cycle.actions.borrowing import borrow
from scheduling.cycle.actions.reserving import Reservations
from scheduling.cycle.answers import in_order
from scheduling.cycle.finder import Finder
from scheduling.cycle.fitting import choose, placement_of
from scheduling.cycle.job import PENDING_PHASE, Job, Task
from scheduling.cycle.plugins import PLUGINS
from scheduling.cycle.resting import INSIDE, Bench, Line
from scheduling.cycle.session import Session
from scheduling.cycle.statement import Statement
from scheduling.reasons.kinds import NoNode, RoleSkipped
from scheduling.status import TaskStatus

NAME = "allocate"


def execute(session: Session) -> None:
    """Run the action."""
    if "enqueue" not in session.config.actions:
        for job in list(session.active.values()):
            if job.phase == PENDING_PHASE:
                session.admit(job)
    allocation = Allocation(session)
    allocation.keep_promises()
    reservations = Reservations(allocation)
    reservations.take()
    allocation.run()
    borrow(allocation)
    reservations.end()


def may_be_placed(session: Session, job: Job) -> bool:
    """Tell whether a job takes part (AL-5): admitted, valid, and with a task to place."""
    if job.phase == PENDING_PHASE or job.undone or not job.pending or not any(task.waits for task in job.tasks):
        return False
    job.invalid = session.invalid(job)
    if job.invalid:
        job.turn_failed = True
        return False
    return True


class Allocation:
    """One run of the action over a session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self._tasks: dict[str, deque[Task]] = {}
        self._ranks: list[tuple[tuple[Any, ...], str]] | None = None
        self.reserved: set[str] = set()
        self._queues: dict[str, Line] = {}
        self._cached = session.argument(NAME, "predicateErrorCacheEnable", True)

    def takes_part(self, job: Job) -> bool:
        """Tell whether a job has something to place (AL-5)."""
        return may_be_placed(self.session, job)

    @staticmethod
    def alone(world: Session, key: str) -> bool:
        """Tell whether a job is placed in another world, which nothing was tried in yet."""
        world.open(PLUGINS)
        Allocation(world).run()
        return any(gang.group == key for gang in world.gangs)

    # --- the loop over queues and jobs (AL-6) ---

    def run(self) -> None:
        for job in self.session.active.values():
            if job.key not in self.reserved and may_be_placed(self.session, job):
                self._push(job, self.session.bench(INSIDE, job.queue.name))
        for name, bench in self.session.standing.benches[INSIDE].items():
            if name not in self._queues and not bench.undisturbed(self.session):
                self._queues[name] = Line(self.session, bench)
        while self._queues and not self.session.full:
            name = self._best_queue()
            line, overused = self._queues[name], self.session.overused(self.session.queues[name])
            line.look(overused)
            if overused:
                self._drop(line)
            found = line.pop(overused)
            if not line:
                del self._queues[name]
            if found is not None and self._noted(found, overused) and self._tasks[found.key]:
                self._push(found)
        for line in self._queues.values():
            for _, job in line.jobs:
                job.deferred = job.rest is None

    def _noted(self, job: Job, overused: bool) -> bool:
        """Give a job its turn, and take down what the outcome follows from."""
        if job.key not in self._tasks:
            self._tasks[job.key] = deque(job.waiting())
        self.session.take_down(job).overused = overused
        again = self._turn(job)
        self.session.notes = None
        return again

    def _best_queue(self) -> str:
        """Return the first queue that has jobs. Shares move only where something stays placed (``_end``)."""
        if len(self._queues) == 1:
            return next(iter(self._queues))
        ranks = self._ranks
        if ranks is None:
            queues = self.session.queues
            ranks = self._ranks = [(self.session.queue_order(queues[name]), name) for name in self._queues]
            heapq.heapify(ranks)
        while ranks[0][1] not in self._queues:
            heapq.heappop(ranks)
        return ranks[0][1]

    def _push(self, job: Job, bench: Bench | None = None) -> None:
        """Let a job wait for its turn, among those of its queue that rest if none had a turn yet."""
        line = self._queues.get(job.queue.name)
        if line is None:
            line = self._queues[job.queue.name] = Line(self.session, bench)
        line.push(self.session.job_order(job), job)

    def _drop(self, line: Line) -> None:
        """Drop the jobs of an overused queue (Q-16), each task with the queue's text (Q-24a).

        A task that asks for nothing the queue limits is no matter for it (Q-10a) and goes on to the nodes.
        """
        left = []
        for order, job in line.everyone(overused=True):
            tasks = self._tasks.setdefault(job.key, deque(job.waiting()))
            self.session.take_down(job).overused = True
            for task in tasks:
                task.reason = self.session.allocatable(task)
            self.session.notes = None
            if all(task.reason for task in tasks):
                job.turn_failed = True
            else:
                left.append((order, job))
        heapq.heapify(left)
        line.jobs = left

    # --- one job's turn (AL-7 to AL-9) ---

    def again(self, job: Job) -> bool:
        """Give a job that failed one more turn; tell whether it may have another one after it."""
        self._tasks[job.key] = deque(job.waiting())
        job.failed_roles.clear()
        job.turn_failed = False
        return self._turn(job)

    def _turn(self, job: Job) -> bool:
        """Place what can be placed; tell whether the job may have another turn."""
        statement = Statement(self.session)
        finder = Finder(self.session, NAME)
        tasks = self._tasks[job.key]
        while tasks:
            task = tasks.popleft()
            if not task.waits:
                continue
            if self.place(statement, finder, task):
                if self.session.ready(job):
                    break
            elif not self._goes_on(job, task):
                break
        return self._end(statement, job)

    def _end(self, statement: Statement, job: Job) -> bool:
        """AL-9."""
        if self.session.ready(job):
            job.turn_failed = not len(statement) and not job.ready
            self._ranks = None if len(statement) else self._ranks
            statement.commit(job)
            return True
        if self.session.pipelined(job):
            self._ranks = None
            statement.keep()
            return False
        statement.discard()
        job.turn_failed = True
        return False

    def place(self, statement: Statement, finder: Finder, task: Task, node: str = "") -> bool:
        """Try to place one task, on the given node or anywhere; what stands against it is noted on the task."""
        task.reason = None
        if task.traits.refused:
            return False
        task.reason = self.session.allocatable(task)
        if task.reason:
            return False
        if self._cached and task.role and task.role in task.job.failed_roles:
            task.reason = RoleSkipped(task.name, task.role)
            return False
        found = finder.only(task, node) if node else finder.find(task)
        if not found.candidates:
            task.reason = found.reason
            return False
        best = choose(self.session, task, found.candidates)
        placement = placement_of(task, best)
        (statement.allocate if best.now else statement.pipeline)(task, placement)
        return True

    @staticmethod
    def _goes_on(job: Job, task: Task) -> bool:
        """Tell whether the turn goes on after a failure: not if the gang cannot succeed any more (AL-8).

        A task that its queue refused, or that was not tried for its role's sake, is only skipped (AL-7).
        """
        if task.reason is not None and not isinstance(task.reason, NoNode):
            return True
        if not task.traits.refused:
            job.failed_roles.add(task.role)
        if job.minimum >= len(job.tasks):
            return False
        if job.minimum < job.role_minimum:
            left = sum(other.status is TaskStatus.PENDING and other.role not in job.failed_roles for other in job.tasks)
            return job.ready + left >= job.minimum
        least = job.group.min_task_member
        return all(job.role_count(role, _COUNTED) >= least.get(role, 0) for role in sorted(job.failed_roles))

    # --- places that an eviction made (PG-11c) ---

    def keep_promises(self) -> None:
        """Give promised places to whom they were promised, before all others; what cannot be kept is dropped."""
        for job in in_order(self.session.promised_jobs(), self.session):
            if job.phase == PENDING_PHASE or job.undone or self.session.invalid(job):
                promises.drop_all(self.session, job)
            else:
                self._promised_turn(job)

    def _promised_turn(self, job: Job) -> None:
        statement = Statement(self.session)
        finder = Finder(self.session, NAME)
        promised = [task for task in job.tasks if task.promised]
        nodes = {task.uid: task.node for task in promised}
        for task in promised:
            statement.withdraw(task)
        lost = [task for task in promised if not self.place(statement, finder, task, nodes[task.uid])]
        for task in lost:
            self.place(statement, finder, task)
        for task in job.waiting():
            if self.session.ready(job) or self.session.pipelined(job):
                break
            if task.uid not in nodes:
                self.place(statement, finder, task)
        if self.session.ready(job):
            statement.commit(job)
        elif self.session.pipelined(job):
            statement.keep()
        else:
            # Others of the gang keep their places while room is made for those who lost theirs in this cycle.
            statement.discard()
            for task in lost:
                promises.drop(self.session, task)
        for task in promised:
            task.promised = task.promised and task.status in (TaskStatus.PIPELINED, TaskStatus.ALLOCATED)


_COUNTED = (TaskStatus.ALLOCATED, TaskStatus.BINDING, TaskStatus.BOUND, TaskStatus.RUNNING, TaskStatus.SUCCEEDED)
