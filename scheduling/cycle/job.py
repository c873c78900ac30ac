"""Tasks and jobs: the pods and PodGroups of one cycle (scheduling section 0.1).

A task's status changes while the cycle tries things out; everything that the rules count is kept in its job, so that
asking whether a gang is ready costs nothing. Only ``Session`` changes a status, and ``Statement`` undoes it exactly.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from events.records import GroupBook, PodBook
from scheduling.cycle.traits import Traits
from scheduling.objects import Pod, PodGroup, Queue
from scheduling.reasons.kinds import Invalid, Reason
from scheduling.resources import Vector
from scheduling.state.model import GroupEntry
from scheduling.status import DONE, READY, SCHED, VALID, TaskStatus

if TYPE_CHECKING:
    from scheduling.cycle.resting import Rest

PENDING_PHASE, INQUEUE, RUNNING, UNKNOWN, COMPLETED = "Pending", "Inqueue", "Running", "Unknown", "Completed"


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a trial puts a task: the cards (or legacy card indices) with it, and what it will really hold."""

    node: str
    allocation: str = ""
    gpu_index: str = ""
    score: int = 0
    held: Vector = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Task:
    """One pod of a job. ``charge`` is what counts in its queue's sums (Q-21), ``held`` what it really holds (Q-17a).

    ``trial`` is what was last tried in this cycle (status and node), remembered when it is undone (AL-11).
    ``reason`` is what stood against it last in this cycle: no node, or its queue (Q-24, Q-24a). ``promised`` marks a
    place that an eviction made for it (PG-11c), ``nominated`` is the node where a trial evicted somebody for it
    (POD-1).
    """

    job: Job
    pod: Pod
    traits: Traits
    book: PodBook
    status: TaskStatus
    node: str
    charge: Vector
    held: Vector
    placement: Placement | None = None
    trial: tuple[TaskStatus, str] | None = None
    reason: Reason | None = None
    promised: bool = False
    nominated: str = ""

    @property
    def uid(self) -> str:
        return self.pod.uid

    @property
    def name(self) -> str:
        return self.pod.name

    @property
    def role(self) -> str:
        return self.traits.role

    @property
    def waits(self) -> bool:
        """Pending, and allocate may place it: neither best-effort nor gated (AL-5)."""
        return self.status is TaskStatus.PENDING and not self.traits.best_effort and not self.traits.gated


@dataclass(frozen=True, slots=True)
class Sums:
    """What a job adds to its queue's account (Q-11), and what it asks of nodes (Q-25), in the snapshot."""

    charged: Vector
    held: Vector
    reserved: Vector
    elastic: Vector
    requested: Vector


@dataclass(eq=False)
class Job:
    """One PodGroup with its tasks in task order, and the counts that the gang rules ask for.

    ``ready``, ``valid``, ``scheduled`` and ``done`` count the tasks of the sets of T-3, ``roles`` by role where roles
    have minima.

    ``minimum`` is what the gang needs at least (minMember). ``turn_failed`` is true once an allocate turn of it ended
    without placement (Q-11a). ``refusal`` is why it was not admitted (Q-24a), ``event`` what is recorded for it
    (E-7, E-8, PG-4a), ``invalid`` why it was not tried (PG-9). ``held_back`` jobs are not judged by enqueue (PG-4a);
    ``undone`` ones lose their bound members in this cycle (F-2); of ``deferred`` ones nothing is said, as the pass
    ended before their turn.

    Jobs are kept from cycle to cycle while what they follow from is unchanged and nothing was tried with them, that is
    unless ``touched`` (``cycle.standing``). ``ordered`` ones have their tasks in order. ``notes`` say what the outcome
    of its turns in this cycle follows from, ``rest`` what it rests on while it needs no look. ``wished`` is what its
    pending tasks may come to hold.
    ``passed_over`` is the new count of section 9 row 7, None if it stays.
    """

    key: str
    entry: GroupEntry
    queue: Queue
    priority: int
    phase: str
    tasks: list[Task] = field(default_factory=list)
    turn_failed: bool = False
    refusal: Reason | None = None
    event: Reason | None = None
    invalid: Invalid | None = None
    admitted: bool = False
    held_back: bool = False
    undone: bool = False
    deferred: bool = False
    evicted_ms: int = 0
    passed_over: int | None = None
    ordered: bool = False
    touched: bool = False
    notes: Rest | None = None
    rest: Rest | None = None
    sums: Sums | None = None
    wished: Vector = field(default_factory=dict)
    ready: int = 0
    valid: int = 0
    scheduled: int = 0
    done: int = 0
    pipelined: int = 0
    pending: int = 0
    counts: dict[TaskStatus, int] = field(default_factory=dict)
    roles: dict[str, dict[TaskStatus, int]] = field(default_factory=dict)
    best_effort: dict[str, int] = field(default_factory=dict)
    failed_roles: set[str] = field(default_factory=set)

    @property
    def group(self) -> PodGroup:
        return self.entry.group

    @property
    def book(self) -> GroupBook:
        return self.entry.book

    @property
    def minimum(self) -> int:
        return self.group.min_member

    @property
    def role_minimum(self) -> int:
        """The sum of all minTaskMember."""
        return sum(self.group.min_task_member.values())

    @property
    def by_role(self) -> bool:
        """Tell whether the minima of the roles count (PG-10): not if minMember is below their sum."""
        return bool(self.group.min_task_member) and self.minimum >= self.role_minimum

    def add(self, task: Task) -> None:
        """Take in a task of the snapshot."""
        self.tasks.append(task)
        self._count(task, 1)

    def begin_again(self) -> None:
        """Forget what an earlier cycle made of it; nothing was tried with it."""
        self.phase = self.book.phase or PENDING_PHASE
        self.notes = None
        self.turn_failed = self.admitted = self.held_back = self.undone = self.deferred = False
        self.refusal = self.event = self.invalid = self.passed_over = None
        self.evicted_ms = 0
        self.failed_roles.clear()
        for task in self.tasks:
            task.trial = task.reason = None
            task.nominated, task.promised = "", False

    def set_status(self, task: Task, status: TaskStatus) -> None:
        """Change a task's status, counts included."""
        self.touched = True
        self._count(task, -1)
        task.status = status
        self._count(task, 1)

    def _count(self, task: Task, by: int) -> None:
        status = task.status
        self.counts[status] = self.counts.get(status, 0) + by
        if self.group.min_task_member:
            role = self.roles.setdefault(task.role, {})
            role[status] = role.get(status, 0) + by
        self.ready += by * (status in READY)
        self.valid += by * (status in VALID)
        self.scheduled += by * (status in SCHED)
        self.done += by * (status in DONE)
        if status is TaskStatus.PIPELINED:
            self.pipelined += by
        if status is TaskStatus.PENDING:
            self.pending += by
            if task.traits.best_effort:
                self.best_effort[task.role] = self.best_effort.get(task.role, 0) + by

    def count(self, statuses: Iterable[TaskStatus]) -> int:
        """Return how many tasks have one of these statuses."""
        return sum(self.counts.get(status, 0) for status in statuses)

    def role_count(self, role: str, statuses: Iterable[TaskStatus]) -> int:
        """Return how many tasks of a role with a minimum have one of these statuses."""
        found = self.roles.get(role, {})
        return sum(found.get(status, 0) for status in statuses)

    @property
    def pending_best_effort(self) -> int:
        return sum(self.best_effort.values()) if self.best_effort else 0

    @property
    def releasing_with_node(self) -> int:
        if not self.counts.get(TaskStatus.RELEASING):
            return 0
        return sum(task.status is TaskStatus.RELEASING and bool(task.node) for task in self.tasks)

    @property
    def filled(self) -> bool:
        """Tell whether enough tasks are READY, best-effort ones still Pending included (counting part of PG-10)."""
        return self.ready + self.pending_best_effort >= self.minimum

    @property
    def at_rest(self) -> bool:
        """Tell whether there is nothing to do for it: all its tasks are on nodes, or have ended."""
        return bool(self.tasks) and self.scheduled == len(self.tasks)

    def waiting(self) -> list[Task]:
        """Return the tasks that allocate may place, in task order."""
        return [task for task in self.tasks if task.waits]
