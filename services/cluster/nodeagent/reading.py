"""Reading pods and nodes defensively: a field of the wrong type is as if it were absent."""

from __future__ import annotations

from typing import Any

from events.canonical import Json


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def meta(item: Json | None) -> dict[str, Any]:
    return mapping(mapping(item).get("metadata"))


def spec(item: Json | None) -> dict[str, Any]:
    return mapping(mapping(item).get("spec"))


def status(item: Json | None) -> dict[str, Any]:
    return mapping(mapping(item).get("status"))


def note(item: Json | None, key: str) -> str:
    """Return an annotation, empty if it is absent or no text."""
    return text(mapping(meta(item).get("annotations")).get(key))


def node_of(pod: Json) -> str:
    return text(spec(pod).get("nodeName"))


def phase_of(pod: Json) -> str:
    return text(status(pod).get("phase")) or "Pending"


def deleting(item: Json) -> bool:
    return bool(meta(item).get("deletionTimestamp"))
