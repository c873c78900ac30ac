"""The parts of the node order that weigh what a pod prefers (scheduling/AL-25), each normalised over the candidates.

Scores are 0 to 100. Divisions round as the reference's integer divisions do, towards zero; no divisor is negative.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduling.nodes import taints
from scheduling.nodes.cluster import ClusterView, NodeFacts
from scheduling.nodes.interpod import PodTerms
from scheduling.nodes.resource_scores import SCORE_MAX
from scheduling.nodes.selectors import Invalid, NodeTerm, items, mapping, node_term
from scheduling.objects import Pod

_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_MIB = 1024 * 1024
_IMAGE_LEAST = 23 * _MIB  # smaller ones are pulled soon enough
_IMAGE_MOST = 1000 * _MIB  # per container


@dataclass(frozen=True, slots=True)
class Preference:
    """A node selector term and what it is worth."""

    term: NodeTerm
    weight: int


def node_preferences(pod: Pod) -> tuple[Preference, ...]:
    """Return the pod's preferred node affinity; empty terms and unreadable rules count for nothing."""
    try:
        affinity = mapping(mapping(pod.spec.get("affinity"), "affinity").get("nodeAffinity"), "nodeAffinity")
        found = [_preference(item) for item in items(affinity.get(_PREFERRED), _PREFERRED)]
    except Invalid:
        return ()
    return tuple(item for item in found if item.weight and not item.term.empty)


def _preference(item: Mapping[str, Any]) -> Preference:
    weight = item.get("weight")
    term = node_term(mapping(item.get("preference"), "preference"), "preference")
    return Preference(term, weight if isinstance(weight, int) else 0)


def node_affinity(preferences: tuple[Preference, ...], candidates: Sequence[NodeFacts]) -> list[int]:
    """Return the weight that each node earns, the best of them 100."""
    found = [
        sum(item.weight for item in preferences if item.term.matches(facts.view.name, facts.labels))
        for facts in candidates
    ]
    most = max(found, default=0)
    return [score * SCORE_MAX // most for score in found] if most > 0 else [0] * len(found)


def taint_toleration(given: tuple[Mapping[str, Any], ...], candidates: Sequence[NodeFacts]) -> list[int]:
    """Return 100 less the share of untolerated PreferNoSchedule taints; the node with most of them has 0."""
    nodes = [facts.view.node for facts in candidates]
    found = [taints.soft_untolerated(node, given) if node and node.taints else 0 for node in nodes]
    most = max(found, default=0)
    return [SCORE_MAX - score * SCORE_MAX // most for score in found] if most else [SCORE_MAX] * len(found)


def pod_affinity(pod: Pod, terms: PodTerms, candidates: Sequence[NodeFacts], cluster: ClusterView) -> list[int]:
    """Return how near each node is to the pods that this pod wants to be near, and that want to be near it."""
    worth = _domain_worth(pod, terms, cluster)
    if not worth:
        return [0] * len(candidates)
    found = [
        sum(values.get(facts.labels[key], 0) for key, values in worth.items() if key in facts.labels)
        for facts in candidates
    ]
    least, most = min(found, default=0), max(found, default=0)
    return [(score - least) * SCORE_MAX // (most - least) for score in found] if most > least else [0] * len(found)


def _domain_worth(pod: Pod, terms: PodTerms, cluster: ClusterView) -> dict[str, dict[str, int]]:
    """Return the worth of each topology domain by key and value: preferences in both directions, signed."""
    worth: dict[str, dict[str, int]] = {}
    namespaces = cluster.namespace_labels
    for facts in cluster.all_facts():
        pairs = [(term, other) for other in facts.pods for term in terms.preferred] if terms.preferred else []
        met = [term for term, other in pairs if other.uid != pod.uid and term.matches(other, namespaces)]
        for other, theirs in facts.carried:
            if other.uid != pod.uid:
                met += [term for term in theirs.preferred if term.matches(pod, namespaces)]
        for term in met:
            value = facts.labels.get(term.topology_key)
            if value is not None:
                domain = worth.setdefault(term.topology_key, {})
                domain[value] = domain.get(value, 0) + term.weight
    return worth


def pod_images(pod: Pod) -> tuple[str, ...]:
    """Return the images of the pod's containers, with the tag that none means."""
    parts = (pod.spec.get(part) for part in ("initContainers", "containers"))
    found = [item for part in parts if isinstance(part, list) for item in part if isinstance(item, dict)]
    named = (item.get("image") for item in found)
    return tuple(_tagged(name) for name in named if isinstance(name, str) and name)


def _tagged(name: str) -> str:
    return name if ":" in name.rsplit("/", 1)[-1] or "@" in name else f"{name}:latest"


def image_locality(images: tuple[str, ...], candidates: Sequence[NodeFacts], cluster: ClusterView) -> list[int]:
    """Return how much of the pod's images each node has, an image counting by the share of nodes that have it."""
    nodes = cluster.all_facts() if images else []
    if not any(facts.images for facts in nodes):
        return [0] * len(candidates)
    spread = {name: sum(name in facts.images for facts in nodes) for name in images}
    most = _IMAGE_MOST * len(images)
    found = []
    for facts in candidates:
        held = sum(facts.images.get(name, 0) * spread[name] // len(nodes) for name in images)
        found.append((min(max(held, _IMAGE_LEAST), most) - _IMAGE_LEAST) * SCORE_MAX // (most - _IMAGE_LEAST))
    return found
