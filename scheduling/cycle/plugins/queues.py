"""What proportion and capacity have in common: accounts of queues, and the questions they answer (section 4.4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from math import inf
from typing import Any

from scheduling import resources
from scheduling.cycle.accounts import Account, Accounts, Limits, change, gated, min_resources, over, reserves_nothing
from scheduling.cycle.job import Job, Task
from scheduling.cycle.plugin import Plugin, Vote
from scheduling.cycle.waterfill import share
from scheduling.objects import Queue
from scheduling.reasons.kinds import QueueReason, QueueShort
from scheduling.resources import Vector

#: What there is room for: to be let in (Q-18), one task more (Q-17), what it really holds (Q-17a).
_ENTER, _ALLOCATE, _HOLD = "enter", "allocate", "hold"


class QueuePlugin(Plugin):
    """Keeps the accounts; a subclass says what a queue deserves and up to where it may grow."""

    counts_down = True

    def opened(self) -> None:
        self.accounts = Accounts(self.session)
        self._keys: dict[str, tuple[float, Fraction]] = {}
        self._alike: dict[float, Fraction] = {}
        self.share_out()

    def share_out(self) -> None:
        """Set what each queue deserves."""

    def account(self, queue: str) -> Account:
        """Return the account of a queue."""
        return self.accounts.of[queue]

    def chain(self, queue: str) -> Sequence[Account]:
        """Return the accounts that a task of a queue is booked in and must fit: its own, and those above it."""
        return (self.account(queue),)

    def ceiling(self, account: Account) -> Limits:
        """Return up to where a queue may grow by one more task (Q-17)."""
        return account.limit

    def queue_key(self, queue: Queue) -> Any:
        """Higher ``spec.priority``, then lower share (section 4.7)."""
        found = self._keys.get(queue.name)
        if found is None:
            found = self._keys[queue.name] = self._sortable(self._share(self.account(queue.name)))
        return (-queue.priority, *found)

    def _sortable(self, value: Fraction) -> tuple[float, Fraction]:
        """Return a share as what sorts like it: most are told apart by the rounded value, equal ones are one."""
        try:
            rounded = float(value)
        except OverflowError:
            rounded = inf
        known = self._alike.setdefault(rounded, value)
        return rounded, known if known == value else value

    def _share(self, account: Account) -> Fraction:
        """Return a queue's share (Q-13); as long as nothing changes it, the one that was worked out before."""
        if not account.shared:
            return share(account.allocated, account.deserved)
        name, standing = account.queue.name, self.session.standing
        version = standing.totals[name].version
        known = standing.shares.get(name)
        if known is None or known[0] != version or known[1] is not account.deserved:
            found = share(account.allocated, account.deserved)
            known = standing.shares[name] = (version, account.deserved, found)
        return known[2]

    def allocatable(self, task: Task) -> QueueReason | None:
        for account in self.chain(task.job.queue.name):
            names = self._over(_ALLOCATE, account, task.traits.asked)
            if names:
                return QueueShort(account.queue.name, tuple(names))
        return None

    def _over(self, what: str, account: Account, asked: Vector) -> list[str]:
        """Return in what a request is more than an account has room for."""
        gate = (self.name, what, account.queue.name)
        return self.over(gate, self.accounts.matters(account, asked), self.room(what, account.queue.name))

    def stamp(self, queue: str) -> object:
        account = self.account(queue)
        return (
            (self.session.standing.totals[queue].version, account.limit, account.deserved) if account.shared else None
        )

    def room(self, what: str, queue: str) -> Callable[[str], int | Fraction]:
        account = self.account(queue)
        if what == _ENTER:
            return lambda name: self._entrance(account, name)
        limit = self.ceiling(account) if what == _ALLOCATE else account.limit
        taken = account.allocated if what == _ALLOCATE else account.held
        return lambda name: limit.get(name, 0) - taken.get(name, 0)

    @staticmethod
    def _entrance(account: Account, name: str) -> int:
        taken = account.allocated.get(name, 0) + account.inqueue.get(name, 0) - account.elastic.get(name, 0)
        return account.limit.get(name, 0) - taken

    def holds(self, task: Task, charge: Vector) -> QueueReason | None:
        """Q-17a: with what the task would really hold, the hard limit."""
        if self.session.raw:
            return None
        for account in self.chain(task.job.queue.name):
            names = self._over(_HOLD, account, charge)
            if names:
                return QueueShort(account.queue.name, tuple(names))
        return None

    def takes_alone(self, queue: Queue, asked: Vector) -> bool:
        """Tell whether a queue could grow to this if it held nothing else."""
        for account in self.chain(queue.name):
            counted = self.accounts.matters(account, asked)
            if over(counted, self.ceiling(account), counted):
                return False
        return True

    def enqueueable(self, job: Job) -> Vote:
        """Q-18."""
        least = min_resources(self.session, job)
        if least is None:
            return Vote.YES
        for account in self.chain(job.queue.name):
            names = self._over(_ENTER, account, least)
            if names:
                job.refusal = job.event = QueueShort(account.queue.name, tuple(names))
                return Vote.NO
        return Vote.YES

    def enqueued(self, job: Job) -> None:
        """What was admitted is reserved at once (Q-18)."""
        least = min_resources(self.session, job)
        if least is None or reserves_nothing(job):
            return
        kept = {name: value for name, value in resources.subtract(least, gated(job)).items() if value > 0}
        for account in self.chain(job.queue.name):
            account.own()
            for name, value in kept.items():
                account.inqueue[name] = account.inqueue.get(name, 0) + value

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """Name tasks while their queue holds more than it deserves, counted down in the given order (PG-11a).

        Only a task that holds some of what is too much: to lose another one would not bring its queue nearer to what
        it deserves, and its queue could take as much back, without end.
        """
        left: dict[str, dict[str, int]] = {}
        named = []
        for task in candidates:
            account = self.account(task.job.queue.name)
            held = left.setdefault(account.queue.name, dict(account.allocated))
            excess = [name for name in self.excess(account, held) if task.charge.get(name, 0) > 0]
            if excess and self.fair(reclaimer, account, held, excess):
                named.append(task)
                for name, value in task.charge.items():
                    held[name] = held.get(name, 0) - value
        return named

    def excess(self, account: Account, held: Vector) -> list[str]:
        """Return in what a queue that holds this has more than it deserves."""
        return [name for name, value in held.items() if value > account.deserved.get(name, 0)]

    def fair(self, reclaimer: Task, account: Account, held: Vector, excess: Sequence[str]) -> bool:
        """Tell whether a task of one queue may take from another that exceeds what it deserves, as far as it does."""
        return True

    def allocated(self, task: Task) -> None:
        self._change(task, 1)

    def deallocated(self, task: Task) -> None:
        self._change(task, -1)

    def _change(self, task: Task, by: int) -> None:
        for account in self.chain(task.job.queue.name):
            change(account, task, by)
            self._keys.pop(account.queue.name, None)
