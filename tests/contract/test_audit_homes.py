"""Design section 5, on every home of the log: what was flipped, dropped, moved, added or cut off is found and placed.

Of each home the exported file is audited too, and must be found to be the same.

The chain alone finds what was changed before a decision. What was changed after the last one, and a tail that was cut
off, shows by a signed checkpoint that is kept outside of the log.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest
from parts.broker import Broker
from support.log_story import Story, two_decisions

from adapters.log.audit import AuditReport, verify
from adapters.log.checkpoints import Checkpoint, CheckpointWriter, make_key, read, read_public
from adapters.log.exporting import export
from adapters.log.kafka import KafkaLog
from adapters.log.kafka_topic import KafkaSettings
from adapters.log.memory import MemoryLog
from adapters.log.port import Log
from adapters.log.sqlite import SqliteLog
from events import chain
from events.codec import Message, from_message, to_message
from events.records import Batch, Record
from scheduling.decide import decide
from scheduling.state.fold import Fold

Messages = list[Message]
NewLog = Callable[[], Awaitable[Log]]
#: An observation before the first decision, and the positions of both decisions.
NODE, FIRST, LAST = 28, 34, 41


@pytest.fixture(params=["memory", "sqlite", "kafka"])
async def new_log(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[NewLog]:
    """Makes an empty log of each home."""
    made: list[Log] = []

    async def new() -> Log:
        name = f"audit-{uuid.uuid4().hex}"
        if request.param == "memory":
            made.append(MemoryLog())
        elif request.param == "sqlite":
            made.append(SqliteLog(tmp_path / name / "log.db"))
        else:
            broker: Broker = request.getfixturevalue("kafka_broker")
            made.append(await KafkaLog.open(KafkaSettings(broker.address, name)))
        return made[-1]

    yield new
    for log in made:
        await log.close()


async def told(log: Log, folder: Path) -> list[Checkpoint]:
    """Tell a story with two decisions and something after the last; vouch for its end."""
    story = Story(log)
    await two_decisions(story)
    await story.node("n6")
    key = make_key(folder / "key")
    CheckpointWriter(folder / "proof", key, story.clock, story.follower, lambda: ("prod", "i1")).write()
    return read(folder / "proof", read_public(folder / "key.pub"))


async def forged(
    new_log: NewLog, tmp_path: Path, forge: Callable[[Messages], Messages]
) -> tuple[AuditReport, AuditReport]:
    """Put a forged copy of the log in its place, and audit it without and with the checkpoint."""
    log = await new_log()
    proof = await told(log, tmp_path)
    first, end = await log.bounds()
    assert (await verify(log, proof)).passed
    messages: Messages = []
    while first + len(messages) < end:
        messages += [message for _, message in await log.read(first + len(messages))]
    copy = await new_log()
    await copy.append(forge(messages))
    alone, with_proof = await verify(copy), await verify(copy, proof)
    await export(copy, tmp_path / "exported")
    exported = SqliteLog(tmp_path / "exported", read_only=True)
    assert [await verify(exported), await verify(exported, proof)] == [alone, with_proof]
    await exported.close()
    return alone, with_proof


def flip(position: int) -> Callable[[Messages], Messages]:
    """Flip one bit in the middle of a message."""

    def forge(messages: Messages) -> Messages:
        value = bytearray(messages[position].value)
        at = value.index(b'"name":"') + 8
        value[at] ^= 1
        return [*messages[:position], Message(messages[position].headers, bytes(value)), *messages[position + 1 :]]

    return forge


def drop(position: int) -> Callable[[Messages], Messages]:
    return lambda messages: messages[:position] + messages[position + 1 :]


def move(position: int) -> Callable[[Messages], Messages]:
    def forge(messages: Messages) -> Messages:
        one, two = messages[position : position + 2]
        return [*messages[:position], two, one, *messages[position + 2 :]]

    return forge


def add(position: int) -> Callable[[Messages], Messages]:
    return lambda messages: [*messages[:position], messages[5], *messages[position:]]


@pytest.mark.parametrize("change", [flip, drop, move, add])
async def test_what_was_changed_before_a_decision_is_found_by_the_chain(
    new_log: NewLog, tmp_path: Path, change: Callable[[int], Callable[[Messages], Messages]]
) -> None:
    alone, _ = await forged(new_log, tmp_path, change(NODE))
    assert not alone.passed
    first = alone.findings[0]
    shift = {drop: -1, add: 1}.get(change, 0)
    assert first.position == FIRST + shift, "the first decision that saw another history"
    assert first.record == "prod/i1/s1.1"
    assert "the log was changed between positions 0 and" in first.problem


@pytest.mark.parametrize("change", [flip, drop, move, add])
async def test_what_was_changed_after_the_last_decision_is_found_by_a_checkpoint(
    new_log: NewLog, tmp_path: Path, change: Callable[[int], Callable[[Messages], Messages]]
) -> None:
    alone, with_proof = await forged(new_log, tmp_path, change(LAST + 1))
    assert alone.passed, "nothing on the log says otherwise"
    assert len(with_proof.findings) == 1
    assert with_proof.findings[0].position >= LAST + 1


async def test_a_history_written_anew_from_a_record_on_is_found_by_a_checkpoint(
    new_log: NewLog, tmp_path: Path
) -> None:
    """Every later decision is decided again over what was forged, with its digests: the log is whole in itself."""

    def forge(messages: Messages) -> Messages:
        fold, digest, written = Fold(), chain.GENESIS, []
        for position, message in enumerate(messages):
            if position == NODE:
                message = Message(message.headers, message.value.replace(b"NVIDIA-A100", b"NVIDIA-H100"))
                assert message != messages[NODE]
            record = from_message(message)
            assert isinstance(record, Record)
            if isinstance(record.body, Batch):
                again = decide(fold, record.body.time_ms, digest.hex(), record.body.batch)
                assert again is not None
                record = replace(record, body=again)
                message = to_message(record, "prod")
            fold.apply(position, record, digest.hex())
            digest = chain.extend(digest if position else chain.GENESIS, message)
            written.append(message)
        return written

    alone, with_proof = await forged(new_log, tmp_path, forge)
    assert alone.passed
    assert len(with_proof.findings) == 1


async def test_a_cut_tail_is_found_by_a_checkpoint(new_log: NewLog, tmp_path: Path) -> None:
    alone, with_proof = await forged(new_log, tmp_path, lambda messages: messages[:-1])
    assert alone.passed
    assert [finding.position for finding in with_proof.findings] == [LAST + 2]
    assert "the tail is cut" in with_proof.findings[0].problem


async def test_a_decision_that_was_changed_is_named_with_the_place_in_it(new_log: NewLog, tmp_path: Path) -> None:
    def forge(messages: Messages) -> Messages:
        value = messages[FIRST].value.replace(b"Inqueue", b"Running", 1)
        return [*messages[:FIRST], Message(messages[FIRST].headers, value), *messages[FIRST + 1 :]]

    alone, _ = await forged(new_log, tmp_path, forge)
    assert (alone.findings[0].position, alone.findings[0].record) == (FIRST, "prod/i1/s1.1")
    assert "decided again it differs from byte" in alone.findings[0].problem


async def test_a_decision_by_another_engine_is_said_to_be_so_and_not_passed(new_log: NewLog, tmp_path: Path) -> None:
    def forge(messages: Messages) -> Messages:
        value = messages[LAST].value.replace(b'"gpuledger/1"', b'"gpuledger/0"')
        return [*messages[:LAST], Message(messages[LAST].headers, value), *messages[LAST + 1 :]]

    alone, _ = await forged(new_log, tmp_path, forge)
    assert [finding.position for finding in alone.findings] == [LAST]
    assert "decided by engine gpuledger/0, which is not this one (gpuledger/1)" in alone.findings[0].problem
    assert alone.decisions == 1
