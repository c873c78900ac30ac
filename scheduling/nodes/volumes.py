"""Volumes and nodes: a bound volume keeps its pod where the volume is (scheduling/AL-20).

Claims that wait for their first consumer are left to the binder; only the topologies that their class allows count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from scheduling.nodes.cluster import ClusterView
from scheduling.nodes.selectors import (
    Invalid,
    Labels,
    NodeSelector,
    NodeTerm,
    Requirement,
    items,
    mapping,
    node_selector,
    text,
    texts,
)  # fmt: skip
from scheduling.objects import Node, Other, Pod

NO_ZONE = "node(s) had no available volume zone"
ELSEWHERE = "node(s) didn't match PersistentVolume's node affinity"
NOT_HERE = "node(s) didn't find available persistent volumes to bind"

_ZONES = (
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
)
_SELECTED_NODE = "volume.kubernetes.io/selected-node"


class Unusable(Exception):
    """A claim or volume that keeps the pod from every node; the message is the reason."""


@dataclass(frozen=True)
class VolumeRules:
    """Where a pod's volumes let it be. ``zones`` are labels with the values that do, from the bound volumes."""

    zones: tuple[tuple[str, frozenset[str]], ...] = ()
    volumes: tuple[NodeSelector, ...] = ()
    provisioned: tuple[NodeSelector, ...] = ()

    def zone_reason(self, labels: Labels) -> str | None:
        """Return why the node's zone is wrong; a node that knows no zones is right for all."""
        if not any(key in labels for key in _ZONES):
            return None
        return None if all(labels.get(key) in values for key, values in self.zones) else NO_ZONE

    def binding_reason(self, node: Node) -> str | None:
        """Return why the node cannot have the volumes."""
        if not all(item.matches(node.name, node.labels) for item in self.volumes):
            return ELSEWHERE
        return None if all(item.matches(node.name, node.labels) for item in self.provisioned) else NOT_HERE


NO_RULES = VolumeRules()


def volume_rules(pod: Pod, cluster: ClusterView) -> VolumeRules:
    """Return the rules of a pod's volumes. Raises Unusable or Invalid."""
    zones: list[tuple[str, frozenset[str]]] = []
    bound: list[NodeSelector] = []
    provisioned: list[NodeSelector] = []
    for claim in _claims(pod, cluster):
        spec = mapping(claim.content.get("spec"), "spec")
        name = spec.get("volumeName")
        if not isinstance(name, str) or not name:
            provisioned += _first_consumer(claim, spec, cluster)
            continue
        volume = cluster.other("PersistentVolume", name)
        if volume is None:
            raise Unusable(f'persistentvolumeclaim "{claim.name}" bound to non-existent persistentvolume "{name}"')
        zones += _zones(volume)
        affinity = mapping(mapping(volume.content.get("spec"), "spec").get("nodeAffinity"), "nodeAffinity")
        required = node_selector(affinity.get("required"), f"persistentvolume {name} nodeAffinity.required")
        bound += [required] if required else []
    return VolumeRules(tuple(zones), tuple(bound), tuple(provisioned))


def _claims(pod: Pod, cluster: ClusterView) -> Iterator[Other]:
    for item in items(pod.spec.get("volumes"), "volumes"):
        ephemeral = isinstance(item.get("ephemeral"), dict)
        if ephemeral:
            name = f"{pod.name}-{item.get('name')}"
        elif isinstance(item.get("persistentVolumeClaim"), dict):
            name = text(item["persistentVolumeClaim"].get("claimName"), "persistentVolumeClaim.claimName")
        else:
            continue
        claim = cluster.other("PersistentVolumeClaim", f"{pod.namespace}/{name}")
        if claim is None and ephemeral:
            raise Unusable(f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"')
        if claim is None:
            raise Unusable(f'persistentvolumeclaim "{name}" not found')
        if claim.deleting:
            raise Unusable(f'persistentvolumeclaim "{name}" is being deleted')
        yield claim


def _zones(volume: Other) -> list[tuple[str, frozenset[str]]]:
    """Return the zone labels of a volume; a value may name several zones, joined by two underscores."""
    return [(key, frozenset(volume.labels[key].split("__"))) for key in _ZONES if key in volume.labels]


def _first_consumer(claim: Other, spec: Mapping[str, Any], cluster: ClusterView) -> list[NodeSelector]:
    """Return where a claim that is not bound yet can be provisioned; it must wait for its first consumer."""
    name = spec.get("storageClassName")
    storage = cluster.other("StorageClass", name) if isinstance(name, str) and name else None
    if storage is None and isinstance(name, str) and name:
        raise Unusable(f'storageclass.storage.k8s.io "{name}" not found')
    if storage is None or storage.content.get("volumeBindingMode") != "WaitForFirstConsumer":
        raise Unusable("pod has unbound immediate PersistentVolumeClaims")
    found = []
    allowed = items(storage.content.get("allowedTopologies"), "allowedTopologies")
    if allowed:
        found.append(NodeSelector(tuple(_topology(item) for item in allowed)))
    selected = claim.annotations.get(_SELECTED_NODE)
    if selected:
        found.append(NodeSelector((NodeTerm((), (Requirement("metadata.name", "In", (selected,)),)),)))
    return found


def _topology(item: Mapping[str, Any]) -> NodeTerm:
    where = "allowedTopologies.matchLabelExpressions"
    return NodeTerm(
        tuple(
            Requirement(text(rule.get("key"), f"{where}.key"), "In", texts(rule.get("values"), f"{where}.values"))
            for rule in items(item.get("matchLabelExpressions"), where)
        ),
        (),
    )


__all__ = ["ELSEWHERE", "NOT_HERE", "NO_RULES", "NO_ZONE", "Invalid", "Unusable", "VolumeRules", "volume_rules"]
