"""What a pod asks for in devices (devices/R-1 to R-14, F-8 to F-11, G-2, G-3).

A demand is a function of the pod and the environment alone. What no node can change (R-1a, R-8, R-9) is its
``refusal``, judged once (R-9a). Memory is in units, cores in percent, both per share (R-7).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from math import ceil
from typing import Any, Literal

from events import names
from scheduling import quantity
from scheduling.devices import arguments
from scheduling.devices.environment import DeviceEnv
from scheduling.objects import Container, Pod
from scheduling.resources import Vector

Kind = Literal["none", "vgpu", "share", "number"]
OFF = "vGPU sharing is off: deviceshare.VGPUEnable is not true"  # R-1a
_STANDARD = frozenset(
    {
        "nvidia.com/gpu",
        "nvidia.com/gpumem",
        "nvidia.com/gpumem-percentage",
        "nvidia.com/gpucores",
        "nvidia.com/priority",
    }
)


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """The request of one app container: ``container`` is its place in the pod's spec.

    ``percentage`` decides if it is not None, and then ``memory`` is 0 (R-5, R-6).
    """

    container: int
    name: str
    count: int
    memory: int
    percentage: int | None
    cores: int


@dataclass(frozen=True)
class Selection:
    """Which cards the pod allows (F-8, F-9): the lists as read, and the UUID lists as written for messages (F-4)."""

    use_uuids: tuple[str, ...] = ()
    nouse_uuids: tuple[str, ...] = ()
    use_types: tuple[str, ...] = ()
    nouse_types: tuple[str, ...] = ()
    use_raw: str = ""
    nouse_raw: str = ""


@dataclass(frozen=True)
class Demand:
    """A pod's demand. ``request`` is the pod's whole request vector as the API gives it.

    ``group`` is the PodGroup key of F-10; ``spread`` tells whether F-11 binds this pod; ``mode`` is the sharing mode it
    asks for, empty for any; ``rules`` are the exclusivity rules it matches. ``legacy`` is the pod's legacy memory or
    number, after ``kind`` (G-2). ``token`` stands for ``key`` where it is the same object; None says nothing.
    """

    kind: Kind
    uid: str
    request: Vector
    refusal: str = ""
    warnings: tuple[str, ...] = ()
    requests: tuple[ContainerRequest, ...] = ()
    group: str = ""
    spread: bool = False
    mode: str = ""
    selection: Selection = field(default_factory=Selection)
    rules: tuple[arguments.Rule, ...] = ()
    legacy: int = 0
    token: object = field(default=None, init=False, compare=False, repr=False)
    _before: tuple[DeviceEnv, Vector] | None = field(default=None, init=False, compare=False, repr=False)

    @property
    def chooses(self) -> bool:
        """Whether it names cards or models that it takes, or does not (F-8, F-9)."""
        choice = self.selection
        return bool(choice.use_uuids or choice.nouse_uuids or choice.use_types or choice.nouse_types)

    @property
    def rule_ids(self) -> tuple[str, ...]:
        """The ids of the exclusivity rules that the pod matches (X-1, X-3)."""
        return tuple(arguments.rule_id(rule) for rule in self.rules)

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Everything that an answer of a node depends on, the pod's identity apart: equal keys, equal answers (F-7)."""
        request = tuple(sorted(self.request.items()))
        asked = (self.kind, self.refusal, request, self.requests, self.legacy)
        return (*asked, self.group if self.spread else "", self.mode, self.selection, self.rules)

    def of(self, pod: Pod) -> Demand:
        """Return the demand of a pod that is written like the one this was read from; what is known goes with it."""
        group = group_key(pod) if self.requests else ""
        spread = bool(group) and pod.annotations.get(names.PODGROUP_POLICY) == "spread"
        found = object.__new__(Demand)
        found.__dict__.update(self.__dict__)
        found.__dict__.update(uid=pod.uid, group=group, spread=spread)
        if spread:
            found.__dict__.pop("key", None)
            found.__dict__["token"] = None
        return found

    def charge_before(self, env: DeviceEnv) -> Vector:
        """The WHOLE vector a queue is charged before cards are chosen (R-13, Q-21): cpu, memory and all else included.

        For a vGPU pod our names hold number, memory × count and cores × count, in thousandths; a memory that depends
        on the card counts 0. For every other pod it is its request without the percentage name (R-11).
        """
        if self._before is None or self._before[0] is not env:
            charge = self._charged(env, lambda item: item.memory)
            object.__setattr__(self, "_before", (env, charge))
            return charge
        return self._before[1]

    def requested_at_most(self, env: DeviceEnv, largest: int) -> Vector:
        """As ``charge_before``, but memory that depends on the card counts as ``largest`` units (Q-21, for Q-12)."""
        return self._charged(env, lambda item: item.memory if item.percentage is None else largest)

    def charge_of(self, env: DeviceEnv, number: int, memory: int, cores: int) -> Vector:
        """The whole charge with these sums in place of our names; what is 0 is left out."""
        ours = {env.number_name: number * 1000, env.memory_name: memory * 1000, env.cores_name: cores * 1000}
        rest = {name: amount for name, amount in self.request.items() if name not in env.resource_names}
        return rest | {name: amount for name, amount in ours.items() if amount}

    def _charged(self, env: DeviceEnv, memory: Callable[[ContainerRequest], int]) -> Vector:
        if self.kind != "vgpu" or not self.requests:
            return without_percentage(self.request, env)
        return self.charge_of(
            env,
            sum(item.count for item in self.requests),
            sum(item.count * memory(item) for item in self.requests),
            sum(item.count * item.cores for item in self.requests),
        )


def without_percentage(request: Vector, env: DeviceEnv) -> Vector:
    """Return a request without the percentage name, which no node offers (R-11)."""
    return {name: amount for name, amount in request.items() if name != env.percentage_name}


def node_request(pod: Pod, env: DeviceEnv) -> Vector:
    """Return what a pod takes from a node's scalar totals (R-11)."""
    request = pod.request
    return request if env.percentage_name not in request else without_percentage(request, env)


class _Invalid(Exception):
    """A quantity that makes the pod unschedulable (R-8)."""


#: The annotations that a demand is read from, the group's apart.
_READ = (
    names.VGPU_CORES,
    names.VGPU_MODE,
    names.USE_GPU_UUID,
    names.NOUSE_GPU_UUID,
    names.USE_GPU_TYPE,
    names.NOUSE_GPU_TYPE,
)
_FORMS = "demands"


def demand_of(pod: Pod, env: DeviceEnv) -> Demand:
    """Return what a pod asks for under a configuration; pods that are written alike are read once."""
    annotations = pod.annotations
    rules = arguments.matching(env.args.rules, pod.labels) if env.args.rules else ()
    written = (*(annotations.get(name) for name in _READ), rules)
    known: tuple[DeviceEnv, dict[tuple[object, ...], Demand]] | None = pod.asks.derived.get(_FORMS)
    if known is None or known[0] is not env or len(known[1]) > _FORMS_MAX:
        known = pod.asks.derived[_FORMS] = (env, {})
    form = known[1].get(written)
    if form is None:
        form = known[1][written] = _form(pod, env, rules)
        # Worked out here, for all of them.
        form.charge_before(env)
        assert form.key
        object.__setattr__(form, "token", object())
    return form.of(pod)


#: Ways of annotating pods with the same containers that are remembered.
_FORMS_MAX = 256


def _form(pod: Pod, env: DeviceEnv, rules: tuple[arguments.Rule, ...]) -> Demand:
    """Return what all pods ask for that are written like this one: no pod's, and of no group."""
    try:
        requests = _requests(pod, env)
    except _Invalid as fault:
        refusal = str(fault) if env.args.vgpu else OFF
        return Demand("vgpu", "", pod.request, refusal=refusal)
    refusal = OFF if requests and not env.args.vgpu else _init_refusal(pod, env)
    if not requests:
        return _legacy(pod, env, refusal)
    mode = pod.annotations.get(names.VGPU_MODE, "")
    return Demand(
        "vgpu",
        "",
        pod.request,
        refusal=refusal,
        warnings=tuple(_warnings(pod, env, requests)),
        requests=requests,
        mode=mode if mode.strip() else "",
        selection=_selection(pod),
        rules=rules,
    )


def group_key(pod: Pod) -> str:
    """Return the key of PodGroup spread (F-10): ``namespace/group``, empty without a group (C-19)."""
    name = pod.annotations.get(names.GROUP_NAME) or pod.annotations.get(names.VOLCANO_GROUP_NAME)
    return f"{pod.namespace}/{name}" if name else ""


def _requests(pod: Pod, env: DeviceEnv) -> tuple[ContainerRequest, ...]:
    """R-2: the app containers that ask for a card, in the order of the spec."""
    found = (_request(place, item, pod, env) for place, item in enumerate(pod.containers))
    return tuple(item for item in found if item is not None)


def _request(place: int, container: Container, pod: Pod, env: DeviceEnv) -> ContainerRequest | None:
    if env.number_name in container.limits:
        count = _value(container, env.number_name)
    elif env.memory_name in container.limits:
        count = env.config.default_number
    else:
        return None
    if not count:
        return None
    memory = _value(container, env.memory_name)
    percentage = _value(container, env.percentage_name, highest=100) or None
    if percentage is None and not memory:
        memory = env.config.default_memory
        percentage = None if memory else 100
    cores = _value(container, env.cores_name, highest=100)
    if cores is None:
        cores = _annotated_cores(pod)
    return ContainerRequest(
        container=place,
        name=container.name,
        count=count,
        memory=0 if percentage is not None or memory is None else memory,
        percentage=percentage,
        cores=env.config.default_cores if cores is None else cores,
    )


def _value(container: Container, name: str, highest: int | None = None) -> int | None:
    """Return a limit, else a request, as a whole number (R-5a, R-7); None if there is neither."""
    value: Any = container.limits.get(name, container.requests.get(name))
    if value is None:
        return None
    number = quantity.whole(value)
    if number is None or number < 0 or (highest is not None and number > highest):
        raise _Invalid(f"invalid {name} {quantity.canonical(value)} in container {container.name}")
    return number


def _annotated_cores(pod: Pod) -> int | None:
    """R-7: the annotation form of the cores, if it is an integer from 0 to 100."""
    text = pod.annotations.get(names.VGPU_CORES, "").strip()
    if not (text.isascii() and text.isdigit() and len(text) <= 3):
        return None
    return int(text) if int(text) <= 100 else None


def _init_refusal(pod: Pod, env: DeviceEnv) -> str:
    """R-9: the first init container that asks for a card."""
    for item in pod.init_containers:
        limit = item.limits.get(env.number_name, item.limits.get(env.memory_name))
        if limit is not None and quantity.parse(limit) != 0:
            return f"vGPU requests in init containers are not supported (container {item.name})"
    return ""


def _warnings(pod: Pod, env: DeviceEnv, requests: tuple[ContainerRequest, ...]) -> list[str]:
    """What the user should know although the pod can be scheduled (R-3, R-12, A-12)."""
    warnings = [
        f"container {item.name} has no limit {env.number_name}: the node agent gives it no device"
        for item in requests
        if env.number_name not in pod.containers[item.container].limits
    ]
    limits = {name for container in pod.containers for name in container.limits}
    foreign = sorted((limits & _STANDARD) - env.resource_names)
    if foreign:
        warnings.append(f"pod mixes {env.number_name} with limits of another device model: {', '.join(foreign)}")
    if len(requests) > 1:
        warnings.append(f"pod has {len(requests)} vGPU containers; the node agent serves only one")
    return warnings


def _selection(pod: Pod) -> Selection:
    use, nouse = (pod.annotations.get(key, "") for key in (names.USE_GPU_UUID, names.NOUSE_GPU_UUID))
    use_type, nouse_type = (pod.annotations.get(key, "") for key in (names.USE_GPU_TYPE, names.NOUSE_GPU_TYPE))
    lower = use_type.lower(), nouse_type.lower()
    return Selection(_items(use), _items(nouse), _items(lower[0]), _items(lower[1]), use_raw=use, nouse_raw=nouse)


def _items(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (item.strip() for item in text.split(","))))


def _legacy(pod: Pod, env: DeviceEnv, refusal: str) -> Demand:
    """A pod without vGPU request: legacy sharing if it is on and asked for (G-3, G-6)."""
    kind: Kind = "none"
    amount = 0
    if env.args.sharing:
        amount = legacy_amount(pod, names.GPU_MEMORY)
        kind = "share" if amount > 0 else "none"
    elif env.args.number:
        amount = legacy_amount(pod, names.GPU_NUMBER)
        kind = "number" if amount > 0 else "none"
    return Demand(kind, "", pod.request, refusal=refusal, legacy=max(amount, 0))


def legacy_amount(pod: Pod, name: str) -> int:
    """Return a pod's legacy memory or number (G-2, G-2a); what is no quantity counts as 0."""
    beside = peak = 0
    for item in pod.init_containers:
        amount = _limit(item, name)
        if item.restartable:
            beside += amount
            peak = max(peak, beside)
        else:
            peak = max(peak, beside + amount)
    return max(sum(_limit(item, name) for item in pod.containers) + beside, peak)


def _limit(container: Container, name: str) -> int:
    return ceil(quantity.parse(container.limits.get(name)) or 0)


__all__ = ["ContainerRequest", "Demand", "Selection", "demand_of", "group_key", "legacy_amount", "node_request"]
