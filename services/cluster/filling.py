"""Completing objects in place, whatever they hold: what is absent is set, what has the wrong type is left alone."""

from __future__ import annotations

from typing import Any

from events.canonical import Json


def under(item: Json, key: str) -> Json | None:
    """Return the mapping at a key, made if it is absent; None if something else stands there."""
    value = item.get(key)
    if value is None:
        value = item[key] = {}
    return value if isinstance(value, dict) else None


def fill(item: Json | None, **defaults: Any) -> None:
    """Set the fields that are absent. A text that is empty counts as absent, as it does for the real server."""
    for key, value in defaults.items():
        if item is not None and item.get(key) in ((None, "") if isinstance(value, str) else (None,)):
            item[key] = value


def texts_for_floats(amounts: Any) -> None:
    """Write a quantity that came as a floating-point number as text, since no number of ours has a fraction."""
    if isinstance(amounts, dict):
        for name, value in amounts.items():
            if isinstance(value, float):
                amounts[name] = repr(value)
