"""Driving a service's step by hand, without an event loop: it can be held, killed or woken at every request it makes.

In a simulation nothing really waits. A step is a coroutine that is sent on until it ends; where a fault holds it, it
stays suspended, as a process does that is not scheduled or swapped out, and goes on much later as if nothing had been.
"""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from types import coroutine
from typing import Any, Final

_HELD: Final = object()


class Killed(BaseException):
    """The process ends here; no ordinary exception, so that no service takes it for an answer."""


@coroutine
def hold() -> Generator[object, None, None]:
    """Suspend the step that makes this request until it is driven again."""
    yield _HELD


@coroutine
def turn() -> Generator[object, None, None]:
    """Give the other lanes of the process a turn, if it has any."""
    yield None


class Task:
    """One step under way. ``drive`` returns whether it has ended; then ``result`` is what it returned."""

    def __init__(self, step: Coroutine[Any, Any, bool]) -> None:
        self._step = step
        self.result = False

    def drive(self) -> bool:
        """Go on until the step ends (True) or is held (False). Raises whatever the step raises."""
        while True:
            try:
                found = self._step.send(None)
            except StopIteration as end:
                self.result = bool(end.value)
                return True
            if found is _HELD:
                return False

    def drop(self) -> None:
        """The process is gone: nothing of the step happens any more."""
        self._step.close()


def at_once(work: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that never waits, and return its result."""
    try:
        while True:
            work.send(None)
    except StopIteration as end:
        return end.value
