"""The world as the controllers see it: the API's objects by kind and key, and who belongs to whom.

Everything here is plain JSON as the API returns it; the helpers read it defensively, because a field of the wrong type
in one object must never stop the work on another. The indexes (by owner, PodGroup, queue) are kept with every change,
so that a reconciliation costs what its own objects cost, not what the cluster holds. Every answer is in a fixed order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from adapters.cluster.mirror import Change
from events.canonical import Json
from events.kinds import POD_GROUP, QUEUE, Kind


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


class World:
    """All objects of the watched kinds."""

    def __init__(self) -> None:
        self._items: dict[Kind, dict[tuple[str, str], Json]] = {}
        self._owned: dict[str, dict[Ref, None]] = {}
        self._living: dict[str, Ref] = {}
        self._phases: dict[str, dict[str, int]] = {}

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        return self._items.get(kind, {}).get((namespace, name))

    def at(self, ref: Ref) -> Json | None:
        return self.get(*ref)

    def all(self, kind: Kind) -> list[Json]:
        """Return the objects of a kind by namespace and name."""
        found = self._items.get(kind, {})
        return [found[key] for key in sorted(found)]

    def alive(self, uid: str) -> bool:
        """Tell whether an object with this uid is in the world."""
        return uid in self._living

    def by_uid(self, uid: str) -> Json | None:
        """Return the object with this uid."""
        ref = self._living.get(uid)
        return self.at(ref) if ref is not None else None

    def owned(self, uid: str, kind: Kind | None = None) -> list[Json]:
        """Return the objects with an owner reference to ``uid``, by name."""
        return [item for ref, item in self.owned_refs(uid) if kind is None or ref.kind == kind]

    def owned_refs(self, uid: str) -> list[tuple[Ref, Json]]:
        return list(self._resolve(self._owned.get(uid, {})))

    def group_phases(self, queue: str) -> dict[str, int]:
        """Return how many PodGroups of a queue are in each phase; empty if it has none."""
        return {phase: count for phase, count in self._phases.get(queue, {}).items() if count}

    def children(self, queue: str) -> list[Json]:
        """Return the queues whose parent is ``queue``."""
        return [item for item in self.all(QUEUE) if parent_of(item) == queue]

    def put(self, kind: Kind, item: Json) -> None:
        """Set an object directly (what ``apply`` does for a change that is no deletion)."""
        self.apply(Change(kind, self.at(ref_of(kind, item)), item))

    def apply(self, change: Change) -> None:
        """Take a change."""
        key = change.key
        found = self._items.setdefault(change.kind, {})
        old = found.pop(key, None)
        if old is not None:
            self._index(change.kind, old, add=False)
        if change.new is not None:
            found[key] = change.new
            self._index(change.kind, change.new, add=True)

    def _resolve(self, refs: Iterable[Ref]) -> Iterator[tuple[Ref, Json]]:
        for ref in sorted(refs, key=lambda ref: ref.order):
            item = self.at(ref)
            if item is not None:
                yield ref, item

    def _index(self, kind: Kind, item: Json, *, add: bool) -> None:
        ref = ref_of(kind, item)
        uid = uid_of(item)
        if uid and add:
            self._living[uid] = ref
        elif uid and self._living.get(uid) == ref:
            del self._living[uid]
        for owner in items(meta(item).get("ownerReferences")):
            _mark(self._owned, text(owner.get("uid")), ref, add)
        if kind == POD_GROUP:
            phases = self._phases.setdefault(queue_of(item), {})
            phases[phase_of(item)] = phases.get(phase_of(item), 0) + (1 if add else -1)


def _mark(index: dict[Any, dict[Ref, None]], key: Any, ref: Ref, add: bool) -> None:
    if add:
        index.setdefault(key, {})[ref] = None
    elif key in index:
        index[key].pop(ref, None)
        if not index[key]:
            del index[key]


def queue_of(group: Json) -> str:
    """The queue of a PodGroup (scheduling/PG-3)."""
    return text(spec(group).get("queue")) or "default"


def parent_of(queue: Json) -> str:
    """The parent of a queue; ``root`` has none (scheduling/Q-2)."""
    return "" if name_of(queue) == "root" else text(spec(queue).get("parent")) or "root"
