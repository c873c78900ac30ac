"""capacity: queues deserve what their spec says, and may use what is idle up to their real capability (CFG-13).

With ``enableHierarchy`` a queue's real capability is its part of its parent's, and a task or job must fit its queue
and every queue above it. Where child queues are promised more than their parent has, nothing is scheduled below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, Final

from scheduling import resources
from scheduling.cycle.accounts import Account, capability_of, guarantee_of, over, real_capability
from scheduling.cycle.job import Job, Task
from scheduling.cycle.plugin import Vote
from scheduling.cycle.plugins.queues import QueuePlugin
from scheduling.cycle.waterfill import exact, share
from scheduling.objects import Queue
from scheduling.reasons.kinds import OverCommitted, QueueReason
from scheduling.resources import PODS, Vector

_ROOT: Final = "root"


class CapacityPlugin(QueuePlugin):
    """Deserved comes from the Queue, floored by the guarantee and capped by the capability."""

    name = "capacity"

    def share_out(self) -> None:
        self._chains: dict[str, tuple[Account, ...]] = {}
        self._overcommitted: dict[str, OverCommitted] = {}
        self._by_hierarchy = self.option.on("enableHierarchy")
        if self._by_hierarchy:
            _Hierarchy(self).build(self._chains, self._overcommitted)
        for account in self.accounts.of.values():
            account.deserved = exact(deserved_of(account))

    # --- the hierarchy ---

    def chain(self, queue: str) -> Sequence[Account]:
        return self._chains.get(queue) or (self.account(queue),)

    def blocked(self, queue: str) -> OverCommitted | None:
        """Return why nothing is scheduled in a queue: one above it is over-committed; None if none is."""
        found = (self._overcommitted.get(account.queue.name) for account in self.chain(queue))
        return next((reason for reason in found if reason), None)

    def allocatable(self, task: Task) -> QueueReason | None:
        return self.blocked(task.job.queue.name) or super().allocatable(task)

    def enqueueable(self, job: Job) -> Vote:
        blocked = self.blocked(job.queue.name)
        if blocked:
            job.refusal = blocked
            return Vote.NO
        return super().enqueueable(job)

    def queue_key(self, queue: Queue) -> Any:
        """Higher ``spec.priority``, then lower share; in a hierarchy that of the queues where the ways part."""
        if not self._by_hierarchy:
            return super().queue_key(queue)
        way = reversed(self.chain(queue.name))
        shares = ((share(item.allocated, item.deserved), item.queue.created, item.queue.name) for item in way)
        return (-queue.priority, tuple(shares))

    # --- reclaim ---

    def excess(self, account: Account, held: Vector) -> list[str]:
        """Only what the queue names is deserved or exceeded; a queue that deserves nothing exceeds with anything."""
        if not account.deserved:
            return [name for name, value in held.items() if value > 0]
        return [name for name, amount in account.deserved.items() if held.get(name, 0) > amount]

    def preemptive(self, queue: Queue, task: Task) -> bool:
        """The real capability holds the task, and in a requested dimension it is still within its deserved."""
        account = self.account(queue.name)
        asked = self.accounts.matters(account, task.traits.asked)
        future = resources.add(account.allocated, asked)
        if self.blocked(queue.name) or over(future, account.limit, asked):
            return False
        return any(future[name] <= account.deserved[name] for name in _requested(account, asked))

    def fair(self, reclaimer: Task, account: Account, held: Vector, excess: Sequence[str]) -> bool:
        """The queue that takes must stay below what the other has come to, each measured by what it deserves.

        It may exceed its deserved in one dimension while it is within it in another; without this bound two such
        queues would take from each other without end.
        """
        own = self.account(reclaimer.job.queue.name)
        asked = self.accounts.matters(own, reclaimer.traits.asked)
        future = resources.add(own.allocated, asked)
        mine = _share(own, future, _requested(own, asked))
        theirs = _share(account, held, excess)
        return theirs is None or (mine is not None and mine < theirs)


def deserved_of(account: Account) -> dict[str, int]:
    """Return what a queue deserves: as written, at most its real capability, at least its guarantee."""
    written = resources.vector(account.queue.deserved or {})
    capped = {name: min(value, account.limit.get(name, value)) for name, value in written.items()}
    return resources.maximum(capped, account.guarantee)


def _requested(account: Account, asked: Vector) -> list[str]:
    return [name for name, value in asked.items() if value > 0 and name != PODS and name in account.deserved]


def _share(account: Account, held: Vector, names: Sequence[str]) -> Fraction | None:
    """Return how much of its deserved a queue holds in these dimensions at most; None where it deserves none."""
    if any(not account.deserved.get(name) and held.get(name, 0) > 0 for name in names):
        return None
    return max((held.get(name, 0) / account.deserved[name] for name in names if held.get(name, 0)), default=Fraction(0))


class _Hierarchy:
    """The accounts of all queues up to ``root``, with each queue's part of its parent's real capability."""

    def __init__(self, plugin: CapacityPlugin) -> None:
        self._session, self._accounts = plugin.session, plugin.accounts
        self._queues = plugin.session.model.queues
        self._children: dict[str, list[Queue]] = {}
        for name in sorted(self._queues):
            if name != _ROOT:
                self._children.setdefault(self._parent(self._queues[name]), []).append(self._queues[name])
        self._limits: dict[str, dict[str, int]] = {}

    def _parent(self, queue: Queue) -> str:
        return queue.parent if queue.parent in self._queues and queue.parent != queue.name else _ROOT

    def _way_up(self, name: str) -> list[str]:
        """Return the names from a queue up to the root; a circle of parents ends where it closes."""
        way = [name]
        while way[-1] in self._queues and way[-1] != _ROOT:
            above = self._parent(self._queues[way[-1]])
            way.append(_ROOT if above in way else above)
        return way

    def build(self, chains: dict[str, tuple[Account, ...]], overcommitted: dict[str, OverCommitted]) -> None:
        """Set the chain of every queue that has jobs, and why queues above them are over-committed."""
        own = dict(self._accounts.of)
        for name in own:
            way = self._way_up(name)
            for above in way:
                self._open(above, self._way_up(above))
            chains[name] = tuple(self._accounts.of[above] for above in way if above in self._accounts.of)
        for name, account in own.items():
            for parent in chains[name][1:]:
                _add_up(parent, account)
        for name in sorted(self._accounts.of):
            found = self._overcommit(name)
            if found:
                overcommitted[name] = found

    def _open(self, name: str, way: list[str]) -> None:
        """Open the account of a queue above others, and set the limit of every queue by its parent's."""
        queue = self._queues.get(name)
        if queue is None:
            return
        limit = self._limit(name, way)
        known = self._accounts.of.get(name)
        if known is None:
            self._accounts.of[name] = Account(queue, capability_of(queue), guarantee_of(queue), limit)
        else:
            known.limit = limit

    def _limit(self, name: str, way: list[str]) -> dict[str, int]:
        found = self._limits.get(name)
        if found is None:
            queue = self._queues.get(name)
            capability = capability_of(queue) if queue else {}
            if len(way) == 1:
                found = real_capability(self._session.total, {}, capability, {})
            else:
                among = resources.total(guarantee_of(child) for child in self._children.get(way[1], ()))
                own = guarantee_of(queue) if queue else {}
                found = real_capability(self._limit(way[1], way[1:]), among, capability, own)
            self._limits[name] = found
        return found

    def _overcommit(self, name: str) -> OverCommitted | None:
        """Return what child queues are promised of it beyond what a queue has; None if nothing."""
        children = self._children.get(name, [])
        if name == _ROOT or not children:
            return None
        account = self._accounts.of[name]
        for word, mine, theirs in (
            ("guaranteed", account.guarantee, [guarantee_of(child) for child in children]),
            ("deserved", deserved_of(account), [resources.vector(child.deserved or {}) for child in children]),
        ):
            total = resources.total(theirs)
            names = resources.ordered(key for key, value in mine.items() if total.get(key, 0) > value)
            if names:
                return OverCommitted(name, word, tuple(names))
        return None


def _add_up(above: Account, account: Account) -> None:
    """Add what a queue has to a queue above it."""
    above.own()
    pairs = (
        (above.allocated, account.allocated),
        (above.held, account.held),
        (above.request, account.request),
        (above.inqueue, account.inqueue),
        (above.elastic, account.elastic),
    )
    for total, more in pairs:
        for name, value in more.items():
            total[name] = total.get(name, 0) + value
