"""The newest messages in memory: what they answer, and when the file has to be asked."""

from __future__ import annotations

from pathlib import Path

from adapters.log.sqlite import SqliteLog
from adapters.log.tail import Tail
from events.codec import Message


def message(number: int) -> Message:
    return Message((("n", str(number).encode()),), b"12345")


def test_it_answers_from_its_oldest_message_to_the_end_and_nothing_else() -> None:
    tail = Tail(0, 7, bytes_max=20)
    tail.extend([message(number) for number in range(7, 12)])
    assert tail.end == 12
    assert tail.read(8, 10) is None, "dropped: above twenty bytes"
    assert tail.read(10, 10) == [(10, message(10)), (11, message(11))]
    assert tail.read(10, 1) == [(10, message(10))]
    assert tail.read(12, 1) == []
    assert tail.read(13, 1) is None


async def test_readers_see_the_same_from_memory_and_from_the_file(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    await log.append([message(number) for number in range(5)])
    await log.truncate(2)
    other = SqliteLog(tmp_path / "log.db", read_only=True)
    assert await log.bounds() == await other.bounds() == (3, 5)
    assert await log.read(3) == await other.read(3) == [(3, message(3)), (4, message(4))]
    await log.append([message(5)])
    assert await log.read(5) == await other.read(5) == [(5, message(5))]
    await other.close()
    await log.close()
    again = SqliteLog(tmp_path / "log.db")
    assert await again.read(4) == [(4, message(4)), (5, message(5))]
    await again.close()
