"""The predicates plugin and the resource fit: may this pod run on this node, and if not, why (scheduling/AL-19, AL-20).

Reasons are the words of POD-4. Judging has two halves: ``prefilter`` looks at pod and cluster once, ``check`` at one
node after the other. Pods without rules, in a cluster without rules about other pods, cost next to nothing per node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from scheduling.config import arguments
from scheduling.config.model import PluginOption
from scheduling.nodes import taints
from scheduling.nodes.affinity import PodAffinity, closed_domains
from scheduling.nodes.cluster import ClusterView, NodeFacts
from scheduling.nodes.interpod import PodTerms, own_terms
from scheduling.nodes.ports import host_ports
from scheduling.nodes.selectors import Invalid, NodeSelector, mapping, node_selector
from scheduling.nodes.spread import Constraint, HardSpread, constraints
from scheduling.nodes.view import NodeView
from scheduling.nodes.volumes import NO_RULES, Unusable, VolumeRules, volume_rules
from scheduling.objects import Node, Pod
from scheduling.resources import PODS, Vector, exceeded

POD_NUMBER = "node(s) pod number exceeded"
UNSCHEDULABLE = "node(s) were unschedulable"
NODE_AFFINITY = "node(s) didn't match Pod's node affinity/selector"
TAINTS = "node(s) had untolerated taint(s)"
PORTS = "node(s) didn't have free ports for the requested pod ports"
NO_NODE = "node info not found"

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def resource_fit(request: Vector, view: NodeView) -> str | None:
    """Return the word for the first dimension that future idle does not hold (AL-19, R-5), None if the request fits."""
    missing = exceeded(request, view.future_idle, request)
    return f"Insufficient {missing[0]}" if missing else None


@dataclass(frozen=True)
class NodeRules:
    """Which nodes a pod takes by its nodeSelector and its required node affinity."""

    labels: tuple[tuple[str, str], ...]
    affinity: NodeSelector | None

    def match(self, node: Node) -> bool:
        if not all(node.labels.get(key) == value for key, value in self.labels):
            return False
        return self.affinity is None or self.affinity.matches(node.name, node.labels)


def node_rules(pod: Pod) -> NodeRules:
    """Return the pod's rules about nodes. Raises Invalid if they cannot be read."""
    labels = mapping(pod.spec.get("nodeSelector"), "nodeSelector")
    for key, value in sorted(labels.items()):
        if not isinstance(value, str):
            raise Invalid(f"nodeSelector[{key}]: must be a string, got {value!r:.60}")
    affinity = mapping(mapping(pod.spec.get("affinity"), "affinity").get("nodeAffinity"), "nodeAffinity")
    return NodeRules(tuple(sorted(labels.items())), node_selector(affinity.get(_REQUIRED), f"nodeAffinity.{_REQUIRED}"))


@dataclass(frozen=True)
class Switches:
    """Which checks are on (``predicate.<X>Enable``, AL-20); all are unless switched off."""

    node_affinity: bool = True
    node_ports: bool = True
    taint_toleration: bool = True
    pod_affinity: bool = True
    volume_zone: bool = True
    topology_spread: bool = True
    volume_binding: bool = True

    @classmethod
    def of(cls, option: PluginOption | None) -> Switches:
        found = option.arguments if option else {}

        def on(name: str) -> bool:
            return arguments.boolean(found, f"predicate.{name}Enable", True)

        return cls(
            on("NodeAffinity"), on("NodePorts"), on("TaintToleration"), on("PodAffinity"),
            on("VolumeZone"), on("PodTopologySpread"), on("VolumeBinding"),
        )  # fmt: skip


class PodFilter:
    """One pod prepared for being tried on nodes, with the cluster as it is at that moment.

    ``failure`` is the reason that holds on every node, None if there is none. ``alone`` says that no pod of the
    cluster has rules about others, which saves looking.
    """

    def __init__(self, pod: Pod, cluster: ClusterView, switches: Switches, alone: bool = False) -> None:
        self.pod, self.cluster, self._on, self._alone = pod, cluster, switches, alone
        self.failure: str | None = None
        self._tolerations = taints.tolerations(pod)
        self._ports = host_ports(pod) if switches.node_ports else ()
        self._rules = NodeRules((), None)
        self._terms, self._spread, self._volumes = PodTerms(), (), NO_RULES
        self._read()

    _spread: tuple[Constraint, ...]
    _volumes: VolumeRules

    def _read(self) -> None:
        """Read the pod's rules; what cannot be read, or met anywhere, is the pod's failure."""
        plugin = "NodeAffinity"
        try:
            self._rules = node_rules(self.pod)
            plugin = "InterPodAffinity"
            self._terms = own_terms(self.pod) if self._on.pod_affinity else PodTerms()
            plugin = "PodTopologySpread"
            hard = constraints(self.pod) if self._on.topology_spread else ()
            self._spread = tuple(rule for rule in hard if rule.hard)
            plugin = "VolumeBinding" if self._on.volume_binding else "VolumeZone"
            if self._on.volume_binding or self._on.volume_zone:
                self._volumes = volume_rules(self.pod, self.cluster) if self.pod.spec.get("volumes") else NO_RULES
        except (Invalid, Unusable) as error:
            self.failure = f"plugin {plugin} pre-predicates failed {error}"

    def check(self, view: NodeView) -> str | None:
        """Return why the pod may not run on a node, None if it may."""
        node = view.node
        if node is None:
            return NO_NODE
        if self.failure:
            return self.failure
        facts = self.cluster.facts(view)
        reason = self._stable(facts, node)
        if reason is not None or (self._plain and not facts.carried):
            return reason
        return self._moving(facts, node)

    def _stable(self, facts: NodeFacts, node: Node) -> str | None:
        """What depends on the node alone."""
        others = facts.view.sums.live - (self.pod.uid in facts.view.tasks)
        if others >= node.room.get(PODS, 0):
            return POD_NUMBER
        return self.fixed(node)

    def fixed(self, node: Node) -> str | None:
        """What a node says of the pod whoever is there: only its own fields and the pod's matter."""
        if taints.cordoned(node, self._tolerations):
            return UNSCHEDULABLE
        if self._chooses and not self._rules.match(node):
            return NODE_AFFINITY
        if node.taints and self._on.taint_toleration and taints.untolerated(node, self._tolerations):
            return TAINTS
        return None

    def _moving(self, facts: NodeFacts, node: Node) -> str | None:
        """What depends on the pods there and elsewhere, and on volumes."""
        if self._ports and any(
            port.conflicts(taken) for uid, taken in facts.ports if uid != self.pod.uid for port in self._ports
        ):
            return PORTS
        reason = self._affinity_of(facts).reason(node.labels) if self._on.pod_affinity else None
        if reason is None and self._on.volume_zone:
            reason = self._volumes.zone_reason(node.labels)
        if reason is None and self._spread:
            reason = self._spread_of(facts).reason(node.labels)
        if reason is None and self._on.volume_binding:
            reason = self._volumes.binding_reason(node)
        return reason

    def _in_place(self, facts: NodeFacts) -> bool:
        """Tell whether a view is the one of the cluster; a trial's view is judged in the cluster that has it."""
        return self._shared.get(facts.view.name) is facts.view

    @cached_property
    def _nodes(self) -> list[NodeFacts]:
        return self.cluster.all_facts()

    @cached_property
    def _shared(self) -> dict[str, NodeView]:
        return {facts.view.name: facts.view for facts in self._nodes}

    @cached_property
    def _chooses(self) -> bool:
        """Whether the pod has rules about nodes."""
        return self._on.node_affinity and (bool(self._rules.labels) or self._rules.affinity is not None)

    @cached_property
    def _plain(self) -> bool:
        """Whether nothing but the nodes themselves matters: no rule of the pod, none of others about pods."""
        rules = self._ports or self._terms or self._spread or self._volumes is not NO_RULES
        return not rules and (self._alone or not (self._on.pod_affinity and self._carried))

    @cached_property
    def _affinity(self) -> PodAffinity:
        return PodAffinity.of(self.pod, self._terms, self._nodes, self.cluster.namespace_labels)

    @cached_property
    def _spreading(self) -> HardSpread:
        return HardSpread.of(self.pod, self._spread, self._nodes, self._admits)

    @cached_property
    def _carried(self) -> frozenset[str]:
        """The nodes with pods that have rules about other pods."""
        return frozenset(facts.view.name for facts in self._nodes if facts.carried)

    def _affinity_of(self, facts: NodeFacts) -> PodAffinity:
        untouched = not self._terms and not facts.carried and facts.view.name not in self._carried
        if untouched or self._in_place(facts):
            return self._affinity
        return PodAffinity.of(self.pod, self._terms, self._instead(facts), self.cluster.namespace_labels)

    def _spread_of(self, facts: NodeFacts) -> HardSpread:
        if self._in_place(facts):
            return self._spreading
        return HardSpread.of(self.pod, self._spread, self._instead(facts), self._admits)

    def _instead(self, trial: NodeFacts) -> Sequence[NodeFacts]:
        return [trial if facts.view.name == trial.view.name else facts for facts in self._nodes]

    def _admits(self, facts: NodeFacts) -> tuple[bool, bool]:
        node = facts.view.node
        if node is None:
            return False, False
        return self._rules.match(node), not taints.untolerated(node, self._tolerations)


class Predicates:
    """The predicates plugin with the switches of its configuration entry."""

    def __init__(self, option: PluginOption | None = None) -> None:
        self.switches = Switches.of(option)
        self._last: PodFilter | None = None

    def prepare(self, pod: Pod, cluster: ClusterView, alone: bool = False) -> PodFilter:
        """Prepare a pod for being tried on nodes; it holds until the cluster changes."""
        return PodFilter(pod, cluster, self.switches, alone)

    def prefilter(self, pod: Pod, cluster: ClusterView) -> str | None:
        """Return the reason that holds on every node (``plugin <name> pre-predicates failed <text>``), None if none.

        It prepares the pod, and the ``check`` calls that follow use what it found.
        """
        self._last = self.prepare(pod, cluster)
        return self._last.failure

    def check(self, pod: Pod, view: NodeView, cluster: ClusterView) -> str | None:
        """Return why the pod may not run on a node in the words of POD-4, None if it may.

        The cluster counts as it was at the last ``prefilter`` for this pod; ``view`` counts as given.
        """
        if self._last is None or self._last.pod is not pod or self._last.cluster is not cluster:
            self._last = self.prepare(pod, cluster)
        return self._last.check(view)


__all__ = ["NodeRules", "PodFilter", "Predicates", "Switches", "closed_domains", "node_rules", "resource_fit"]
