"""How a service keeps up with the log: to its end, off the event loop's thread where that is wanted."""

from __future__ import annotations

import asyncio

from adapters.log.follower import F, Follower
from adapters.log.port import OutOfRange

CHUNK = 500


async def catch_up(follower: Follower[F]) -> bool:
    """Fold everything that is on the log now; True if there was anything.

    A reader that has folded nothing yet begins at what is left of a log whose front is gone; its state stays without
    an anchor until a new genesis comes (scheduling/F-11b). One that stood elsewhere raises OutOfRange: it must be
    rebuilt, never reset in silence.
    """
    total = 0
    while True:
        try:
            count = await follower.advance(CHUNK)
        except OutOfRange:
            if follower.position:
                raise
            await follower.begin_at_front()
            count = await follower.advance(CHUNK)
        total += count
        if not count:
            return total > 0
        await asyncio.sleep(0)
