"""The embedded system in one event loop: an empty cluster, a log in memory, and every service on them.

The services are the production ones; here they are stepped in a fixed order on a clock that stands still. A service can
be paused, crashed, replaced and started again; what is started again has nothing but the log.

``deliver`` lets everything that the cluster has to say be read and folded; nothing is decided or bound. ``settle`` goes
on until nothing more is decided, bound, reconciled or served: one decision, then everybody in turn until all is quiet,
and so on.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from adapters.clock import ManualClock
from adapters.log.follower import Follower
from adapters.log.memory import MemoryLog
from adapters.log.port import OutOfRange
from events.kinds import OBSERVED_KINDS, Kind
from scheduling.state.fold import Fold
from scheduling.state.model import Model
from services.binder.binder import Binder
from services.binder.status import StatusWriter
from services.cluster.admission import admit
from services.cluster.api import EmbeddedApi
from services.cluster.direct import DirectApi
from services.cluster.nodeagent import NodeAgents
from services.cluster.store import Store, derived_uid
from services.controller.manager import ControllerManager
from services.scheduler.scheduler import Scheduler
from services.simulator import clocktext, keys
from services.simulator.faults import BinderApi, Crashed, Faults, ServiceLog, WatcherApi
from services.simulator.inspector import Inspector
from services.watcher.watcher import Watcher

CLUSTER = "embedded"
ROUNDS_MAX = 10_000
#: Turns without any trace on the log or the cluster after which a service that still says "more" is not believed.
IDLE_TURNS_MAX = 3

Step = Callable[[], Awaitable[bool]]


class NotAtRest(Exception):
    """A settle did not come to an end: what went round."""


@dataclass
class Role:
    """One service's place: the instance (None while it is down), whether it is held, and whether a step did that."""

    name: str
    start: Callable[[], object]
    instance: object | None = None
    paused: bool = False
    stopped_by: str = ""

    @property
    def running(self) -> bool:
        return self.instance is not None and not self.paused


@dataclass
class BinderService:
    """The binder's process: the binder and the status writer on one fold."""

    binder: Binder
    status: StatusWriter


@dataclass
class System:
    """Everything that runs. ``inspector`` folds the log beside the services, for those who look on."""

    seed: int = 0
    clock: ManualClock = field(default_factory=lambda: ManualClock(clocktext.START_MS))

    def __post_init__(self) -> None:
        self.log = MemoryLog()
        self.store = Store(self.clock, derived_uid)
        self.api = EmbeddedApi(self.store, (admit,))
        self.faults = Faults()
        self.binder_api = BinderApi(self.api, self.store, self.faults)
        self.watcher_api = WatcherApi(self.api)
        self.inspector = Follower(self.log, Inspector())
        self.agents = NodeAgents(DirectApi(self.api, "agents"), self.clock, ends="evicted")
        self.crashes: list[str] = []
        self.errors: list[Exception] = []
        self.deposed: list[Scheduler] = []
        self._woken: list[Scheduler] = []
        self._replaced: set[str] = set()
        self.batches = 0
        self._started: dict[str, int] = {}
        self._incarnations = 0
        self._scheduler_log = ServiceLog(self.log, "scheduler", self.faults)
        self._binder_log = ServiceLog(self.log, "binder", self.faults)
        self._watcher_log = ServiceLog(self.log, "watcher", self.faults)
        self._scheduler_log.on_batch = self._count_batch
        self._kinds = list(OBSERVED_KINDS)
        if self.seed:
            random.Random(self.seed).shuffle(self._kinds)
        starts: dict[str, Callable[[], object]] = {
            "controller": self._start_controller,
            "watcher": self._start_watcher,
            "scheduler": self._start_scheduler,
            "binder": self._start_binder,
        }
        self.roles = {name: Role(name, start) for name, start in starts.items()}
        for role in self.roles.values():
            role.instance = role.start()

    @property
    def model(self) -> Model:
        """The state that the log folds to."""
        return self.inspector.state.model

    # --- starting and stopping ---

    def _writer_id(self, name: str) -> str:
        self._started[name] = self._started.get(name, 0) + 1
        return f"{name}-{self._started[name]}"

    def _incarnation(self) -> str:
        self._incarnations += 1
        return f"sim{self._incarnations}"

    def _count_batch(self) -> None:
        self.batches += 1

    def _start_controller(self) -> ControllerManager:
        return ControllerManager(DirectApi(self.api, "controller"), self.clock, keys=keys.derived, grace_s=0)

    def _start_watcher(self) -> Watcher:
        return Watcher(
            self.watcher_api, self._watcher_log, self.clock, CLUSTER, self._writer_id("watcher"),
            incarnation=self._incarnation, kinds=self._kinds,
        )  # fmt: skip

    def _start_scheduler(self) -> Scheduler:
        writer = self._writer_id("scheduler")
        return Scheduler(
            self._scheduler_log, self.clock, CLUSTER, writer, may_lead=lambda: writer not in self._replaced
        )  # fmt: skip

    def _start_binder(self) -> BinderService:
        follower: Follower[Fold] = Follower(self._binder_log, Fold())
        binder = Binder(
            self.binder_api, self._binder_log, follower, self.clock, CLUSTER, self._writer_id("binder")
        )  # fmt: skip
        return BinderService(binder, StatusWriter(self.binder_api, follower, self.clock))

    def restart(self, who: str) -> None:
        """Stop a service and start it again with nothing but the log; revives what had crashed."""
        for name in self.roles if who == "all" else [who]:
            role = self.roles[name]
            role.paused, role.stopped_by = False, ""
            role.instance = role.start()
            if name == "scheduler":
                self.deposed, self._woken = [], []

    def pause(self, who: str) -> None:
        self.roles[who].paused = True

    def resume(self, who: str) -> None:
        """Let a service go on; a scheduler that was replaced meanwhile finds that out by itself."""
        self.roles[who].paused = False
        if who == "scheduler":
            self._woken, self.deposed = [*self._woken, *self.deposed], []

    def failover(self) -> None:
        """Another scheduler takes over; the old one is held and still believes that it is in charge."""
        role = self.roles["scheduler"]
        if isinstance(role.instance, Scheduler):
            self.deposed.append(role.instance)
            self._replaced.add(f"scheduler-{self._started['scheduler']}")
        role.instance, role.paused, role.stopped_by = role.start(), False, ""

    async def rebalance(self, who: str, uncommitted: int) -> None:
        """The partition moves: a new owner rebuilds from the log and is then given its last records once more."""
        self.restart(who)
        await self.deliver()
        log = {"scheduler": self._scheduler_log, "binder": self._binder_log, "watcher": self._watcher_log}[who]
        await log.give_again(uncommitted)

    # --- turns ---

    async def deliver(self) -> None:
        """Let what the cluster says be read and folded by everybody who runs."""
        await self._until_quiet(
            {"watcher": self._step_watcher, "scheduler": self._fold_scheduler, "binder": self._fold_binder}
        )
        await self.inspector.catch_up()

    async def settle(self, rounds: int | None = None) -> None:
        """Run until nothing more is done, or at most so many rounds. Raises NotAtRest."""
        done = 0
        while True:
            await self._quiet()
            if done == rounds or not await self._decide():
                if await self._step_status(rest=True):
                    await self._quiet()
                if done == rounds or not await self._decide():
                    return
            done += 1
            if done >= ROUNDS_MAX:
                raise NotAtRest(f"not at rest after {ROUNDS_MAX} rounds: the scheduler still decides")

    async def _quiet(self) -> None:
        turns: dict[str, Step] = {
            "controller": self._step_controller,
            "watcher": self._step_watcher,
            "scheduler": self._fold_scheduler,
            "binder": self._step_binder,
            "node agents": self.agents.step,
            "status writer": self._step_status,
        }
        await self._until_quiet(turns)
        await self.inspector.catch_up()

    async def _until_quiet(self, turns: dict[str, Step]) -> None:
        idle = 0
        for _ in range(ROUNDS_MAX):
            before = await self._trace()
            busy = [name for name, step in turns.items() if await step()]
            if not busy:
                return
            idle = idle + 1 if await self._trace() == before else 0
            if idle >= IDLE_TURNS_MAX:
                return
        raise NotAtRest(f"not at rest after {ROUNDS_MAX} rounds: {', '.join(busy)} went round")

    async def _trace(self) -> tuple[int, ...]:
        """Return what changes whenever anything is done: the cluster's version, the log's end, fired faults."""
        _, end = await self.log.bounds()
        return self.store.version, end, self.faults.fired

    async def _decide(self) -> bool:
        """Let the scheduler decide once; true if a batch came of it. Ticks and terms are not decisions."""
        for old in self._woken:
            await self._run("scheduler", old.decide)
            await self._run("scheduler", old.fold)
        self._woken.clear()
        before = self.batches
        while await self._run("scheduler", self._decide_step):
            if self.batches != before:
                return True
        return False

    async def _decide_step(self) -> bool:
        scheduler = self.roles["scheduler"].instance
        return isinstance(scheduler, Scheduler) and await scheduler.decide()

    async def _step_controller(self) -> bool:
        manager = self.roles["controller"].instance
        return isinstance(manager, ControllerManager) and await self._run("controller", manager.step)

    async def _step_watcher(self) -> bool:
        watcher = self.roles["watcher"].instance
        return isinstance(watcher, Watcher) and await self._run("watcher", watcher.step)

    async def _fold_scheduler(self) -> bool:
        scheduler = self.roles["scheduler"].instance
        return isinstance(scheduler, Scheduler) and await self._run("scheduler", scheduler.fold)

    async def _fold_binder(self) -> bool:
        service = self.roles["binder"].instance
        if not isinstance(service, BinderService):
            return False
        return await self._run("binder", lambda: _folded(service.binder.follower))

    async def _step_binder(self) -> bool:
        service = self.roles["binder"].instance
        if not isinstance(service, BinderService):
            return False
        return await self._run("binder", lambda: self._bind(service.binder))

    async def _bind(self, binder: Binder) -> bool:
        """Step the binder; once it has read a command and done nothing yet, it is at a point of ``crash``."""
        folded = await _folded(binder.follower)
        if binder.model.commands:
            self.faults.crash_at("binder", "after-command")
        return await binder.step() or folded

    async def _step_status(self, *, rest: bool = False) -> bool:
        service = self.roles["binder"].instance
        if not isinstance(service, BinderService):
            return False
        return await self._run("binder", lambda: service.status.step(rest=rest))

    async def _run(self, name: str, step: Step) -> bool:
        """Step a service that runs. One that dies stays down: killed by a fault, or by a fault of its own."""
        role = self.roles[name]
        if not role.running:
            return False
        try:
            return await step()
        except Crashed as crash:
            role.instance, role.stopped_by = None, str(crash)
        except OutOfRange:
            role.instance = role.start()
        except Exception as error:
            role.instance = None
            self.crashes.append(f"{name} stopped: {type(error).__name__}: {error}")
            self.errors.append(error)
        return True


async def _folded(follower: Follower[Fold]) -> bool:
    return await follower.catch_up() > 0


def kind_named(word: str) -> Kind:
    """Return an observed kind by its word."""
    return next(kind for kind in OBSERVED_KINDS if kind.name == word)
