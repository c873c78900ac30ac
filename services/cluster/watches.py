"""A watch: one reader's place in a kind's history, and the selection that it sees.

A watch without a resource version starts with the objects as they are, as ADDED events. What leaves the selection is
shown as DELETED and what enters it as ADDED, as the real server does. A watch from a version that the server has not
reached (it was restored to an older state) is accepted, and says nothing until that version has passed.
"""

from __future__ import annotations

from collections.abc import Callable

from events.canonical import Json
from events.kinds import Kind
from services.cluster import refusal
from services.cluster.store import Entry, Store, bookmark_of

Line = tuple[str, Json]  # type and object of one watch event


class Watch:
    """An open watch. ``take`` returns what is there; ``ended`` is set when nothing more will come."""

    def __init__(self, store: Store, kind: Kind, namespace: str, name: str, matches: Callable[[Json], bool],
                 version: int | None, client: str = "") -> None:  # fmt: skip
        self._store, self.kind, self._client = store, kind, client
        self._namespace, self._name, self._matches = namespace, name, matches
        self.ended = False
        self._first: list[Line] = []
        history = store.history(kind)
        place = history.end if version is None else history.place(version)
        if version is None:
            self._first = [("ADDED", item) for item in store.items(kind, namespace) if self._sees(item)]
        elif place is None:
            self._too_old(f"too old resource version: {version} ({history.floor + 1})")
        self._place = place if place is not None else history.end
        self._from = version or 0
        self._version = max(store.version, self._from)
        self._restores = store.restores

    def take(self) -> list[Line]:
        """Return the events that are there and have not been taken."""
        lines, self._first = self._first, []
        if self._restores != self._store.restores:
            self.ended = True
        if self.ended:
            return lines
        history = self._store.history(self.kind)
        entries = history.since(self._place)
        if entries is None:
            self._too_old("too old resource version: the watch fell behind")
            lines, self._first = lines + self._first, []
            return lines
        self._place = history.end
        for entry in entries:
            line = self._line(entry)
            if line is not None:
                lines.append(line)
                if entry.type == "ERROR":
                    self.ended = True
                    break
        self._version = max(self._from, self._store.version)
        return lines

    def bookmark(self) -> Line:
        """Return a bookmark of the place up to which everything has been taken."""
        return "BOOKMARK", bookmark_of(self.kind, str(self._version))

    def close(self) -> None:
        self.ended = True

    def _too_old(self, message: str) -> None:
        self._first = [("ERROR", refusal.failure(410, "Expired", message))]
        self.ended = True

    def _sees(self, item: Json) -> bool:
        meta = item.get("metadata") or {}
        return (
            (not self._namespace or meta.get("namespace") == self._namespace)
            and (not self._name or meta.get("name") == self._name)
            and self._matches(item)
        )

    def _line(self, entry: Entry) -> Line | None:
        if entry.client and entry.client != self._client:
            return None
        if entry.fault:
            plain = entry.type in ("ERROR", "BOOKMARK")
            return (entry.type, entry.object) if plain or self._sees(entry.object) else None
        if entry.version <= self._from:
            return None
        now = self._sees(entry.object)
        before = entry.previous is not None and self._sees(entry.previous)
        if entry.type == "DELETED":
            return ("DELETED", entry.object) if before else None
        if entry.type == "MODIFIED" and now != before:
            return ("ADDED" if now else "DELETED", entry.object)
        return (entry.type, entry.object) if now else None
