"""How a service keeps up with the log: to its end, in parts, so that nothing else in the process starves."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from weakref import WeakKeyDictionary

from adapters.log.follower import F, Follower
from adapters.log.port import OutOfRange

CHUNK: Final = 200

#: Several parts of one process may share a follower; only one of them reads on at a time.
_READING: Final[WeakKeyDictionary[Follower[Any], asyncio.Lock]] = WeakKeyDictionary()


def standing(follower: Follower[Any]) -> asyncio.Lock:
    """Return the lock of a follower: while it is held, nobody reads on and the state stays as it is."""
    return _READING.setdefault(follower, asyncio.Lock())


async def catch_up(follower: Follower[F], *, to_the_end: bool = False) -> bool:
    """Fold everything that has come; True if there was anything. ``to_the_end``: everything that is on the log now.

    A reader that has folded nothing yet begins at what is left of a log whose front is gone; its state stays without
    an anchor until a new genesis comes (scheduling/F-11b). One that stood elsewhere raises OutOfRange: it must be
    rebuilt, never reset in silence.
    """
    async with standing(follower):
        total = 0
        if to_the_end:
            await follower.log.bounds()
        while count := await _advance(follower):
            total += count
            await asyncio.sleep(0)
    return total > 0


async def _advance(follower: Follower[F]) -> int:
    try:
        return await follower.advance(CHUNK)
    except OutOfRange:
        if follower.position:
            raise
        await follower.begin_at_front()
        return await follower.advance(CHUNK)
