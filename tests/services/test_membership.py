"""A membership of a group: it goes on whatever the client comes upon (design section 3)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka import TopicPartition

from adapters.log import membership
from adapters.log.kafka_topic import KafkaSettings
from adapters.log.membership import Membership


class Client:
    """A consumer whose first start fails with what no client says."""

    starts = 0

    def __init__(self, **_: Any) -> None:
        self._listener: Any = None

    def subscribe(self, _: Sequence[str], listener: Any) -> None:
        self._listener = listener

    async def start(self) -> None:
        Client.starts += 1
        if Client.starts == 1:
            raise ValueError("nobody thought of this")
        self._listener.on_partitions_assigned([TopicPartition("log", 0)])

    def pause(self, *_: TopicPartition) -> None:
        """Nothing is read."""

    async def getmany(self, timeout_ms: int) -> dict[str, Any]:
        return {}

    async def stop(self) -> None:
        """There is nothing to close."""


async def test_what_nobody_thought_of_does_not_end_it_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else this process would never lead again, and look well."""
    monkeypatch.setattr(membership, "AIOKafkaConsumer", Client)
    monkeypatch.setattr(membership, "_LOOK_EVERY_S", 0.01)
    told = asyncio.Event()
    again = asyncio.sleep
    loop = asyncio.get_running_loop()

    async def pause(seconds: float) -> None:
        if seconds == membership._AGAIN_AFTER_S:
            failures.append(member.failure)
            loop.call_soon_threadsafe(told.set)
            seconds = 0
        await again(seconds)

    failures: list[str] = []
    monkeypatch.setattr(membership.asyncio, "sleep", pause)
    member = Membership(KafkaSettings("127.0.0.1:1", "log"), ["log"], "group")
    member.start()
    try:
        async with asyncio.timeout(30):
            await told.wait()
            while not member.holds("log"):
                await again(0.01)
    finally:
        await member.close()
    assert failures == ["group group: ValueError('nobody thought of this')"]
    assert member.failure == ""
