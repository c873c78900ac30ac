"""What was written of each object, and whether it may be written again yet (scheduling/POD-2)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal, TypeAlias

from adapters.clock import Clock
from events.canonical import Json

#: One write that is due; it tells whether it is finished (False: try again).
Due: TypeAlias = Callable[[], Awaitable[bool]]

#: Urgent content goes out at once; patient content lets bindings pass; moving content will soon be another anyway.
Patience: TypeAlias = Literal["urgent", "patient", "moving"]
#: How many intervals moving content is waited for at most while bindings are under way.
MOVING_FACTOR: Final = 3


@dataclass(slots=True)
class Written:
    """The last thing written of one object: all of it, the code that is never held back, and when."""

    content: Any = None
    code: Any = None
    at_ms: int = 0
    #: Since when what should be there is another, while that waits for something more urgent (0: it does not).
    waits_since_ms: int = 0
    #: The object as our last write left it: the next write needs no reading, and fails if anybody wrote since.
    item: Json | None = None
    #: Whether the form that the log knows was taken for the present one; once is enough.
    guessed: bool = False


def forget(written: dict[str, Written], count: int | None) -> None:
    """Drop so many objects, those that were remembered first; all if no count is given."""
    for key in list(islice(written, count)):
        del written[key]


class Pace:
    """Says whether something is due, and counts what is held back.

    ``interval_ms`` is between two writes of an object of which only texts change. ``settle_ms`` is how long what may
    soon be another is waited for, because writing it would be in the way of just that.
    """

    def __init__(self, clock: Clock, interval_ms: int, settle_ms: int = 0) -> None:
        self._clock, self._interval_ms, self._settle_ms = clock, interval_ms, settle_ms
        self._rest = self._pressed = False
        self.held = 0

    def begin(self, rest: bool, pressed: bool = False) -> None:
        """A pass over all objects begins. ``pressed``: something more urgent is asked of the API server."""
        self._rest, self._pressed, self.held = rest, pressed, 0

    @property
    def now_ms(self) -> int:
        return self._clock.now_ms()

    def due(
        self,
        written: Written,
        content: Any,
        code: Any,
        interval_ms: int | None = None,
        patience: Callable[[], Patience] = lambda: "urgent",
    ) -> bool:
        """Tell whether new content may be written now; the same content is never due."""
        interval_ms = self._interval_ms if interval_ms is None else min(interval_ms, self._interval_ms)
        if written.content == content:
            written.waits_since_ms = 0
            return False
        if self._rest:
            return True
        written.waits_since_ms = written.waits_since_ms or self.now_ms
        if self._within(written.waits_since_ms, self._waits_ms(patience())):
            return self._hold()
        if written.content is None or written.code != code or not self._within(written.at_ms, interval_ms):
            return True
        return self._hold()

    def _waits_ms(self, patience: Patience) -> int:
        """Return how long new content lets pass what is more urgent."""
        if patience == "urgent":
            return 0
        if patience == "moving" and self._settle_ms:
            return self._interval_ms * (MOVING_FACTOR if self._pressed else 1)
        return self._interval_ms if self._pressed else self._settle_ms

    def _within(self, since_ms: int, interval_ms: int) -> bool:
        return 0 <= self.now_ms - since_ms < interval_ms  # a time ahead is one of before the clock was set back

    def _hold(self) -> bool:
        self.held += 1
        return False

    def note(self, written: Written, content: Any, code: Any) -> None:
        """It was written."""
        written.content, written.code, written.at_ms, written.waits_since_ms = content, code, self.now_ms, 0
