"""How the objects of a file come into the cluster: as a watch shows them, past every check, or through the front door.

What was delivered for a document is kept, so that the very same event can be delivered again.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TypeAlias

from adapters.cluster.port import ApiError
from events import names
from events.canonical import Json
from events.kinds import NAMESPACE, POD, POD_GROUP, QUEUE, VOLCANO_JOB, Kind
from services.cluster import defaults, patches
from services.cluster.direct import DirectApi
from services.cluster.store import Store, key_of
from services.simulator.document import Document, kind_of, namespace_of, reference
from services.simulator.faults import CLAIM_KEYS
from services.simulator.truth import split

#: What the service writes on a pod; it stays where a new form of the pod does not set it.
_KEPT_NOTES = (*CLAIM_KEYS, names.GPU_INDEX, names.PREDICATE_TIME, names.GROUP_NAME)
_KEPT_STATUS = (POD, POD_GROUP, QUEUE, VOLCANO_JOB)
Event: TypeAlias = tuple[str, Json]  # type and object of a watch event

#: The faults of a watch are meant for the watcher; the controllers have watches of their own.
WATCHER = "watcher"


class Delivery:
    """Brings objects into the store. ``refusals`` are the texts of refused applies, by reference."""

    def __init__(self, store: Store, front_door: DirectApi) -> None:
        self.store, self._front_door = store, front_door
        self.refusals: dict[str, str] = {}
        self._shown: dict[int, list[Event]] = {}
        self._deleted: dict[int, list[Json]] = {}

    def begin(self, documents: Sequence[Document]) -> None:
        """Bring about what is there from the start: the two queues and every namespace that a document uses."""
        objects = [item for document in documents if document.number for item in document.objects()]
        held = {reference(item) for item in objects}
        used = {"default", *map(namespace_of, objects)} - {""}
        for name in ("root", "default"):
            if f"Queue/{name}" not in held:
                spec = {"weight": 1, "reclaimable": name == "default"}
                self._put(QUEUE, {"metadata": {"name": name}, "spec": spec, "status": {"state": "Open"}})
        for name in sorted(used):
            self._put(NAMESPACE, {"metadata": {"name": name}})

    # --- objects as they are ---

    def add(self, document: Document) -> None:
        """The objects are there from now on, exactly as written, and the watch says ADDED."""
        self._shown[document.number] = [("ADDED", self._put(kind_of(item), item)) for item in document.objects()]

    def _put(self, kind: Kind, item: Json) -> Json:
        return self.store.put(kind, _complete(kind, item))

    def modify(self, document: Document) -> None:
        """The full new form of existing objects; what the service wrote stays unless it is another object by uid."""
        shown: list[Event] = []
        for item in document.objects():
            kind, namespace, name = split(reference(item))
            old = self.store.get(kind, namespace, name)
            new = copy.deepcopy(item)
            if old is not None and _same_uid(new, old):
                _keep(kind, new, old)
            shown.append(("MODIFIED", self.store.replace(kind, _complete(kind, new))))
        self._shown[document.number] = shown

    def patch(self, name: str, merge: Json) -> str:
        """Apply a JSON merge patch to an object as it is now; return what is wrong, empty if nothing."""
        kind, namespace, rest = split(name)
        old = self.store.get(kind, namespace, rest)
        if old is None:
            return f"{name} is not there"
        base = copy.deepcopy(old)
        del base["metadata"]["resourceVersion"]
        self.store.replace(kind, patches.merge(base, copy.deepcopy(merge)))
        return ""

    def delete_event(self, document: Document) -> None:
        """A DELETED event with the document as its content; the object goes if it is the same by uid."""
        shown: list[Json] = []
        for item in document.objects():
            kind, namespace, name = split(reference(item))
            old = self.store.get(kind, namespace, name)
            content = _complete(kind, item)
            if old is not None and _same_uid(item, old):
                content["metadata"].setdefault("uid", old["metadata"].get("uid"))
                shown.append(self.store.erase(kind, namespace, name, shown=content) or content)
            else:
                self.store.emit(kind, "DELETED", content, WATCHER)
                shown.append(content)
        self._deleted[document.number] = shown

    def delete(self, name: str) -> str:
        """An object, as it is now, is gone at once; return what is wrong, empty if nothing."""
        kind, namespace, rest = split(name)
        return "" if self.store.remove(kind, namespace, rest) is not None else f"{name} is not there"

    # --- through the front door ---

    def apply(self, document: Document) -> list[str]:
        """Apply the objects as kubectl would; return the refusals, a text each."""
        refused: list[str] = []
        shown: list[Event] = []
        for item in document.objects():
            name = reference(item)
            try:
                shown.append(("ADDED", self._front_door.apply(kind_of(item), copy.deepcopy(item))))
            except ApiError as error:
                self.refusals[name] = error.message
                refused.append(f"{name}: {error.message}" if document.is_list else error.message)
            else:
                self.refusals.pop(name, None)
        self._shown[document.number] = shown
        return refused

    # --- events that come again, late or never ---

    def stale(self, document: Document) -> None:
        """An older form is delivered as MODIFIED with its old resourceVersion."""
        for _, item in self._events(document):
            self.store.emit(kind_of(item), "MODIFIED", item, WATCHER)

    def redeliver(self, document: Document, verb: str) -> None:
        """The very event that was delivered for a document comes once more."""
        events = self._events(document) if verb == "add" else [("DELETED", item) for item in self._gone(document)]
        for type_, item in events:
            self.store.emit(kind_of(item), type_, item, WATCHER)

    def _events(self, document: Document) -> list[Event]:
        """Return a document's objects as they were delivered last, else as they are written."""
        return self._shown.get(document.number) or [("ADDED", item) for item in self._old_forms(document)]

    def _gone(self, document: Document) -> list[Json]:
        return self._deleted.get(document.number) or self._old_forms(document)

    def _old_forms(self, document: Document) -> list[Json]:
        """Return forms that were never delivered: older ones of what is there, where they do not say otherwise."""
        forms: list[Json] = []
        for item in document.objects():
            form = _complete(kind_of(item), item)
            kind, namespace, name = split(reference(item))
            there = self.store.get(kind, namespace, name)
            form["metadata"].setdefault("uid", there["metadata"].get("uid", "") if there else "")
            form["metadata"].setdefault("resourceVersion", "1")
            forms.append(form)
        return forms

    def relist(self, kind: Kind, documents: Sequence[Document]) -> None:
        """From now on there are exactly these objects of a kind; the watcher learns it from its next list."""
        wanted = {key_of(_complete(kind, item)): item for document in documents for item in document.objects()}
        for item in self.store.items(kind):
            if key_of(item) not in wanted:
                self.store.remove(kind, *key_of(item))
        for key, item in wanted.items():
            if self.store.get(kind, *key) is None:
                self._put(kind, item)


def _complete(kind: Kind, item: Json) -> Json:
    """Return the object with the API's defaults."""
    found = copy.deepcopy(item)
    defaults.apply(kind, found)
    return found


def _same_uid(item: Json, old: Json) -> bool:
    return item["metadata"].get("uid") in (None, old["metadata"].get("uid"))


def _keep(kind: Kind, new: Json, old: Json) -> None:
    if kind == POD:
        node = (old.get("spec") or {}).get("nodeName")
        if node:
            new.setdefault("spec", {}).setdefault("nodeName", node)
        notes = {key: value for key, value in (old["metadata"].get("annotations") or {}).items() if key in _KEPT_NOTES}
        new["metadata"]["annotations"] = {**notes, **(new["metadata"].get("annotations") or {})}
    if kind in _KEPT_STATUS and old.get("status"):
        new["status"] = {**copy.deepcopy(old["status"]), **(new.get("status") or {})}
