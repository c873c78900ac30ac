"""capacity: queues deserve what their spec says, and may use what is idle up to their real capability (CFG-13)."""

from __future__ import annotations

from scheduling import resources
from scheduling.cycle.accounts import Account, over
from scheduling.cycle.job import Task
from scheduling.cycle.plugins.queues import QueuePlugin, exact
from scheduling.objects import Queue
from scheduling.resources import PODS, Vector


class CapacityPlugin(QueuePlugin):
    """Deserved comes from the Queue, floored by the guarantee and capped by the capability."""

    name = "capacity"

    def share_out(self) -> None:
        for account in self.accounts.of.values():
            written = resources.vector(account.queue.deserved or {})
            capped = {name: min(value, account.limit.get(name, value)) for name, value in written.items()}
            account.deserved = exact(resources.maximum(capped, account.guarantee))

    def exceeds(self, account: Account, held: Vector) -> bool:
        """Only what the queue names is deserved or exceeded; a queue that deserves nothing exceeds with anything."""
        if not account.deserved:
            return any(value > 0 for value in held.values())
        return any(held.get(name, 0) > amount for name, amount in account.deserved.items())

    def preemptive(self, queue: Queue, task: Task) -> bool:
        """The real capability holds the task, and in a requested dimension it is still within its deserved."""
        account = self.account(queue.name)
        asked = self.accounts.matters(account, task.traits.asked)
        future = resources.add(account.allocated, asked)
        if over(future, account.limit, asked):
            return False
        named = [name for name, value in asked.items() if value > 0 and name != PODS and name in account.deserved]
        return any(future[name] <= account.deserved[name] for name in named)
