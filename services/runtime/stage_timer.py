"""Times the stages of one decision, outside of it (``scheduling.cycle.stages``)."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import TracebackType

from scheduling.cycle.stages import Stage


@dataclass(slots=True)
class _Open:
    stage: Stage
    name: str
    began_ns: int
    scored_ns: int = 0


class StageTimer(AbstractContextManager[None]):
    """Tells ``told`` of each stage that ended: which, whose, and how many nanoseconds it took.

    Nodes may be scored many times within one search: that counts as one scoring, and not for the search itself. A timer
    is for one decision, and for one thread.
    """

    def __init__(
        self, told: Callable[[Stage, str, int], None], ticks_ns: Callable[[], int] = time.perf_counter_ns
    ) -> None:
        self._told, self._ticks_ns = told, ticks_ns
        self._open: list[_Open] = []

    def during(self, stage: Stage, name: str = "") -> AbstractContextManager[None]:
        """Begin a stage; it ends with the ``with`` that this is for."""
        self._open.append(_Open(stage, name, self._ticks_ns()))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        ended = self._open.pop()
        took_ns = self._ticks_ns() - ended.began_ns
        outer = self._open[-1] if self._open else None
        if ended.stage == "scoring" and outer is not None and outer.stage == "predicate":
            outer.scored_ns += took_ns
            return
        self._told(ended.stage, ended.name, max(took_ns - ended.scored_ns, 0))
        if ended.scored_ns:
            self._told("scoring", ended.name, ended.scored_ns)
