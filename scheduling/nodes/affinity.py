"""Required inter-pod affinity and anti-affinity, and that of the pods already there (scheduling/AL-20).

Everything that looks at the whole cluster happens once per pod (``PodAffinity.of``); a node is then judged by looking
up the topology domains that its labels put it in.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from scheduling.nodes.cluster import NodeFacts
from scheduling.nodes.interpod import NamespaceLabels, PodTerms, Term
from scheduling.nodes.selectors import Labels
from scheduling.objects import Pod

AFFINITY = "node(s) didn't match pod affinity rules"
ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
EXISTING_ANTI_AFFINITY = "node(s) didn't satisfy existing pods anti-affinity rules"

#: A topology domain: a label and its value.
Domain = tuple[str, str]


@dataclass(frozen=True)
class PodAffinity:
    """One pod's required rules and where in the cluster they are met.

    ``wanted`` counts the pods that match all affinity terms, by domain; ``shunned`` holds the domains of pods that
    match an anti-affinity term, ``closed`` those that the rules of pods already there close to this pod.
    """

    terms: PodTerms
    first_of_its_kind: bool
    wanted: Counter[Domain]
    shunned: frozenset[Domain]
    closed: frozenset[Domain]

    @classmethod
    def of(cls, pod: Pod, terms: PodTerms, nodes: Sequence[NodeFacts], namespaces: NamespaceLabels) -> PodAffinity:
        """Look at the cluster for one pod."""
        wanted: Counter[Domain] = Counter()
        shunned: set[Domain] = set()
        if terms.affinity or terms.anti:
            for facts in nodes:
                wanted.update(_wanted(pod, terms.affinity, facts, namespaces))
                shunned.update(_shunned(pod, terms.anti, facts, namespaces))
        own_kind = bool(terms.affinity) and all(term.matches(pod, namespaces) for term in terms.affinity)
        return cls(terms, own_kind and not wanted, wanted, frozenset(shunned), closed_domains(pod, nodes, namespaces))

    def reason(self, labels: Labels) -> str | None:
        """Return why a node with these labels is out of question, None if it is not."""
        if self.terms.affinity and not self._affine(labels):
            return AFFINITY
        if any(labels.get(key) == value for key, value in self.shunned):
            return ANTI_AFFINITY
        if any(labels.get(key) == value for key, value in self.closed):
            return EXISTING_ANTI_AFFINITY
        return None

    def _affine(self, labels: Labels) -> bool:
        """All topology labels must be there, and in each domain a pod that matches; the first of a kind is let in."""
        if not all(term.topology_key in labels for term in self.terms.affinity):
            return False
        met = all(self.wanted[(term.topology_key, labels[term.topology_key])] > 0 for term in self.terms.affinity)
        return met or self.first_of_its_kind


def _wanted(pod: Pod, terms: tuple[Term, ...], facts: NodeFacts, namespaces: NamespaceLabels) -> list[Domain]:
    if not terms:
        return []
    matching = sum(
        1 for other in facts.pods if other.uid != pod.uid and all(term.matches(other, namespaces) for term in terms)
    )
    keys = {term.topology_key for term in terms if term.topology_key in facts.labels} if matching else set()
    return [(key, facts.labels[key]) for key in sorted(keys)]


def _shunned(pod: Pod, terms: tuple[Term, ...], facts: NodeFacts, namespaces: NamespaceLabels) -> list[Domain]:
    return [
        (term.topology_key, facts.labels[term.topology_key])
        for term in terms
        if term.topology_key in facts.labels
        and any(other.uid != pod.uid and term.matches(other, namespaces) for other in facts.pods)
    ]


def closed_domains(pod: Pod, nodes: Sequence[NodeFacts], namespaces: NamespaceLabels) -> frozenset[Domain]:
    """Return the domains that the anti-affinity of pods already there closes to this pod."""
    return frozenset(
        (term.topology_key, facts.labels[term.topology_key])
        for facts in nodes
        for other, terms in facts.carried
        if other.uid != pod.uid
        for term in terms.anti
        if term.topology_key in facts.labels and term.matches(pod, namespaces)
    )
