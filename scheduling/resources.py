"""Resource vectors (scheduling/R-1 to R-6): integers only.

CPU in thousandths, memory in bytes, ``pods`` in whole units, every other scalar in thousandths, so
``volcano.sh/vgpu-memory: 3000`` is stored as 3000000. A missing name is 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from math import ceil
from typing import Any, TypeAlias

from scheduling import quantity

#: Never changed in place: every operation returns a new vector, so vectors can be shared freely.
Vector: TypeAlias = Mapping[str, int]

CPU, MEMORY, PODS = "cpu", "memory", "pods"
EMPTY: Vector = {}
_DROPPED_PREFIXES = ("count/", "requests.", "limits.")
_NATIVE_SCALARS = ("ephemeral-storage",)
_NATIVE_PREFIXES = ("hugepages-", "attachable-volumes-")


@lru_cache(maxsize=4096)
def is_counted(name: str) -> bool:
    """Tell whether a resource name takes part in a vector (R-1)."""
    if name in (CPU, MEMORY, PODS, *_NATIVE_SCALARS):
        return True
    if name.startswith(_DROPPED_PREFIXES):
        return False
    return "/" in name or name.startswith(_NATIVE_PREFIXES)


def amount(name: str, value: Any) -> int | None:
    """Return a quantity in the unit of its resource, rounded up, or None if it is no quantity."""
    if isinstance(value, str):
        return _amount(name in (MEMORY, PODS), value)
    return _compute(name in (MEMORY, PODS), value)


@lru_cache(maxsize=65536)
def _amount(in_whole: bool, text: str) -> int | None:
    return _compute(in_whole, text)


def _compute(in_whole: bool, value: Any) -> int | None:
    exact = quantity.parse(value)
    if exact is None:
        return None
    return ceil(exact) if in_whole else ceil(exact * 1000)


def vector(quantities: Mapping[str, Any]) -> dict[str, int]:
    """Turn a resource list of the API into a vector; what is no quantity counts as 0 (it is judged elsewhere)."""
    return {name: amount(name, value) or 0 for name, value in quantities.items() if is_counted(name)}


def add(left: Vector, right: Vector) -> dict[str, int]:
    """Return the sum, dimension by dimension."""
    total = dict(left)
    for name, value in right.items():
        total[name] = total.get(name, 0) + value
    return total


def subtract(left: Vector, right: Vector) -> dict[str, int]:
    """Return the difference; it may be negative."""
    rest = dict(left)
    for name, value in right.items():
        rest[name] = rest.get(name, 0) - value
    return rest


def maximum(left: Vector, right: Vector) -> dict[str, int]:
    """Return the greater value of each dimension."""
    return {name: max(left.get(name, 0), right.get(name, 0)) for name in (*left, *right)}


def total(vectors: Iterable[Vector]) -> dict[str, int]:
    """Return the sum of any number of vectors."""
    result: dict[str, int] = {}
    for item in vectors:
        for name, value in item.items():
            result[name] = result.get(name, 0) + value
    return result


def ordered(names: Iterable[str]) -> list[str]:
    """Return names in the order of messages: ``cpu``, ``memory``, then scalars by name (R-5)."""
    return sorted(names, key=lambda name: ({CPU: 0, MEMORY: 1}.get(name, 2), name))


def exceeded(future: Vector, limit: Vector, requested: Vector) -> list[str]:
    """Return the requested dimensions in which ``future`` is above ``limit`` (R-5): strict, without ``pods``.

    A name that the limit lacks counts as 0 there.
    """
    names = [
        name
        for name, asked in requested.items()
        if asked > 0 and name != PODS and future.get(name, 0) > limit.get(name, 0)
    ]
    return ordered(names) if len(names) > 1 else names


def is_best_effort(request: Vector) -> bool:
    """Tell whether a request has nothing but ``pods`` (R-6)."""
    return not any(value > 0 for name, value in request.items() if name != PODS)
