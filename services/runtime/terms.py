"""Who leads: one service's way to its role's term, and out of it again (design section 3).

Opening a term is an append; whether it counted is known only once it has been folded. So ``lead`` moves one stage at a
time and its caller folds in between: no term -> opened, not read back yet -> leading, or superseded. A superseded
writer stands back, longer each time, so that two of them do not take the role from each other for ever; somebody else
(a lease, a group membership) may say besides who may try at all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

from adapters.clock import Clock, Waiting
from adapters.log.port import LogError
from adapters.log.writer import TermWriter
from events.canonical import Json
from scheduling.state.model import Model, Term

STAND_BACK_MS: Final = 60_000
_DOUBLINGS_MAX: Final = 4

Stage = Literal["leading", "opened", "waiting"]


class Leadership:
    """Takes and keeps one role. ``writer`` is what the leader appends with."""

    def __init__(
        self,
        writer: TermWriter,
        clock: Clock,
        *,
        stand_back_ms: int = STAND_BACK_MS,
        may_lead: Callable[[], bool] = lambda: True,
        mode: Literal["active", "shadow"] = "active",
    ) -> None:
        self.writer = writer
        self._standing_back = Waiting(clock)
        self._stand_back_ms = stand_back_ms
        self._may_lead = may_lead
        self._mode: Literal["active", "shadow"] = mode
        self._opened_at = -1
        self.superseded = 0
        self.failure = ""

    async def lead(self, model: Model, position: int, config: Json, incarnation: str = "") -> Stage:
        """Take the next stage. ``position`` is up to where ``model`` was folded.

        ``incarnation`` begins a log that is still empty; without it a log that has no beginning is left alone.
        """
        if self.writer.term and position > self._opened_at:
            if self.writer.holds(model):
                return "leading"
            self._lose(model)
        if self.writer.term:
            return "waiting"
        return await self._open(model, config, incarnation)

    def give_up(self) -> None:
        """Leave the term: what is appended next needs a new one."""
        self.writer.term = 0

    async def _open(self, model: Model, config: Json, incarnation: str) -> Stage:
        named = model.incarnation or incarnation
        if not named or not self._may_lead() or self._standing_back.remaining_ms:
            return "waiting"
        previous = model.terms.get(self.writer.role, Term()).number
        try:
            self._opened_at = await self.writer.open(previous, named, config, self._mode)
        except LogError as error:
            self.failure = str(error)
            return "waiting"
        return "opened"

    def _lose(self, model: Model) -> None:
        """The term does not count: somebody else has the role, or the log has begun anew (then nobody has it)."""
        self.writer.term = 0
        if model.incarnation != self.writer.incarnation:
            return
        self._standing_back.begin(self._stand_back_ms << min(self.superseded, _DOUBLINGS_MAX))
        self.superseded += 1
