"""What the queues and jobs of a state measure, for metrics (scheduling section 8, ME-1 to ME-3). Decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from scheduling.config.parse import default_config
from scheduling.cycle import snapshot
from scheduling.cycle.memo import Memo
from scheduling.cycle.plugins import PLUGINS
from scheduling.cycle.plugins.drf import DrfPlugin
from scheduling.cycle.plugins.queues import QueuePlugin
from scheduling.cycle.session import Session
from scheduling.cycle.waterfill import share
from scheduling.resources import EMPTY, Vector
from scheduling.state.model import Model

_ZERO = Fraction(0)


@dataclass(frozen=True)
class QueueMeasures:
    """One queue, in the units of vectors. A queue without PodGroups has nothing (ME-3).

    ``capacity`` is the capability as written, ``real_capacity`` what it may grow to (Q-9).
    """

    allocated: Vector = field(default_factory=dict)
    request: Vector = field(default_factory=dict)
    inqueue: Vector = field(default_factory=dict)
    deserved: Mapping[str, Fraction] = field(default_factory=dict)
    capacity: Vector = field(default_factory=dict)
    real_capacity: Vector = field(default_factory=dict)
    share: Fraction = _ZERO
    overused: bool = False


@dataclass(frozen=True)
class JobMeasures:
    """One PodGroup: how many tasks its gang lacks (u of MSG-1, 0 when ready), and its share (Q-25)."""

    unscheduled: int
    share: Fraction


@dataclass(frozen=True)
class Measures:
    """All queues by name, and all PodGroups of known queues by key."""

    queues: Mapping[str, QueueMeasures]
    jobs: Mapping[str, JobMeasures]


def measure(model: Model) -> Measures:
    """Return what a state measures under the configuration in force."""
    config = model.config or default_config()
    memo = Memo()
    session = Session(model, config, snapshot.take(model, config, memo), model.time_ms, memo)
    session.open(PLUGINS)
    plugins = session.all_plugins()
    accounts = next((plugin for plugin in plugins if isinstance(plugin, QueuePlugin)), None)
    shares = next((plugin for plugin in plugins if isinstance(plugin, DrfPlugin)), None)
    queues = {name: _queue(session, accounts, name) for name in sorted(model.queues)}
    jobs = {
        key: JobMeasures(_unscheduled(job.book.unschedulable, job.book.message), shares.share(job) if shares else _ZERO)
        for key, job in session.jobs.items()
    }
    return Measures(queues, jobs)


def _queue(session: Session, plugin: QueuePlugin | None, name: str) -> QueueMeasures:
    account = plugin.accounts.of.get(name) if plugin else None
    if plugin is None or account is None:
        return QueueMeasures(allocated=EMPTY)
    return QueueMeasures(
        allocated=dict(account.allocated),
        request=dict(account.request),
        inqueue=dict(account.inqueue),
        deserved=account.deserved,
        capacity=account.capability,
        real_capacity=account.limit,
        share=share(account.allocated, account.deserved),
        overused=plugin.overused(account.queue),
    )


def _unscheduled(unschedulable: bool | None, message: str) -> int:
    """Return the first number of M-1."""
    number = message.partition("/")[0]
    return int(number) if unschedulable and number.isascii() and number.isdigit() else 0
