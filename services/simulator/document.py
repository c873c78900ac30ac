"""The documents of a scenario file: what stands in them, which objects they hold, how they are named.

A document that is a ``List`` holds several objects and goes in as one. Objects are told by kind, namespace and name; a
namespaced object without a namespace is in ``default``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from events import kinds
from events.canonical import Json
from events.kinds import Kind

#: The kinds that a document may hold.
DOCUMENT_KINDS: tuple[Kind, ...] = (
    kinds.NODE, kinds.POD, kinds.CONFIG_MAP, kinds.NAMESPACE, kinds.PRIORITY_CLASS, kinds.RESOURCE_QUOTA,
    kinds.POD_GROUP, kinds.QUEUE, kinds.VOLCANO_JOB, kinds.COMMAND,
)  # fmt: skip

#: Kinds by the word that steps and assertions use; ``Job`` is the VolcanoJob.
KIND_BY_WORD: dict[str, Kind] = {kind.name: kind for kind in kinds.ALL_KINDS if kind is not kinds.BATCH_JOB}


@dataclass(frozen=True, slots=True)
class Document:
    """One document: its number in the file (the Scenario is 0), the file it stands in, and its content."""

    number: int
    file: str
    content: Any

    @property
    def is_list(self) -> bool:
        return isinstance(self.content, dict) and self.content.get("kind") == "List"

    def objects(self) -> list[Json]:
        """Return the objects in order: the items of a List, else the content itself."""
        if not self.is_list:
            return [self.content] if isinstance(self.content, dict) else []
        items = self.content.get("items")
        return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []

    @property
    def label(self) -> str:
        """``document 3 (Pod team-a/x)`` as far as kind and name are known."""
        words = _words(self.content)
        return f"document {self.number} ({words})" if words else f"document {self.number}"


def _words(content: Any) -> str:
    if not isinstance(content, dict) or not isinstance(content.get("kind"), str):
        return ""
    meta = content.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    name = meta.get("name")
    if not isinstance(name, str):
        return str(content["kind"])
    namespace = meta.get("namespace")
    kind = KIND_BY_WORD.get(content["kind"])
    if kind and kind.namespaced:
        name = f"{namespace if isinstance(namespace, str) and namespace else 'default'}/{name}"
    return f"{content['kind']} {name}"


def kind_of(item: Json) -> Kind:
    """Return the kind of a checked object."""
    kind = kinds.kind_of(item["apiVersion"], item["kind"])
    if kind is None:
        raise ValueError(f"{item['apiVersion']} {item['kind']}: no such kind")
    return kind


def namespace_of(item: Json) -> str:
    """Return the namespace of a checked object: empty for a kind without, ``default`` where none is written."""
    return (item["metadata"].get("namespace") or "default") if kind_of(item).namespaced else ""


def reference(item: Json) -> str:
    """Return the name by which steps know an object: ``Kind/namespace/name`` or ``Kind/name``."""
    parts = [item["kind"], namespace_of(item), item["metadata"]["name"]]
    return "/".join(part for part in parts if part)


def named(item: Json) -> bool:
    """Tell whether an object's reference can be told: it may not have been checked yet."""
    meta = item.get("metadata")
    known = kinds.kind_of(str(item.get("apiVersion")), str(item.get("kind")))
    return known is not None and isinstance(meta, dict) and isinstance(meta.get("name"), str)


def references(document: Document) -> Iterator[str]:
    """Yield the references of a document's objects, as far as they can be told."""
    for item in filter(named, document.objects()):
        yield reference(item)


def holders(documents: Iterable[Document]) -> dict[str, list[int]]:
    """Return, for each object that documents hold, the numbers of the documents that hold it."""
    found: dict[str, list[int]] = {}
    for document in documents:
        for name in references(document) if document.number else ():
            found.setdefault(name, []).append(document.number)
    return found
