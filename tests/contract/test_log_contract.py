"""The contract of the log's port: one suite that every home has to pass."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from parts.broker import Broker
from parts.topics import truncate

from adapters.log.kafka import KafkaLog
from adapters.log.kafka_topic import KafkaSettings
from adapters.log.memory import MemoryLog
from adapters.log.port import LogError, OutOfRange
from adapters.log.sqlite import SqliteLog
from events.codec import MESSAGE_BYTES_MAX, Message

HomeLog = MemoryLog | SqliteLog | KafkaLog


@pytest.fixture(params=["memory", "sqlite", "kafka"])
async def log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[HomeLog]:
    home: HomeLog
    if request.param == "memory":
        home = MemoryLog()
    elif request.param == "sqlite":
        home = SqliteLog(tmp_path / "data" / "log.db")
    else:
        broker: Broker = request.getfixturevalue("kafka_broker")
        home = await KafkaLog.open(KafkaSettings(broker.address, f"contract-{uuid.uuid4().hex}"))
    yield home
    await home.close()


async def cut(log: HomeLog, keep_last: int) -> None:
    if isinstance(log, KafkaLog):
        await truncate(log, keep_last)
    elif isinstance(log, SqliteLog):
        await log.truncate(keep_last)
    else:
        log.truncate(keep_last)


def messages(count: int, first: int = 0) -> list[Message]:
    return [Message((("ce_id", b"%d" % number),), b"value %d" % number) for number in range(first, first + count)]


async def test_a_new_log_is_empty(log: HomeLog) -> None:
    assert await log.bounds() == (0, 0)
    assert await log.read(0) == []


async def test_what_was_appended_is_read_in_order_and_unchanged(log: HomeLog) -> None:
    hostile = Message((("a", b"\x00\xff\xed\xa0\x80"), ("a", b""), ("\x00\u202e", b"x")), b"\x00\xff" * 3)
    assert await log.append(messages(3)) == 0
    assert await log.append([hostile]) == 3
    assert await log.read(0) == list(enumerate([*messages(3), hostile]))
    assert await log.bounds() == (0, 4)


async def test_reading_starts_anywhere_and_ends_at_the_limit(log: HomeLog) -> None:
    await log.append(messages(10))
    assert [position for position, _ in await log.read(4, 3)] == [4, 5, 6]
    assert [position for position, _ in await log.read(8, 3)] == [8, 9]
    assert await log.read(10) == []


async def test_who_goes_back_reads_from_there(log: HomeLog) -> None:
    """What was fetched ahead of the last reading is not what stands further back."""
    await log.append(messages(10))
    assert [position for position, _ in await log.read(6, 1)] == [6]
    assert [position for position, _ in await log.read(2, 3)] == [2, 3, 4]
    assert [position for position, _ in await log.read(8)] == [8, 9]
    assert [position for position, _ in await log.read(0)] == list(range(10))


async def test_an_empty_append_changes_nothing(log: HomeLog) -> None:
    await log.append(messages(2))
    assert await log.append([]) == 2
    assert await log.bounds() == (0, 2)


async def test_beyond_the_end_is_out_of_range(log: HomeLog) -> None:
    await log.append(messages(2))
    with pytest.raises(OutOfRange, match="position 3"):
        await log.read(3)


async def test_a_cut_front_is_out_of_range_and_positions_stay(log: HomeLog) -> None:
    await log.append(messages(10))
    await cut(log, 3)
    assert await log.bounds() == (7, 10)
    with pytest.raises(OutOfRange, match="position 6"):
        await log.read(6)
    assert await log.read(7) == [(position, messages(10)[position]) for position in (7, 8, 9)]
    await cut(log, 0)
    assert await log.bounds() == (10, 10)
    assert await log.append(messages(1)) == 10


async def test_a_message_above_the_limit_is_refused_and_certainly_not_there(log: HomeLog) -> None:
    with pytest.raises(LogError, match="bytes") as refusal:
        await log.append([*messages(1), Message((), b"x" * (MESSAGE_BYTES_MAX + 1))])
    assert refusal.value.known_lost
    assert await log.bounds() == (0, 0)


async def test_concurrent_appends_are_each_whole_and_in_the_order_of_their_calls(log: HomeLog) -> None:
    groups = [messages(3, first) for first in range(0, 60, 3)]
    positions = await asyncio.gather(*(log.append(group) for group in groups))
    assert positions == list(range(0, 60, 3))
    assert [message for _, message in await log.read(0)] == messages(60)


async def test_waiting_ends_when_something_is_there(log: HomeLog) -> None:
    waiting = asyncio.create_task(log.wait(1, 60))
    await log.append(messages(1))
    assert not waiting.done()
    await log.append(messages(1))
    assert await waiting
    assert await log.wait(0, 0)


async def test_waiting_ends_with_the_time(log: HomeLog) -> None:
    assert not await log.wait(0, 0)
    assert not await log.wait(0, 0.001)


async def test_a_closed_log_refuses(log: HomeLog) -> None:
    await log.append(messages(1))
    await log.close()
    await log.close()
    with pytest.raises(LogError, match="closed") as refusal:
        await log.append(messages(1))
    assert refusal.value.known_lost
    with pytest.raises(LogError, match="closed"):
        await log.read(0)


async def test_a_cancelled_append_leaves_the_log_usable(log: HomeLog) -> None:
    task = asyncio.create_task(log.append(messages(1)))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await log.append(messages(1, 1))
    assert messages(1, 1)[0] in [message for _, message in await log.read(0)]
