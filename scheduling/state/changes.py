"""What changed in the state, in order: for who keeps something of it from one decision to the next.

It is no part of the state and no history: only names stand here, the newest ones, and a reader that comes too late
(``since`` is None) reads the state as if for the first time.
"""

from __future__ import annotations

from typing import Final

#: How many names are kept; beyond, half of them are dropped.
_KEPT: Final = 50_000


class Changes:
    """The PodGroups whose jobs changed, and the Queues that did.

    A PodGroup is noted if it changed itself, or what is known of its pods or of the cards that they hold. ``others``
    counts the changes of all other objects that rules refer to.
    """

    def __init__(self) -> None:
        self._first = 0
        self._names: list[tuple[bool, str]] = []
        self.others = 0

    @property
    def place(self) -> int:
        """How many names were noted so far."""
        return self._first + len(self._names)

    def group(self, key: str) -> None:
        """Note a PodGroup (``namespace/name``), whether it exists or not; an empty key is none."""
        if key:
            self._note((False, key))

    def queue(self, name: str) -> None:
        """Note a Queue."""
        self._note((True, name))

    def everything(self) -> None:
        """Note that every job may be another now."""
        self._first = self.place + 1
        self._names = []

    def since(self, place: int) -> tuple[set[str], set[str]] | None:
        """Return the PodGroups and the Queues that were noted after a place; None if that is not known any more."""
        if not self._first <= place <= self.place:
            return None
        found = self._names[place - self._first :]
        return {name for queue, name in found if not queue}, {name for queue, name in found if queue}

    def _note(self, found: tuple[bool, str]) -> None:
        if len(self._names) >= _KEPT:
            self._first += _KEPT // 2
            del self._names[: _KEPT // 2]
        self._names.append(found)
