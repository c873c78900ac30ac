"""Tasks that must go whoever needs the room, as plugins name them after the actions (scheduling/CFG-13, tdm)."""

from __future__ import annotations

from typing import Final

from scheduling.cycle.session import Session
from scheduling.state.model import Evicted

REASON: Final = "evict"


def evict_leaving(session: Session) -> None:
    """Evict whom plugins name; when that was is part of the PodGroup's book."""
    for plugin in session.plugins("victims"):
        for task in plugin.victims():
            session.evictions.append(Evicted(task.uid, REASON, rule=f"scheduling/CFG-13: {plugin.name}"))
            session.release(task)
            task.job.evicted_ms = session.time_ms
