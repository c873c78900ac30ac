"""Taints of nodes and tolerations of pods (scheduling/AL-20, AL-25)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from scheduling.objects import Node, Pod

UNSCHEDULABLE_TAINT: Mapping[str, Any] = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_HARD = ("NoSchedule", "NoExecute")
_SOFT = ("PreferNoSchedule",)

Taint = Mapping[str, Any]


def tolerations(pod: Pod) -> tuple[Mapping[str, Any], ...]:
    """Return the pod's tolerations."""
    found = pod.spec.get("tolerations")
    return tuple(item for item in found if isinstance(item, dict)) if isinstance(found, list) else ()


def tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    """Tell whether one toleration tolerates one taint: effect, key and operator, where empty means any."""
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    if key and key != taint.get("key"):
        return False
    if operator == "Exists":
        return True
    return operator == "Equal" and bool(key) and (toleration.get("value") or "") == (taint.get("value") or "")


def _tolerated(given: Iterable[Mapping[str, Any]], taint: Taint) -> bool:
    return any(tolerates(item, taint) for item in given)


def untolerated(node: Node, given: tuple[Mapping[str, Any], ...]) -> bool:
    """Tell whether the node has a taint that keeps the pod away."""
    return any(taint.get("effect") in _HARD and not _tolerated(given, taint) for taint in node.taints)


def cordoned(node: Node, given: tuple[Mapping[str, Any], ...]) -> bool:
    """Tell whether the node is unschedulable for a pod with these tolerations."""
    return node.unschedulable and not _tolerated(given, UNSCHEDULABLE_TAINT)


def soft_untolerated(node: Node, given: tuple[Mapping[str, Any], ...]) -> int:
    """Count the node's PreferNoSchedule taints that the pod does not tolerate."""
    return sum(taint.get("effect") in _SOFT and not _tolerated(given, taint) for taint in node.taints)
