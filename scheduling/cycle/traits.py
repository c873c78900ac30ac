"""What a pod is for the scheduler, whatever happens in a cycle: role, priority, request, demand of devices.

Sources: scheduling/AS-9 to AS-12, R-2, R-6, Q-20, Q-21. All of it follows from the pod and the device environment, so
it may be remembered between cycles (``cycle.memo``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from events import names
from scheduling import resources
from scheduling.config.arguments import as_boolean
from scheduling.devices.environment import DeviceEnv
from scheduling.devices.request import Demand, demand_of, node_request
from scheduling.objects import Pod
from scheduling.reasons.kinds import RequestRefused
from scheduling.resources import Vector

#: Our own gate: it alone does not take a pod's request out of the reservation (AS-12).
OWN_GATE = "scheduling.volcano.sh/queue-allocation-gate"
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Traits:
    """``asked`` is what its queue is charged before placement (Q-21), ``request`` what a node must have (R-11).

    ``kind`` numbers the class of a plain pod (``cycle.classes``); it means nothing outside of one process. ``number``
    is the one at the end of the pod's name, if that has three parts at least (section 4.7). ``refused`` is why no node
    and no queue matters (devices/R-9a).
    """

    request: Vector
    demand: Demand
    asked: Vector
    role: str
    priority: int
    best_effort: bool
    gated: bool
    preemptable: bool
    revocable: bool
    raw: bool = False
    kind: int | None = None
    number: int | None = None
    refused: RequestRefused | None = None


def charged(traits: Traits, held: Vector, number_name: str) -> Vector:
    """Return what counts in a queue's sums for a placed task that really holds ``held`` (Q-21, devices/R-13).

    As asked; what is really held only where the memory depends on the card, or where shares are on no registered card
    any more (devices/N-21a: they count in no sum).
    """
    if traits.raw:
        return traits.asked
    depends = any(item.percentage is not None for item in traits.demand.requests)
    return held if depends or held.get(number_name, 0) < traits.asked.get(number_name, 0) else traits.asked


def _value(pod: Pod, key: str) -> str | None:
    found = pod.annotations.get(key)
    return pod.labels.get(key) if found is None else found


def role_of(pod: Pod) -> str:
    """Return the task role (AS-9): annotation, else label."""
    return pod.annotations.get(names.TASK_SPEC) or pod.labels.get(names.TASK_SPEC, "")


def priority_of(pod: Pod) -> int:
    """Return the task priority (AS-10)."""
    text = pod.annotations.get(names.TASK_PRIORITY, "").strip()
    if _INTEGER.fullmatch(text):
        return int(text)
    return 1 if pod.priority is None else pod.priority


def preemptable(annotations: Mapping[str, str], labels: Mapping[str, str], default: bool) -> bool:
    """Return whether an object may be a victim (AS-11): annotation then label, what cannot be read is false."""
    text = annotations.get(names.PREEMPTABLE, labels.get(names.PREEMPTABLE))
    return default if text is None else as_boolean(text) is True


def traits_of(pod: Pod, env: DeviceEnv, raw: bool = False) -> Traits:
    """Return the traits of a pod. ``raw`` charges its requests as they are (Q-21, ``queue.vgpuAccounting: raw``)."""
    demand = demand_of(pod, env)
    request = node_request(pod, env)
    marked = _value(pod, names.PREEMPTABLE)
    return Traits(
        request=request,
        demand=demand,
        asked=request if raw or demand.refusal else demand.charge_before(env),
        role=role_of(pod),
        priority=priority_of(pod),
        best_effort=resources.is_best_effort(request) and not demand.refusal,
        gated=bool(pod.gates),
        preemptable=preemptable(pod.annotations, pod.labels, default=True),
        revocable=_value(pod, names.REVOCABLE_ZONE) == "*" or (marked is not None and as_boolean(marked) is True),
        raw=raw,
        number=_number(pod.name),
        refused=RequestRefused(demand.refusal) if demand.refusal else None,
    )


def _number(name: str) -> int | None:
    """Return the numeric last part of a name of at least three parts."""
    parts = name.split("-")
    last = parts[-1]
    return int(last) if len(parts) >= 3 and last.isascii() and last.isdigit() else None
