"""proportion: the cluster split by weight, within each queue's hard limit (scheduling/Q-9 to Q-18a).

``spec.deserved`` and ``spec.parent`` are not read (Q-15).
"""

from __future__ import annotations

from scheduling.cycle.accounts import Account, Limits, over
from scheduling.cycle.job import Task
from scheduling.cycle.plugins.queues import QueuePlugin
from scheduling.cycle.waterfill import Asking, fill
from scheduling.objects import Queue
from scheduling.resources import CPU, MEMORY, add


class ProportionPlugin(QueuePlugin):
    """A queue may grow up to what it deserves."""

    name = "proportion"

    def share_out(self) -> None:
        accounts = self.accounts.of
        asking = [
            Asking(name, item.queue.weight, item.request, item.limit, item.guarantee) for name, item in accounts.items()
        ]
        for name, deserved in fill({CPU: 0, MEMORY: 0, **self.session.total}, asking).items():
            accounts[name].deserved = deserved

    def ceiling(self, account: Account) -> Limits:
        return account.deserved

    def overused(self, queue: Queue) -> bool:
        """Q-16: nothing more in any deserved dimension."""
        account = self.account(queue.name)
        return all(amount <= account.allocated.get(name, 0) for name, amount in account.deserved.items())

    def preemptive(self, queue: Queue, task: Task) -> bool:
        """Q-17: its own queue could still hold the task."""
        account = self.account(queue.name)
        asked = self.accounts.matters(account, task.traits.asked)
        return not over(add(account.allocated, asked), account.deserved, asked)
