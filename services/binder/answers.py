"""What an effect answers to the binder."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from events.records import Outcome

#: Says of a command's id whether it may still be carried out, as of the log's present end.
Stands: TypeAlias = Callable[[str], Awaitable[bool]]


@dataclass(frozen=True, slots=True)
class Answer:
    """What came of a command in one step: an outcome, or it goes on waiting (``holds_lane``: and so does its lane)."""

    outcome: Outcome | None
    acted: bool = True
    holds_lane: bool = False
    waits_for: str = ""
