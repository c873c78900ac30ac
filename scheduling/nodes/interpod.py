"""Rules of pods about other pods: affinity and anti-affinity, required and preferred, read from a pod's spec.

A rule that a running pod carries and that cannot be read counts for nothing (one bad object must not stop the others);
for the pod that is to be placed it is a refusal (``own_terms`` raises).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from scheduling.nodes.selectors import (
    Invalid,
    Labels,
    Requirement,
    Selector,
    items,
    label_selector,
    mapping,
    text,
    texts,
)
from scheduling.objects import Pod

#: Returns the labels of a namespace.
NamespaceLabels: TypeAlias = Callable[[str], Labels]

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@dataclass(frozen=True, slots=True)
class Term:
    """One rule: pods that match it, in one domain of ``topology_key``. ``weight`` is negative for anti-affinity."""

    topology_key: str
    selector: Selector
    namespaces: frozenset[str]
    namespace_selector: Selector
    weight: int = 0

    def matches(self, pod: Pod, namespace_labels: NamespaceLabels) -> bool:
        if not self.selector.matches(pod.labels):
            return False
        if pod.namespace in self.namespaces:
            return True
        return not self.namespace_selector.nothing and self.namespace_selector.matches(namespace_labels(pod.namespace))


@dataclass(frozen=True, slots=True)
class PodTerms:
    """The rules of one pod: required affinity, required anti-affinity, and what it prefers (signed weights)."""

    affinity: tuple[Term, ...] = ()
    anti: tuple[Term, ...] = ()
    preferred: tuple[Term, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.affinity or self.anti or self.preferred)


def own_terms(pod: Pod) -> PodTerms:
    """Return the rules of a pod that is to be placed. Raises Invalid if one cannot be read."""
    affinity = mapping(pod.spec.get("affinity"), "affinity")
    towards = mapping(affinity.get("podAffinity"), "podAffinity")
    away = mapping(affinity.get("podAntiAffinity"), "podAntiAffinity")
    return PodTerms(
        tuple(_term(item, pod, "podAffinity") for item in items(towards.get(_REQUIRED), f"podAffinity.{_REQUIRED}")),
        tuple(
            _term(item, pod, "podAntiAffinity") for item in items(away.get(_REQUIRED), f"podAntiAffinity.{_REQUIRED}")
        ),
        (*_preferred(towards, pod, "podAffinity", 1), *_preferred(away, pod, "podAntiAffinity", -1)),
    )


def carried_terms(pod: Pod) -> PodTerms:
    """Return the rules of a pod that is already on a node; none if they cannot be read."""
    try:
        return own_terms(pod)
    except Invalid:
        return PodTerms()


def _preferred(rules: Mapping[str, Any], pod: Pod, where: str, sign: int) -> list[Term]:
    found = []
    for item in items(rules.get(_PREFERRED), f"{where}.{_PREFERRED}"):
        weight = item.get("weight")
        if not isinstance(weight, int) or isinstance(weight, bool):
            raise Invalid(f"{where}.weight: must be an integer, got {weight!r:.60}")
        term = mapping(item.get("podAffinityTerm"), f"{where}.podAffinityTerm")
        found.append(_term(term, pod, where, sign * weight))
    return found


def _term(item: Mapping[str, Any], pod: Pod, where: str, weight: int = 0) -> Term:
    selector = label_selector(item.get("labelSelector"), f"{where}.labelSelector")
    namespaces = frozenset(texts(item.get("namespaces"), f"{where}.namespaces"))
    elsewhere = label_selector(item.get("namespaceSelector"), f"{where}.namespaceSelector")
    if not namespaces and elsewhere.nothing:
        namespaces = frozenset({pod.namespace})
    same = labels_as_requirements(pod, texts(item.get("matchLabelKeys"), f"{where}.matchLabelKeys"), "In")
    other = labels_as_requirements(pod, texts(item.get("mismatchLabelKeys"), f"{where}.mismatchLabelKeys"), "NotIn")
    key = text(item.get("topologyKey"), f"{where}.topologyKey")
    return Term(key, selector.with_requirements(same + other), namespaces, elsewhere, weight)


def labels_as_requirements(pod: Pod, keys: tuple[str, ...], operator: str) -> tuple[Requirement, ...]:
    """Return a requirement for each of these labels that the pod has, on the value that it has."""
    return tuple(Requirement(key, operator, (pod.labels[key],)) for key in keys if key in pod.labels)
