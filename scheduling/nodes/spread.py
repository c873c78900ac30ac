"""Topology spread constraints of a pod (scheduling/AL-20, AL-25): the hard ones filter, the soft ones score.

What looks at the whole cluster happens once per pod; a node is then judged by its labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduling.nodes.cluster import NodeFacts
from scheduling.nodes.interpod import labels_as_requirements
from scheduling.nodes.selectors import Invalid, Labels, Selector, items, label_selector, text, texts
from scheduling.objects import Pod

SPREAD = "node(s) didn't match pod topology spread constraints"
SPREAD_LABEL = f"{SPREAD} (missing required label)"


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint. The policies tell whether nodes that the pod may not use count as domains."""

    key: str
    max_skew: int
    hard: bool
    selector: Selector
    min_domains: int = 1
    honor_affinity: bool = True
    honor_taints: bool = False


#: Tells whether a node's (affinity, taints) let the pod in.
Admits = Callable[[NodeFacts], tuple[bool, bool]]


def constraints(pod: Pod) -> tuple[Constraint, ...]:
    """Return the pod's constraints. Raises Invalid if one cannot be read."""
    where = "topologySpreadConstraints"
    return tuple(_constraint(item, pod, where) for item in items(pod.spec.get(where), where))


def _constraint(item: Mapping[str, Any], pod: Pod, where: str) -> Constraint:
    skew, domains = item.get("maxSkew"), item.get("minDomains")
    if not isinstance(skew, int) or isinstance(skew, bool) or skew < 1:
        raise Invalid(f"{where}.maxSkew: must be an integer above 0, got {skew!r:.60}")
    same = labels_as_requirements(pod, texts(item.get("matchLabelKeys"), f"{where}.matchLabelKeys"), "In")
    return Constraint(
        key=text(item.get("topologyKey"), f"{where}.topologyKey"),
        max_skew=skew,
        hard=item.get("whenUnsatisfiable") != "ScheduleAnyway",
        selector=label_selector(item.get("labelSelector"), f"{where}.labelSelector").with_requirements(same),
        min_domains=domains if isinstance(domains, int) and domains > 0 else 1,
        honor_affinity=item.get("nodeAffinityPolicy") != "Ignore",
        honor_taints=item.get("nodeTaintsPolicy") == "Honor",
    )


def counts(constraint: Constraint, facts: NodeFacts, admits: Admits) -> bool:
    """Tell whether a node counts as part of a domain for this constraint."""
    if not constraint.honor_affinity and not constraint.honor_taints:
        return True
    affinity, taints = admits(facts)
    return (affinity or not constraint.honor_affinity) and (taints or not constraint.honor_taints)


def matching(constraint: Constraint, pod: Pod, facts: NodeFacts) -> int:
    """Count the pods of a node that the constraint is about: same namespace, not ending, not the pod itself."""
    return sum(
        1
        for other in facts.pods
        if other.namespace == pod.namespace
        and other.uid != pod.uid
        and not other.deleting
        and constraint.selector.matches(other.labels)
    )


@dataclass(frozen=True)
class HardSpread:
    """A pod's hard constraints with the pods in each domain of each."""

    pod: Pod
    rules: tuple[Constraint, ...]
    domains: tuple[Mapping[str, int], ...]

    @classmethod
    def of(cls, pod: Pod, rules: tuple[Constraint, ...], nodes: Sequence[NodeFacts], admits: Admits) -> HardSpread:
        """Look at the cluster for one pod; only nodes with the labels of all constraints make domains."""
        found: tuple[dict[str, int], ...] = tuple({} for _ in rules)
        for facts in nodes if rules else ():
            if not all(rule.key in facts.labels for rule in rules):
                continue
            for rule, domain in zip(rules, found, strict=True):
                if counts(rule, facts, admits):
                    value = facts.labels[rule.key]
                    domain[value] = domain.get(value, 0) + matching(rule, pod, facts)
        return cls(pod, rules, found)

    def reason(self, labels: Labels) -> str | None:
        """Return why a node with these labels is out of question, None if it is not."""
        for rule, domain in zip(self.rules, self.domains, strict=True):
            value = labels.get(rule.key)
            if value is None:
                return SPREAD_LABEL
            if not domain:
                continue
            least = min(domain.values()) if len(domain) >= rule.min_domains else 0
            itself = int(rule.selector.matches(self.pod.labels))
            if domain.get(value, 0) + itself - least > rule.max_skew:
                return SPREAD
        return None
