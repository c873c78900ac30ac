"""How failures are worded: what was wanted, what was found."""

from __future__ import annotations

import json
from typing import Any

FOUND_CHARACTERS_MAX = 2000


def show(value: Any) -> str:
    """Return a value as it reads in a message: text as it is, everything else as JSON, all on one line."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True, default=str)
    return " | ".join(text.splitlines()) if text else "nothing"


def want(wanted: str, found: str) -> str:
    return f"want {wanted}, found {_short(found)}"


def _short(text: str) -> str:
    return text if len(text) <= FOUND_CHARACTERS_MAX else text[:FOUND_CHARACTERS_MAX] + "..."


def contains(text: str, wanted: str | list[str]) -> str | None:
    """Return what is wrong if a reason holds none of the wanted texts."""
    options = [wanted] if isinstance(wanted, str) else wanted
    if any(option in text for option in options):
        return None
    return want(" or ".join(show(option) for option in options), show(text))


def differs(there: Any, wanted: Any, at: str = "") -> str | None:
    """Return where a value does not hold at least what is wanted; lists and single values are compared whole."""
    if isinstance(wanted, dict) and isinstance(there, dict):
        for key, value in wanted.items():
            place = f"{at}.{key}" if at else key
            if key not in there:
                return f"{place}: {want(show(value), 'nothing')}"
            said = differs(there[key], value, place)
            if said:
                return said
        return None
    if type(there) is type(wanted) and there == wanted:
        return None
    return f"{at}: {want(show(wanted), show(there))}"
