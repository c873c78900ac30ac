"""The objects that a file can bring about: those in its documents, and those that controllers make from them.

Assertions may name them even while they are not there; any other name is a slip of the pen (scenario format, *Naming*).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from events.canonical import Json
from services.simulator.document import Document, named, namespace_of, reference

_REPLICAS_MAX = 10_000


def references(documents: Iterable[Document]) -> dict[str, str]:
    """Return each possible reference with the reference of the object in the document that it comes from."""
    found: dict[str, str] = {"Queue/default": "", "Queue/root": ""}
    for document in documents:
        if document.number:
            for item in filter(named, document.objects()):
                origin = reference(item)
                for made in _made_from(item):
                    found.setdefault(made, origin)
                found[origin] = origin
    return found


def _made_from(item: Json) -> Iterator[str]:
    meta, namespace = item["metadata"], namespace_of(item)
    if namespace:
        yield f"Namespace/{namespace}"
    if item["kind"] == "Pod":
        listed = meta.get("ownerReferences")
        owners = [owner for owner in listed if _controls(owner)] if isinstance(listed, list) else []
        uid = owners[0].get("uid") if owners else meta.get("uid")
        if uid:
            yield f"PodGroup/{namespace}/podgroup-{uid}"
    elif item["kind"] == "Job":
        if meta.get("uid"):
            yield f"PodGroup/{namespace}/{meta['name']}-{meta['uid']}"
        spec = item.get("spec")
        tasks = spec.get("tasks") if isinstance(spec, dict) else None
        for index, task in enumerate(tasks if isinstance(tasks, list) else []):
            yield from _pods_of(namespace, meta["name"], index, task)


def _controls(owner: Any) -> bool:
    return isinstance(owner, dict) and owner.get("controller") is True


def _pods_of(namespace: str, job: str, index: int, task: Any) -> Iterator[str]:
    if not isinstance(task, dict):
        return
    replicas = task.get("replicas", 1)
    name = task.get("name") or f"default{index}"
    for number in range(min(replicas, _REPLICAS_MAX) if isinstance(replicas, int) else 0):
        yield f"Pod/{namespace}/{job}-{name}-{number}"
