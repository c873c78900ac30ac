"""The simulated world: the production services as processes that can be killed, held, doubled and cut off.

Each process has its own links to the log and to the API server, and its own clock. A step of a process is driven until
it ends or is held; a killed process loses everything but what is on the log and in the cluster, and is started again by
a later step. Two processes of a role may live at once: the terms on the log say which of them counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final, cast

from adapters.clock import ManualClock
from adapters.cluster.port import ApiError, ApiUnknown
from adapters.log.follower import Follower
from adapters.log.memory import MemoryLog
from adapters.log.port import LogError
from events import names
from events.kinds import NODE
from scheduling.state.fold import Fold
from scheduling.state.snapshot import Unusable, dump, load, refusal
from services.binder.binder import Binder
from services.binder.status import StatusWriter
from services.cluster.admission import admit
from services.cluster.api import EmbeddedApi
from services.cluster.direct import DirectApi
from services.cluster.nodeagent import NodeAgents
from services.cluster.store import Backup, Store, derived_uid
from services.controller.manager import ControllerManager
from services.scheduler.scheduler import Scheduler
from services.simulator import clocktext, keys
from services.simulator.chaos import apilink
from services.simulator.chaos.apilink import ApiLink
from services.simulator.chaos.bookkeeping import Bookkeeping
from services.simulator.chaos.driving import Killed, Task, at_once
from services.simulator.chaos.inspecting import Inspector
from services.simulator.chaos.lanes import Lane, Lanes
from services.simulator.chaos.loglink import LogLink, RememberingCodec
from services.simulator.chaos.network import Network
from services.simulator.chaos.plan import Plan
from services.simulator.chaos.witness import Noted, Witness
from services.simulator.chaos.workload import Workload
from services.watcher.memory import Memory
from services.watcher.watcher import Watcher

CLUSTER: Final = "chaos"
ROLES: Final = ("watcher", "scheduler", "binder", "status", "controller", "agents")
#: Roles of which two processes may live at once.
DOUBLED: Final = ("watcher", "scheduler", "binder")
#: Roles that make several requests at once.
IN_LANES: Final = ("binder", "status", "controller")
#: As where a group says who may lead.
STAND_BACK_MS: Final = 2_000
#: Events kept per kind: so few that a watch that was cut off for long falls out of the window.
HISTORY: Final = 400
#: Backups of the API server that are kept.
BACKUPS: Final = 3
#: A snapshot of the state is taken so many records after the last one, and so often a start does without.
SNAPSHOT_EVERY: Final = 40
FROM_THE_FRONT: Final = 0.2

_MARKS: Final = tuple(names.LOCK_MARKS.values())

Step = Callable[[], Awaitable[bool]]


class SkewedClock:
    """One process's clock: right, off by some time, or standing still."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.offset_ms = 0
        self.frozen_ms: int | None = None

    def now_ms(self) -> int:
        return self.frozen_ms if self.frozen_ms is not None else self._clock.time_ms + self.offset_ms


@dataclass
class Process:
    """One living process. ``task`` is its step under way, if that is held."""

    role: str
    name: str
    instance: object
    step: Step
    clock: SkewedClock
    lanes: Lanes | None = None
    task: Task | Lane | None = None

    def begin(self) -> Task | Lane:
        """Begin a step."""
        step = cast(Coroutine[Any, Any, bool], self.step())
        return self.lanes.begin(step) if self.lanes else Task(step)


@dataclass
class World:
    """Everything that a run consists of."""

    plan: Plan
    clock: ManualClock = field(default_factory=lambda: ManualClock(clocktext.START_MS))

    def __post_init__(self) -> None:
        self.rng = Random(self.plan.seed)
        self.network = Network(lanes=self.plan.setting.lanes > 1)
        self.log = MemoryLog()
        self.store = Store(self.clock, derived_uid, history_max=HISTORY)
        self.api = EmbeddedApi(self.store, (admit,))
        self.workload = Workload(self.store, DirectApi(self.api, "users"), self.plan.setting, self.plan.seed)
        self.codec = RememberingCodec()
        self.inspector: Follower[Inspector] = Follower(self.log, Inspector(), codec=self.codec)
        self.projection = (
            Bookkeeping(self.log, self.network, CLUSTER, self.inspector) if self.plan.setting.database else None
        )
        self.processes: list[Process] = []
        self.backups: list[Backup] = []
        #: Marks of node locks that a restore brought back.
        self.locks_back: set[str] = set()
        #: The newest snapshot of the state: its place on the log, the chain before it, and its bytes.
        self.snapshot: tuple[int, str, bytes] | None = None
        self.noted = Noted()
        self.crashes: list[str] = []
        self.errors: list[Exception] = []
        self.failures: Counter[str] = Counter()
        self._started: Counter[str] = Counter()
        self._incarnations = 0
        self.workload.begin()
        for role in ROLES:
            self.start(role)

    # --- the API server's store ---

    def back_up(self) -> None:
        """Keep a backup of the API server's store; of many, the newest."""
        self.backups = [*self.backups, self.store.backup()][-BACKUPS:]

    def restore(self, backup: Backup) -> None:
        """The API server comes back with an older state; what was under way to it, or from it, is lost."""
        self.api.restore(backup)
        for item in self.store.items(NODE):
            self.locks_back.update((item["metadata"].get("annotations") or {}).get(mark, "") for mark in _MARKS)
        self.network.lose(apilink.ARRIVED)
        self.backups = [kept for kept in self.backups if kept.version <= backup.version]

    # --- processes ---

    def start(self, role: str) -> Process:
        """Start one more process of a role, with nothing but the log and the cluster."""
        self._started[role] += 1
        name = f"{role}{self._started[role]}"
        clock = SkewedClock(self.clock)
        log = LogLink(self.log, self.network, name, self.rng)
        api = ApiLink(self.api, self.network, name, self.rng)
        instance = self._instance(role, name, log, api, clock)
        process = Process(role, name, instance, cast(Any, instance).step, clock, self._lanes(role, name))
        self.processes.append(process)
        return process

    def _lanes(self, role: str, name: str) -> Lanes | None:
        if self.network.lanes and role in IN_LANES:
            return Lanes(Random(f"{self.plan.seed}/{name}"))  # type: ignore[abstract]  # what a loop does beyond this
        return None

    def _instance(self, role: str, name: str, log: LogLink, api: ApiLink, clock: SkewedClock) -> object:
        may = partial(self._may_lead, role, name)
        reader, lanes = partial(self._reader, log), self.plan.setting.lanes
        if role == "watcher":
            return Watcher(
                api,
                log,
                clock,
                CLUSTER,
                name,
                incarnation=self._incarnation,
                jitter=_jitter,
                stand_back_ms=STAND_BACK_MS,
                may_lead=may,
                start=partial(self._remembering, log),
            )
        if role == "scheduler":
            return Scheduler(
                log,
                clock,
                CLUSTER,
                name,
                follower=reader(),
                idle_ms=self.plan.setting.idle_ms,
                stand_back_ms=STAND_BACK_MS,
                may_lead=may,
            )
        if role == "binder":
            follower = reader()
            api.witness = Witness(follower, self.store, self.noted)
            return Binder(
                api, log, follower, clock, CLUSTER, name, parallel=lanes, jitter=_jitter, stand_back_ms=STAND_BACK_MS,
                may_lead=may,
            )  # fmt: skip
        if role == "status":
            return StatusWriter(api, reader(), clock, parallel=lanes)
        if role == "controller":
            return ControllerManager(api, clock, keys=keys.derived, jitter=_jitter, parallel=lanes)
        return NodeAgents(api, clock, jitter=_jitter)

    def _reader(self, log: LogLink) -> Follower[Fold]:
        """Return a reader that begins at a snapshot, as most restarts do, or at the log's front."""
        if self.snapshot is None or self.rng.random() < FROM_THE_FRONT:
            return Follower(log, Fold(), codec=self.codec)
        position, chain, data = self.snapshot
        try:
            fold = load(data)
        except Unusable as error:
            # Production would fold the whole log; here nothing damaged it, so the state itself is wrong.
            self.crashes.append(f"6: a snapshot of the state cannot be used: {error}")
            return Follower(log, Fold(), codec=self.codec)
        return Follower(log, fold, position=position, digest=bytes.fromhex(chain), codec=self.codec)

    async def _remembering(self, log: LogLink) -> Follower[Memory]:
        """The same for a watcher."""
        if self.snapshot is None or self.rng.random() < FROM_THE_FRONT:
            return Follower(log, Memory(), codec=self.codec)
        position, chain, data = self.snapshot
        memory = Memory.of_snapshot(data)
        return Follower(log, memory, position=position, digest=bytes.fromhex(chain), codec=self.codec)

    def _may_lead(self, role: str, name: str) -> bool:
        """The group says who may try: at peace the newest, and anybody while nobody can be sure."""
        return not self.network.calm or self.of(role)[-1].name == name

    def _incarnation(self) -> str:
        self._incarnations += 1
        return f"i{self._incarnations}"

    def of(self, role: str) -> list[Process]:
        return [process for process in self.processes if process.role == role]

    def kill(self, process: Process) -> None:
        if process.task is not None:
            process.task.drop()
        self.processes.remove(process)

    def run(self, process: Process) -> bool:
        """Drive a process: go on with a step that was held, or begin one. True if it did something."""
        fresh = process.task is None
        if process.task is None:
            process.task = process.begin()
        try:
            if not process.task.drive():
                return True
        except Killed:
            self.processes.remove(process)
            return True
        except (LogError, ApiError, ApiUnknown) as error:
            # The shell of every service tries again what failed because the world failed.
            process.task = None
            self.failures[f"{process.role}: {type(error).__name__}"] += 1
            return True
        except Exception as error:
            self.processes.remove(process)
            self.crashes.append(f"{process.name} stopped: {type(error).__name__}: {error}")
            self.errors.append(error)
            return True
        result, process.task = process.task.result, None
        return result or not fresh

    def inspect(self) -> None:
        """Let the onlooker read what is on the log."""
        while at_once(self.inspector.advance(500, self._keep_snapshot)):
            pass

    def _keep_snapshot(self) -> bool:
        """Take a snapshot where one may be taken, now and then; the onlooker reads on."""
        follower, last = self.inspector, self.snapshot[0] if self.snapshot else 0
        if follower.position - last >= SNAPSHOT_EVERY and not refusal(follower.state):
            self.snapshot = follower.position, follower.chain, dump(follower.state)
        return False

    def live_folds(self) -> list[tuple[str, Follower[Fold]]]:
        """Return every living reader of the log that folds the whole state."""
        return [
            (process.name, process.instance.follower)
            for process in self.processes
            if isinstance(process.instance, Scheduler | Binder | StatusWriter) and process.task is None
        ]


def _jitter() -> float:
    return 0.5
