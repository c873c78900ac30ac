"""Decide, append, read back: how many batches a second one scheduler makes with one batch in flight.

    PYTHONPATH=tests python benchmarks/log_roundtrip.py [--pods N] [--nodes N] [--home memory|sqlite|kafka]...

Each turn observes one pod with its PodGroup; the scheduler folds both, decides, appends its batch and reads it back.
Kafka is a broker of its own on this machine (tests/parts), one JVM that syncs every message. Printed are batches a
second and the 50th and 99th percentile of a turn, and of its part between append and read-back alone.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from parts.broker import Broker
from support.log_story import Story

from adapters.log.kafka import KafkaLog
from adapters.log.kafka_topic import KafkaSettings
from adapters.log.memory import MemoryLog
from adapters.log.port import Log
from adapters.log.sqlite import SqliteLog
from events.codec import Message
from services.scheduler.scheduler import Scheduler


class TimedLog:
    """A log that notes how long each append took until it was read back by the same reader."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._appended: tuple[int, float] | None = None
        self.roundtrips: list[float] = []

    async def append(self, messages: Sequence[Message]) -> int:
        started = time.perf_counter()
        position = await self._log.append(messages)
        self._appended = (position, started)
        return position

    async def read(self, position: int, limit: int = 1000) -> list[tuple[int, Message]]:
        found = await self._log.read(position, limit)
        if self._appended and found and found[-1][0] >= self._appended[0]:
            self.roundtrips.append(time.perf_counter() - self._appended[1])
            self._appended = None
        return found

    async def bounds(self) -> tuple[int, int]:
        return await self._log.bounds()

    async def wait(self, position: int, timeout_s: float) -> bool:
        return await self._log.wait(position, timeout_s)

    async def close(self) -> None:
        await self._log.close()


async def measure(home: str, writing: Log, reading: Log, pods: int, nodes: int) -> None:
    """Run the turns on two connections to one log and print the figures."""
    story, log = Story(writing), TimedLog(reading)
    await story.begin()
    for number in range(nodes):
        await story.node(f"node-{number:04}", cards=8, memory=40_000)
    scheduler = Scheduler(log, story.clock, "prod", "bench", threaded=True)
    while await scheduler.step():
        pass
    log.roundtrips.clear()
    turns = []
    for number in range(pods):
        await story.group(f"pod-{number}")
        await story.pod(f"pod-{number}", f"pod-{number}")
        before, started = len(log.roundtrips), time.perf_counter()
        while len(log.roundtrips) == before:
            await scheduler.step()
        turns.append(time.perf_counter() - started)
    print(f"{home:<7} {pods} batches, {nodes} nodes: {pods / sum(turns):6.0f} a second; turn {spread(turns)}; "
          f"append to read back {spread(log.roundtrips[:pods])}", flush=True)  # fmt: skip


def spread(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    middle, late = ordered[len(ordered) // 2], ordered[min(len(ordered) * 99 // 100, len(ordered) - 1)]
    return f"p50 {middle * 1000:.1f} ms, p99 {late * 1000:.1f} ms"


async def main(arguments: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for home in arguments.home or ["memory", "sqlite", "kafka"]:
            broker = None
            if home == "kafka":
                broker = Broker(Path(folder) / "broker")
                await broker.start()
                settings = KafkaSettings(broker.address, f"bench-{uuid.uuid4().hex}")
                logs: list[Log] = [await KafkaLog.open(settings), await KafkaLog.open(settings)]
            else:
                logs = [MemoryLog() if home == "memory" else SqliteLog(Path(folder) / "log.db")] * 2
            await measure(home, *logs, arguments.pods, arguments.nodes)
            for log in logs:
                await log.close()
            if broker is not None:
                broker.kill()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pods", type=int, default=300)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--home", action="append", choices=["memory", "sqlite", "kafka"])
    asyncio.run(main(parser.parse_args()))
