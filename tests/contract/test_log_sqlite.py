"""The SQLite home: kill -9 at any moment, one writer at a time, a full disk, damaged and foreign files."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from adapters.log.port import LogError
from adapters.log.sqlite import SqliteLog
from events import chain
from events.codec import Message

ROOT = Path(__file__).parents[2]
#: Appends groups of 1 to 7 messages for ever and says on standard output which group was acknowledged.
WRITER = """
import asyncio, sys
from adapters.log.sqlite import SqliteLog
from events.codec import Message

async def main(path):
    log = SqliteLog(path)
    _, group = await log.bounds()
    while True:
        count = group % 7 + 1
        text = b"x" * (group * 37 % 5000)
        first = await log.append([Message((("g", b"%d/%d/%d" % (group, n, count)),), text) for n in range(count)])
        print(group, first, count, flush=True)
        group = first + count

asyncio.run(main(sys.argv[1]))
"""


def start_writer(path: Path) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )


def kill_while_it_writes(path: Path, acknowledgements: int) -> list[tuple[int, int, int]]:
    """Let a process write, kill it somewhere after some acknowledgements, and return all that it gave."""
    with start_writer(path) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(acknowledgements)]
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    whole = [line.split() for line in lines if line.endswith("\n")]
    return [(int(group), int(first), int(count)) for group, first, count in whole]


async def whole_log(path: Path) -> list[tuple[int, Message]]:
    log = SqliteLog(path)
    first, end = await log.bounds()
    found = await log.read(first, end - first)
    await log.close()
    return found


async def test_what_was_acknowledged_survives_kill_9_at_any_moment(tmp_path: Path) -> None:
    path, chance = tmp_path / "log.db", random.Random(20)
    acknowledged: list[tuple[int, int, int]] = []
    digests = {0: chain.GENESIS}
    for _ in range(12):
        acknowledged += kill_while_it_writes(path, chance.randrange(0, 40))
        messages = await whole_log(path)
        digest = chain.GENESIS
        for position, message in messages:
            digest = chain.extend(digest, message)
            assert digests.setdefault(position + 1, digest) == digest, f"what stood at {position} has changed"
        by_position = [message.headers[0][1] for _, message in messages]
        for group, first, count in acknowledged:
            expected = [b"%d/%d/%d" % (group, n, count) for n in range(count)]
            assert by_position[first : first + count] == expected, f"acknowledged group {group} is not there"
        group_number, index, count = (int(part) for part in by_position[-1].split(b"/")) if by_position else (0, 0, 1)
        assert index == count - 1, f"group {group_number} is there in part"
    assert len(acknowledged) > 100


async def test_a_second_writer_is_told_which_process_has_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    with start_writer(path) as process:
        assert process.stdout is not None
        process.stdout.readline()
        with pytest.raises(LogError) as refusal:
            SqliteLog(path)
        assert str(path) in str(refusal.value)
        assert f"pid {process.pid}" in str(refusal.value)
        reader = SqliteLog(path, read_only=True)
        assert await reader.wait(5, 60), "a reader beside the writer sees the log grow"
        await reader.close()
        process.kill()
    await SqliteLog(path).close()


async def test_one_process_does_not_write_twice_either(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    with pytest.raises(LogError, match=f"pid {os.getpid()}"):
        SqliteLog(tmp_path / "log.db")
    await log.close()
    await SqliteLog(tmp_path / "log.db").close()


async def test_a_closed_log_can_be_read_by_others(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    await log.append([Message((), b"1")])
    await log.close()
    reader = SqliteLog(tmp_path / "log.db", read_only=True)
    assert await reader.read(0) == [(0, Message((), b"1"))]
    with pytest.raises(LogError, match="reading only"):
        await reader.append([Message((), b"2")])
    await reader.close()


async def test_a_full_disk_is_said_and_nothing_is_half_written(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    await log.append([Message((), b"before")])
    assert log._writer is not None
    database = log._writer._database
    pages = database.execute("PRAGMA page_count").fetchone()[0]
    database.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(LogError, match=r"disk is full.*nothing was written") as refusal:
        await log.append([Message((), b"x" * 3_000) for _ in range(20)])
    assert refusal.value.known_lost
    assert str(tmp_path) in str(refusal.value)
    assert await log.bounds() == (0, 1)
    database.execute("PRAGMA max_page_count = 1000000")
    assert await log.append([Message((), b"after")]) == 1
    await log.close()
    assert [message.value for _, message in await whole_log(tmp_path / "log.db")] == [b"before", b"after"]


async def test_everyone_whose_messages_shared_a_failed_write_is_told(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    assert log._writer is not None
    pages = log._writer._database.execute("PRAGMA page_count").fetchone()[0]
    log._writer._database.execute(f"PRAGMA max_page_count = {pages}")
    appends = [log.append([Message((), b"x" * 100_000)]) for _ in range(3)]
    answers = await asyncio.gather(*appends, return_exceptions=True)
    assert all(isinstance(answer, LogError) and answer.known_lost for answer in answers)
    assert len({id(answer) for answer in answers}) == 3
    await log.close()


def test_a_file_size_limit_of_the_system_is_an_error_and_no_crash(tmp_path: Path) -> None:
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.run(
        [sys.executable, "-c", limit + WRITER, str(tmp_path / "log.db")],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert process.returncode == 1
    assert "LogError" in process.stderr
    assert str(tmp_path / "log.db") in process.stderr
    last = process.stdout.splitlines()[-1].split()
    end = int(last[1]) + int(last[2])
    assert asyncio.run(whole_log(tmp_path / "log.db"))[:end][-1][0] == end - 1


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogError, match="file"):
        SqliteLog(tmp_path / "file" / "log.db")


def test_a_log_that_is_not_there_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"log\.db"):
        SqliteLog(tmp_path / "log.db", read_only=True)
    assert not (tmp_path / "log.db").exists()


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    path.write_bytes(b"not a database " * 100)
    with pytest.raises(LogError, match=r"log\.db"):
        SqliteLog(path)
    assert path.read_bytes() == b"not a database " * 100


def test_the_database_of_another_program_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "log.db") as database:
        database.execute("CREATE TABLE theirs (a)")
    database.close()
    with pytest.raises(LogError, match="not a log of gpuledger"):
        SqliteLog(tmp_path / "log.db")


async def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    await SqliteLog(tmp_path / "log.db").close()
    with sqlite3.connect(tmp_path / "log.db") as database:
        database.execute("PRAGMA user_version = 2")
    database.close()
    with pytest.raises(LogError, match="format 2"):
        SqliteLog(tmp_path / "log.db")


async def test_a_hole_in_the_file_is_an_error_and_never_skipped(tmp_path: Path) -> None:
    log = SqliteLog(tmp_path / "log.db")
    await log.append([Message((), b"%d" % number) for number in range(5)])
    await log.close()
    with sqlite3.connect(tmp_path / "log.db") as database:
        database.execute("DELETE FROM messages WHERE position = 2")
    database.close()
    log = SqliteLog(tmp_path / "log.db")
    with pytest.raises(LogError, match="damaged"):
        await log.read(0)
    await log.close()
