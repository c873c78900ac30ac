"""A clock that people set: no wait lasts longer because of it."""

from __future__ import annotations

from adapters.clock import ManualClock, Waiting
from adapters.cluster.reflector import Backoff
from services.binder.written import Pace, Written

HOUR_MS = 3_600_000


def test_a_wait_is_over_after_its_time() -> None:
    clock = ManualClock(0)
    waiting = Waiting(clock)
    assert waiting.remaining_ms == 0
    waiting.begin(500)
    clock.time_ms += 200
    assert waiting.remaining_ms == 300
    clock.time_ms += 300
    assert waiting.remaining_ms == 0


def test_a_wait_begins_anew_when_the_clock_is_set_back() -> None:
    clock = ManualClock(HOUR_MS)
    backoff = Backoff(clock, lambda: 1.0)
    backoff.failed()
    clock.time_ms = 0
    assert backoff.remaining_ms == 500
    clock.time_ms += 500
    assert backoff.remaining_ms == 0


def test_a_text_is_not_held_back_by_a_time_to_come() -> None:
    """scheduling/POD-2: at most once in ten seconds, whatever the clock was when it was last written."""
    clock = ManualClock(HOUR_MS)
    pace, written = Pace(clock, 10_000), Written()
    pace.begin(False)
    pace.note(written, "one", "code")
    assert not pace.due(written, "two", "code")
    clock.time_ms = 0
    assert pace.due(written, "two", "code")
