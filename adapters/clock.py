"""The clock behind a port: the system's, or one that a simulation moves."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Return the time as Unix milliseconds."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


def rfc3339(time_ms: int) -> str:
    """Return Unix milliseconds as the API writes times: RFC 3339, UTC, whole seconds."""
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Waiting:
    """A wait on a clock that people may set: it is over after its time, and never lasts longer because of them.

    If the clock is set back meanwhile, the wait begins anew from there.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since_ms = self._for_ms = 0

    def begin(self, for_ms: int) -> None:
        """Wait so many milliseconds from now on; 0 ends a wait."""
        self._since_ms, self._for_ms = self._clock.now_ms(), for_ms

    @property
    def remaining_ms(self) -> int:
        """How long it still lasts, 0 if it is over."""
        if not self._for_ms:
            return 0
        now = self._clock.now_ms()
        self._since_ms = min(self._since_ms, now)
        return max(self._since_ms + self._for_ms - now, 0)


@dataclass
class ManualClock:
    """A clock that stands still until it is moved."""

    time_ms: int

    def now_ms(self) -> int:
        return self.time_ms
