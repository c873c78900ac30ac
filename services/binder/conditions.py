"""Conditions in an object's status: merged by type into what is there, others left alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from events.canonical import Json

#: What tells two conditions of one type apart; times and ids do not (scheduling/PG-15).
_CONTENT = ("status", "reason", "message")


def conditions_of(item: Json) -> list[Json]:
    """Return an object's conditions, whatever else its status holds."""
    status = item.get("status")
    found: Any = status.get("conditions") if isinstance(status, dict) else None
    return [entry for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []


def with_conditions(item: Json, wanted: Sequence[Json], now: str) -> list[Json] | None:
    """Return the object's conditions with the wanted ones in their place, or None if they are there already.

    ``lastTransitionTime`` is set where the content changes.
    """
    found = conditions_of(item)
    changed = False
    for condition in wanted:
        place = next((at for at, entry in enumerate(found) if entry.get("type") == condition["type"]), None)
        old = found[place] if place is not None else {}
        if all(old.get(field, "") == condition.get(field, "") for field in _CONTENT) and old:
            continue
        changed = True
        fresh = {**condition, "lastTransitionTime": now}
        if place is None:
            found.append(fresh)
        else:
            found[place] = fresh
    return found if changed else None
