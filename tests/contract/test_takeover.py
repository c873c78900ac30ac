"""A scheduler sleeps inside an append while another takes over: its late batch is void, for every reader alike (F-12a).

The sleeping one wakes up with its messages still to be sent, as a frozen process does, and sends them.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from parts.broker import Broker
from support.log_story import Story

from adapters.log.audit import verify
from adapters.log.follower import Follower
from adapters.log.kafka import KafkaLog
from adapters.log.kafka_topic import KafkaSettings
from adapters.log.memory import MemoryLog
from adapters.log.port import Log
from adapters.log.sqlite import SqliteLog
from events.codec import Message, from_message
from events.records import Batch, Record
from scheduling.state.fold import Fold
from services.scheduler.scheduler import Scheduler

BARRIER_ROUNDS = 10


class Homes:
    """Connections to one log: each participant has its own where the home knows such a thing."""

    def __init__(self, kind: str, broker: Broker | None, folder: Path) -> None:
        self._settings = KafkaSettings(broker.address, f"takeover-{uuid.uuid4().hex}") if broker else None
        self._shared: Log | None = None
        if kind != "kafka":
            self._shared = MemoryLog() if kind == "memory" else SqliteLog(folder / "log.db")
        self._logs: list[Log] = [self._shared] if self._shared else []

    async def connect(self) -> Log:
        if self._shared is not None:
            return self._shared
        assert self._settings is not None
        log = await KafkaLog.open(self._settings)
        self._logs.append(log)
        return log

    async def close(self) -> None:
        for log in self._logs:
            await log.close()


@pytest.fixture(params=["memory", "sqlite", "kafka"])
async def homes(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Homes]:
    broker = request.getfixturevalue("kafka_broker") if request.param == "kafka" else None
    found = Homes(request.param, broker, tmp_path)
    yield found
    await found.close()


class SleepyLog:
    """A log whose next append sleeps before it sends: ``asleep`` is set when it does, ``wake`` lets it go on."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self.sleepy = False
        self.asleep, self.wake = asyncio.Event(), asyncio.Event()

    async def append(self, messages: Sequence[Message]) -> int:
        if self.sleepy:
            self.sleepy = False
            self.asleep.set()
            await self.wake.wait()
        return await self._log.append(messages)

    async def read(self, position: int, limit: int = 1000) -> list[tuple[int, Message]]:
        return await self._log.read(position, limit)

    async def bounds(self) -> tuple[int, int]:
        return await self._log.bounds()

    async def wait(self, position: int, timeout_s: float) -> bool:
        return await self._log.wait(position, timeout_s)

    async def close(self) -> None:
        await self._log.close()


async def at_rest(scheduler: Scheduler) -> None:
    while await scheduler.step():
        pass


async def fold(log: Log) -> Fold:
    follower: Follower[Fold] = Follower(log, Fold())
    await follower.catch_up()
    return follower.state


async def batches(log: Log) -> list[tuple[int, Record]]:
    first, end = await log.bounds()
    found = [(position, from_message(message)) for position, message in await log.read(first, end - first)]
    return [(at, item) for at, item in found if isinstance(item, Record) and isinstance(item.body, Batch)]


async def test_the_late_batch_of_one_who_slept_inside_an_append_is_void(homes: Homes) -> None:
    story = Story(await homes.connect())
    await story.begin()
    await story.node("n1")
    sleepy = SleepyLog(await homes.connect())
    old = Scheduler(sleepy, story.clock, "prod", "old")
    await at_rest(old)
    await story.group("one")
    await story.pod("one", "one")
    sleepy.sleepy = True
    sleeping = asyncio.create_task(old.step())
    await sleepy.asleep.wait()

    new = Scheduler(await homes.connect(), story.clock, "prod", "new")
    await at_rest(new)
    assert new.leading
    decided = (await fold(await homes.connect())).model.commands
    assert len(decided) == 1, "the new one has decided for the pod"

    sleepy.wake.set()
    await sleeping
    await at_rest(old)
    assert not old.leading
    reader = await homes.connect()
    state = await fold(reader)
    assert state.model.commands == decided, "the late batch adds no command"
    writers = [record.term for _, record in await batches(reader)]
    assert writers[-1] < max(writers), "it is on the log, behind the new term's"
    report = await verify(await homes.connect())
    assert report.passed, report.findings
    assert sum(report.void.values()) == 1
    assert len({(await fold(await homes.connect())).digest() for _ in range(3)}) == 1


async def test_however_often_the_role_changes_hands_each_pod_is_decided_once(homes: Homes) -> None:
    story = Story(await homes.connect())
    await story.begin()
    await story.node("n1", cards=4)
    sleeping: list[tuple[SleepyLog, asyncio.Task[bool]]] = []
    for number in range(BARRIER_ROUNDS):
        sleepy = SleepyLog(await homes.connect())
        scheduler = Scheduler(sleepy, story.clock, "prod", f"s{number}")
        await at_rest(scheduler)
        await story.group(f"p{number}")
        await story.pod(f"p{number}", f"p{number}")
        sleepy.sleepy = True
        sleeping.append((sleepy, asyncio.create_task(scheduler.step())))
        await sleepy.asleep.wait()
        if number % 3 == 2:
            await wake(sleeping.pop(0))
    while sleeping:
        await wake(sleeping.pop())
    last = Scheduler(await homes.connect(), story.clock, "prod", "last")
    await at_rest(last)
    state = await fold(await homes.connect())
    placed = [command.bind.uid for command in state.model.commands.values() if command.bind]
    assert sorted(placed) == sorted(f"uid-p{number}" for number in range(BARRIER_ROUNDS))
    assert (await verify(await homes.connect())).passed


async def wake(sleeper: tuple[SleepyLog, asyncio.Task[bool]]) -> None:
    log, task = sleeper
    log.wake.set()
    await task
