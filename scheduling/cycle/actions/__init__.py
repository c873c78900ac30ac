"""The actions by name (scheduling/CFG-13). Each takes the session and changes it through statements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from scheduling.cycle.actions import allocate, backfill, enqueue, gangpreempt, gangreclaim, preempt, reclaim
from scheduling.cycle.session import Session

ACTIONS: Final[Mapping[str, Callable[[Session], None]]] = {
    "enqueue": enqueue.execute,
    "allocate": allocate.execute,
    "backfill": backfill.execute,
    "preempt": preempt.execute,
    "reclaim": reclaim.execute,
    "gangpreempt": gangpreempt.execute,
    "gangreclaim": gangreclaim.execute,
}
