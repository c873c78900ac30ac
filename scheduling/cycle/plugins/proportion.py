"""proportion: the cluster split by weight, within each queue's hard limit (scheduling/Q-9 to Q-18a).

``spec.deserved`` and ``spec.parent`` are not read (Q-15).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor

from scheduling.config.arguments import boolean
from scheduling.cycle.accounts import Account, Limits, over
from scheduling.cycle.job import Task
from scheduling.cycle.plugins.queues import QueuePlugin
from scheduling.cycle.standing import Split
from scheduling.cycle.waterfill import Amounts, Asking, exact, split
from scheduling.objects import Queue
from scheduling.resources import CPU, MEMORY, Vector, add

#: Argument: where nobody can be placed though something is idle, the queue with the lowest share may exceed what it
#: deserves by one task (scheduling section 9 row 8).
BORROW = "proportion.borrow"


class ProportionPlugin(QueuePlugin):
    """A queue may grow up to what it deserves.

    ``borrower`` is the queue that may exceed it by one task, up to its real capability (section 9 row 8).
    """

    name = "proportion"

    def opened(self) -> None:
        self.lends = boolean(self.arguments, BORROW, False)
        self.borrower = ""
        super().opened()

    def share_out(self) -> None:
        accounts = self.accounts.of
        asking = [
            Asking(name, item.queue.weight, item.request, item.limit, item.guarantee) for name, item in accounts.items()
        ]
        self._splits = self._split({CPU: 0, MEMORY: 0, **self.session.total}, asking)
        for name, account in accounts.items():
            account.deserved = self._splits[name].deserved

    def _split(self, total: Vector, asking: list[Asking]) -> Mapping[str, Split]:
        """Return what each queue deserves; what comes out as before is taken as it was."""
        standing = self.session.standing
        seen = (total, [(item.name, item.weight, item.limit, item.guarantee, dict(item.request)) for item in asking])
        if standing.asked == seen:
            return standing.splits
        found = {}
        for name, amounts in split(total, asking).items():
            known = standing.splits.get(name)
            found[name] = known if known is not None and known.amounts == amounts else _worked_out(amounts)
        standing.asked, standing.splits = seen, found
        return found

    def ceiling(self, account: Account) -> Limits:
        return account.limit if account.queue.name == self.borrower else self._splits[account.queue.name].floors

    def allocated(self, task: Task) -> None:
        super().allocated(task)
        queue = task.job.queue
        account = self.account(queue.name)
        if self.borrower == queue.name and over(account.allocated, account.deserved, task.charge):
            self.borrower = ""

    def overused(self, queue: Queue) -> bool:
        """Q-16: nothing more in any deserved dimension."""
        account = self.account(queue.name)
        ceilings = self._splits[queue.name].ceilings
        return all(amount <= account.allocated.get(name, 0) for name, amount in ceilings.items())

    def preemptive(self, queue: Queue, task: Task) -> bool:
        """Q-17: its own queue could still hold the task."""
        account = self.account(queue.name)
        asked = self.accounts.matters(account, task.traits.asked)
        return not over(add(account.allocated, asked), account.deserved, asked)


def _worked_out(amounts: Amounts) -> Split:
    floors = {name: floor(value) for name, value in amounts.items()}
    ceilings = {name: ceil(value) for name, value in amounts.items()}
    return Split(amounts, exact(amounts), floors, ceilings)
