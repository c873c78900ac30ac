"""What the controllers ask of an API object as plain JSON, beyond ``events.reading``: its name, owners, labels."""

from __future__ import annotations

from typing import Any, NamedTuple

from events.canonical import Json
from events.kinds import Kind
from events.reading import items, mapping, meta, name_of, namespace_of, texts, uid_of


class Ref(NamedTuple):
    """The name of one object."""

    kind: Kind
    namespace: str
    name: str

    @property
    def order(self) -> tuple[str, str, str, str]:
        """What sorts references the same way everywhere."""
        return self.kind.api_version, self.kind.name, self.namespace, self.name


def count_in(value: str) -> int | None:
    """Return the whole number that a text holds (up to nine digits, no sign), None if it holds none."""
    return int(value) if value.isascii() and value.isdecimal() and len(value) < 10 else None


def notes_of(item: Json | None) -> dict[str, str]:
    return texts(meta(item).get("annotations"))


def labels(item: Json | None) -> dict[str, str]:
    return texts(meta(item).get("labels"))


def lacking(item: Json, wanted: Json) -> Json:
    """Return the labels and annotations that an object lacks or has otherwise, by section; it keeps others."""
    found: Json = {}
    for part, now in (("labels", labels(item)), ("annotations", notes_of(item))):
        missing = {key: value for key, value in mapping(meta(wanted).get(part)).items() if now.get(key) != value}
        if missing:
            found[part] = missing
    return found


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
