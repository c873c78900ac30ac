"""What a watcher knows of the log: the terms of its role, and what the log says of every object.

It follows the log like everybody else but keeps little: for each object its uid, a digest of the projection last
recorded, and the version. So after a restart a list is compared with what is on the log, and only what changed is
appended. Bytes that nobody can read may have been an observation; from there on nothing recorded before is trusted,
and everything is listed again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import sha256

from events.canonical import Json
from events.kinds import POD, Kind, kind_of
from events.projection import compare_key, newer
from events.records import Body, Deleted, Genesis, ListChunk, ListEnd, Observed, Opened, Outcome, Record
from scheduling.state.lists import Lists
from scheduling.state.model import Model, Term
from scheduling.state.snapshot import seen_in

UNKNOWN = b""


@dataclass(slots=True)
class Known:
    """One object as the log has it. ``digest`` is empty if that is not known; ``term`` is when it was recorded.

    Of a pod: whether it is ``bound`` to a node, and whether it is ``ending`` (it has a deletionTimestamp).
    """

    uid: str
    digest: bytes
    version: str
    term: int
    bound: bool = False
    ending: bool = False


@dataclass(frozen=True, slots=True)
class Report:
    """What the binder found of a pod and no observation has shown yet: an effect, at a version, or that it lost it.

    ``verb``: "bind" or "evict" was done, or nothing could be bound, since the pod was gone or another's ("lost"). An
    eviction of a pod that was gone is one that was done.
    """

    uid: str
    verb: str
    version: str

    @classmethod
    def of(cls, body: Outcome) -> Report | None:
        """Return what an outcome leaves to be seen, None if that is nothing."""
        if body.result == "refused":
            return None
        done = body.result == "applied" or body.verb == "evict"
        return cls(body.uid, body.verb, body.version) if done else cls(body.uid, "lost", "")

    def seen_on(self, known: Known, term: int | None = None) -> bool:
        """Tell whether what was observed of the pod before the report is what it reports.

        A version that was recorded before ``term``, which is under way, may be of a lost future: it says nothing.
        """
        if self.verb == "evict":
            return known.ending
        comparable = term is None or known.term == term
        return known.bound or (self.verb == "bind" and comparable and newer(known.version, self.version))

    def shown_by(self, known: Known, *, listed: bool = False) -> bool:
        """Tell whether an observation shows it, or that it is not so any more (scheduling/F-4)."""
        return listed or known.uid != self.uid or self.seen_on(known)


class Memory:
    """The light fold of a watcher. ``model`` holds only the incarnation and the terms."""

    def __init__(self) -> None:
        self.model = Model()
        self.suspect = False
        self.begins = -1
        self._objects: dict[Kind, dict[str, Known]] = {}
        #: By the pod's key: who else has the name by then shows that the pod is gone.
        self._reports: dict[str, Report] = {}
        self._unconfirmed: set[tuple[Kind, str]] = set()
        self._lists = Lists()

    @classmethod
    def of_snapshot(cls, data: bytes) -> Memory:
        """Return the memory that a snapshot of the state stands for. Raises Unusable."""
        small, seen, reports = seen_in(data)
        memory = cls()
        memory.model = Model(cluster=small["cluster"], incarnation=small["incarnation"])
        memory.model.terms.update({role: Term(*term) for role, term in small["terms"].items()})
        memory.begins = small["begins"]
        for one in seen:
            kind = kind_of(one.api_version, one.kind)
            if kind is not None:
                memory._know(kind, one.key, one.item, one.version, one.term, digest_of(kind, one.item))
        for key, uid, verb, version in reports:
            memory._report(key, Report(uid, verb, version))
        return memory

    # --- following the log ---

    def apply(self, position: int, record: Record, chain_before: str) -> str:
        """Take note of one record; superseded terms and repetitions have no effect, as in the fold."""
        body = record.body
        if isinstance(body, Genesis):
            return self._begin(position, body)
        if isinstance(body, Opened):
            self._opened(body, record)
        elif record.role == "binder" and isinstance(body, Outcome) and self._counts(record):
            report = Report.of(body)
            if report is not None:
                self._report(key_of(body.namespace, body.name), report)
        elif record.role == "watcher" and self._counts(record):
            self._observe(body, record.term)
        return "noted"

    def set_aside(self, position: int, reason: str, chain_before: str) -> None:
        """What could not be read may have been any observation: list everything again."""
        self.suspect = True
        for known in self._each():
            known.digest = UNKNOWN

    def _begin(self, position: int, body: Genesis) -> str:
        if body.incarnation == self.model.incarnation:
            return "void: the log has begun already"
        self.model = Model(cluster=body.cluster, incarnation=body.incarnation)
        self.begins = position
        self._objects.clear()
        self._reports.clear()
        self._unconfirmed.clear()
        return "applied"

    def _opened(self, body: Opened, record: Record) -> None:
        current = self.model.terms.get(body.role, Term())
        if record.role == body.role and body.previous == current.number and body.term > current.number:
            self.model.terms[body.role] = Term(body.term, body.writer, record.number + 1)
            if body.role == "watcher":
                self._lists.clear()

    def _counts(self, record: Record) -> bool:
        term = self.model.terms.get(record.role, Term())
        if record.term != term.number or record.number < term.next_record:
            return False
        self.model.terms[record.role] = Term(term.number, term.writer, record.number + 1)
        return True

    def _observe(self, body: Body, term: int) -> None:
        if isinstance(body, Observed):
            kind = kind_of(body.api_version, body.kind)
            if kind is not None:
                self.learn(kind, body.object, body.version, term, listed=body.listed)
        elif isinstance(body, Deleted):
            kind = kind_of(body.api_version, body.kind)
            if kind is not None:
                self.forget(kind, key_of(body.namespace, body.name), body.uid)
        elif isinstance(body, ListChunk):
            self._lists.chunk(body)
        elif isinstance(body, ListEnd):
            self._list_end(body)

    def _list_end(self, body: ListEnd) -> None:
        """What a complete list lacks is gone, whether or not a record says so of each (scheduling/F-11a)."""
        complete, uids = self._lists.end(body)
        kind, present = kind_of(body.api_version, body.kind), set(uids)
        if complete and kind is not None:
            for key, known in [*self._objects.get(kind, {}).items()]:
                if known.uid not in present:
                    self.forget(kind, key, known.uid)

    # --- what the log says of an object ---

    def learn(self, kind: Kind, projection: Json, version: str, term: int, *, listed: bool = False) -> None:
        """The log says this of an object from here on."""
        key = _key_in(projection)
        if not self._as_expected(kind, key, projection, version, term):
            self._know(kind, key, projection, version, term, digest_of(kind, projection))
        self._unconfirmed.discard((kind, key))
        report = self._reports.get(key) if kind == POD else None
        if report is not None and report.shown_by(self.of(kind)[key], listed=listed):
            del self._reports[key]

    def _report(self, key: str, report: Report) -> None:
        """Await what is reported of a pod that is on the log; if its end was appended, that may be void."""
        known = self.of(POD).get(key)
        there = known is not None and known.uid == report.uid
        term = self.model.terms.get("watcher", Term()).number
        seen = report.seen_on(known, term) if known is not None and there else (POD, key) not in self._unconfirmed
        if not seen:
            self._reports[key] = report

    def _as_expected(self, kind: Kind, key: str, projection: Json, version: str, term: int) -> bool:
        """Tell whether this is what we have appended ourselves, so that all is known of it (a term has one writer)."""
        known = self.of(kind).get(key)
        if known is None or not known.digest or (kind, key) not in self._unconfirmed:
            return False
        return (known.uid, known.version, known.term) == (_uid_in(projection), version, term)

    def expect(self, kind: Kind, projection: Json, version: str, term: int, digest: bytes) -> None:
        """The log will say this of an object, if the record that is about to be appended counts."""
        key = _key_in(projection)
        self._know(kind, key, projection, version, term, digest)
        self._unconfirmed.add((kind, key))

    def _know(self, kind: Kind, key: str, projection: Json, version: str, term: int, digest: bytes) -> None:
        known = self.of(kind)[key] = Known(_uid_in(projection), digest, version, term)
        if kind == POD:
            known.bound = bool(projection.get("spec", {}).get("nodeName"))
            known.ending = bool(projection.get("metadata", {}).get("deletionTimestamp"))

    def forget(self, kind: Kind, key: str, uid: str) -> None:
        """The log says that an object is gone; another uid under its name stays (devices/A-16a)."""
        self._forget(kind, key, uid)
        if key not in self.of(kind):
            self._unconfirmed.discard((kind, key))
        report = self._reports.get(key) if kind == POD else None
        if report is not None and uid in ("", report.uid):
            del self._reports[key]

    def expect_end(self, kind: Kind, key: str, uid: str) -> None:
        """The log will say that an object is gone, if the record that is about to be appended counts."""
        self._forget(kind, key, uid)
        self._unconfirmed.add((kind, key))

    def _forget(self, kind: Kind, key: str, uid: str) -> None:
        known = self.of(kind).get(key)
        if known is not None and uid in ("", known.uid):
            del self.of(kind)[key]

    def distrust_unconfirmed(self) -> None:
        """What was appended and has not been read back may be void, or not on the log at all."""
        for kind, key in self._unconfirmed:
            known = self.of(kind).get(key)
            if known is not None:
                known.digest = UNKNOWN
        self._unconfirmed.clear()

    def of(self, kind: Kind) -> dict[str, Known]:
        """Return the objects of a kind by key."""
        return self._objects.setdefault(kind, {})

    def awaits(self, key: str, uid: str) -> bool:
        """Tell whether the binder reported something of this pod that was not seen yet (F-4)."""
        report = self._reports.get(key)
        return report is not None and report.uid == uid

    def awaited(self) -> frozenset[str]:
        """Return the pods that are there and of which that is so."""
        return frozenset(report.uid for key, report in self._reports.items() if key in self.of(POD))

    def _each(self) -> Iterator[Known]:
        for objects in self._objects.values():
            yield from objects.values()


def key_of(namespace: object, name: object) -> str:
    """Return ``namespace/name``, or the name alone."""
    return f"{namespace}/{name}" if namespace else str(name)


def _key_in(projection: Json) -> str:
    meta = projection.get("metadata", {})
    return key_of(meta.get("namespace", ""), meta.get("name", ""))


def _uid_in(projection: Json) -> str:
    return str(projection.get("metadata", {}).get("uid", ""))


def digest_of(kind: Kind, projection: Json) -> bytes:
    """Return the digest by which two forms of an object are told apart."""
    return sha256(compare_key(kind, projection)).digest()
