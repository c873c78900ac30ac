"""Design section 3, order and terms: who may write is judged by the fold at each place on the log."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from adapters.clock import ManualClock
from adapters.log.follower import Follower
from adapters.log.memory import MemoryLog
from adapters.log.port import LogError
from adapters.log.writer import TermLost, TermWriter
from events.codec import Message, NotWritable, from_message
from events.records import Body, Genesis, Observed, Opened, Record, Role, Ticked
from scheduling.state.fold import Fold

ROLES: list[Role] = ["watcher", "scheduler", "binder"]


class Unsteady(MemoryLog):
    """A log whose next append fails: before it is written, or after."""

    failure = ""

    async def append(self, messages: Sequence[Message]) -> int:
        failure, self.failure = self.failure, ""
        if failure == "lost":
            raise LogError("disk full", known_lost=True)
        if failure == "silent":
            raise LogError("no answer")
        position = await super().append(messages)
        if failure == "late":
            raise LogError("no answer")
        return position


def writer(log: MemoryLog, role: Role = "scheduler", name: str = "one") -> TermWriter:
    return TermWriter(log, ManualClock(1_000), "c", role, name)


async def records(log: MemoryLog) -> list[Record]:
    found = [from_message(message) for _, message in await log.read((await log.bounds())[0])]
    assert all(isinstance(record, Record) for record in found)
    return [record for record in found if isinstance(record, Record)]


async def folded(log: MemoryLog) -> Fold:
    follower = Follower(log, Fold())
    await follower.catch_up()
    return follower.state


def tick(time_ms: int = 1) -> tuple[str, Body]:
    return "", Ticked(time_ms=time_ms)


@pytest.mark.parametrize("role", ROLES)
async def test_the_first_writer_of_any_role_begins_the_log(role: Role) -> None:
    log = MemoryLog()
    first = writer(log, role)
    assert await first.open(0, "i1", {"a": 1}) == 1
    begun, opened = await records(log)
    assert begun.body == Genesis(cluster="c", incarnation="i1")
    assert isinstance(opened.body, Opened)
    assert (opened.body.term, opened.body.previous, opened.body.config, opened.body.mode) == (1, 0, {"a": 1}, "active")
    assert opened.id == f"c/i1/{role[0]}1.0"
    assert first.holds((await folded(log)).model)


async def test_records_of_a_term_are_numbered_and_their_ids_follow() -> None:
    log = MemoryLog()
    one = writer(log)
    await one.open(0, "i1", {})
    assert await one.append([tick(1), tick(2)]) == range(2, 4)
    assert await one.append([]) == range(0)
    assert await one.append([tick(3)]) == range(4, 5)
    assert [record.id for record in await records(log)][2:] == ["c/i1/s1.1", "c/i1/s1.2", "c/i1/s1.3"]


@pytest.mark.parametrize("role", ROLES)
async def test_of_two_who_take_over_from_the_same_term_the_second_is_void(role: Role) -> None:
    log = MemoryLog()
    one, two = writer(log, role, "one"), writer(log, role, "two")
    await one.open(0, "i1", {})
    await two.open(0, "i1", {})
    model = (await folded(log)).model
    assert one.holds(model)
    assert not two.holds(model)


@pytest.mark.parametrize("role", ROLES)
async def test_a_superseded_writer_does_not_hold_and_what_it_appends_is_void(role: Role) -> None:
    log = MemoryLog()
    one, two = writer(log, role, "one"), writer(log, role, "two")
    await one.open(0, "i1", {})
    await two.open(1, "i1", {})
    fold = await folded(log)
    before = fold.digest()
    assert two.holds(fold.model)
    assert not one.holds(fold.model)
    await one.append([tick(999)])
    assert (await folded(log)).digest() == before


async def test_terms_of_different_roles_do_not_meet() -> None:
    log = MemoryLog()
    writers = [writer(log, role, role) for role in ROLES]
    for one in writers:
        await one.open(0, "i1", {})
    model = (await folded(log)).model
    assert all(one.holds(model) for one in writers)


async def test_a_name_of_an_earlier_life_or_another_log_is_not_ours() -> None:
    log, other = MemoryLog(), MemoryLog()
    one = writer(log)
    await one.open(0, "i1", {})
    again = writer(log, name="one-again")
    assert not again.holds((await folded(log)).model)
    await writer(other).open(0, "i2", {})
    assert not one.holds((await folded(other)).model)


async def test_nothing_is_appended_without_a_term() -> None:
    with pytest.raises(TermLost, match="no open term"):
        await writer(MemoryLog()).append([tick()])


async def test_an_append_that_is_certainly_lost_may_be_made_again_under_the_same_numbers() -> None:
    log = Unsteady()
    one = writer(log)
    await one.open(0, "i1", {})
    log.failure = "lost"
    with pytest.raises(LogError, match="disk full"):
        await one.append([tick()])
    await one.append([tick()])
    assert (await records(log))[-1].id == "c/i1/s1.1"


@pytest.mark.parametrize("failure", ["silent", "late"])
async def test_an_append_without_an_answer_ends_the_term(failure: str) -> None:
    log = Unsteady()
    one = writer(log)
    await one.open(0, "i1", {})
    log.failure = failure
    with pytest.raises(TermLost, match="no answer"):
        await one.append([tick()])
    with pytest.raises(TermLost, match="no open term"):
        await one.append([tick()])
    await one.open(1, "i1", {})
    assert one.holds((await folded(log)).model)


@pytest.mark.parametrize("failure", ["silent", "late"])
async def test_an_opening_without_an_answer_is_tried_again_and_counts_once(failure: str) -> None:
    log = Unsteady()
    one = writer(log)
    log.failure = failure
    with pytest.raises(TermLost):
        await one.open(0, "i1", {})
    assert one.term == 0
    await one.open(0, "i1", {})
    model = (await folded(log)).model
    assert one.holds(model)
    assert model.terms["scheduler"].number == 1


async def test_a_body_that_may_not_be_written_changes_nothing() -> None:
    log = MemoryLog()
    one = writer(log)
    await one.open(0, "i1", {})
    with pytest.raises(NotWritable, match="Pod/a/b"):
        await one.append([tick(), ("Pod/a/b", Observed(api_version="v1", kind="Pod", object={"a": 0.5}))])
    assert await one.append([tick()]) == range(2, 3)
