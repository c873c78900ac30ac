"""The whole system in one process: an embedded cluster on HTTP, a SQLite log, and every service on them.

The watcher, the binder and the status writer reach the cluster through its HTTP port like anybody else. Scheduler,
binder and status writer share one fold of the log: each reads it on, and none while a decision is made. What belongs
to the embedded cluster (its node agents and the controllers that a cluster with Volcano brings along) speaks to it
directly: same requests, same rules, no socket.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import uuid
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog
from aiohttp import web
from sqlalchemy import Engine

from adapters.clock import SystemClock
from adapters.cluster.http import KubernetesApi, server_configuration
from adapters.database.engine import open_database, set_aside_if_damaged
from adapters.database.projector import Projector
from adapters.database.recovery import Recovery
from adapters.log.checkpoints import CheckpointWriter, make_key, read_private
from adapters.log.sqlite import SqliteLog
from events.canonical import Json
from scheduling.state.model import Model
from services.binder.binder import Binder
from services.binder.status import StatusWriter
from services.cli import page
from services.cluster.admission import admission_chain
from services.cluster.cluster import EmbeddedCluster
from services.cluster.direct import DirectApi
from services.cluster.expiry import expire_events
from services.cluster.nodeagent import NodeAgents
from services.cluster.refusal import Refused
from services.controller.manager import ControllerManager
from services.runtime.driving import (
    GATHER_S,
    READ_MODELS_S,
    STATUS_S,
    Driven,
    News,
    SharedNews,
    WatchNews,
    close_all,
    drive,
)
from services.runtime.metrics import MeteredLog, Metrics
from services.scheduler.scheduler import Scheduler
from services.watcher.beginning import remembered
from services.watcher.watcher import Watcher

CLUSTER = "embedded"
LOG_FILE = "log.db"
DATABASE_FILE = "gpuledger.db"
CHECKPOINT_KEY = "checkpoint.key"
CHECKPOINTS = "checkpoints.jsonl"
_BIND_LANES = 8
_SECOND_LOOK_MS = 30_000
#: Events that are over are looked for this often.
_EXPIRY_S = 60.0
#: A snapshot is taken after so many records: what a start has to read on is about as much.
SNAPSHOT_EVERY = 10_000


@dataclass
class EmbeddedSystem:
    """What ``gpuledger up`` runs. ``data`` holds the log and the cluster; ``port`` 0 takes a free one.

    ``database`` is the URL of the read models; empty: a file in ``data``.
    """

    data: Path
    port: int
    database: str = ""
    driven: list[Driven] = field(default_factory=list)
    server: str = ""
    page: str = ""
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _closers: list[Callable[[], Awaitable[None]]] = field(default_factory=list)

    async def start(self) -> None:
        """Open the log and the cluster, serve it, and start every service. Raises LogError, PortInUse."""
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)  # the cluster's Secrets are in it
        clock = self._clock = SystemClock()
        self.metrics = Metrics()
        self.log = MeteredLog(SqliteLog(self.data / LOG_FILE), self.metrics)
        self._closers.append(self.log.close)
        self.agents: NodeAgents | None = None
        self.cluster = EmbeddedCluster(clock, data=self.data, admission=admission_chain(), logs=self._container_log)
        self._closers.append(self._close_cluster)
        runner = await self.cluster.serve(self.port)
        self._closers.append(runner.cleanup)
        self.server = _address(runner)
        self._engine = self._open_database()
        self._recovery = Recovery(self._engine, CLUSTER, _not_used)
        self._drive("expiry of events", self._expire_events, asyncio.sleep, pace_s=_EXPIRY_S)
        await self._start_agents()
        await self._start_controllers()
        await self._start_watcher()
        await self._start_scheduler()
        await self._start_binder()
        self._start_projector()
        self._start_checkpoints()
        await self._start_page()

    async def stop(self) -> None:
        """Stop everything, in the reverse order of its start."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await close_all(self._closers, structlog.get_logger("up"))

    async def until_stopped(self) -> int:
        """Wait for Ctrl-C or SIGTERM and return 0; 1 if a service ends by itself, which none should."""
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        waiting = asyncio.create_task(stop.wait())
        done, _ = await asyncio.wait([*self._tasks, waiting], return_when=asyncio.FIRST_COMPLETED)
        if waiting in done:
            return 0
        waiting.cancel()
        for task in done:
            structlog.get_logger(task.get_name()).error("service ended", error=repr(task.exception()))
        return 1

    @property
    def model(self) -> Model:
        """The state as the scheduler has folded it."""
        return self.scheduler.model

    async def client(self) -> KubernetesApi:
        """Return a new client of the embedded cluster; it is closed with the system."""
        api = await KubernetesApi.connect(server_configuration(self.server))
        self._closers.append(api.close)
        return api

    async def _close_cluster(self) -> None:
        self.cluster.close()

    async def _expire_events(self) -> bool:
        with suppress(Refused):  # the disk is full: they end another time
            expire_events(self.cluster.store)
        return False

    def _container_log(self, pod: Json, container: str) -> str:
        return self.agents.logs(pod, container) if self.agents else ""

    def _drive(self, name: str, step: Callable[[], Awaitable[bool]], news: News, *, pace_s: float = 0.0) -> None:
        service = Driven(name, failed=self.metrics.failures.labels(name).inc)
        self.driven.append(service)
        self._tasks.append(asyncio.create_task(drive(service, step, news, pace_s=pace_s, rests=True), name=name))

    def _drive_on_log(self, name: str, step: Callable[[], Awaitable[bool]], *, pace_s: float = 0.0) -> None:
        """Drive one of the services that share the folded state."""
        news = SharedNews(self.log, lambda: self.state.position)
        self._drive(name, news.around(step), news, pace_s=pace_s)

    def _watch_news(self, reflectors: Callable[[], Any]) -> News:
        news = WatchNews(reflectors)
        self._closers.append(news.close)
        return news

    async def _start_page(self) -> None:
        runner = await page.serve(self, 0 if self.port == 0 else self.port + 1)
        self._closers.append(runner.cleanup)
        self.page = _address(runner)

    def _start_projector(self) -> None:
        projector = Projector(
            self.log, self._engine, CLUSTER, threaded=True, snapshot_every=SNAPSHOT_EVERY, note=_not_used
        )
        self._drive("projector", projector.step, asyncio.sleep, pace_s=READ_MODELS_S)

    def _open_database(self) -> Engine:
        """Open the database of the read models; a file that is damaged makes room for a new one."""
        if self.database:
            return open_database(self.database)
        path = self.data / DATABASE_FILE
        if aside := set_aside_if_damaged(path):
            told = structlog.get_logger("projector")
            told.warning("the database is damaged and is made anew from the log", file=str(path), moved_to=str(aside))
        return open_database(path)

    def _direct(self, client: str) -> DirectApi:
        return self.cluster.direct(client, lambda: asyncio.sleep(0))

    def _start_checkpoints(self) -> None:
        """Vouch for the log with a key of its own; who wants the proof to be worth something keeps both elsewhere."""
        path = self.data / CHECKPOINT_KEY
        key = read_private(path) if path.exists() else make_key(path)
        place = CheckpointWriter(self.data / CHECKPOINTS, key, self._clock, self.state, self._identity)
        self._drive("checkpoints", place.step, asyncio.sleep)

        async def finish() -> None:
            place.finish()

        self._closers.append(finish)

    def _identity(self) -> tuple[str, str]:
        return self.model.cluster, self.model.incarnation

    async def _start_agents(self) -> None:
        agents = self.agents = NodeAgents(self._direct("node agents"), self._clock, jitter=random.random)
        self._closers.append(agents.close)
        self._drive("node agents", agents.step, self._watch_news(lambda: agents.reflectors), pace_s=GATHER_S)

    async def _start_controllers(self) -> None:
        manager = ControllerManager(self._direct("controller"), self._clock, jitter=random.random)
        self._closers.append(manager.close)
        self._drive("controller", manager.step, self._watch_news(lambda: manager.reflectors), pace_s=GATHER_S)

    async def _start_watcher(self) -> None:
        watcher = self.watcher = Watcher(
            await self.client(), self.log, self._clock, CLUSTER, _writer_id(),
            incarnation=lambda: uuid.uuid4().hex[:8], jitter=random.random,
            start=lambda: remembered(self._recovery, self.log), covered=self._recovery.covers,
        )  # fmt: skip
        self._closers.append(watcher.close)
        self._drive("watcher", watcher.step, self._watch_news(lambda: watcher.reflectors), pace_s=GATHER_S)

    async def _start_scheduler(self) -> None:
        self.state = await self._recovery.follower(self.log)
        scheduler = self.scheduler = Scheduler(
            self.log, self._clock, CLUSTER, _writer_id(), follower=self.state, threaded=True, idle_ms=1_000,
            observer=self.metrics, second_look_ms=_SECOND_LOOK_MS,
        )  # fmt: skip
        self._drive_on_log("scheduler", scheduler.step)

    async def _start_binder(self) -> None:
        api = await self.client()
        binder = self.binder = Binder(
            api, self.log, self.state, self._clock, CLUSTER, _writer_id(),
            parallel=_BIND_LANES, jitter=random.random, pause=asyncio.sleep, observer=self.metrics.times,
        )  # fmt: skip
        self._drive_on_log("binder", binder.step)
        status = StatusWriter(api, self.state, self._clock, parallel=_BIND_LANES)
        self._drive_on_log("status writer", status.step, pace_s=STATUS_S)


def _not_used(why: str) -> None:
    """A snapshot that is not used, or not taken, costs time and nothing else."""
    structlog.get_logger("snapshots").warning("a snapshot was left out", why=why)


def _writer_id() -> str:
    return f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"


def _address(runner: web.AppRunner) -> str:
    host, port = runner.addresses[0][:2]
    return f"http://{host}:{port}"
