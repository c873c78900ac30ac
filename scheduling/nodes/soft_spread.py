"""How well a node keeps a pod's soft topology spread constraints (scheduling/AL-25): 0 to 100 over the candidates.

The weight of a constraint grows with the logarithm of its number of domains. The logarithm is taken in decimal
arithmetic of fixed precision, correctly rounded, so that every machine finds the same billionths.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal

from scheduling.nodes.cluster import NodeFacts
from scheduling.nodes.resource_scores import SCORE_MAX
from scheduling.nodes.spread import Admits, Constraint, counts, matching
from scheduling.objects import Pod

_HOSTNAME = "kubernetes.io/hostname"
_NANO = 10**9
_CONTEXT = Context(prec=28)


def log_nano(number: int) -> int:
    """Return the natural logarithm of a whole number above 0 in billionths, rounded down."""
    return int(_CONTEXT.multiply(_CONTEXT.ln(Decimal(number)), Decimal(_NANO)))


def soft_spread(
    pod: Pod,
    rules: tuple[Constraint, ...],
    candidates: Sequence[NodeFacts],
    nodes: Sequence[NodeFacts],
    admits: Admits,
) -> list[int]:
    """Return the scores of the candidates; one that lacks the label of a constraint has 0."""
    if not rules:
        return [0] * len(candidates)
    labelled = [_labelled(facts, rules) for facts in candidates]
    domains = _domains(
        pod, rules, [facts for facts, has in zip(candidates, labelled, strict=True) if has], nodes, admits
    )
    weights = [
        log_nano((sum(labelled) if rule.key == _HOSTNAME else len(domain)) + 2)
        for rule, domain in zip(rules, domains, strict=True)
    ]
    crowd = [
        _crowd(pod, rules, facts, domains, weights) if has else None
        for facts, has in zip(candidates, labelled, strict=True)
    ]
    return _normalised(crowd)


def _labelled(facts: NodeFacts, rules: tuple[Constraint, ...]) -> bool:
    return all(rule.key in facts.labels for rule in rules)


def _domains(
    pod: Pod, rules: tuple[Constraint, ...], candidates: Sequence[NodeFacts], nodes: Sequence[NodeFacts], admits: Admits
) -> list[dict[str, int]]:
    """Count the matching pods in the candidates' domains, by constraint; hosts are counted one by one later."""
    found = [
        {} if rule.key == _HOSTNAME else dict.fromkeys((facts.labels[rule.key] for facts in candidates), 0)
        for rule in rules
    ]
    for facts in nodes:
        if not _labelled(facts, rules):
            continue
        for rule, domain in zip(rules, found, strict=True):
            value = facts.labels[rule.key]
            if value in domain and counts(rule, facts, admits):
                domain[value] += matching(rule, pod, facts)
    return found


def _crowd(
    pod: Pod, rules: tuple[Constraint, ...], facts: NodeFacts, domains: list[dict[str, int]], weights: list[int]
) -> int:
    """Return how crowded the node's domains are, rounded half up; less is better."""
    total = 0
    for rule, domain, weight in zip(rules, domains, weights, strict=True):
        host = rule.key == _HOSTNAME
        count = matching(rule, pod, facts) if host else domain[facts.labels[rule.key]]
        total += count * weight + (rule.max_skew - 1) * _NANO
    return (2 * total + _NANO) // (2 * _NANO)


def _normalised(crowd: Sequence[int | None]) -> list[int]:
    known = [item for item in crowd if item is not None]
    least, most = min(known, default=0), max(known, default=0)
    if most == 0:
        return [0 if item is None else SCORE_MAX for item in crowd]
    return [0 if item is None else SCORE_MAX * (most + least - item) // most for item in crowd]
