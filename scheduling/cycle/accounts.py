"""What each queue has, asks for and may have (scheduling/Q-9 to Q-11a, Q-18a, Q-21), for the plugins that limit queues.

Amounts are whole numbers of the resource's unit; only what a queue deserves may be a fraction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Protocol

from scheduling import resources
from scheduling.cycle.job import COMPLETED, INQUEUE, RUNNING, Job, Sums, Task
from scheduling.cycle.traits import OWN_GATE
from scheduling.devices.environment import DeviceEnv
from scheduling.objects import Queue
from scheduling.resources import CPU, MEMORY, PODS, Vector
from scheduling.status import ALLOC, TaskStatus

if TYPE_CHECKING:
    from scheduling.cycle.session import Session
    from scheduling.cycle.standing import Standing

Limits = Mapping[str, int] | Mapping[str, Fraction]


class Basis(Protocol):
    """What amounts are charged by: the device environment, and whether as the reference does (Q-21)."""

    @property
    def env(self) -> DeviceEnv: ...

    @property
    def raw(self) -> bool: ...


@dataclass
class Account:
    """One queue's account. ``capability`` names what is limited (Q-10); ``limit`` is the real capability (Q-9).

    ``allocated`` is the sum that most rules use (Q-11, Q-21), ``held`` what is really held (Q-17a).
    """

    queue: Queue
    capability: Vector
    guarantee: Vector
    limit: Vector
    allocated: dict[str, int] = field(default_factory=dict)
    held: dict[str, int] = field(default_factory=dict)
    request: dict[str, int] = field(default_factory=dict)
    inqueue: dict[str, int] = field(default_factory=dict)
    elastic: dict[str, int] = field(default_factory=dict)
    deserved: Mapping[str, Fraction] = field(default_factory=dict)
    shared: bool = False

    def own(self) -> Account:
        """Return it with sums that may be changed: until then they are those of the snapshot."""
        if self.shared:
            self.allocated, self.held, self.request = dict(self.allocated), dict(self.held), dict(self.request)
            self.inqueue, self.elastic, self.shared = dict(self.inqueue), dict(self.elastic), False
        return self


def over(future: Vector, limit: Limits, requested: Vector) -> list[str]:
    """Return the requested dimensions in which ``future`` is above ``limit`` (R-5): strict, without ``pods``."""
    names = [
        name
        for name, asked in requested.items()
        if asked > 0 and name != PODS and future.get(name, 0) > limit.get(name, 0)
    ]
    return resources.ordered(names) if len(names) > 1 else names


def capability_of(queue: Queue) -> dict[str, int]:
    """Return what a queue's capability limits: cpu or memory of 0 is none, a scalar of 0 is a limit (Q-10)."""
    found = resources.vector(queue.capability or {})
    return {name: value for name, value in found.items() if value > 0 or name not in (CPU, MEMORY)}


def guarantee_of(queue: Queue) -> dict[str, int]:
    """Return what is kept for a queue."""
    return resources.vector(queue.guarantee or {})


def real_capability(total: Vector, guarantees: Vector, capability: Vector, guarantee: Vector) -> dict[str, int]:
    """Return the real capability (Q-9): what others have no guarantee for, capped by the capability."""
    names = {*total, *capability, *guarantee}
    free = {name: max(total.get(name, 0) - guarantees.get(name, 0), 0) + guarantee.get(name, 0) for name in names}
    return {name: min(amount, capability.get(name, amount)) for name, amount in sorted(free.items())}


class Accounts:
    """The accounts of all queues that own a PodGroup in the snapshot (Q-9), by queue name."""

    def __init__(self, session: Session) -> None:
        self._session = session
        standing = session.standing
        _count_percentages(session)
        self.of: dict[str, Account] = {}
        for name, (queue, capability, guarantee, limit) in _limits(session).items():
            sums = standing.totals[name]
            self.of[name] = Account(
                queue,
                capability,
                guarantee,
                limit,
                allocated=sums.charged,
                held=sums.held,
                request=sums.request,
                inqueue=sums.reserved,
                elastic=sums.elastic,
                shared=True,
            )

    def counts(self, account: Account, name: str) -> bool:
        """Tell whether a resource matters to a queue: a scalar that no node has does if it is limited (Q-10a)."""
        return name in (CPU, MEMORY) or self._session.total.get(name, 0) > 0 or name in account.capability

    def matters(self, account: Account, requested: Vector) -> dict[str, int]:
        """Return the part of a request that matters to a queue (Q-10a)."""
        return {name: value for name, value in requested.items() if self.counts(account, name)}


def _limits(session: Session) -> dict[str, tuple[Queue, Vector, Vector, Vector]]:
    """Return capability, guarantee and real capability (Q-9) of all queues that own a PodGroup, by name."""
    standing = session.standing
    guarantees = resources.total(guarantee_of(queue) for queue in session.model.queues.values() if queue.guarantee)
    if standing.limits_of != (session.total, guarantees):
        standing.limits, standing.limits_of = {}, (session.total, guarantees)
    found = {}
    for name in sorted(session.queues):
        queue, known = session.queues[name], standing.limits.get(name)
        if known is None or known[0] is not queue:
            capability, guarantee = capability_of(queue), guarantee_of(queue)
            limit = real_capability(session.total, guarantees, capability, guarantee)
            known = standing.limits[name] = (queue, capability, guarantee, limit)
        found[name] = known
    return found


def _count_percentages(session: Session) -> None:
    """Count requests in percent of a card with the largest card that there is (Q-21)."""
    standing = session.standing
    largest = session.memo.largest_card(session.views) if standing.in_percent else standing.largest
    if largest != standing.largest:
        standing.largest = largest
        for key in standing.in_percent:
            standing.wishes(standing.jobs[key], wished(standing, standing.jobs[key]))


def wished(standing: Standing, job: Job) -> dict[str, int]:
    """Return what a job's pending tasks may come to hold: memory that depends on the card counts as the largest."""
    total: dict[str, int] = {}
    if not job.pending:
        return total
    for task in job.tasks:
        if task.status is TaskStatus.PENDING and not task.traits.refused:
            demand = task.traits.demand
            if standing.raw or all(item.percentage is None for item in demand.requests):
                _add(total, task.traits.asked)
            else:
                standing.in_percent.add(job.key)
                _add(total, demand.requested_at_most(standing.env, standing.largest))
    return total


def _add(total: dict[str, int], more: Vector) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def sums_of(basis: Basis, job: Job) -> Sums:
    """Return what a job adds up to in the snapshot: worked out when it is first asked for, before any trial."""
    if job.sums is None:
        placed = [task for task in job.tasks if task.status in ALLOC]
        charged = resources.total(task.charge for task in placed)
        least = min_resources(basis, job)
        job.sums = Sums(
            charged=charged,
            held=resources.total(task.held for task in placed),
            reserved=_reserved(job, least),
            elastic=_above(charged, least or {}),
            requested=resources.total(task.traits.request for task in placed),
        )
    return job.sums


def change(account: Account, task: Task, by: int) -> None:
    """Book a placement (1) or its end (-1)."""
    account.own()
    for total, vector in ((account.allocated, task.charge), (account.held, task.held)):
        for name, value in vector.items():
            total[name] = total.get(name, 0) + by * value


def min_resources(basis: Basis, job: Job) -> dict[str, int] | None:
    """Return a job's minResources as the rules use it, None if it has none.

    The percentage name is no matter (Q-10a). For an automatic PodGroup vGPU memory and cores are minMember × what its
    pod is charged before placement (Q-18a).
    """
    written = job.group.min_resources
    if written is None:
        return None
    env = basis.env
    least = {name: value for name, value in resources.vector(written).items() if name != env.percentage_name}
    if basis.raw or not job.group.automatic or not job.tasks:
        return least
    first = min(job.tasks, key=lambda task: (bool(task.traits.refused), task.status is not TaskStatus.PENDING))
    for name in (env.memory_name, env.cores_name):
        value = first.traits.asked.get(name, 0) * job.minimum
        if value:
            least[name] = value
        else:
            least.pop(name, None)
    return least


def reserves_nothing(job: Job) -> bool:
    """Tell whether a job keeps nothing for itself, whatever its phase (Q-11, Q-11a, PG-7a, devices/R-9a)."""
    if job.phase == COMPLETED:
        return True
    live = [task for task in job.tasks if task.status in ALLOC or task.status is TaskStatus.PENDING]
    if job.group.automatic and all(task.traits.refused for task in live):
        return True
    return job.phase == INQUEUE and not job.admitted and not job.book.reserves


def _above(amounts: Vector, floor: Vector) -> dict[str, int]:
    """Return what is above a floor, dimension by dimension."""
    return {name: value - floor.get(name, 0) for name, value in amounts.items() if value > floor.get(name, 0)}


def _reserved(job: Job, least: Vector | None) -> dict[str, int]:
    """Return what is reserved for a job beyond what it has (Q-11)."""
    if least is None or reserves_nothing(job):
        return {}
    placed = [task for task in job.tasks if task.status in ALLOC]
    if job.phase != INQUEUE and not (job.phase == RUNNING and len(placed) >= job.minimum):
        return {}
    held: dict[str, int] = {}
    for task in placed:
        # Shares on a card that is gone charge nothing, but they leave no reservation behind either (devices/N-21a).
        _add(held, resources.maximum(task.charge, task.traits.asked))
    _add(held, gated(job))
    return _above(least, held)


def gated(job: Job) -> dict[str, int]:
    """Return the requests of gated tasks, but for those that only our own gate holds (AS-12)."""
    held = (task for task in job.tasks if task.traits.gated and task.pod.gates != (OWN_GATE,))
    return resources.total(task.traits.asked for task in held)
