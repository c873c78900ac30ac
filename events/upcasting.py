"""Older versions of a record's body, turned into the newest when they are read (design section 3).

What stands on the log is never rewritten. A type's newest version is the one that ``events.records`` names; for every
older one that may stand on a log there is one step here, from version N to N + 1, and a body is led through the steps
one after another. So a step is written once, when the version after it is made, and never touched again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TypeAlias

from events.canonical import Json

#: Turns the body of one version into that of the next. It may change the dict that it is given.
Step: TypeAlias = Callable[[Json], Json]

#: The steps by (type without version, version that they start from). Every type stands at its first version so far.
STEPS: Mapping[tuple[str, int], Step] = {}


def upcast(steps: Mapping[tuple[str, int], Step], name: str, version: int, newest: int, body: Json) -> Json | None:
    """Return the body as version ``newest`` has it, or None if a step on the way there is not known."""
    for number in range(version, newest):
        step = steps.get((name, number))
        if step is None:
            return None
        body = step(body)
    return body


@lru_cache(maxsize=256)
def split(type_name: str) -> tuple[str, int] | None:
    """Split ``name.vN`` into name and N; None if it does not end in a version."""
    name, separator, version = type_name.rpartition(".v")
    if not separator or not name or not (version.isascii() and version.isdigit()) or len(version) > 9:
        return None
    number = int(version)
    return (name, number) if number > 0 and str(number) == version else None
