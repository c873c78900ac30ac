"""The clock behind a port: the system's, or one that a simulation moves."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Return the time as Unix milliseconds."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


@dataclass
class ManualClock:
    """A clock that stands still until it is moved."""

    time_ms: int

    def now_ms(self) -> int:
        return self.time_ms
