"""The log in memory: for tests and simulations. It forgets everything with the process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from adapters.log.port import LogError, OutOfRange, check_sizes
from adapters.log.waiting import Waiters
from events.codec import Message


class MemoryLog:
    """A list of messages behind the port ``Log``."""

    def __init__(self) -> None:
        self._messages: list[Message] = []
        self._first = 0
        self._waiters = Waiters()
        self._closed = False

    async def append(self, messages: Sequence[Message]) -> int:
        self._check_open()
        check_sizes(messages)
        position = self._next
        self._messages.extend(messages)
        self._waiters.wake()
        return position

    async def read(self, position: int, limit: int = 1000) -> list[tuple[int, Message]]:
        self._check_open()
        if not self._first <= position <= self._next:
            raise OutOfRange(f"position {position} is not on the log: it holds {self._first} to {self._next - 1}")
        start = position - self._first
        return list(enumerate(self._messages[start : start + limit], position))

    async def bounds(self) -> tuple[int, int]:
        self._check_open()
        return self._first, self._next

    async def wait(self, position: int, timeout_s: float) -> bool:
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            self._check_open()
            if position < self._next:
                return True
            if not await self._waiters.wait(self._waiters.wakes, deadline - asyncio.get_running_loop().time()):
                return False

    async def close(self) -> None:
        self._closed = True
        self._waiters.wake()

    def truncate(self, keep_last: int) -> None:
        """Cut the front of the log: only the last ``keep_last`` messages stay, at the positions that they have."""
        dropped = max(0, len(self._messages) - keep_last)
        del self._messages[:dropped]
        self._first += dropped

    @property
    def _next(self) -> int:
        return self._first + len(self._messages)

    def _check_open(self) -> None:
        if self._closed:
            raise LogError("the log is closed", known_lost=True)
