"""The port of the log: one totally ordered sequence of messages (design section 3).

Homes: memory (tests, simulation), SQLite (embedded), Kafka. One contract suite (``tests/contract``) holds for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from events.codec import MESSAGE_BYTES_MAX, Message, size_of


class LogError(Exception):
    """The log did not do what was asked. ``known_lost`` is true only if the messages are certainly not on the log."""

    def __init__(self, message: str, *, known_lost: bool = False) -> None:
        super().__init__(message)
        self.known_lost = known_lost


class OutOfRange(LogError):
    """The position asked for is not on the log any more: its front was cut. Never answered by a silent reset."""


class Damaged(LogError):
    """What the home holds is not what was written: a hole, or a message that cannot be one."""


class TooLarge(LogError):
    """More was appended at once than the home takes, and nothing of it is on the log; in parts it may be taken."""

    def __init__(self, message: str) -> None:
        super().__init__(message, known_lost=True)


def check_sizes(messages: Sequence[Message]) -> None:
    """Refuse what no home takes: a message above the limit. Raises LogError, nothing being on the log."""
    for message in messages:
        if (size := size_of(message)) > MESSAGE_BYTES_MAX:
            raise LogError(f"message of {size} bytes: the log takes {MESSAGE_BYTES_MAX}", known_lost=True)


class Log(Protocol):
    """A home of the log. Positions are offsets: whole numbers that rise by one, never used twice."""

    async def append(self, messages: Sequence[Message]) -> int:
        """Append messages in order and return the position of the first.

        They are durable when this returns. Raises LogError, after which nothing is known about them unless
        ``known_lost`` says so; TooLarge for more at once than the home takes.
        """
        ...

    async def read(self, position: int, limit: int = 1000) -> list[tuple[int, Message]]:
        """Return at most ``limit`` messages from a position on, at once; empty if none is known to be there.

        What was appended here, and what stands before an end that ``bounds`` has said, is known; of what others append
        a home may learn a moment later. Raises OutOfRange before the front and beyond the end: there the log is not the
        one that was read before.
        """
        ...

    async def bounds(self) -> tuple[int, int]:
        """Return the first position that is there and the position that the next message will get, as of now."""
        ...

    async def wait(self, position: int, timeout_s: float) -> bool:
        """Wait until there is something at a position; False if the time ran out."""
        ...

    async def close(self) -> None:
        """Release what the home holds."""
        ...
