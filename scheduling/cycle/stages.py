"""The stages of a cycle, for whoever wants to know how long each takes.

The cycle says what it is doing and is told nothing back: there is no clock here, and who listens changes no decision.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Final, Literal, Protocol

#: ``open``: the session with all plugins; ``predicate``: one task's search for nodes, with what of it is ``scoring``.
Stage = Literal["open", "plugin", "action", "predicate", "scoring"]


class Stages(Protocol):
    """Who is told; ``name`` is the plugin's or the action's."""

    def during(self, stage: Stage, name: str = "") -> AbstractContextManager[None]:
        """Return what is entered when the stage begins and left when it ends."""
        ...


class _Untold:
    """Nobody listens."""

    _nothing: Final = nullcontext()

    def during(self, stage: Stage, name: str = "") -> AbstractContextManager[None]:
        return self._nothing


UNTOLD: Final[Stages] = _Untold()
