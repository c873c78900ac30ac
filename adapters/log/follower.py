"""Following the log: every message in order, decoded, chained, and given to a fold.

A follower is where a reader stands: the next position, the digest of everything before it, and the state that all of it
folds to. It decides nothing and waits for nothing; whoever owns it calls ``advance`` when there is news. What is set
aside counts for the chain too, and is told to the fold so that it leaves its trace there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from adapters.log.port import Damaged, Log
from events import chain
from events.codec import CODEC, Codec, SetAside
from events.records import Genesis, Record


class FoldLike(Protocol):
    """What a follower feeds: ``scheduling.state.fold.Fold``, a projector, an auditor."""

    def apply(self, position: int, record: Record, chain_before: str) -> str:
        """Fold one record and return its verdict; ``chain_before`` is the digest of everything before it, in hex."""
        ...

    def set_aside(self, position: int, reason: str, chain_before: str) -> None:
        """Take note of a message that is no record."""
        ...


F = TypeVar("F", bound=FoldLike)


@dataclass(frozen=True, slots=True)
class Skipped:
    """A message that was set aside, and where it stands."""

    position: int
    why: SetAside


class Follower(Generic[F]):
    """One reader of the log.

    ``position`` is the place read next, ``chain`` the digest (hexadecimal) of everything before it, ``state`` the fold.
    ``blocked`` is the first message over which nothing may be decided (an unknown version of a known type), or None.
    ``told``, if set, hears of each record after it was folded, with the fold's verdict.
    """

    def __init__(
        self, log: Log, state: F, *, position: int = 0, digest: bytes = chain.GENESIS, codec: Codec = CODEC
    ) -> None:
        self.log = log
        self.state = state
        self.position = position
        self.blocked: Skipped | None = None
        self.set_aside_count = 0
        self.told: Callable[[Record, str], None] | None = None
        self._digest = digest
        self._codec = codec

    @property
    def chain(self) -> str:
        """The chain's digest before ``position``, in hexadecimal."""
        return self._digest.hex()

    async def advance(self, limit: int = 1000, stop: Callable[[], bool] | None = None) -> int:
        """Fold at most ``limit`` messages that are there now and return how many they were. Raises LogError.

        ``stop`` is asked after each message and may end it there. OutOfRange means that the log does not hold the place
        any more; the follower stays where it is. Damaged means that a message was left out: nothing is folded
        over a hole.
        """
        messages = await self.log.read(self.position, limit)
        for count, (position, message) in enumerate(messages, 1):
            if position < self.position:
                continue  # given again, as a consumer group does after a rebalance
            if position > self.position:
                raise Damaged(f"the message at position {self.position} is missing: after it came that at {position}")
            found = self._codec.from_message(message)
            if isinstance(found, SetAside):
                self._skip(position, found)
            else:
                self._fold(position, found)
            self._digest = chain.extend(self._digest, message)
            self.position = position + 1
            if stop is not None and stop():
                return count
        return len(messages)

    async def catch_up(self) -> int:
        """Fold everything up to the end that the log has now; return how many messages that were."""
        _, end = await self.log.bounds()
        total = 0
        while self.position < end and (count := await self.advance(min(1000, end - self.position))):
            total += count
        return total

    async def begin_at_front(self) -> None:
        """Begin with what is left of a log whose front is gone; for a follower that has folded nothing (F-11b).

        The fold stays unanchored, and nothing may be decided, until a new genesis comes.
        """
        assert self.position == 0, "a follower that stands on the log never jumps"
        self.position, _ = await self.log.bounds()

    def adopt(self, digest: str) -> None:
        """Take a digest that somebody vouches for as that of everything before here: of a log without its front."""
        self._digest = bytes.fromhex(digest)

    def _fold(self, position: int, record: Record) -> None:
        """Fold one record; a genesis that counts begins the chain anew, so that all readers have the same again."""
        verdict = self.state.apply(position, record, self._digest.hex())
        if isinstance(record.body, Genesis) and verdict == "applied":
            self._digest = chain.GENESIS
        if self.told is not None:
            self.told(record, verdict)

    def _skip(self, position: int, why: SetAside) -> None:
        self.set_aside_count += 1
        if not why.ignorable and self.blocked is None:
            self.blocked = Skipped(position, why)
        reason = f"{why.type}: {why.reason}" if why.type else why.reason
        self.state.set_aside(position, reason, self.chain)
