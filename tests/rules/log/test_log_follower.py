"""Design section 3, readers: every message in order, set-aside ones counted, the same chain for everyone."""

from __future__ import annotations

import pytest

from adapters.clock import ManualClock
from adapters.log.follower import Follower
from adapters.log.memory import MemoryLog
from adapters.log.port import Damaged, OutOfRange
from adapters.log.writer import TermWriter
from events import chain
from events.codec import Message, to_message
from events.records import Genesis, Record, Ticked
from scheduling.state.fold import Fold


class Notes:
    """A fold that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str, str]] = []

    def apply(self, position: int, record: Record, chain_before: str) -> str:
        self.told.append((position, record.id, chain_before))
        return "applied"

    def set_aside(self, position: int, reason: str, chain_before: str = "") -> None:
        self.told.append((position, reason, chain_before))


def tick(number: int) -> Message:
    return to_message(Record(f"c/i/s1.{number}", "scheduler", 1, number, "", 0, Ticked(time_ms=number)), "c")


def genesis(incarnation: str) -> Message:
    body = Genesis(cluster="c", incarnation=incarnation)
    return to_message(Record(f"c/{incarnation}/w0.0", "watcher", 0, 0, "", 0, body), "c")


def future(number: int, *extra: tuple[str, bytes]) -> Message:
    headers = [header for header in tick(number).headers if header[0] != "ce_type"]
    return Message((*headers, ("ce_type", b"gpuledger.clock.ticked.v2"), *extra), b"{}")


async def test_records_are_folded_in_order_with_the_digest_of_everything_before() -> None:
    log, messages = MemoryLog(), [tick(number) for number in range(3)]
    await log.append(messages)
    follower = Follower(log, Notes())
    assert await follower.advance() == 3
    digests = [chain.GENESIS]
    for message in messages:
        digests.append(chain.extend(digests[-1], message))
    assert follower.state.told == [(place, f"c/i/s1.{place}", digests[place].hex()) for place in range(3)]
    assert (follower.position, follower.chain) == (3, digests[3].hex())
    assert await follower.advance() == 0


async def test_the_limit_bounds_one_step_and_catching_up_does_not() -> None:
    log = MemoryLog()
    await log.append([tick(number) for number in range(2500)])
    follower = Follower(log, Notes())
    assert await follower.advance(7) == 7
    assert await follower.catch_up() == 2493
    assert await follower.catch_up() == 0


class Holed(MemoryLog):
    """A home that leaves a message out."""

    async def read(self, position: int, limit: int = 1000) -> list[tuple[int, Message]]:
        return [item for item in await super().read(position, limit) if item[0] != 2]


async def test_nothing_is_folded_over_a_hole() -> None:
    log = Holed()
    await log.append([tick(number) for number in range(4)])
    follower = Follower(log, Notes())
    with pytest.raises(Damaged, match="position 2 is missing"):
        await follower.advance()
    assert (follower.position, len(follower.state.told)) == (2, 2)


async def test_poison_is_set_aside_with_its_reason_and_never_stops_the_log() -> None:
    log = MemoryLog()
    await log.append([tick(0), Message((), b"\xff"), tick(1)])
    follower = Follower(log, Notes())
    await follower.advance()
    assert [told[1] for told in follower.state.told] == ["c/i/s1.0", "no header ce_type", "c/i/s1.1"]
    assert (follower.set_aside_count, follower.blocked) == (1, None)
    without = Follower(MemoryLog(), Notes())
    await without.log.append([tick(0), tick(1)])
    await without.advance()
    assert follower.chain != without.chain, "what is set aside is part of the chain"


async def test_an_unknown_version_blocks_decisions_and_the_first_one_is_named() -> None:
    log = MemoryLog()
    await log.append([tick(0), future(1), tick(2), future(3)])
    follower = Follower(log, Notes())
    await follower.advance()
    assert follower.blocked is not None
    assert follower.blocked.position == 1
    assert "version 2" in follower.blocked.why.reason
    assert len(follower.state.told) == 4


async def test_an_unknown_version_that_is_marked_ignorable_blocks_nothing() -> None:
    log = MemoryLog()
    await log.append([future(0, ("ce_ignorable", b"true"))])
    follower = Follower(log, Notes())
    await follower.advance()
    assert (follower.set_aside_count, follower.blocked) == (1, None)


async def test_a_follower_whose_place_is_gone_stops_where_it_is() -> None:
    log = MemoryLog()
    await log.append([tick(number) for number in range(10)])
    log.truncate(2)
    follower = Follower(log, Notes())
    with pytest.raises(OutOfRange):
        await follower.advance()
    assert (follower.position, follower.state.told) == (0, [])


async def test_a_new_genesis_gives_all_readers_the_same_chain_again_after_the_front_is_gone() -> None:
    """scheduling/F-11b: what is left without a beginning has no effect; a new genesis begins state and chain anew."""
    log, clock = MemoryLog(), ManualClock(1_000)
    first = TermWriter(log, clock, "c", "watcher", "w1")
    await first.open(0, "one", {})
    log.truncate(1)
    fresh = Follower(log, Fold())
    await fresh.begin_at_front()
    await fresh.advance()
    assert not fresh.state.anchored
    second = TermWriter(log, clock, "c", "watcher", "w2")
    await second.open(0, "two", {}, begin=True)
    await fresh.advance()
    assert second.holds(fresh.state.model)
    log.truncate(2)
    fresher = Follower(log, Fold())
    await fresher.begin_at_front()
    await fresher.advance()
    assert (fresher.chain, fresher.state.digest()) == (fresh.chain, fresh.state.digest())
