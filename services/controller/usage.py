"""What a pod counts for in a PodGroup's ``minResources`` (scheduling/AS-8), and the sum for a VolcanoJob (J-9).

Amounts are exact fractions until they are written. They follow the quota rules: a pod and an object, cpu, memory and
ephemeral storage under two names, limits only under ``limits.``, extended resources as asked in *requests* only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any, TypeAlias

from events.reading import items, mapping
from scheduling import quantity

Amounts: TypeAlias = dict[str, Fraction]

_TWICE = ("cpu", "memory", "ephemeral-storage")  # counted under the plain name and under ``requests.``
_BYTES = ("memory", "ephemeral-storage")


def _amounts(value: Any) -> Amounts:
    found = {name: quantity.parse(text) for name, text in mapping(value).items()}
    return {name: amount for name, amount in found.items() if amount is not None}


def add(left: Mapping[str, Fraction], right: Mapping[str, Fraction]) -> Amounts:
    total = dict(left)
    for name, amount in right.items():
        total[name] = total.get(name, Fraction(0)) + amount
    return total


def _maximum(left: Mapping[str, Fraction], right: Mapping[str, Fraction]) -> Amounts:
    return {name: max(left.get(name, Fraction(0)), right.get(name, Fraction(0))) for name in (*left, *right)}


def times(amounts: Mapping[str, Fraction], count: int) -> Amounts:
    return {name: amount * count for name, amount in amounts.items()}


def _asked(spec: Mapping[str, Any], which: str) -> Amounts:
    """Containers summed, raised by init containers (restartable ones stay), plus overhead."""
    app: Amounts = {}
    for container in items(spec.get("containers")):
        app = add(app, _amounts(mapping(container.get("resources")).get(which)))
    beside: Amounts = {}
    peak: Amounts = {}
    for container in items(spec.get("initContainers")):
        asked = _amounts(mapping(container.get("resources")).get(which))
        if container.get("restartPolicy") == "Always":
            beside = add(beside, asked)
            peak = _maximum(peak, beside)
        else:
            peak = _maximum(peak, add(beside, asked))
    whole = _maximum(add(app, beside), peak)
    overhead = _amounts(spec.get("overhead"))
    return add(whole, overhead if which == "requests" else {name: x for name, x in overhead.items() if name in whole})


def of_pod(spec: Mapping[str, Any]) -> Amounts:
    """Return the usage of a pod (or of a template as it is stored) with this spec."""
    usage: Amounts = {"pods": Fraction(1), "count/pods": Fraction(1)}
    for name, amount in _asked(spec, "requests").items():
        if name in _TWICE or name.startswith("hugepages-") or "/" in name:
            usage[name] = usage[f"requests.{name}"] = amount
    for name, amount in _asked(spec, "limits").items():
        if name in _TWICE:
            usage[f"limits.{name}"] = amount
    return usage


def written(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    """Return amounts as the API writes quantities, by name."""
    return {name: _written(name, amounts[name]) for name in sorted(amounts)}


def _written(name: str, amount: Fraction) -> str:
    plain = name.removeprefix("requests.").removeprefix("limits.")
    if plain in _BYTES or plain.startswith("hugepages-"):
        return quantity.from_bytes(ceil(amount))
    return quantity.from_milli(ceil(amount * 1000))


@dataclass(frozen=True)
class Role:
    """One task of a VolcanoJob as J-9 sees it."""

    priority: int
    replicas: int
    minimum: int
    usage: Amounts


def of_job(roles: Sequence[Role], min_available: int) -> Amounts:
    """Return a VolcanoJob's minResources (scheduling/J-9)."""
    ordered = sorted(roles, key=lambda role: -role.priority)
    minima = sum(role.minimum for role in ordered)
    if min_available < minima:
        return _first(ordered, min_available)
    total: Amounts = {}
    left = min_available
    for role in ordered:
        count = min(role.minimum, left)
        if count > 0:
            total = add(total, times(role.usage, count))
            left -= count
    for role in ordered:
        count = min(role.replicas - role.minimum, left)
        if count > 0:
            total = add(total, times(role.usage, count))
            left -= count
    return total


def _first(ordered: Sequence[Role], count: int) -> Amounts:
    total: Amounts = {}
    for role in ordered:
        taken = min(role.replicas, count)
        if taken > 0:
            total = add(total, times(role.usage, taken))
            count -= taken
    return total
