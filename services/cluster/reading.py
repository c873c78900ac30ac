"""Reading objects that may hold anything: what has the wrong type is as if it were absent.

Objects that a simulation writes past validation are served, shown, patched and deleted like any other.
"""

from __future__ import annotations

from typing import Any

from events.canonical import Json


def mapping(value: Any) -> Json:
    """Return a mapping, an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def mappings(value: Any) -> list[Json]:
    """Return the mappings of a list, none in place of anything else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def texts(value: Any) -> list[str]:
    """Return the texts of a list, none in place of anything else."""
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []


def spec(item: Json) -> Json:
    return mapping(item.get("spec"))


def status(item: Json) -> Json:
    return mapping(item.get("status"))


def finalizers(item: Json) -> list[str]:
    return texts(item["metadata"].get("finalizers"))


def owners(item: Json) -> list[Json]:
    return mappings(item["metadata"].get("ownerReferences"))
