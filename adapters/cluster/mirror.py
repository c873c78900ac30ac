"""A mirror of some kinds of the cluster: every object as it is now, brought up to date by polling.

Theory of operation: one reflector a kind gives what is new; ``poll`` takes it, never waits, and returns the changes,
kind by kind. What a complete list lacks is reported as deleted. Writers put the answers of their own writes in with
``learn``, so that they read what they wrote; an event that is older than what is known (a lower resourceVersion of the
same uid) changes nothing, nor does one of an object whose end was told since the last list: repeated, it would bring
that back. A kind that the server does not have (404) counts as empty until it does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from adapters.clock import Clock
from adapters.cluster.port import ClusterApi
from adapters.cluster.reflector import Delta, Gone, Listed, ListEnd, Reflector, Upsert
from events.canonical import Json
from events.kinds import Kind

Key = tuple[str, str]  # namespace, name

#: The deletionTimestamp of an object whose deletion was accepted and whose own time the watch has not told yet.
_UNTOLD = "1970-01-01T00:00:00Z"
_TOMBSTONES_MAX = 100_000


@dataclass(frozen=True, slots=True)
class Change:
    """An object came (``old`` is None), changed, or went (``new`` is None)."""

    kind: Kind
    old: Json | None
    new: Json | None

    @property
    def object(self) -> Json:
        """The object as it is, or as it was last seen."""
        found = self.new if self.new is not None else self.old
        assert found is not None, "a change has an object"
        return found

    @property
    def key(self) -> Key:
        return key_of(self.object)


def key_of(item: Json) -> Key:
    """Return namespace and name of an object."""
    meta = item.get("metadata") or {}
    return meta.get("namespace") or "", meta.get("name") or ""


def uid_of(item: Json | None) -> str:
    uid = ((item or {}).get("metadata") or {}).get("uid")
    return uid if isinstance(uid, str) else ""


def version_of(item: Json) -> int:
    """Return an object's resourceVersion as a number, 0 if it is none."""
    text = (item.get("metadata") or {}).get("resourceVersion") or ""
    return int(text) if isinstance(text, str) and text.isascii() and text.isdecimal() else 0


@dataclass
class _Shelf:
    """One kind: its reflector, its objects, and the list that is coming in."""

    reflector: Reflector
    items: dict[Key, Json] = field(default_factory=dict)
    incoming: dict[Key, Json] = field(default_factory=dict)
    listed: bool = False
    #: The uids whose end was told since the last list; of very many, the newest.
    gone: dict[str, None] = field(default_factory=dict)

    def bury(self, uid: str) -> None:
        if uid:
            self.gone[uid] = None
        if len(self.gone) > _TOMBSTONES_MAX:
            del self.gone[next(iter(self.gone))]


class Mirror:
    """The objects of some kinds of one cluster. ``jitter`` is the reflectors' (None: no back-off)."""

    def __init__(
        self, api: ClusterApi, kinds: Sequence[Kind], clock: Clock, jitter: Callable[[], float] | None = None
    ) -> None:
        self._shelves = {kind: _Shelf(Reflector(api, kind, clock, jitter)) for kind in kinds}

    @property
    def ready(self) -> bool:
        """Whether every kind that the server has was listed."""
        return all(shelf.listed or shelf.reflector.failure.startswith("404") for shelf in self._shelves.values())

    @property
    def failures(self) -> dict[str, str]:
        """The kinds that could not be listed yet, and why."""
        return {
            kind.name: shelf.reflector.failure
            for kind, shelf in self._shelves.items()
            if not shelf.listed and shelf.reflector.failure
        }

    @property
    def reflectors(self) -> list[Reflector]:
        """The reflectors, so that a shell can wait for them (``fetch``)."""
        return [shelf.reflector for shelf in self._shelves.values()]

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        return self._shelves[kind].items.get((namespace, name))

    def all(self, kind: Kind) -> list[Json]:
        """Return the objects of a kind, by namespace and name."""
        items = self._shelves[kind].items
        return [items[key] for key in sorted(items)]

    async def poll(self) -> list[Change]:
        """Take what is new."""
        changes: list[Change] = []
        for kind, shelf in self._shelves.items():
            for delta in await shelf.reflector.poll():
                changes += self._take(kind, shelf, delta)
        return changes

    def learn(self, kind: Kind, item: Json) -> list[Change]:
        """Take the answer of a write."""
        shelf = self._shelves.get(kind)
        return self._put(kind, shelf, item) if shelf is not None else []

    def expect_end(self, kind: Kind, namespace: str, name: str, uid: str) -> list[Change]:
        """Take it that a deletion was accepted: until the watch tells more, the object is terminating."""
        shelf = self._shelves.get(kind)
        old = shelf.items.get((namespace, name)) if shelf is not None else None
        if shelf is None or old is None or uid_of(old) != uid or old["metadata"].get("deletionTimestamp"):
            return []
        marked = {**old, "metadata": {**old["metadata"], "deletionTimestamp": _UNTOLD}}
        shelf.items[(namespace, name)] = marked
        return [Change(kind, old, marked)]

    async def close(self) -> None:
        for shelf in self._shelves.values():
            await shelf.reflector.close()

    def _take(self, kind: Kind, shelf: _Shelf, delta: Delta) -> list[Change]:
        if isinstance(delta, Listed):
            shelf.incoming |= {key_of(item): item for item in delta.items}
        elif isinstance(delta, ListEnd):
            shelf.gone.clear()
            return self._replace(kind, shelf)
        elif isinstance(delta, Upsert):
            return self._put(kind, shelf, delta.item)
        elif isinstance(delta, Gone):
            return self._drop(kind, shelf, delta.item)
        return []

    def _replace(self, kind: Kind, shelf: _Shelf) -> list[Change]:
        """A list is complete: it is what there is."""
        found, shelf.incoming, shelf.listed = shelf.incoming, {}, True
        changes = [Change(kind, shelf.items.pop(key), None) for key in sorted(shelf.items.keys() - found.keys())]
        for key in sorted(found):
            old = shelf.items.get(key)
            if old != found[key]:
                shelf.items[key] = found[key]
                changes += _split(kind, old, found[key])
        return changes

    @staticmethod
    def _put(kind: Kind, shelf: _Shelf, item: Json) -> list[Change]:
        key = key_of(item)
        old = shelf.items.get(key)
        if uid_of(item) in shelf.gone:
            return []
        if old is not None and uid_of(old) == uid_of(item) and version_of(item) <= version_of(old):
            return []
        if old is not None and uid_of(old) != uid_of(item):
            shelf.bury(uid_of(old))
        shelf.items[key] = item
        return _split(kind, old, item)

    @staticmethod
    def _drop(kind: Kind, shelf: _Shelf, item: Json) -> list[Change]:
        old = shelf.items.get(key_of(item))
        shelf.bury(uid_of(item) or uid_of(old))
        if old is None or (uid_of(item) and uid_of(old) != uid_of(item)):
            return []
        del shelf.items[key_of(item)]
        return [Change(kind, old, None)]


def _split(kind: Kind, old: Json | None, new: Json) -> list[Change]:
    """Another uid under a known name is a deletion and a creation."""
    if old is not None and uid_of(old) != uid_of(new):
        return [Change(kind, old, None), Change(kind, None, new)]
    return [Change(kind, old, new)]
