"""What a pod is assumed to use where it does not say: 100m and 200 MiB for each container (scheduling/AL-25)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduling import resources
from scheduling.objects import Container, Pod
from scheduling.resources import CPU, MEMORY, Vector

ASSUMED_CPU_MILLI = 100
ASSUMED_MEMORY_BYTES = 200 * 1024 * 1024


def assumed_request(pod: Pod) -> Vector:
    """Return the pod's CPU (milli) and memory (bytes) with the assumption for each container without a request.

    It sums as the request itself does (R-2). A request written as 0 is a request.
    """
    derived = pod.asks.derived
    found: Vector | None = derived.get(assumed_request)
    if found is None:
        found = derived[assumed_request] = _assumed_request(pod)
    return found


def _assumed_request(pod: Pod) -> Vector:
    app = resources.total(_assumed(item.requests) for item in pod.containers)
    beside: Vector = {CPU: 0, MEMORY: 0}
    peak: Vector = {}
    for item in pod.init_containers:
        beside, peak = _started(item, beside, peak)
    overhead = pod.spec.get("overhead")
    extra = resources.vector(overhead) if isinstance(overhead, dict) else {}
    found = resources.add(resources.maximum(resources.add(app, beside), peak), extra)
    return {CPU: found.get(CPU, 0), MEMORY: found.get(MEMORY, 0)}


def _started(item: Container, beside: Vector, peak: Vector) -> tuple[Vector, Vector]:
    """Return what goes on beside the app and the peak so far, after one more init container."""
    total = resources.add(beside, _assumed(item.requests))
    return (total if item.restartable else beside), resources.maximum(peak, total)


def _assumed(requests: Mapping[str, Any]) -> Vector:
    return {
        CPU: _amount(CPU, requests, ASSUMED_CPU_MILLI),
        MEMORY: _amount(MEMORY, requests, ASSUMED_MEMORY_BYTES),
    }


def _amount(name: str, requests: Mapping[str, Any], assumed: int) -> int:
    return (resources.amount(name, requests[name]) or 0) if name in requests else assumed
