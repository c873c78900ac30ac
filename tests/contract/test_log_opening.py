"""Logs that are named on the command line: what a name must be, and words for one that leads nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters.log.opening import open_to_read, parse
from adapters.log.port import LogError
from adapters.log.sqlite import SqliteLog
from events.codec import Message


def test_a_url_names_servers_and_topic() -> None:
    found = parse("kafka://a:9092,b:9092/gpuledger.blue", {"security_protocol": "PLAINTEXT"})
    assert (found.bootstrap_servers, found.topic) == ("a:9092,b:9092", "gpuledger.blue")
    assert found.common()["security_protocol"] == "PLAINTEXT"


@pytest.mark.parametrize("url", ["kafka://", "kafka:///topic", "kafka://a:9092", "kafka://a:9092/", "kafka://a/b/c"])
async def test_a_url_without_server_or_topic_is_refused(url: str) -> None:
    with pytest.raises(LogError, match="must be a path or kafka://"):
        await open_to_read(url)


async def test_a_file_is_opened_for_reading_beside_its_writer(tmp_path: Path) -> None:
    writer = SqliteLog(tmp_path / "log.db")
    await writer.append([Message((), b"x")])
    reader = await open_to_read(str(tmp_path / "log.db"))
    assert len(await reader.read(0)) == 1
    await reader.close()
    await writer.close()


async def test_a_file_that_is_not_there_is_named_and_not_made(tmp_path: Path) -> None:
    with pytest.raises(LogError, match=r"missing\.db"):
        await open_to_read(str(tmp_path / "missing.db"))
    assert not (tmp_path / "missing.db").exists()
