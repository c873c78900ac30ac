"""The embedded cluster's memory: every object, one counter of resource versions, and what watches have to see.

Objects are never changed in place: a write replaces the whole value, so that lists, watch events and pages can share
what they were given. The store judges nothing; validation, defaulting and admission belong to ``api``, which writes
through ``write`` and ``erase``. A simulation writes through ``put``, ``replace`` and ``remove`` instead: the same, but
what a server would own (uid, resourceVersion, times, status) is kept as it was written.

Each kind has a bounded history of events. A watch reads it from its own place, so a slow reader costs nothing; a reader
that fell out of the window is told to list again (410). Faults for simulations (an event that never was, a broken
watch, a bookmark) are entries of the history too, seen only by the watches that are open when they happen.
"""

from __future__ import annotations

import uuid
from bisect import bisect_right, insort
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

from adapters.clock import Clock, rfc3339
from events.canonical import Json
from events.kinds import Kind
from services.cluster import refusal

NewUid = Callable[[str, str, str, int], str]
Key = tuple[str, str]  # namespace, name

HISTORY_EVENTS_MAX = 20_000  # events kept per kind
_NAMESPACE = uuid.UUID("6f1d7c5e-54a6-5c7b-9a63-0f3c2b1de7aa")


def random_uid(kind: str, namespace: str, name: str, nth: int) -> str:
    """Return a fresh uid, as a production server does."""
    return str(uuid.uuid4())


def derived_uid(kind: str, namespace: str, name: str, nth: int) -> str:
    """Return the uid of the ``nth`` creation of this name: the same file gives the same uids."""
    return str(uuid.uuid5(_NAMESPACE, f"{kind}/{namespace}/{name}/{nth}"))


@dataclass(frozen=True, slots=True)
class Entry:
    """One event of a kind's history. ``fault`` entries are delivered to open watches only, to one client's if named."""

    type: str
    version: int
    object: Json
    previous: Json | None = None
    fault: bool = False
    client: str = ""


@dataclass
class History:
    """The events of one kind, oldest first; ``dropped`` have left the window, the newest of them at ``floor``."""

    entries: list[Entry] = field(default_factory=list)
    dropped: int = 0
    floor: int = 0

    @property
    def end(self) -> int:
        return self.dropped + len(self.entries)

    def append(self, entry: Entry, limit: int) -> None:
        """Add an event; half of the window goes at once, so that one append costs next to nothing."""
        self.entries.append(entry)
        if len(self.entries) > limit:
            gone = max(1, limit // 2)
            self.floor = max(self.floor, *(old.version for old in self.entries[:gone]))
            self.dropped += gone
            del self.entries[:gone]

    def place(self, version: int) -> int | None:
        """Return the place after every event up to ``version``, or None if later ones have been dropped."""
        if version < self.floor:
            return None
        place = self.end
        for entry in reversed(self.entries):
            if entry.version <= version:
                break
            place -= 1
        return place

    def since(self, place: int) -> list[Entry] | None:
        """Return the entries from ``place`` on, or None if some of them have been dropped."""
        return None if place < self.dropped else self.entries[place - self.dropped :]


@dataclass(frozen=True, slots=True)
class Binding:
    """An accepted Binding: the node, and whether it existed at that moment."""

    node: str
    node_existed: bool


@dataclass(frozen=True, slots=True)
class Backup:
    """Everything that a store held at one moment."""

    version: int
    objects: dict[Kind, dict[Key, Json]]
    bindings: dict[str, list[Binding]]


class Backing(Protocol):
    """Where the objects survive a restart."""

    def load(self) -> tuple[int, list[tuple[Kind, Json]]]: ...

    def save(self, kind: Kind, key: Key, item: Json | None, version: int) -> None: ...


class Store:
    """All objects, and the events of each kind."""

    def __init__(self, clock: Clock, new_uid: NewUid, backing: Backing | None = None,
                 history_max: int = HISTORY_EVENTS_MAX) -> None:  # fmt: skip
        self.clock, self.new_uid = clock, new_uid
        self.version = 0
        #: How often an older state came back: a watch of an earlier one has ended.
        self.restores = 0
        self.bindings: dict[str, list[Binding]] = {}
        self.listeners: list[Callable[[Kind], None]] = []
        self._objects: dict[Kind, dict[Key, Json]] = {}
        self._keys: dict[Kind, list[Key]] = {}
        self._histories: dict[Kind, History] = {}
        self._created: dict[tuple[Kind, Key], int] = {}
        self._backing, self._history_max = backing, history_max
        self._floor = 0
        if backing is not None:
            self._load(backing)

    def _load(self, backing: Backing) -> None:
        self.version, items = backing.load()
        for kind, item in items:
            self._set(kind, key_of(item), item)
        self._floor = self.version

    # Reading.

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        return self._objects.get(kind, {}).get((namespace, name))

    def items(self, kind: Kind, namespace: str = "") -> list[Json]:
        """Return the kind's objects, in order of namespace and name; of one namespace if given."""
        objects = self._objects.get(kind, {})
        keys: Iterator[Key] | list[Key] = self._keys.get(kind, [])
        if namespace:
            keys = self._within(kind, namespace)
        return [objects[key] for key in keys]

    def _within(self, kind: Kind, namespace: str) -> Iterator[Key]:
        keys = self._keys.get(kind, [])
        for place in range(bisect_right(keys, (namespace, "")), len(keys)):
            if keys[place][0] != namespace:
                return
            yield keys[place]

    def kinds(self) -> list[Kind]:
        """Return the kinds of which there are objects."""
        return [kind for kind, objects in self._objects.items() if objects]

    def history(self, kind: Kind) -> History:
        """Return the kind's event history."""
        return self._histories.setdefault(kind, History(floor=self._floor))

    # Writing, for the API: the caller has judged and completed the object.

    def next_uid(self, kind: Kind, namespace: str, name: str) -> str:
        """Return the uid for a creation of this name, and count it."""
        key = (kind, (namespace, name))
        self._created[key] = self._created.get(key, 0) + 1
        return self.new_uid(kind.name if not kind.group else f"{kind.name}.{kind.group}", namespace, name,
                            self._created[key])  # fmt: skip

    def now(self) -> str:
        """Return the clock's time as the API writes it."""
        return rfc3339(self.clock.now_ms())

    def write(self, kind: Kind, item: Json) -> Json:
        """Store an object under the next resource version and tell the watches; return it as stored."""
        return self._write(kind, item, self.version + 1)

    def _write(self, kind: Kind, item: Json, version: int, as_written: str = "", type_: str = "") -> Json:
        self.version = version
        key = key_of(item)
        previous = self._objects.get(kind, {}).get(key)
        stored = {**item, "metadata": {**item["metadata"], "resourceVersion": as_written or str(version)}}
        self._save(kind, key, stored)
        self._set(kind, key, stored)
        self._append(kind, Entry(type_ or ("MODIFIED" if previous is not None else "ADDED"), version, stored, previous))
        return stored

    def erase(self, kind: Kind, namespace: str, name: str, *, shown: Json | None = None) -> Json | None:
        """Take an object away under the next resource version; return its last form, None if there is none.

        ``shown`` is what the watches see as its last form instead, its own resourceVersion included.
        """
        key = (namespace, name)
        last = self._objects.get(kind, {}).get(key)
        if last is None:
            return None
        self.version += 1
        gone = {**last, "metadata": {**last["metadata"], "resourceVersion": str(self.version)}}
        self._save(kind, key, None)
        del self._objects[kind][key]
        del self._keys[kind][bisect_right(self._keys[kind], key) - 1]
        self._append(kind, Entry("DELETED", self.version, gone if shown is None else shown, last))
        return gone

    def _set(self, kind: Kind, key: Key, item: Json) -> None:
        objects = self._objects.setdefault(kind, {})
        if key not in objects:
            insort(self._keys.setdefault(kind, []), key)
        objects[key] = item

    def _save(self, kind: Kind, key: Key, item: Json | None) -> None:
        if self._backing is not None:
            self._backing.save(kind, key, item, self.version)

    def _append(self, kind: Kind, entry: Entry) -> None:
        self.history(kind).append(entry, self._history_max)
        for listener in list(self.listeners):
            listener(kind)

    # Writing, for simulations: as written, without validation and admission.

    def put(self, kind: Kind, item: Json) -> Json:
        """Add an object exactly as written; what a server would own is filled in only where it is absent."""
        return self._raw(kind, item, None, "ADDED")

    def replace(self, kind: Kind, item: Json) -> Json:
        """Put a new form of an object; without a uid or a creation time it keeps the old ones. Another uid is taken."""
        return self._raw(kind, item, self.get(kind, *key_of(item)), "MODIFIED")

    def _raw(self, kind: Kind, item: Json, old: Json | None, type_: str) -> Json:
        namespace, name = key_of(item)
        given = item["metadata"]
        meta = dict(given)
        before = old["metadata"] if old is not None else {}
        same = old is not None and given.get("uid", before.get("uid")) == before.get("uid")
        meta.setdefault("uid", before.get("uid") if same else self.next_uid(kind, namespace, name))
        meta.setdefault("creationTimestamp", (before.get("creationTimestamp") if same else None) or self.now())
        as_written = str(given.get("resourceVersion") or "")
        version = self.version + 1
        if as_written.isascii() and as_written.isdigit() and len(as_written) <= 20:
            version = max(version, int(as_written))
        return self._write(kind, {**item, "metadata": meta}, version, as_written, type_)

    def remove(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """Delete an object at once, without grace period; return its last form."""
        return self.erase(kind, namespace, name)

    # An older state comes back, for simulations: as when etcd is restored from a backup.

    def backup(self) -> Backup:
        """Return everything as it is now."""
        objects = {kind: dict(items) for kind, items in self._objects.items()}
        return Backup(self.version, objects, {uid: list(found) for uid, found in self.bindings.items()})

    def restore(self, backup: Backup) -> None:
        """Be as at the backup, resource versions included; every watch ends, and nothing before is remembered."""
        assert self._backing is None, "a store that survives restarts is restored where it is kept"
        self.restores += 1
        self.version = self._floor = backup.version
        self.bindings = {uid: list(found) for uid, found in backup.bindings.items()}
        self._objects = {kind: dict(items) for kind, items in backup.objects.items()}
        self._keys = {kind: sorted(items) for kind, items in self._objects.items()}
        self._histories.clear()

    # Faults, for simulations: seen by the watches that are open, nothing else changes.

    def emit(self, kind: Kind, type_: str, item: Json, client: str = "") -> None:
        """Show the open watches one more event with exactly this content."""
        self._append(kind, Entry(type_, self.version, item, fault=True, client=client))

    def break_watch(self, kind: Kind, code: int, client: str = "") -> None:
        """Send the open watches an ERROR event with a Status of this code, and end them."""
        reasons = {410: "Expired", 500: "InternalError", 504: "Timeout", 429: "TooManyRequests", 401: "Unauthorized"}
        message = "too old resource version" if code == 410 else "watch broken"
        self.emit(kind, "ERROR", refusal.failure(code, reasons.get(code, ""), message), client)

    def bookmark(self, kind: Kind, version: str, client: str = "") -> None:
        """Show the open watches a bookmark."""
        self.emit(kind, "BOOKMARK", bookmark_of(kind, version), client)

    def accept_binding(self, uid: str, node: str, existed: bool) -> None:
        """Count an accepted Binding of a pod's uid."""
        self.bindings.setdefault(uid, []).append(Binding(node, existed))


def bookmark_of(kind: Kind, version: str) -> Json:
    """Return the object of a BOOKMARK event."""
    return {"kind": kind.name, "apiVersion": kind.api_version,
            "metadata": {"resourceVersion": version, "creationTimestamp": None}}  # fmt: skip


def key_of(item: Json) -> Key:
    """Return namespace (empty for cluster-scoped) and name of an object."""
    meta: dict[str, Any] = item["metadata"]
    return meta.get("namespace") or "", meta["name"]
