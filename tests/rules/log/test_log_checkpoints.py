"""Signed checkpoints show what no digest on the log can: a cut tail, a history written anew as a whole."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from log_story import Story

from adapters.log import checkpoints
from adapters.log.audit import verify
from adapters.log.checkpoints import CheckpointWriter, make_key, read, read_public
from adapters.log.errors import CheckpointError
from adapters.log.memory import MemoryLog
from events.codec import Message


async def told(incarnation: str = "i1") -> Story:
    story = Story(MemoryLog())
    await story.begin(incarnation)
    await story.node("n1")
    await story.group("g1")
    await story.pod("p0", "g1")
    assert await story.decide()
    return story


def writer_for(story: Story, folder: Path) -> CheckpointWriter:
    key = checkpoints.read_private(folder / "key") if (folder / "key").exists() else make_key(folder / "key")
    return CheckpointWriter(folder / "proof", key, story.clock, story.follower, lambda: ("prod", "i1"))


def proof(folder: Path) -> list[checkpoints.Checkpoint]:
    return read(folder / "proof", read_public(folder / "key.pub"))


async def messages(story: Story) -> list[Message]:
    return [message for _, message in await story.log.read(0, 10_000)]


async def test_an_untouched_log_agrees_with_its_checkpoints(tmp_path: Path) -> None:
    story = await told()
    writer_for(story, tmp_path).write()
    await story.node("n2")
    await story.follower.catch_up()
    writer_for(story, tmp_path).write()
    report = await verify(story.log, proof(tmp_path))
    assert report.passed
    assert report.checkpoints == 2


async def test_a_cut_tail_is_found(tmp_path: Path) -> None:
    story = await told()
    writer_for(story, tmp_path).write()
    shorter = MemoryLog()
    await shorter.append((await messages(story))[:-2])
    assert (await verify(shorter)).passed, "the chain alone shows nothing"
    report = await verify(shorter, proof(tmp_path))
    assert not report.passed
    assert "the tail is cut" in report.findings[-1].problem


async def test_a_history_written_anew_is_found(tmp_path: Path) -> None:
    story = await told()
    writer_for(story, tmp_path).write()
    other = await told("i2")
    assert (await verify(other.log)).passed, "it is whole in itself"
    report = await verify(other.log, proof(tmp_path))
    assert [finding.position for finding in report.findings] == [story.follower.position]


async def test_one_is_written_when_due(tmp_path: Path) -> None:
    story = await told()
    writer = writer_for(story, tmp_path)
    assert await writer.step()
    assert not await writer.step()
    await story.node("n2")
    await story.follower.catch_up()
    assert not await writer.step()
    story.clock.time_ms += checkpoints.EVERY_MS
    assert await writer.step()
    story.clock.time_ms += checkpoints.EVERY_MS
    assert not await writer.step(), "nothing new, nothing to vouch for"


async def test_a_line_that_a_crash_cut_short_spoils_no_other(tmp_path: Path) -> None:
    story = await told()
    writer_for(story, tmp_path).write()
    whole = (tmp_path / "proof").read_text()
    (tmp_path / "proof").write_text(whole + whole[:40])
    writer_for(story, tmp_path).write()
    with pytest.raises(CheckpointError, match="line 2: no checkpoint"):
        proof(tmp_path)
    lines = (tmp_path / "proof").read_text().splitlines()
    (tmp_path / "proof").write_text("\n".join([lines[0], lines[2]]) + "\n")
    assert len(proof(tmp_path)) == 2


@pytest.mark.parametrize("field", ["position", "chain", "incarnation", "time_ms"])
async def test_a_changed_line_is_not_by_this_key(tmp_path: Path, field: str) -> None:
    story = await told()
    writer_for(story, tmp_path).write()
    path = tmp_path / "proof"
    line = json.loads(path.read_text())
    line[field] = line[field] + 1 if isinstance(line[field], int) else line[field][:-1] + "0x"[line[field][-1] == "0"]
    path.write_text(json.dumps(line))
    with pytest.raises(CheckpointError, match=r"proof: line 1: the signature is not by this key"):
        proof(tmp_path)


@pytest.mark.parametrize("text", ["{}", "[1]", "nothing", '{"signature": 3}', '{"cluster": "c", "signature": "zz"}'])
def test_what_is_no_checkpoint_is_named(tmp_path: Path, text: str) -> None:
    make_key(tmp_path / "key")
    (tmp_path / "proof").write_text(text)
    with pytest.raises(CheckpointError, match="line 1"):
        proof(tmp_path)


def test_a_private_key_is_for_its_owner_only_and_never_overwritten(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    with pytest.raises(CheckpointError, match="key"):
        make_key(tmp_path / "key")


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_text("no key")
    with pytest.raises(CheckpointError, match=r"key\.pub"):
        read_public(tmp_path / "key.pub")
