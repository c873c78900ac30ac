"""Design section 5: ``audit verify`` decides again, and finds a changed, dropped, moved or added record."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from support.log_story import Story, two_decisions
from typer.testing import CliRunner

from adapters.log.audit import AuditReport, verify
from adapters.log.drift import Difference, DriftReport
from adapters.log.memory import MemoryLog
from adapters.log.sqlite import SqliteLog
from adapters.log.writer import TermWriter
from events.codec import Message
from events.records import Batch, GroupBook, GroupChange, Ticked
from services.cli import audit

NODE = 28
FIRST_BATCH, LAST_BATCH = 34, 41


@pytest.fixture
def data(tmp_path: Path) -> Path:
    async def session() -> None:
        story = Story(SqliteLog(tmp_path / "log.db"))
        await two_decisions(story)
        await story.log.close()

    asyncio.run(session())
    return tmp_path


async def audited(*more: Callable[[Story], object]) -> AuditReport:
    """Audit a story in memory that goes on as the functions say."""
    story = Story(MemoryLog())
    await two_decisions(story)
    for step in more:
        await step(story)  # type: ignore[misc]
    return await verify(story.log)


def call(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(audit.app, ["verify", "--data", str(data), *arguments])


def changed(position: int, old: str, new: str) -> str:
    """Return the statement that changes a text within a stored message."""
    return f"UPDATE messages SET value = CAST(replace(value, '{old}', '{new}') AS BLOB) WHERE position = {position}"


def tamper(data: Path, *statements: str) -> None:
    database = sqlite3.connect(data / "log.db")
    with database:
        for statement in statements:
            database.execute(statement)
    database.close()


def test_a_log_that_nobody_touched_passes(data: Path) -> None:
    result = call(data)
    assert result.exit_code == 0, result.output
    assert "audit: passed" in result.stdout
    assert "2 decided again and equal" in result.stdout
    report = json.loads(call(data, "-o", "json").stdout)
    assert report["passed"]
    assert (report["decisions"], report["findings"], report["end"]) == (2, [], 43)


def test_the_same_log_gives_the_same_report(data: Path) -> None:
    assert call(data).stdout == call(data).stdout


@pytest.mark.parametrize(
    ("what", "statements"),
    [
        ("flipped", [changed(NODE, "8000", "8001")]),
        ("poisoned", [f"UPDATE messages SET value = x'00' WHERE position = {NODE}"]),
        ("header", [f"UPDATE messages SET headers = replace(headers, '2026', '2025') WHERE position = {NODE}"]),
        ("dropped", [
            f"DELETE FROM messages WHERE position = {NODE}",
            *(f"UPDATE messages SET position = {n - 1} WHERE position = {n}" for n in range(NODE + 1, 43)),
            "UPDATE bounds SET next = 42",
        ]),
        ("moved", [
            f"UPDATE messages SET position = -1 WHERE position = {NODE}",
            f"UPDATE messages SET position = {NODE} WHERE position = {NODE + 1}",
            f"UPDATE messages SET position = {NODE + 1} WHERE position = -1",
        ]),
        ("added", [
            *(f"UPDATE messages SET position = {n + 1} WHERE position = {n}" for n in range(42, NODE - 1, -1)),
            f"INSERT INTO messages SELECT {NODE}, headers, value FROM messages WHERE position = 5",
            "UPDATE bounds SET next = 44",
        ]),
    ],
)  # fmt: skip
def test_a_record_that_was_tampered_with_is_found(data: Path, what: str, statements: list[str]) -> None:
    tamper(data, *statements)
    result = call(data)
    assert result.exit_code == 1, result.output
    assert "audit: FAILED" in result.stdout
    first = result.stdout.splitlines()[1]
    assert "diverged" in first or "is not known" in first
    assert "the log was changed between positions 0 and 3" in first


@pytest.mark.parametrize("column", ["headers = x'00'", "headers = '{'", "headers = '[[1, 2]]'", "value = 'text'"])
def test_a_message_that_cannot_be_one_is_named(data: Path, column: str) -> None:
    tamper(data, f"UPDATE messages SET {column} WHERE position = 7")
    result = call(data)
    assert result.exit_code == 1
    assert "position 7 is no message" in result.stderr


def test_what_was_changed_lies_after_the_last_decision_that_was_right(data: Path) -> None:
    tamper(data, changed(38, "100000", "100001"))
    line = call(data).stdout.splitlines()[1]
    assert f"position {LAST_BATCH}" in line
    assert f"between positions {FIRST_BATCH} and {LAST_BATCH}" in line


def test_a_decision_that_was_changed_is_found_and_the_byte_is_shown(data: Path) -> None:
    tamper(data, changed(FIRST_BATCH, "Inqueue", "Running"))
    result = call(data)
    assert result.exit_code == 1
    first = result.stdout.splitlines()[1]
    assert f"position {FIRST_BATCH} prod/i1/s1.1: decided again it differs from byte" in first
    assert "Running" in first
    assert "Inqueue" in first


def test_a_decision_spelled_in_another_way_is_found(data: Path) -> None:
    tamper(data, changed(FIRST_BATCH, '"groups":', '"evictions":[],"groups":'))
    assert "spelled in another way" in call(data).stdout.splitlines()[1]


def test_a_decision_by_another_engine_cannot_be_vouched_for(data: Path) -> None:
    tamper(data, changed(LAST_BATCH, "gpuledger/1", "gpuledger/0"))
    result = call(data)
    assert result.exit_code == 1
    assert "engine gpuledger/0" in result.stdout


async def invented(story: Story) -> None:
    place, state = story.fold.mark()
    change = GroupChange(group="team-a/g1", uid="uid-g1", book=GroupBook(phase="Completed"))
    batch = Batch(
        batch=story.batches, base=place, chain=story.follower.chain, state=state, time_ms=story.clock.time_ms,
        engine="gpuledger/1", groups=[change],
    )  # fmt: skip
    await story.write(story.scheduler, batch)


async def test_a_decision_that_is_not_what_is_decided_is_found() -> None:
    report = await audited(invented)
    assert [finding.position for finding in report.findings] == [43]
    assert report.decisions == 2


async def superseded(story: Story) -> None:
    successor = TermWriter(story.log, story.clock, "prod", "scheduler", "s2")
    await successor.open(1, "i1", {})
    await story.follower.catch_up()
    await invented(story)
    await successor.append([("", Ticked(time_ms=story.clock.time_ms))])


async def test_what_a_deposed_scheduler_appended_is_void_and_no_finding() -> None:
    report = await audited(superseded)
    assert report.passed
    assert report.void == {"superseded term 1": 1}


async def poison(story: Story) -> None:
    await story.log.append([Message((), b"poison")])
    await story.follower.catch_up()
    await story.pod("p9", "g2")
    await story.decide()


async def test_what_was_set_aside_is_counted_listed_and_part_of_the_chain() -> None:
    report = await audited(*[poison] * 3)
    assert report.passed
    assert report.set_aside_count == 3
    assert report.set_aside[0].problem == "no header ce_type"
    assert report.decisions > 2


async def unknown_version(story: Story) -> None:
    ((_, message),) = await story.log.read((await story.log.bounds())[1] - 1)
    headers = [(name, value.replace(b".v1", b".v2")) for name, value in message.headers]
    await story.log.append([Message(tuple(headers), message.value)])


async def test_a_version_that_cannot_be_read_ends_what_can_be_vouched_for() -> None:
    report = await audited(unknown_version)
    assert not report.passed
    assert "what follows cannot be judged" in report.findings[0].problem


async def begun_anew(story: Story) -> None:
    again = Story(story.log)
    again.watcher.incarnation = "i2"
    await again.watcher.open(0, "i2", {}, begin=True)
    await again.begin("i2")
    await again.node("n1")
    await again.group("g1")
    await again.pod("p0", "g1")
    assert await again.decide()


async def test_a_log_that_began_anew_is_audited_on_both_sides() -> None:
    """scheduling/F-11b: places and chain are counted from each genesis."""
    report = await audited(begun_anew)
    assert report.passed, report.findings
    assert report.decisions == 3


@pytest.mark.parametrize(
    ("where", "problem"),
    [
        ("/nowhere", "--kubernetes /nowhere: neither a file nor a URL"),
        ("http://127.0.0.1:1", "--kubernetes http://127.0.0.1:1: "),
    ],
)
def test_a_cluster_that_cannot_be_asked_is_named(data: Path, where: str, problem: str) -> None:
    result = call(data, "--kubernetes", where)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"gpuledger: {problem}")


async def test_drift_stands_among_the_findings_in_the_order_of_the_log() -> None:
    report = await audited(invented)
    report.add_drift(DriftReport(3, 1, 1, (Difference(FIRST_BATCH, "prod/i1/1.0/0", "Pod x: differs"),)))
    assert [finding.position for finding in report.findings] == [FIRST_BATCH, 43]
    lines = audit.as_text(report).splitlines()
    assert lines[1] == f"  position {FIRST_BATCH} prod/i1/1.0/0: Pod x: differs"
    assert "  cluster    3 objects, 1 placements" in lines
    assert "  unchecked  1 pods bear decisions from before the log's front" in lines
