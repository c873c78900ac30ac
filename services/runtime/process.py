"""One process of a service: its health page from the first moment, what it drives, and an end in good order.

SIGTERM or Ctrl-C lets the steps under way come to their end, then closes everything in the reverse order of its start;
a membership is left so that others take over at once. A service that ends by itself ends the process with 1, so that
whoever started it starts it again.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import structlog

from adapters.clock import SystemClock
from adapters.cluster.port import ClusterApi
from adapters.log.kafka import KafkaLog
from adapters.log.kafka_topic import KafkaSettings
from adapters.log.membership import Membership
from adapters.log.port import Log, LogError
from services.runtime.brokers import kafka_of
from services.runtime.driving import Driven, LogNews, News, WatchNews, close_all, drive
from services.runtime.health import health_app, serve_health
from services.runtime.metrics import MeteredLog, Metrics
from services.runtime.settings import Settings

_GRACE_S: Final = 10.0
_AGAIN_AFTER_S: Final = 2.0
_BEAT_S: Final = 1.0
_STALLED_S: Final = 60.0


class Process:
    """What a service's process holds. ``name`` is the service's."""

    def __init__(self, name: str, settings: Settings) -> None:
        self.name = name
        self.settings = settings
        self.clock = SystemClock()
        self.metrics = Metrics()
        self.driven: list[Driven] = []
        self.port = 0
        self._tasks: list[asyncio.Task[None]] = []
        self._members: list[Membership] = []
        self._closers: list[Callable[[], Awaitable[Any]]] = []
        self._starting = "starting"
        self._stop = asyncio.Event()
        self._beaten = time.monotonic()
        self._log = structlog.get_logger(name)

    async def run(self, build: Callable[[Process], Awaitable[None]]) -> int:
        """Serve health, build the service, drive it until it is told to stop; return the exit code. Raises OSError."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stop.set)
        app = health_app(self.metrics.registry, {"services": self._all_run}, {"steps": self._all_well})
        http = self.settings.http
        runner, self.port = await serve_health(app, http.host, http.port, http.token.get_secret_value())
        self._closers.append(runner.cleanup)
        beating = asyncio.create_task(self._beat())
        try:
            if not await self._build(build):
                return 0
            self._log.info("started", port=self.port, cluster=list(self.settings.served))
            return await self._until_stopped()
        finally:
            await self._end()
            beating.cancel()

    def drive(self, name: str, step: Callable[[], Awaitable[bool]], news: News, *, pace_s: float = 0.0) -> None:
        """Step a service from now on; after each step it rests as long as that took, and ``pace_s`` at least."""
        service = Driven(name, failed=self.metrics.failures.labels(name).inc)
        self.driven.append(service)
        running = drive(service, step, news, pace_s=pace_s, rests=True, ended=self._stop.is_set)
        self._tasks.append(asyncio.create_task(running, name=name))

    def watch_news(self, reflectors: Callable[[], Sequence[Any]]) -> News:
        """Return the news of reflectors; they are given up at the end."""
        news = WatchNews(reflectors)
        self.at_end(news.close)
        return news

    @staticmethod
    def log_news(log: Log, position: Callable[[], int]) -> News:
        """Return the news of a log that only this service reads."""
        return LogNews(log, position)

    def note(self, text: str) -> None:
        """Say something that costs time and nothing else."""
        self._log.warning(text)

    def at_end(self, close: Callable[[], Awaitable[Any]]) -> None:
        """Close something when the process ends, before what was opened earlier."""
        self._closers.append(close)

    def writer_id(self) -> str:
        """Return a name for this process that no other one ever had."""
        return f"{socket.gethostname()}/{os.getpid()}/{uuid.uuid4().hex[:8]}"

    async def open_log(self, cluster: str) -> Log:
        """Open a cluster's log with a place of its own, trying again until the brokers answer. Counts appends."""
        settings = self.kafka(cluster)
        while True:
            try:
                log = await KafkaLog.open(settings)
                break
            except LogError as error:
                self._starting = str(error)
                self._log.warning("the log cannot be opened, will try again", error=str(error))
                await asyncio.sleep(_AGAIN_AFTER_S)
        self.at_end(log.close)
        return MeteredLog(log, self.metrics)

    def kafka(self, cluster: str) -> KafkaSettings:
        """Return how a cluster's log is reached. Raises LogError for certificates that cannot be used."""
        return kafka_of(self.settings, cluster)

    async def connect(self) -> ClusterApi:
        """Return a client of the API server; it is closed at the end. Raises ApiUnknown for unusable credentials."""
        from adapters.cluster.http import (
            KubernetesApi,
            in_cluster_configuration,
            kubeconfig_configuration,
            server_configuration,
        )

        given = self.settings.kubernetes
        if given.server:
            configure = server_configuration(given.server, given.token.get_secret_value())
        elif given.in_cluster:
            configure = in_cluster_configuration()
        else:
            configure = kubeconfig_configuration(given.kubeconfig, given.context)
        api = await KubernetesApi.connect(configure)
        self.at_end(api.close)
        return api

    def join(self, group: str, clusters: Sequence[str]) -> Callable[[str], Callable[[], bool]]:
        """Join a group once we are fit to lead; return what makes for a cluster the question whether we may try to."""
        topics = [self.settings.topic_of(cluster) for cluster in clusters]
        session_ms = self.settings.kafka.session_s * 1000
        member = Membership(self.kafka(clusters[0]), topics, group, session_ms=session_ms, alive=self._fit_to_lead)
        member.start()
        self._members.append(member)
        self.at_end(member.close)
        return lambda cluster: lambda: member.holds(self.settings.topic_of(cluster))

    async def _build(self, build: Callable[[Process], Awaitable[None]]) -> bool:
        """Build the service unless we are told to stop before that is done."""
        building = asyncio.ensure_future(build(self))
        stopping = asyncio.create_task(self._stop.wait())
        await asyncio.wait([building, stopping], return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not building.done():
            building.cancel()
            await asyncio.gather(building, return_exceptions=True)
            return False
        await building
        self._starting = ""
        return True

    async def _until_stopped(self) -> int:
        waiting = asyncio.create_task(self._stop.wait())
        done, _ = await asyncio.wait([*self._tasks, waiting], return_when=asyncio.FIRST_COMPLETED)
        if self._stop.is_set():
            self._log.info("stopping")
            return 0
        waiting.cancel()
        for task in done:
            error = task.exception()
            self._log.error("a service ended", service=task.get_name(), error=repr(error), exc_info=error)
        return 1

    async def _end(self) -> None:
        """Let the steps under way end, then close everything, the newest first."""
        self._stop.set()
        if self._tasks:
            _, late = await asyncio.wait(self._tasks, timeout=_GRACE_S)
            for task in late:
                task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await close_all(self._closers, self._log)

    async def _beat(self) -> None:
        while True:
            self._beaten = time.monotonic()
            await asyncio.sleep(_BEAT_S)

    def _alive(self) -> bool:
        return time.monotonic() - self._beaten < _STALLED_S

    def _fit_to_lead(self) -> bool:
        """Whoever is still reading the log must not be given what one that waits with all of it read could have."""
        return self._alive() and any(item.steps for item in self.driven)

    def _all_run(self) -> str:
        return ", ".join(f"{task.get_name()} has ended" for task in self._tasks if task.done())

    def _all_well(self) -> str:
        failures = [f"{item.name}: {item.failure or 'has not stepped yet'}" for item in self.driven
                    if item.failure or not item.steps]  # fmt: skip
        failures += [member.failure for member in self._members if member.failure]
        return "; ".join([self._starting] if self._starting else failures)
