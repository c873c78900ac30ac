"""A new beginning for a log whose front is gone (scheduling/F-11b).

What remains of such a log is the middle of a story. A genesis record with a new incarnation ends it: every reader
starts from nothing there, every writer opens a new term behind it, and the ids of decisions never repeat.
"""

from __future__ import annotations

from adapters.log.port import Log
from events.codec import record_id, to_message
from events.records import Genesis, Record


async def anchor(log: Log, cluster: str, incarnation: str, time_ms: int) -> None:
    """Append a genesis record with a new incarnation. Raises LogError."""
    body = Genesis(cluster=cluster, incarnation=incarnation)
    name = record_id(cluster, incarnation, "watcher", 0, 0)
    await log.append([to_message(Record(name, "watcher", 0, 0, "", time_ms, body), cluster)])
