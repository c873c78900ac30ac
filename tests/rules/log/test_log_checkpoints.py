"""Signed checkpoints show what no digest on the log can: a cut tail, a history written anew as a whole."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from support.log_story import Story

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
    passed_over: list[str] = []
    found = read(tmp_path / "proof", read_public(tmp_path / "key.pub"), note=passed_over.append)
    assert len(found) == 2
    assert [text.partition(": ")[2] for text in passed_over] == ["line 2 is no JSON and was passed over"]


@pytest.mark.parametrize("field", ["position", "chain", "incarnation", "time_ms"])
async def test_a_changed_line_is_not_by_this_key(tmp_path: Path, field: str) -> None:
    story = await told()
    writer_for(story, tmp_path).write()
    path = tmp_path / "proof"
    line = json.loads(path.read_text())
    line[field] = line[field] + 1 if isinstance(line[field], int) else line[field][:-1] + "0x"[line[field][-1] == "0"]
    path.write_text(json.dumps(line))
    with pytest.raises(CheckpointError, match=r"proof: line 1: the signature is not by key"):
        proof(tmp_path)


@pytest.mark.parametrize("text", ["{}", "[1]", '{"signature": 3}', '{"cluster": "c", "signature": "zz"}'])
def test_what_is_no_checkpoint_is_named(tmp_path: Path, text: str) -> None:
    make_key(tmp_path / "key")
    (tmp_path / "proof").write_text(text)
    with pytest.raises(CheckpointError, match="line 1"):
        proof(tmp_path)


@pytest.mark.parametrize("text", ["", "\n\n", "nothing", "[" * 9_000])
def test_a_file_without_a_checkpoint_vouches_for_nothing_and_is_refused(tmp_path: Path, text: str) -> None:
    make_key(tmp_path / "key")
    (tmp_path / "proof").write_text(text)
    with pytest.raises(CheckpointError, match="holds no checkpoint"):
        proof(tmp_path)


async def test_after_a_change_of_keys_both_read_one_file_and_one_alone_does_not(tmp_path: Path) -> None:
    story = await told()
    writer_for(story, tmp_path).write()
    (tmp_path / "key").rename(tmp_path / "old")
    (tmp_path / "key.pub").rename(tmp_path / "old.pub")
    writer_for(story, tmp_path).write()
    both = [read_public(tmp_path / name) for name in ("old.pub", "key.pub")]
    assert len({found.key for found in read(tmp_path / "proof", *both)}) == 2
    with pytest.raises(CheckpointError, match="line 1: the signature is by key"):
        proof(tmp_path)


async def test_every_checkpoint_of_one_place_is_compared(tmp_path: Path) -> None:
    """A second one, that agrees, does not hide the first."""
    story = await told()
    good = writer_for(story, tmp_path).write()
    false = replace(good, chain="00" * 32)
    for found in ([good, false], [false, good]):
        report = await verify(story.log, found)
        assert (len(report.findings), report.checkpoints) == (1, 1)


async def test_a_checkpoint_of_another_cluster_or_incarnation_is_named(tmp_path: Path) -> None:
    story = await told()
    good = writer_for(story, tmp_path).write()
    report = await verify(story.log, [replace(good, incarnation="i0")])
    assert [finding.problem for finding in report.findings] == ["the log is prod/i1 here, a checkpoint is of prod/i0"]


async def test_it_is_said_how_far_checkpoints_vouch(tmp_path: Path) -> None:
    """An older file in the place of the newest is whole in itself: what is newer is not vouched for."""
    story = await told()
    good = writer_for(story, tmp_path).write()
    await story.node("n2")
    report = await verify(story.log, [good])
    assert report.passed
    assert (report.vouched_to, report.vouched_ms, report.end) == (good.position, good.time_ms, good.position + 1)


async def vouched_for_thrice(folder: Path) -> tuple[Story, list[int]]:
    """Return a story with three checkpoints, each followed by one more node, and where they stand."""
    story, places = await told(), []
    for number in range(3):
        places.append(writer_for(story, folder).write().position)
        await story.node(f"m{number}")
        await story.follower.catch_up()
    return story, places


async def test_what_was_changed_lies_between_the_last_that_agrees_and_the_first_that_does_not(tmp_path: Path) -> None:
    story, places = await vouched_for_thrice(tmp_path)
    everything = await messages(story)
    changed = Message(everything[places[1]].headers, everything[places[1]].value.replace(b'"m1"', b'"m7"'))
    forged = MemoryLog()
    await forged.append([*everything[: places[1]], changed, *everything[places[1] + 1 :]])
    report = await verify(forged, proof(tmp_path))
    assert report.findings[0].problem.endswith(f"the log was changed between positions {places[1]} and {places[2]}")


async def test_of_a_log_without_its_front_the_chain_is_compared_from_a_checkpoint_on(tmp_path: Path) -> None:
    story, places = await vouched_for_thrice(tmp_path)
    assert isinstance(story.log, MemoryLog)
    story.log.truncate(story.follower.position - places[0] - 1)
    report = await verify(story.log, proof(tmp_path))
    assert report.passed, "the decision is gone with the front"
    assert (report.unreachable, report.checkpoints, report.vouched_to) == (1, 1, places[2])
    kept = [message for _, message in await story.log.read(places[0] + 1)]
    changed = Message(kept[-2].headers, kept[-2].value.replace(b'"m1"', b'"m7"'))
    story.log._messages[-2] = changed
    assert not (await verify(story.log, proof(tmp_path))).passed


async def test_decisions_that_cannot_be_decided_again_since_the_front_is_gone_are_not_passed() -> None:
    story = await told()
    assert isinstance(story.log, MemoryLog)
    story.log.truncate(3)
    report = await verify(story.log)
    assert [finding.problem for finding in report.findings] == [
        "1 decisions from here on cannot be decided again: the beginning of the log is gone"
    ]


async def test_an_empty_log_is_not_passed() -> None:
    assert [finding.problem for finding in (await verify(MemoryLog())).findings] == [
        "the log is empty: there is nothing to vouch for"
    ]


async def test_a_log_that_is_changed_while_it_is_read_is_named() -> None:
    """The second reading finds a batch where the first found something else."""
    story = await told()
    everything = await messages(story)

    class Repaired(MemoryLog):
        reads = 0

        async def read(self, position: int, limit: int = 1000) -> list[tuple[int, Message]]:
            self.reads += 1
            shown = everything if self.reads > 1 else [*everything[:-1], everything[5]]
            return list(enumerate(shown))[position : position + limit]

    log = Repaired()
    await log.append(everything)
    report = await verify(log)
    assert [finding.problem for finding in report.findings] == [
        "another record stood here when the audit began: the log was changed meanwhile"
    ]


async def test_nothing_is_vouched_for_before_the_log_has_begun(tmp_path: Path) -> None:
    story = Story(MemoryLog())
    writer = CheckpointWriter(
        tmp_path / "proof", make_key(tmp_path / "key"), story.clock, story.follower, lambda: ("", "")
    )
    assert not await writer.step()
    assert not writer.finish()
    assert not (tmp_path / "proof").exists()


async def test_an_orderly_end_vouches_for_the_rest(tmp_path: Path) -> None:
    story = await told()
    writer = writer_for(story, tmp_path)
    assert await writer.step()
    await story.node("n2")
    await story.follower.catch_up()
    assert not await writer.step()
    assert writer.finish()
    assert not writer.finish()
    assert proof(tmp_path)[-1].position == story.follower.position


def test_a_private_key_is_for_its_owner_only_and_never_overwritten(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600
    with pytest.raises(CheckpointError, match="key: File exists"):
        make_key(tmp_path / "key")


def test_no_public_key_is_overwritten_either(tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_text("somebody's")
    for name, why in (("key", r"key\.pub: File exists"), ("key.pub", "not named .pub")):
        with pytest.raises(CheckpointError, match=why):
            make_key(tmp_path / name)
    assert (tmp_path / "key.pub").read_text() == "somebody's"
    assert not (tmp_path / "key").exists()


@pytest.mark.parametrize(("mode", "fine"), [(0o600, True), (0o440, True), (0o644, False), (0o660, False)])
def test_a_private_key_that_others_could_have_is_refused(tmp_path: Path, mode: int, fine: bool) -> None:
    make_key(tmp_path / "key")
    (tmp_path / "key").chmod(mode)
    if fine:
        checkpoints.read_private(tmp_path / "key")
    else:
        with pytest.raises(CheckpointError, match=f"mode {mode:04o}"):
            checkpoints.read_private(tmp_path / "key")


#: A public key of a curve (SM2) that the library does not know.
_UNKNOWN_CURVE = """-----BEGIN PUBLIC KEY-----
MFkwEwYHKoZIzj0CAQYIKoEcz1UBgi0DQgAEPddPOFtCcoMMgOSp9TqSY9IwbeG4
73xWHNSL7XI53JzxJgy23dL+ukix8gaDCI1WU9JpapA3Z9ggEg9aREK8dA==
-----END PUBLIC KEY-----
"""


@pytest.mark.parametrize("text", ["no key", _UNKNOWN_CURVE])
def test_a_key_of_another_kind_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "key.pub").write_text(text)
    with pytest.raises(CheckpointError, match=r"key\.pub"):
        read_public(tmp_path / "key.pub")
