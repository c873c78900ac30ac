"""Waiting for the end of a log to move, within one process: whoever waits is woken when something was appended."""

from __future__ import annotations

import asyncio


class Waiters:
    """The tasks that wait for a log to grow. ``wakes`` counts the calls of ``wake``."""

    def __init__(self) -> None:
        self.wakes = 0
        self._waiting: set[asyncio.Future[None]] = set()

    def wake(self) -> None:
        """Let everyone who waits look again."""
        self.wakes += 1
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    async def wait(self, seen: int, timeout_s: float) -> bool:
        """Wait for a wake after the ``seen``-th (none is missed after a look); False if time ran out."""
        if self.wakes != seen:
            return True
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            async with asyncio.timeout(timeout_s):
                await future
        except TimeoutError:
            return False
        finally:
            self._waiting.discard(future)
        return True
