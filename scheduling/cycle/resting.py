"""Jobs that wait at rest: they were refused, and nothing that the refusal follows from has changed.

While a cycle gives a job its turn, everything that the outcome follows from is noted (``Rest``): up to which amounts
its queue and those above had room, which classes found no node and why, whether the queue was overused. If the job
then stays as it is, and everything was said of it before, it rests. In a later cycle, when its turn comes, the notes
are compared with what is true then: if they hold, the turn would end in the same way, and since a refused turn changes
nothing for anybody else, it is left out. Jobs of one queue that rest are compared together, so a queue in which nothing
has changed costs one comparison (``Bench``). Where that fails each job is compared by itself, at its own turn.

Room is kept as an interval, not as an amount: the greatest request that had room, and the least that had not. Whatever
changes, every comparison ends as before while the room stays within.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from scheduling.reasons.kinds import NoNode

if TYPE_CHECKING:
    from scheduling.cycle.job import Job, Task
    from scheduling.cycle.session import Session

#: Where a job waits: to be let in by enqueue, or to be placed by allocate.
OUTSIDE, INSIDE = "outside", "inside"
#: The plugin that was asked, what about, and the queue.
Gate = tuple[str, str, str]
#: The greatest amount that had room and the least that had not; None: there was none.
Interval = tuple[int | None, int | None]
Order = tuple[Any, ...]


@dataclass(eq=False)
class Rest:
    """What the outcome of a job's turns follows from, besides the job itself.

    ``lasting`` is false if something in it cannot be compared later. ``kinds`` are classes that found no node, with a
    task of each and what the nodes said; ``nodes`` is the state of all nodes (``Memo.moves``) where the outcome
    depends on each of them. ``until`` is when time alone may change it (Unix milliseconds).
    """

    job: Job
    lasting: bool = True
    overused: bool = False
    rooms: dict[Gate, dict[str, Interval]] = field(default_factory=dict)
    kinds: dict[int, tuple[Task, NoNode]] = field(default_factory=dict)
    nodes: tuple[int, int] | None = None
    door: object = None
    where: str = ""
    order: Order = ()
    until: int | None = None

    def note(self, gate: Gate, name: str, amount: int, fits: bool) -> None:
        """Note that an amount had room, or had not."""
        intervals = self.rooms.setdefault(gate, {})
        low, high = intervals.get(name, (None, None))
        if fits:
            low = amount if low is None else max(low, amount)
        else:
            high = amount if high is None else min(high, amount)
        intervals[name] = low, high

    def merge(self, other: Rest) -> None:
        """Take in what another job's outcome follows from: both hold where this holds."""
        same = (self.overused, self.door) == (other.overused, other.door)
        if self.nodes is not None and other.nodes is not None:
            same = same and self.nodes == other.nodes
        self.lasting = self.lasting and same
        self.nodes = self.nodes or other.nodes
        for gate, intervals in other.rooms.items():
            own = self.rooms.setdefault(gate, {})
            for name, (low, high) in intervals.items():
                mine = own.get(name, (None, None))
                own[name] = _greatest(mine[0], low), _least(mine[1], high)
        for kind, (task, errors) in other.kinds.items():
            known = self.kinds.setdefault(kind, (task, errors))
            self.lasting = self.lasting and (known[1] is errors or known[1] == errors)

    def holds(self, session: Session, overused: bool) -> bool:
        """Tell whether the outcome would be the same now."""
        if not self.lasting or self.overused is not overused or self.door != session.door(self.job.queue):
            return False
        if self.nodes is not None and self.nodes != session.nodes_at:
            return False
        for gate, intervals in self.rooms.items():
            room = session.room_of(gate)
            for name, (low, high) in intervals.items():
                now = room(name)
                if (low is not None and now < low) or (high is not None and now >= high):
                    return False
        return all(_same_errors(session, task, errors) for task, errors in self.kinds.values())


def _greatest(one: int | None, two: int | None) -> int | None:
    return two if one is None else one if two is None else max(one, two)


def _least(one: int | None, two: int | None) -> int | None:
    return two if one is None else one if two is None else min(one, two)


def _same_errors(session: Session, task: Task, errors: NoNode) -> bool:
    """Tell whether the class still finds no node, and the nodes say the same."""
    if not session.plain:
        return False
    known = session.class_of(task)
    return known.nowhere and (known.no_node() is errors or known.no_node() == errors)


class Bench:
    """The resting jobs of one queue in the order of their turns, and what all of them rest on."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Order, Rest]] = []
        self._together: Rest | None = None
        self._stamp: object = None

    def add(self, rest: Rest) -> None:
        """Take in a job that rests."""
        insort(self.waiting, (rest.order, rest), key=_order)
        self._stamp = None
        if self._together is not None:
            self._together.merge(rest)

    def remove(self, rest: Rest) -> None:
        """A job does not rest any more. What all rest on is then more than it must be, until ``forget``."""
        del self.waiting[bisect_left(self.waiting, rest.order, key=_order)]

    def forget(self) -> None:
        """What all rest on does not hold: work it out anew when it is asked for."""
        self._together = None

    def undisturbed(self, session: Session) -> bool:
        """Tell whether all of them rest on whatever the cycle does elsewhere: they depend on their queue alone.

        It holds for as long as nothing is tried with a job of the queue.
        """
        return self._stamp is not None and self._stamp == session.stamp(self.waiting[0][1].job.queue)

    def held(self, session: Session) -> None:
        """Note that what all of them rest on holds now."""
        rest = self.together
        queue = rest.job.queue
        if not rest.kinds and rest.nodes is None and all(name == queue.name for _, _, name in rest.rooms):
            self._stamp = session.stamp(queue)

    @property
    def together(self) -> Rest:
        """What all of them rest on."""
        if self._together is None:
            first = self.waiting[0][1]
            self._together = Rest(first.job, overused=first.overused, door=first.door)
            for _, rest in self.waiting:
                self._together.lasting = self._together.lasting and rest.lasting
                self._together.merge(rest)
        return self._together


def _order(item: tuple[Order, Rest]) -> Order:
    return item[0]


class Line:
    """The jobs of one queue that wait for their turn in one action: those that are looked at, and those that rest.

    Resting ones that come before a job in the order have had their turn when it has: it ended as before.
    """

    def __init__(self, session: Session, bench: Bench | None) -> None:
        self._session, self._bench = session, bench
        self._rests: list[tuple[Order, Rest]] = list(bench.waiting) if bench else []
        self._passed = 0
        self._checked = -1
        self.jobs: list[tuple[Order, Job]] = []

    def __bool__(self) -> bool:
        return bool(self.jobs) or self._passed < len(self._rests)

    def push(self, order: Order, job: Job) -> None:
        """Let a job wait for its turn."""
        heappush(self.jobs, (order, job))

    def look(self, overused: bool = False) -> None:
        """See whether the resting jobs may rest on; if not, each is looked at when its turn comes."""
        if self._passed >= len(self._rests) or self._checked == self._session.moves:
            return
        self._checked = self._session.moves
        assert self._bench is not None, "who rests is on a bench"
        if not self._bench.together.holds(self._session, overused):
            self._bench.forget()
            for order, rest in self._rests[self._passed :]:
                self.push(order, rest.job)
            self._rests, self._passed = [], 0
        else:
            self._bench.held(self._session)

    def pop(self, overused: bool = False) -> Job | None:
        """Return the job whose turn it is, None if all that is left rests on."""
        while self.jobs:
            order, job = heappop(self.jobs)
            if self._rests:
                self._passed = bisect_left(self._rests, order, key=_order)
            if not self._rests_on(job, overused):
                return job
        self._passed = len(self._rests)
        return None

    def everyone(self, overused: bool) -> list[tuple[Order, Job]]:
        """Return the jobs that are looked at, with those that do not rest any more."""
        self.jobs = [(order, job) for order, job in self.jobs if not self._rests_on(job, overused)]
        return self.jobs

    def _rests_on(self, job: Job, overused: bool) -> bool:
        if job.rest is None:
            return False
        if job.rest.holds(self._session, overused):
            return True
        self._session.wake(job)
        return False


Rooms = Mapping[str, int | Fraction]
