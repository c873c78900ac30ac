"""A mirror of some kinds of the cluster: every object as it is now, brought up to date by polling.

Theory of operation: each kind is listed once (in pages), then watched from the list's version. ``poll`` takes what the
watches hold, never waits, and returns the changes in the order kind by kind. A watch that ends is opened again from the
last version; one that is too old (410, or an ERROR event) is listed again, and what the list lacks is reported as
deleted. Writers put the answers of their own writes in with ``learn``, so that they read what they wrote; an event
that is older than what is known (a lower resourceVersion of the same uid) changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from adapters.cluster.port import ApiError, ApiUnknown, ClusterApi, WatchEvent, WatchStream
from events.canonical import Json
from events.kinds import Kind

Key = tuple[str, str]  # namespace, name


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
    return ((item or {}).get("metadata") or {}).get("uid") or ""


def _version(item: Json) -> int:
    text = (item.get("metadata") or {}).get("resourceVersion") or ""
    return int(text) if isinstance(text, str) and text.isdecimal() else 0


@dataclass
class _Feed:
    """One kind: its watch, where it stands, and its objects."""

    items: dict[Key, Json] = field(default_factory=dict)
    stream: WatchStream | None = None
    version: str = ""
    listed: bool = False


class Mirror:
    """The objects of some kinds of one cluster."""

    def __init__(self, api: ClusterApi, kinds: Sequence[Kind]) -> None:
        self._api = api
        self._feeds = {kind: _Feed() for kind in kinds}

    @property
    def ready(self) -> bool:
        """Whether every kind was listed."""
        return all(feed.listed for feed in self._feeds.values())

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        return self._feeds[kind].items.get((namespace, name))

    def all(self, kind: Kind) -> list[Json]:
        """Return the objects of a kind, by namespace and name."""
        items = self._feeds[kind].items
        return [items[key] for key in sorted(items)]

    async def poll(self) -> list[Change]:
        """Take what is new. A kind that cannot be read now is tried again at the next poll."""
        changes: list[Change] = []
        for kind, feed in self._feeds.items():
            try:
                changes += await self._poll(kind, feed)
            except (ApiError, ApiUnknown) as error:
                feed.stream = None
                if isinstance(error, ApiError) and error.status == 410:
                    feed.version = ""
        return changes

    def learn(self, kind: Kind, item: Json) -> list[Change]:
        """Take the answer of a write."""
        return self._put(kind, item) if kind in self._feeds else []

    def forget(self, kind: Kind, namespace: str, name: str, uid: str) -> list[Change]:
        """Take it that an object is gone, as its writer was told."""
        feed = self._feeds.get(kind)
        old = feed.items.get((namespace, name)) if feed else None
        if feed is None or old is None or (uid and uid_of(old) != uid):
            return []
        del feed.items[(namespace, name)]
        return [Change(kind, old, None)]

    async def close(self) -> None:
        for feed in self._feeds.values():
            if feed.stream is not None:
                await feed.stream.close()
                feed.stream = None

    async def _poll(self, kind: Kind, feed: _Feed) -> list[Change]:
        changes: list[Change] = []
        if not feed.version:
            changes += await self._list(kind, feed)
        if feed.stream is None:
            feed.stream = await self._api.watch(kind, feed.version)
        while True:
            events = await feed.stream.next(wait=False)
            if events is None:
                feed.stream = None
                return changes
            if not events:
                return changes
            for event in events:
                changes += self._take(kind, feed, event)
            if feed.stream is None:
                return changes + await self._poll(kind, feed)

    async def _list(self, kind: Kind, feed: _Feed) -> list[Change]:
        found: dict[Key, Json] = {}
        token, version = "", ""
        while True:
            page = await self._api.list(kind, token=token)
            found |= {key_of(item): item for item in page.items}
            version = version or page.version
            token = page.next_token
            if not token:
                break
        gone = [feed.items.pop(key) for key in sorted(feed.items.keys() - found.keys())]
        changes = [Change(kind, old, None) for old in gone]
        for key in sorted(found):
            old = feed.items.get(key)
            if old != found[key]:
                feed.items[key] = found[key]
                changes += self._split(kind, old, found[key])
        feed.version, feed.listed = version, True
        return changes

    def _take(self, kind: Kind, feed: _Feed, event: WatchEvent) -> list[Change]:
        if event.type == "ERROR":
            feed.version, feed.stream = "", None
            return []
        version = (event.object.get("metadata") or {}).get("resourceVersion")
        feed.version = version or feed.version
        if event.type in ("ADDED", "MODIFIED"):
            return self._put(kind, event.object)
        if event.type == "DELETED":
            return self.forget(kind, *key_of(event.object), uid_of(event.object))
        return []

    def _put(self, kind: Kind, item: Json) -> list[Change]:
        items, key = self._feeds[kind].items, key_of(item)
        old = items.get(key)
        if old is not None and uid_of(old) == uid_of(item) and _version(item) <= _version(old):
            return []
        items[key] = item
        return self._split(kind, old, item)

    @staticmethod
    def _split(kind: Kind, old: Json | None, new: Json) -> list[Change]:
        """Another uid under a known name is a deletion and a creation."""
        if old is not None and uid_of(old) != uid_of(new):
            return [Change(kind, old, None), Change(kind, None, new)]
        return [Change(kind, old, new)]
