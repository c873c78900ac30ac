"""Task status (scheduling/T-1 to T-3)."""

from __future__ import annotations

from enum import Enum
from typing import Final


class TaskStatus(Enum):
    """The status of one pod in the scheduler; the value is the word of the messages (MSG-2)."""

    PENDING = "Pending"
    ALLOCATED = "Allocated"
    PIPELINED = "Pipelined"
    BINDING = "Binding"
    BOUND = "Bound"
    RUNNING = "Running"
    RELEASING = "Releasing"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


S = TaskStatus
ALLOC: Final = frozenset({S.ALLOCATED, S.BINDING, S.BOUND, S.RUNNING})
SCHED: Final = frozenset({S.BOUND, S.RUNNING, S.SUCCEEDED, S.FAILED})
DONE: Final = frozenset({S.SUCCEEDED, S.FAILED})
READY: Final = ALLOC | {S.SUCCEEDED}
VALID: Final = READY | {S.PIPELINED, S.PENDING}
#: Takes nothing on a node (AL-3).
TERMINAL: Final = DONE


def observed_status(phase: str, assigned: bool, deleting: bool) -> TaskStatus:
    """Return the status that a pod has by what is observed of it (T-1)."""
    if phase == "Pending" and not deleting:
        return S.BOUND if assigned else S.PENDING
    if phase in ("Pending", "Running"):
        return S.RELEASING if deleting else S.RUNNING
    return {"Succeeded": S.SUCCEEDED, "Failed": S.FAILED}.get(phase, S.UNKNOWN)
