"""What proportion and capacity have in common: accounts of queues, and the questions they answer (section 4.4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from scheduling import resources
from scheduling.cycle import messages
from scheduling.cycle.accounts import Account, Accounts, Limits, change, gated, min_resources, over, reserves_nothing
from scheduling.cycle.job import Job, Task
from scheduling.cycle.plugin import Plugin, Vote
from scheduling.cycle.waterfill import share
from scheduling.objects import Queue
from scheduling.resources import Vector


class QueuePlugin(Plugin):
    """Keeps the accounts; a subclass says what a queue deserves and up to where it may grow."""

    counts_down = True

    def opened(self) -> None:
        self.accounts = Accounts(self.session)
        self.share_out()

    def share_out(self) -> None:
        """Set what each queue deserves."""

    def account(self, queue: str) -> Account:
        """Return the account of a queue."""
        return self.accounts.of[queue]

    def ceiling(self, account: Account) -> Limits:
        """Return up to where a queue may grow by one more task (Q-17)."""
        return account.limit

    def queue_key(self, queue: Queue) -> Any:
        """Higher ``spec.priority``, then lower share (section 4.7)."""
        account = self.account(queue.name)
        return (-queue.priority, share(account.allocated, account.deserved))

    def allocatable(self, task: Task) -> str:
        account = self.account(task.job.queue.name)
        asked = self.accounts.matters(account, task.traits.asked)
        return self._text(account, over(resources.add(account.allocated, asked), self.ceiling(account), asked))

    def holds(self, task: Task, charge: Vector) -> str:
        """Q-17a: with what the task would really hold, the hard limit."""
        if self.session.raw:
            return ""
        account = self.account(task.job.queue.name)
        charged = self.accounts.matters(account, charge)
        return self._text(account, over(resources.add(account.held, charged), account.limit, charged))

    @staticmethod
    def _text(account: Account, names: Sequence[str]) -> str:
        return messages.queue_insufficient(account.queue.name, names) if names else ""

    def enqueueable(self, job: Job) -> Vote:
        """Q-18."""
        least = min_resources(self.session, job)
        if least is None:
            return Vote.YES
        account = self.account(job.queue.name)
        asked = self.accounts.matters(account, least)
        future = resources.subtract(resources.total((asked, account.allocated, account.inqueue)), account.elastic)
        names = over(future, account.limit, asked)
        if not names:
            return Vote.YES
        job.refusal = messages.queue_insufficient(account.queue.name, names)
        job.event = ("Normal", messages.UNSCHEDULABLE, messages.insufficient(names))
        return Vote.NO

    def enqueued(self, job: Job) -> None:
        """What was admitted is reserved at once (Q-18)."""
        least = min_resources(self.session, job)
        if least is None or reserves_nothing(job):
            return
        account = self.account(job.queue.name)
        for name, value in resources.subtract(least, gated(job)).items():
            if value > 0:
                account.inqueue[name] = account.inqueue.get(name, 0) + value

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """Name tasks while their queue holds more than it deserves, counted down in the given order (PG-11a)."""
        left: dict[str, dict[str, int]] = {}
        named = []
        for task in candidates:
            account = self.account(task.job.queue.name)
            held = left.setdefault(account.queue.name, dict(account.allocated))
            if self.exceeds(account, held):
                named.append(task)
                for name, value in task.charge.items():
                    held[name] = held.get(name, 0) - value
        return named

    def exceeds(self, account: Account, held: Vector) -> bool:
        """Tell whether a queue that holds this has more than it deserves."""
        return any(value > account.deserved.get(name, 0) for name, value in held.items())

    def allocated(self, task: Task) -> None:
        change(self.account(task.job.queue.name), task, 1)

    def deallocated(self, task: Task) -> None:
        change(self.account(task.job.queue.name), task, -1)


def exact(vector: Mapping[str, int]) -> dict[str, Fraction]:
    """Return a vector in fractions."""
    return {name: Fraction(value) for name, value in vector.items()}
