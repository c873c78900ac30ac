"""An exported log is what it was at its home: the same messages at the same positions, whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.log_story import Story, two_decisions

from adapters.log.exporting import export
from adapters.log.memory import MemoryLog
from adapters.log.port import LogError
from adapters.log.sqlite import SqliteLog
from events.codec import Message


async def told() -> MemoryLog:
    log = MemoryLog()
    await two_decisions(Story(log))
    return log


async def test_messages_and_positions_stay_also_of_a_log_without_its_front(tmp_path: Path) -> None:
    log = await told()
    log.truncate(10)
    first, end = await log.bounds()
    assert await export(log, tmp_path / "copy") == (first, end)
    copy = SqliteLog(tmp_path / "copy", read_only=True)
    assert await copy.bounds() == (first, end)
    assert await copy.read(first) == await log.read(first)
    await copy.close()
    assert [path.name for path in tmp_path.iterdir()] == ["copy"], "nothing is left beside it"
    assert (tmp_path / "copy").stat().st_mode & 0o077 == 0


async def test_what_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "copy").write_text("somebody's")
    with pytest.raises(LogError, match="is there already"):
        await export(await told(), tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "somebody's"


async def test_an_export_that_breaks_off_leaves_nothing(tmp_path: Path) -> None:
    class Broken(MemoryLog):
        async def read(self, position: int, limit: int = 1000) -> list[tuple[int, Message]]:
            if position:
                raise LogError("the home is gone")
            return (await super().read(position, limit))[:5]

    log = Broken()
    await log.append([message for _, message in await (await told()).read(0)])
    with pytest.raises(LogError, match="the home is gone"):
        await export(log, tmp_path / "copy")
    assert not list(tmp_path.iterdir())


async def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"none/copy: No such file"):
        await export(await told(), tmp_path / "none" / "copy")


async def test_one_reading_ends_after_some_megabytes(tmp_path: Path) -> None:
    """Large messages do not fill the memory of who asks for many."""
    log = SqliteLog(tmp_path / "log.db")
    large = Message((("ce_type", b"x"),), b"x" * 7_000_000)
    await log.append([large] * 4)
    reader = SqliteLog(tmp_path / "log.db", read_only=True)
    assert [position for position, _ in await reader.read(0)] == [0, 1, 2]
    assert [position for position, _ in await reader.read(3)] == [3]
    await reader.close()
    await log.close()
