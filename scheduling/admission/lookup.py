"""What the admission modules share: looking things up in the cluster, and what they refuse."""

from __future__ import annotations

from typing import Any, Protocol

from events.canonical import Json
from events.kinds import NAMESPACE, QUEUE, Kind
from events.reading import mapping, meta, name_of, spec, status, text

ROOT, DEFAULT = "root", "default"


class Lister(Protocol):
    """The cluster as it is."""

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None: ...

    def items(self, kind: Kind, namespace: str = "") -> list[Json]: ...


def notes_of(item: Json | None) -> dict[str, Any]:
    return mapping(meta(item).get("annotations"))


def section(item: Json, key: str) -> dict[str, Any]:
    """Return a mapping of an object for writing, made if it is absent; a value of another type is left alone."""
    found = item.setdefault(key, {})
    return found if isinstance(found, dict) else {}


class Denied(Exception):
    """What is written is refused; ``webhook`` is the name of the check, as clients know it."""

    def __init__(self, webhook: str, message: str) -> None:
        super().__init__(message)
        self.webhook, self.message = webhook, message


def denied(kind: Kind, message: str) -> Denied:
    """Return the refusal of what is written of a kind."""
    return Denied(f"validate{kind.name.lower()}.volcano.sh", message)


def missing(kind: Kind, name: str) -> str:
    """Return the words of the API server for an object that is not there."""
    resource = f"{kind.plural}.{kind.group}" if kind.group else kind.plural
    return f'{resource} "{name}" not found'


def queue_named(lister: Lister, name: str) -> Json | None:
    return lister.get(QUEUE, "", name)


def state_of(queue: Json | None) -> str:
    """The state of a queue; empty counts as Open (scheduling/Q-1)."""
    return text(status(queue).get("state")) or "Open"


def parent_of(queue: Json | None) -> str:
    """The parent of a queue; ``root`` has none (scheduling/Q-2)."""
    return "" if name_of(queue) == ROOT else text(spec(queue).get("parent")) or ROOT


def children_of(lister: Lister, name: str) -> list[Json]:
    return [queue for queue in lister.items(QUEUE) if parent_of(queue) == name]


def namespace_queue(lister: Lister, namespace: str, annotation: str) -> str:
    """The queue that a namespace names for what is created in it, empty if it names none."""
    return text(notes_of(lister.get(NAMESPACE, "", namespace)).get(annotation))


def topology_problem(topology: Any) -> str:
    """What is wrong with a networkTopology (scheduling/PG-1, J-2), empty if nothing."""
    if mapping(topology).get("highestTierAllowed") is not None and mapping(topology).get("highestTierName"):
        return "must not specify 'highestTierAllowed' and 'highestTierName' in networkTopology simultaneously"
    return ""
