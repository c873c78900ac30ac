"""How many nodes are looked at for a pod, and where the search begins (scheduling/AL-17, AL-18).

Every node is looked at unless the allocate action is given one of the reference's options: sampling gives up better
places for speed, so it happens only where somebody asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from scheduling.config import arguments

MINIMUM_NODES = 100
MINIMUM_PERCENTAGE = 5
_ADAPTIVE_START = 50
_ADAPTIVE_STEP = 125  # nodes for each percent less

T = TypeVar("T")


@dataclass(frozen=True)
class Search:
    """The options of the search; without ``sampling`` all nodes are looked at."""

    sampling: bool = False
    minimum: int = MINIMUM_NODES
    minimum_percentage: int = MINIMUM_PERCENTAGE
    percentage: int = 0

    @classmethod
    def of(cls, found: Mapping[str, Any]) -> Search:
        """Read the options from the arguments of the allocate action."""
        keys = ("minimum-feasible-nodes", "minimum-percentage-nodes-to-find", "percentage-nodes-to-find")
        return cls(
            any(key in found for key in keys),
            arguments.integer(found, keys[0], MINIMUM_NODES),
            arguments.integer(found, keys[1], MINIMUM_PERCENTAGE),
            arguments.integer(found, keys[2], 0),
        )

    def enough(self, nodes: int) -> int:
        """Return how many feasible nodes are enough among so many (AL-17)."""
        if not self.sampling or nodes <= self.minimum or self.percentage >= 100:
            return nodes
        percentage = self.percentage
        if percentage <= 0:
            percentage = max(_ADAPTIVE_START - nodes // _ADAPTIVE_STEP, self.minimum_percentage)
        return max(nodes * percentage // 100, self.minimum, 1)

    def feasible(self, nodes: Sequence[T], start: int, fits: Callable[[T], bool]) -> tuple[list[T], int]:
        """Return the feasible nodes in the order visited, and the place where the next search begins (AL-18).

        ``nodes`` are in name order; the search goes round from ``start`` until enough are found. Without sampling it
        sees all of them from the first one on, and the place stays as it is.
        """
        if not self.sampling:
            return [node for node in nodes if fits(node)], start
        count = len(nodes)
        enough = self.enough(count)
        found: list[T] = []
        visited = 0
        while visited < count and len(found) < enough:
            node = nodes[(start + visited) % count]
            visited += 1
            if fits(node):
                found.append(node)
        return found, (start + visited) % count if count else 0
