"""Which commands have their turn when there are more than a step carries out.

A gang of two thousand must not keep a single pod that was decided after it waiting until the last member is bound. So a
step takes so many, one of each PodGroup before a second of any; who was tried already comes after who was not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from scheduling.state.model import Command

#: So many commands, at least, are carried out in one step; then the log is read on.
AT_ONCE: Final = 64


class Turns:
    """Remembers which of the commands that wait were tried, and how often."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._tried: dict[str, int] = {}

    def take(self, commands: Sequence[Command], group_of: Callable[[Command], str]) -> list[Command]:
        """Return those that have their turn, in the order of the log. ``group_of`` names a command's PodGroup."""
        if len(commands) <= self._most:
            self._tried.clear()
            return list(commands)
        self._tried = {command.id: self._tried.get(command.id, 0) for command in commands}
        before: Counter[tuple[int, str]] = Counter()
        places: list[tuple[int, int, int]] = []
        for index, command in enumerate(commands):
            key = (self._tried[command.id], group_of(command))
            places.append((key[0], before[key], index))
            before[key] += 1
        chosen = [commands[index] for index in sorted(index for _, _, index in sorted(places)[: self._most])]
        for command in chosen:
            self._tried[command.id] += 1
        return chosen
