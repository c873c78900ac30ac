"""Events end an hour after they were last written, as on a real server: else a cluster comes to hold little else."""

from __future__ import annotations

from typing import Final

from events.canonical import Json
from events.kinds import EVENT
from scheduling.objects import seconds
from services.cluster.store import Store, key_of

EVENT_S: Final = 3_600


def expire_events(store: Store) -> int:
    """Take away the events whose time is over; return how many they were. Raises Refused if that cannot be kept."""
    now_s = store.clock.now_ms() // 1000
    over = [key_of(item) for item in store.items(EVENT) if now_s - _written_s(item, now_s) > EVENT_S]
    for key in over:
        store.erase(EVENT, *key)
    return len(over)


def _written_s(event: Json, now_s: int) -> int:
    """Return when an event was made, or counted again; a time to come, which its writer may say, is none."""
    times = (seconds(event["metadata"].get("creationTimestamp")), seconds(event.get("lastTimestamp")))
    return max((time for time in times if time <= now_s), default=now_s)
