"""The records that concern one pod or PodGroup, told in a line each: what ``gpuledger explain`` calls its history."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from events.records import Batch, Deleted, GroupBook, Observed, Outcome, PodBook, Record
from scheduling.state.decisions import decision_prefix
from scheduling.state.fold import APPLIED, Fold
from scheduling.state.model import Model
from services.cli.history import Told


@dataclass
class Happening:
    """One record that concerns the object: where, when, what it says, and why it has no effect if it has none."""

    position: int
    time_ms: int
    what: str
    text: str
    void: str = ""


#: Says what a record has to do with the object, in the state right after it; None if nothing.
Lens: TypeAlias = Callable[[Record, Fold], tuple[str, str] | None]


@dataclass
class Biography:
    """The records that concern one object, and the last decision among them."""

    lens: Lens
    happenings: list[Happening] = field(default_factory=list)

    def hear(self, told: Told, fold: Fold) -> None:
        """Keep a record if it concerns the object."""
        found = self.lens(told.record, fold)
        if found is not None:
            void = "" if told.verdict.startswith(APPLIED) else told.verdict.removeprefix("void: ")
            self.happenings.append(Happening(told.position, told.record.time_ms, *found, void))


class PodLens:
    """What a record has to do with a pod, by its name; uids are learned on the way."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._uids: set[str] = set()

    def __call__(self, record: Record, fold: Fold) -> tuple[str, str] | None:
        body = record.body
        if isinstance(body, Observed) and body.kind == "Pod" and _key(body.object.get("metadata")) == self._key:
            self._uids.add(str(body.object["metadata"].get("uid")))
            return "observed", _observed(body)
        if isinstance(body, Deleted) and body.kind == "Pod" and f"{body.namespace}/{body.name}" == self._key:
            return "deleted", "" if body.seen else "it was missing from a list"
        if isinstance(body, Outcome) and body.uid in self._uids:
            return "outcome", f"{body.verb} {body.result}{_on(body.node)}{_says(body.message)} ({body.command})"
        if isinstance(body, Batch):
            texts = list(self._decided(record, body, fold.model))
            return ("decided", "; ".join(texts)) if texts else None
        return None

    def _decided(self, record: Record, body: Batch, model: Model) -> Iterator[str]:
        prefix = decision_prefix(model, record.term, body.batch)
        for command in body.binds:
            for member in command.members:
                if member.uid in self._uids:
                    yield f"bind to {member.node}{_says(member.allocation)}{_fate(model, f'{prefix}/{member.n}')}"
        for evict in body.evictions:
            if evict.uid in self._uids:
                way = f" for {evict.for_group}" if evict.for_group else ""
                yield f"evict: {evict.reason}{way}{_fate(model, f'{prefix}/{evict.n}')}"
        for change in body.pods:
            if self._uids.intersection(change.uids):
                yield f"wait{_book(change.book)}"


class GroupLens:
    """What a record has to do with a PodGroup, by its name."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __call__(self, record: Record, fold: Fold) -> tuple[str, str] | None:
        body = record.body
        if isinstance(body, Observed) and body.kind == "PodGroup" and _key(body.object.get("metadata")) == self._key:
            spec = body.object.get("spec")
            asked = f"minMember {spec.get('minMember')}, queue {spec.get('queue')}" if isinstance(spec, dict) else ""
            return "observed", f"version {body.version}: {asked}"
        if isinstance(body, Deleted) and body.kind == "PodGroup" and f"{body.namespace}/{body.name}" == self._key:
            return "deleted", "" if body.seen else "it was missing from a list"
        if isinstance(body, Batch):
            texts = list(self._decided(record, body, fold.model))
            return ("decided", "; ".join(texts)) if texts else None
        return None

    def _decided(self, record: Record, body: Batch, model: Model) -> Iterator[str]:
        prefix = decision_prefix(model, record.term, body.batch)
        for command in body.binds:
            if command.group == self._key:
                places = ", ".join(f"{member.name} to {member.node}" for member in command.members)
                yield f"bind {places}{_fate(model, f'{prefix}/{command.members[0].n}' if command.members else '')}"
        for evict in body.evictions:
            if evict.for_group == self._key:
                yield f"evict {evict.namespace}/{evict.name} to make room ({evict.reason})"
        for change in body.groups:
            if change.group == self._key:
                yield f"phase {change.book.phase}{_group_book(change.book)}"


class QueueLens:
    """What a record has to do with a Queue, by its name."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, record: Record, fold: Fold) -> tuple[str, str] | None:
        body = record.body
        if isinstance(body, Deleted) and body.kind == "Queue" and body.name == self._name:
            return "deleted", "" if body.seen else "it was missing from a list"
        if not isinstance(body, Observed) or body.kind != "Queue" or body.object["metadata"]["name"] != self._name:
            return None
        spec, status = body.object.get("spec"), body.object.get("status")
        limits = spec.get("capability") if isinstance(spec, dict) else None
        state = str(status.get("state") or "Open") if isinstance(status, dict) else "Open"
        parts = sorted(limits.items()) if isinstance(limits, dict) else ()
        limited = "".join(f", {name} at most {value}" for name, value in parts)
        return "observed", f"version {body.version}: {state}{limited}"


def _key(meta: Any) -> str:
    return f"{meta.get('namespace')}/{meta.get('name')}" if isinstance(meta, dict) else ""


def _observed(body: Observed) -> str:
    spec, status, meta = (body.object.get(part) for part in ("spec", "status", "metadata"))
    phase = str(status.get("phase") or "Pending") if isinstance(status, dict) else "Pending"
    node = spec.get("nodeName") if isinstance(spec, dict) else ""
    leaving = ", terminating" if isinstance(meta, dict) and meta.get("deletionTimestamp") else ""
    return f"version {body.version}: {phase}{_on(str(node or ''))}{leaving}"


def _on(node: str) -> str:
    return f" on {node}" if node else ""


def _says(text: str) -> str:
    return f": {text}" if text else ""


def _fate(model: Model, command: str) -> str:
    """Right after its batch a command that counts is on its way."""
    return f" ({command})" if command in model.commands else f" ({command}: overtaken)"


def _book(book: PodBook) -> str:
    nominated = f" (nominated to {book.nominated_node})" if book.nominated_node else ""
    return f": {book.reason}{_says(book.message)}{nominated}"


def _group_book(book: GroupBook) -> str:
    return "".join(_says(text) for text in (book.reason, book.message or book.event_message) if text)
