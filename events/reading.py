"""Reading API objects as plain JSON: what has the wrong type is as if it were absent.

For one bad field of one object must never stop the work on another.
"""

from __future__ import annotations

from typing import Any

from events.canonical import Json


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def texts(value: Any) -> dict[str, str]:
    return {key: item for key, item in mapping(value).items() if isinstance(item, str)}


def whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def integer(value: Any, default: int = 0) -> int:
    found = whole(value)
    return default if found is None else found


def meta(item: Json | None) -> dict[str, Any]:
    return mapping(mapping(item).get("metadata"))


def spec(item: Json | None) -> dict[str, Any]:
    return mapping(mapping(item).get("spec"))


def status(item: Json | None) -> dict[str, Any]:
    return mapping(mapping(item).get("status"))


def name_of(item: Json | None) -> str:
    return text(meta(item).get("name"))


def namespace_of(item: Json | None) -> str:
    return text(meta(item).get("namespace"))


def uid_of(item: Json | None) -> str:
    return text(meta(item).get("uid"))


def deleting(item: Json | None) -> bool:
    return bool(meta(item).get("deletionTimestamp"))


def phase_of(item: Json | None) -> str:
    """The phase of a pod or PodGroup; an absent one is Pending."""
    return text(status(item).get("phase")) or "Pending"
