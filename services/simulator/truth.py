"""What is so in the cluster: objects as the API server has them, and what the pods' own records say.

Assertions and invariants are judged on this, not on what a service believes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from events import names
from events.canonical import Json
from events.kinds import CONFIG_MAP, EVENT, NODE, POD, POD_GROUP, PRIORITY_CLASS, QUEUE, Kind
from scheduling import objects
from scheduling.devices import geometry, record, register
from scheduling.devices.environment import DeviceEnv
from scheduling.devices.record import Share
from scheduling.state.model import Model
from services.cluster.store import Store
from services.simulator.document import KIND_BY_WORD


class Truth:
    """Reads the cluster's store. ``made`` are the references of all objects that ever were there."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.made: set[str] = set()
        store.listeners.append(self._note)

    def _note(self, kind: Kind) -> None:
        entry = self.store.history(kind).entries[-1]
        if not entry.fault:
            meta = entry.object["metadata"]
            parts = [kind.name, meta.get("namespace") or "", meta["name"]]
            self.made.add("/".join(part for part in parts if part))

    def find(self, reference: str) -> Json | None:
        """Return the object of a reference ``Kind/namespace/name`` or ``Kind/name``."""
        kind, namespace, name = split(reference)
        return self.store.get(kind, namespace, name)

    def pod(self, name: str) -> Json | None:
        """Return the pod of ``namespace/name``."""
        namespace, _, rest = name.partition("/")
        return self.store.get(POD, namespace, rest)

    def group(self, name: str) -> Json | None:
        """Return the PodGroup of ``namespace/name``."""
        namespace, _, rest = name.partition("/")
        return self.store.get(POD_GROUP, namespace, rest)

    def pods(self) -> Iterator[objects.Pod]:
        """Yield all pods, parsed, by namespace and name."""
        for item in self.store.items(POD):
            yield objects.pod(item)

    def bindings(self, uid: str) -> int:
        """Return how many Bindings the API server accepted for a pod's uid."""
        return len(self.store.bindings.get(uid, ()))

    def newest_event(self, kind: str, item: Json, reason: str) -> Json | None:
        """Return the event on an object with this reason that was written last."""
        meta = item["metadata"]
        found = [
            event
            for event in self.store.items(EVENT, meta.get("namespace") or "")
            if event.get("reason") == reason and _is_about(event, kind, meta)
        ]
        return max(found, key=lambda event: int(event["metadata"].get("resourceVersion") or 0), default=None)


def _is_about(event: Json, kind: str, meta: Json) -> bool:
    about = event.get("involvedObject") or {}
    same = (about.get("kind"), about.get("name")) == (kind, meta["name"])
    return same and about.get("uid", meta.get("uid")) == meta.get("uid")


def split(reference: str) -> tuple[Kind, str, str]:
    """Return kind, namespace (empty for a kind without) and name of a reference."""
    parts = reference.split("/")
    kind = KIND_BY_WORD[parts[0]]
    return (kind, parts[1], parts[2]) if kind.namespaced else (kind, "", parts[1])


def node_of(pod: Json | None) -> str:
    """Return the node that a pod is assigned to, empty if it is not."""
    return ((pod or {}).get("spec") or {}).get("nodeName") or ""


def notes(item: Json) -> dict[str, str]:
    """Return an object's annotations, as far as they are text."""
    found = item["metadata"].get("annotations") or {}
    return {key: value for key, value in found.items() if isinstance(value, str)}


def shares(pod: Json | None) -> tuple[Share, ...]:
    """Return the shares in a pod's record, none for a pod that is not assigned (devices/A-7a)."""
    if pod is None or not node_of(pod):
        return ()
    return record.decode(notes(pod).get(names.VGPU_IDS, "")).shares


def cards(pod: Json | None) -> list[str]:
    """Return the physical cards in a pod's record, each once, sorted."""
    return sorted({share.uuid for share in shares(pod)})


def card_specs(node: Json | None) -> dict[str, register.CardSpec]:
    """Return the registered cards of a node by UUID."""
    if node is None:
        return {}
    found, _ = register.read_cards(notes(node).get(names.NODE_REGISTER, ""))
    return {card.uuid: card for card in found}


def slice_of(share: Share, card: register.CardSpec | None, env: DeviceEnv) -> geometry.Slice | None:
    """Return the MIG slice that a share names on a registered card, None if it is none."""
    if card is None or not share.suffix:
        return None
    groups = geometry.groups_of(env.config.geometries, card.type)
    return geometry.find(groups, share.uuid + share.suffix) if groups else None


def known_to_service(model: Model, kind: Kind) -> int:
    """Return how many objects of a kind the service knows."""
    tables: dict[Kind, Any] = {
        POD: model.pods, POD_GROUP: model.groups, QUEUE: model.queues,
        PRIORITY_CLASS: model.priority_classes, CONFIG_MAP: model.config_maps,
        NODE: [view for view in model.nodes.values() if view.node is not None],
    }  # fmt: skip
    return len(tables[kind]) if kind in tables else len(model.others.get(kind.name, {}))
