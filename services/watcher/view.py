"""What a watcher's term has seen of one kind, and what of it is worth a record.

Order within a term (scheduling/F-4a): a version that is not newer than the last one seen of a uid is late or repeated,
a deletion is final, and a list wins over both. An object is recorded if its projection changed; from a list also if the
state may rest on a version, or on a binding, that the API server does not know any more (scheduling/F-4).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from adapters.cluster.reflector import Bookmark, Delta, Gone, Listed, ListEnd, Upsert
from events import records
from events.canonical import Json
from events.kinds import POD, Kind
from events.projection import Scope, list_digest, newer, project, relevant
from services.watcher.memory import UNKNOWN, Known, Memory, digest_of, key_of

#: A record and its subject.
Addressed = tuple[str, records.Body]

CHUNK: Final = 2_000
TOMBSTONES_MAX: Final = 100_000


class View:
    """What a term has seen of one kind: the versions that came, the uids that are gone, the list under way."""

    def __init__(self, kind: Kind, scope: Scope) -> None:
        self._kind, self._scope = kind, scope
        self._seen: dict[str, str] = {}
        self._gone: dict[str, None] = {}
        self._listed: list[Json] = []

    def clear(self) -> None:
        """Another term begins: versions that were seen before do not bind. Ends do, until a list takes them back.

        One may have been appended in vain: the memory lacks the object, and the next list, which tells the log of the
        end, buries nobody.
        """
        self._seen.clear()
        self.relist()

    def relist(self) -> None:
        """Everything is listed anew in the same term: what was seen tells whether the server was restored meanwhile."""
        self._listed.clear()

    def went_back(self, deltas: Sequence[Delta]) -> bool:
        """Tell whether a list is of a server that was restored: it, or an object in it, is older than one seen before.

        The server may have passed the version that was reached before anybody looked; its objects have not.
        """
        listed = (item for delta in deltas if isinstance(delta, Listed) for item in delta.items)
        return any(isinstance(delta, ListEnd) and delta.went_back for delta in deltas) or any(
            _uid(item) in self._seen and newer(self._seen[_uid(item)], _version(item)) for item in listed
        )

    def newest(self, deltas: Sequence[Delta], memory: Memory) -> list[Delta]:
        """Return deltas without the forms of objects that a newer one, which came after them, replaces or ends.

        A form under whose name the log knows another uid stays: it says that the other one is gone.
        """
        kept: list[Delta] = []
        later: dict[str, Delta] = {}
        for delta in reversed(deltas):
            if isinstance(delta, Listed | ListEnd):
                later.clear()
            elif isinstance(delta, Upsert | Gone):
                uid, after = _uid(delta.item), later.get(_uid(delta.item))
                if isinstance(delta, Upsert) and after is not None and self._replaces(after, delta, memory):
                    continue
                later[uid] = delta
            kept.append(delta)
        kept.reverse()
        return kept

    def _replaces(self, after: Delta, before: Upsert, memory: Memory) -> bool:
        known = memory.of(self._kind).get(_key(before.item))
        if known is not None and known.uid != _uid(before.item):
            return False
        if isinstance(after, Gone):
            return True
        return isinstance(after, Upsert) and newer(_version(after.item), _version(before.item))

    def take(self, delta: Delta, memory: Memory, list_id: int, term: int) -> list[Addressed]:
        """Return what a delta puts on the log, and remember it as recorded."""
        if isinstance(delta, Upsert):
            return self._upsert(delta.item, memory, term)
        if isinstance(delta, Gone):
            return self._deleted(delta.item, memory)
        if isinstance(delta, Listed):
            self._listed += delta.items
        elif isinstance(delta, ListEnd):
            items, self._listed = self._listed, []
            return self._list(items, delta.version, memory, list_id, term)
        else:
            assert isinstance(delta, Bookmark)
        return []

    # --- single events ---

    def _upsert(self, item: Json, memory: Memory, term: int) -> list[Addressed]:
        uid, version = _uid(item), _version(item)
        if uid in self._gone or not newer(version, self._seen.get(uid, "")):
            return []
        self._seen[uid] = version
        known = memory.of(self._kind).get(_key(item))
        if known and known.uid and known.uid != uid:
            self._bury(known.uid)
        if not relevant(self._kind, item, self._scope):
            return [self._goodbye(_key(item), known, memory)] if known and known.uid == uid else []
        found = project(self._kind, item, self._scope)
        digest = digest_of(self._kind, found)
        if known and known.uid == uid and known.digest == digest:
            return []
        return [self._observed(found, digest, version, memory, term, listed=False)]

    def _deleted(self, item: Json, memory: Memory) -> list[Addressed]:
        """A deletion counts whatever version it carries; one of another uid changes nothing (devices/A-16a)."""
        uid, key = _uid(item), _key(item)
        self._seen.pop(uid, None)
        if uid:
            self._bury(uid)
        known = memory.of(self._kind).get(key)
        if known is None or (uid and known.uid != uid):
            return []
        return [self._goodbye(key, known, memory, version=_version(item), seen=True)]

    def _bury(self, uid: str) -> None:
        """Remember that a uid is gone; of very many, the newest."""
        self._gone[uid] = None
        if len(self._gone) > TOMBSTONES_MAX:
            del self._gone[next(iter(self._gone))]

    # --- lists ---

    def _list(self, items: list[Json], version: str, memory: Memory, list_id: int, term: int) -> list[Addressed]:
        self._seen = {_uid(item): _version(item) for item in items}
        items = [item for item in items if relevant(self._kind, item, self._scope)]
        present = {_key(item): _uid(item) for item in items}
        uids = sorted(_uid(item) for item in items)
        living_again = {uid for uid in uids if uid in self._gone}
        for uid in living_again:
            del self._gone[uid]
        found: list[Addressed] = []
        for key, known in sorted(memory.of(self._kind).items()):
            if present.get(key) != known.uid:
                found.append(self._goodbye(key, known, memory))
                self._bury(known.uid)
        for item in items:
            found += self._from_list(item, memory, term, _uid(item) in living_again)
        return found + self._list_records(uids, version, list_id)

    def _from_list(self, item: Json, memory: Memory, term: int, lives_again: bool) -> list[Addressed]:
        """An object of a list is recorded if it changed, or if the state may rest on a version that is not real.

        Only what contradicts what was known when the list was asked for must win over it (``listed``). A Binding that
        was reported while the answer was on its way is newer than the answer, and its reservation stays (F-4).
        """
        projection, version, uid = project(self._kind, item, self._scope), _version(item), _uid(item)
        key = _key(item)
        known = memory.of(self._kind).get(key)
        digest = digest_of(self._kind, projection)
        same = known is not None and known.uid == uid and known.digest == digest
        awaited = self._kind == POD and memory.awaits(key, uid)
        wins = lives_again or _turned_back(known, uid, version, term, same=same) or awaited
        if same and not wins:
            return []
        return [self._observed(projection, digest, version, memory, term, listed=wins)]

    def _list_records(self, uids: list[str], version: str, list_id: int) -> list[Addressed]:
        kind = {"api_version": self._kind.api_version, "kind": self._kind.name, "list_id": list_id}
        chunks = [
            records.ListChunk.model_validate({**kind, "uids": uids[start : start + CHUNK]})
            for start in range(0, len(uids), CHUNK)
        ]
        end = {**kind, "version": version, "count": len(uids), "digest": list_digest(uids)}
        return [("", body) for body in (*chunks, records.ListEnd.model_validate(end))]

    # --- records ---

    def _observed(
        self, projection: Json, digest: bytes, version: str, memory: Memory, term: int, *, listed: bool
    ) -> Addressed:
        memory.expect(self._kind, projection, version, term, digest)
        meta = projection["metadata"]
        body = records.Observed(
            api_version=self._kind.api_version,
            kind=self._kind.name,
            object=projection,
            version=version,
            listed=listed,
        )
        return self._subject(key_of(meta.get("namespace", ""), meta.get("name", ""))), body

    def _goodbye(self, key: str, known: Known, memory: Memory, *, version: str = "", seen: bool = False) -> Addressed:
        memory.expect_end(self._kind, key, known.uid)
        namespace, _, name = key.rpartition("/")
        body = records.Deleted(
            api_version=self._kind.api_version,
            kind=self._kind.name,
            namespace=namespace,
            name=name,
            uid=known.uid,
            version=version,
            seen=seen,
        )
        return self._subject(key), body

    def _subject(self, key: str) -> str:
        return f"{self._kind.name}/{key}"


def _meta(item: Json) -> dict[str, Any]:
    meta = item.get("metadata")
    return meta if isinstance(meta, dict) else {}


def _uid(item: Json) -> str:
    uid = _meta(item).get("uid")
    return uid if isinstance(uid, str) else ""


def _version(item: Json) -> str:
    version = _meta(item).get("resourceVersion")
    return version if isinstance(version, str) else ""


def _key(item: Json) -> str:
    meta = _meta(item)
    return key_of(meta.get("namespace", ""), meta.get("name", ""))


def _turned_back(known: Known | None, uid: str, version: str, term: int, *, same: bool) -> bool:
    """Tell whether the log has a version of this term that is not real any more: a newer one, or another form of it."""
    if known is None or known.uid != uid or known.term != term:
        return False
    another = known.digest != UNKNOWN and not same
    return newer(known.version, version) or (another and not newer(version, known.version))
