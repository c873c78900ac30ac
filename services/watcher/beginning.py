"""Where a watcher begins: at a snapshot of the state, or, if the log's front is gone, with a new beginning (F-11b).

What remains of such a log is the middle of a story. A genesis record with a new incarnation ends it: every reader
starts from nothing there, every writer opens a new term behind it, and the ids of decisions never repeat.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from adapters.log.follower import Follower
from adapters.log.port import Log
from events.codec import record_id, to_message
from events.records import Genesis, Record
from scheduling.state.snapshot import Unusable
from services.watcher.memory import Memory

if TYPE_CHECKING:
    from adapters.database.recovery import Recovery


async def anchor(log: Log, cluster: str, incarnation: str, time_ms: int) -> None:
    """Append a genesis record with a new incarnation. Raises LogError."""
    body = Genesis(cluster=cluster, incarnation=incarnation)
    name = record_id(cluster, incarnation, "watcher", 0, 0)
    await log.append([to_message(Record(name, "watcher", 0, 0, "", time_ms, body), cluster)])


async def remembered(recovery: Recovery, log: Log) -> Follower[Memory] | None:
    """Return a follower that knows every object from the newest snapshot; None if there is none. Raises LogError.

    Raises DatabaseError only if the log's front is gone.
    """
    async for found in recovery.candidates(log):
        try:
            memory = await asyncio.to_thread(Memory.of_snapshot, found.data)
        except Unusable:
            continue
        return Follower(log, memory, position=found.saved.position, digest=bytes.fromhex(found.saved.chain))
    return None
