"""Reading API objects as plain JSON: what has the wrong type is as if it were absent.

For one bad field of one object must never stop the work on another.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from events.canonical import Json
from events.kinds import Kind


class Ref(NamedTuple):
    """The name of one object."""

    kind: Kind
    namespace: str
    name: str

    @property
    def order(self) -> tuple[str, str, str, str]:
        """What sorts references the same way everywhere."""
        return self.kind.api_version, self.kind.name, self.namespace, self.name


def mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def integer(value: Any, default: int = 0) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def optional_integer(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def count_in(value: str) -> int | None:
    """Return the whole number that a text holds (up to nine digits, no sign), None if it holds none."""
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 10 else None


def texts(value: Any) -> dict[str, str]:
    return {key: item for key, item in mapping(value).items() if isinstance(item, str)}


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


def notes_of(item: Json | None) -> dict[str, str]:
    return texts(meta(item).get("annotations"))


def labels(item: Json | None) -> dict[str, str]:
    return texts(meta(item).get("labels"))


def deleting(item: Json | None) -> bool:
    return bool(meta(item).get("deletionTimestamp"))


def phase_of(item: Json | None) -> str:
    """The phase of a pod or PodGroup; an absent one is Pending."""
    return text(status(item).get("phase")) or "Pending"


def ref_of(kind: Kind, item: Json) -> Ref:
    return Ref(kind, namespace_of(item), name_of(item))


def controller_of(item: Json | None) -> dict[str, Any] | None:
    """Return the first owner reference with controller=true (scheduling/AS-3)."""
    return next((owner for owner in items(meta(item).get("ownerReferences")) if owner.get("controller") is True), None)


def owner_reference(kind: Kind, owner: Json) -> Json:
    """Return the reference by which ``owner`` controls what is made for it."""
    return {
        "apiVersion": kind.api_version,
        "kind": kind.name,
        "name": name_of(owner),
        "uid": uid_of(owner),
        "controller": True,
        "blockOwnerDeletion": True,
    }
