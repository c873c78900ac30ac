"""The world as the controllers see it: the API's objects by kind and key, and who belongs to whom.

Everything here is plain JSON as the API returns it. The indexes (by owner, job, queue) are kept with every change, so
that a reconciliation costs what its own objects cost, not what the cluster holds. Every answer is in a fixed order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from adapters.cluster.mirror import Change
from events.canonical import Json
from events.kinds import POD, POD_GROUP, QUEUE, VOLCANO_JOB, Kind
from events.reading import items, mapping, meta, name_of, namespace_of, phase_of, spec, text, uid_of
from services.controller.jobs.roster import Roster
from services.controller.objects import Ref, controller_of, ref_of


class World:
    """All objects of the watched kinds."""

    def __init__(self) -> None:
        self._items: dict[Kind, dict[tuple[str, str], Json]] = {}
        self._owned: dict[str, dict[Ref, None]] = {}
        self._living: dict[str, Ref] = {}
        self._phases: dict[str, dict[str, int]] = {}
        self._rosters: dict[tuple[str, str], Roster] = {}

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

    def roster(self, namespace: str, job_uid: str) -> Roster:
        """Return the pods that a VolcanoJob controls; owners and what they own share a namespace."""
        return self._rosters.get((namespace, job_uid)) or Roster()

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
        if change.kind == POD:
            self._enrol(old, change.new)

    def _enrol(self, old: Json | None, new: Json | None) -> None:
        """Keep the rosters: a pod came, changed or went."""
        was, now = (_job_of(pod) for pod in (old, new))
        if old is not None and new is not None and was is not None and was == now:
            self._rosters[was].replace(old, new)
            return
        if old is not None and was is not None:
            self._rosters[was].remove(old)
            if not self._rosters[was]:
                del self._rosters[was]
        if new is not None and now is not None:
            self._rosters.setdefault(now, Roster()).add(new)

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


def _job_of(pod: Json | None) -> tuple[str, str] | None:
    """Namespace and uid of the VolcanoJob that controls a pod, None if none does."""
    owner = mapping(controller_of(pod))
    ours = (owner.get("apiVersion"), owner.get("kind")) == (VOLCANO_JOB.api_version, VOLCANO_JOB.name)
    return (namespace_of(pod), text(owner.get("uid"))) if ours else None


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
