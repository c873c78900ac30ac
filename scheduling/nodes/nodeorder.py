"""The nodeorder plugin: the score of each candidate for a pod (scheduling/AL-25), in thousandths.

Each part gives 0 to 100, times its weight; a weight of 0 leaves the part out, and so does a pod that it has nothing
to say about.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scheduling.config import arguments
from scheduling.config.model import PluginOption
from scheduling.nodes import preferences, resource_scores, taints
from scheduling.nodes.cluster import ClusterView, NodeFacts
from scheduling.nodes.interpod import PodTerms, carried_terms
from scheduling.nodes.predicates import NodeRules, node_rules
from scheduling.nodes.requests import assumed_request
from scheduling.nodes.resource_scores import SCORE_MAX
from scheduling.nodes.selectors import Invalid
from scheduling.nodes.soft_spread import soft_spread
from scheduling.nodes.spread import Admits, Constraint, constraints
from scheduling.nodes.view import NodeView
from scheduling.objects import Pod

THOUSAND = 1000


@dataclass(frozen=True)
class Weights:
    """The weights of the parts (``<part>.weight``)."""

    least_requested: int = 1
    most_requested: int = 0
    balanced_resource: int = 1
    node_affinity: int = 2
    pod_affinity: int = 2
    taint_toleration: int = 3
    image_locality: int = 1
    topology_spread: int = 2

    @classmethod
    def of(cls, option: PluginOption | None) -> Weights:
        found = option.arguments if option else {}

        def weight(part: str, default: int) -> int:
            return arguments.integer(found, f"{part}.weight", default)

        return cls(
            weight("leastrequested", cls.least_requested),
            weight("mostrequested", cls.most_requested),
            weight("balancedresource", cls.balanced_resource),
            weight("nodeaffinity", cls.node_affinity),
            weight("podaffinity", cls.pod_affinity),
            weight("tainttoleration", cls.taint_toleration),
            weight("imagelocality", cls.image_locality),
            weight("podtopologyspread", cls.topology_spread),
        )


class NodeOrder:
    """The nodeorder plugin with the weights of its configuration entry."""

    def __init__(self, option: PluginOption | None = None) -> None:
        self.weights = Weights.of(option)

    def scores(self, pod: Pod, candidates: Sequence[NodeView], cluster: ClusterView) -> dict[str, int]:
        """Return the score of each candidate by its name, in thousandths."""
        facts = [cluster.facts(view) for view in candidates]
        totals = [0] * len(facts)
        for weight, found in self._parts(pod, facts, cluster):
            totals = [total + weight * score for total, score in zip(totals, found, strict=True)]
        return {view.name: THOUSAND * total for view, total in zip(candidates, totals, strict=True)}

    def plain_score(self, pod: Pod, view: NodeView, cluster: ClusterView) -> int:
        """Return what ``scores`` says of a node for a pod that only its resources and taints matter to."""
        on, facts = self.weights, cluster.facts(view)
        assumed, total = assumed_request(pod), on.taint_toleration * SCORE_MAX
        if on.least_requested:
            total += on.least_requested * resource_scores.least_requested(facts, assumed)
        if on.most_requested:
            total += on.most_requested * resource_scores.most_requested(facts, assumed)
        if on.balanced_resource:
            total += on.balanced_resource * resource_scores.balanced(facts, pod.request)
        return THOUSAND * total

    def _parts(
        self, pod: Pod, candidates: Sequence[NodeFacts], cluster: ClusterView
    ) -> Iterator[tuple[int, Sequence[int]]]:
        """Yield the weight and the scores of each part that is on."""
        yield from self._resources(pod, candidates)
        on = self.weights
        if on.node_affinity and (preferred := preferences.node_preferences(pod)):
            yield on.node_affinity, preferences.node_affinity(preferred, candidates)
        if on.pod_affinity:
            terms = carried_terms(pod) if pod.spec.get("affinity") else PodTerms()
            yield on.pod_affinity, preferences.pod_affinity(pod, terms, candidates, cluster)
        if on.taint_toleration:
            yield on.taint_toleration, preferences.taint_toleration(taints.tolerations(pod), candidates)
        if on.image_locality and (images := preferences.pod_images(pod)):
            yield on.image_locality, preferences.image_locality(images, candidates, cluster)
        if on.topology_spread and (rules := _soft(pod)):
            nodes = cluster.all_facts()
            yield on.topology_spread, soft_spread(pod, rules, candidates, nodes, _admission(pod))

    def _resources(self, pod: Pod, candidates: Sequence[NodeFacts]) -> Iterator[tuple[int, Sequence[int]]]:
        on, assumed, request = self.weights, assumed_request(pod), pod.request
        if on.least_requested:
            yield on.least_requested, [resource_scores.least_requested(facts, assumed) for facts in candidates]
        if on.most_requested:
            yield on.most_requested, [resource_scores.most_requested(facts, assumed) for facts in candidates]
        if on.balanced_resource:
            yield on.balanced_resource, [resource_scores.balanced(facts, request) for facts in candidates]


def _soft(pod: Pod) -> tuple[Constraint, ...]:
    """Return the pod's soft spread constraints; none if they cannot be read."""
    if not pod.spec.get("topologySpreadConstraints"):
        return ()
    try:
        return tuple(rule for rule in constraints(pod) if not rule.hard)
    except Invalid:
        return ()


def _admission(pod: Pod) -> Admits:
    """Return the test whether a node's labels and taints let the pod in; rules that cannot be read let it in."""
    given = taints.tolerations(pod)
    try:
        rules = node_rules(pod)
    except Invalid:
        rules = NodeRules((), None)

    def admits(facts: NodeFacts) -> tuple[bool, bool]:
        node = facts.view.node
        return (rules.match(node), not taints.untolerated(node, given)) if node else (False, False)

    return admits
