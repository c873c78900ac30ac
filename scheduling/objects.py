"""The objects of the API as the core reads them: frozen values parsed from a projection (``events.projection``).

Parsing never fails: a field of the wrong type is as if it were absent, since one bad object must not stop the others
and the API server has judged the shape before. Quantities stay as they are written, because a refusal must name them
(devices/R-8). Times are Unix seconds, 0 where absent.
"""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any

from events import names
from events.canonical import Json
from events.reading import integer, items, mapping, text, texts
from scheduling import resources
from scheduling.resources import Vector


def _optional(value: Any) -> dict[str, Any] | None:
    return value if isinstance(value, dict) else None


def seconds(value: Any) -> int:
    """Return an RFC 3339 time as Unix seconds, 0 if it is none."""
    return _seconds(value) if isinstance(value, str) else 0


@lru_cache(maxsize=4096)
def _seconds(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())
    except (ValueError, OverflowError):
        return 0


@dataclass(frozen=True, kw_only=True)
class Meta:
    """What every object has. ``key`` is ``namespace/name``, or the name alone without a namespace."""

    name: str
    namespace: str = ""
    uid: str = ""
    version: str = ""
    created: int = 0
    deleting: bool = False
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[Json, ...] = ()

    @cached_property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def _meta(item: Json, version: str) -> dict[str, Any]:
    meta = mapping(item.get("metadata"))
    return {
        "name": text(meta.get("name")),
        "namespace": text(meta.get("namespace")),
        "uid": text(meta.get("uid")),
        "version": version or text(meta.get("resourceVersion")),
        "created": seconds(meta.get("creationTimestamp")),
        "deleting": bool(meta.get("deletionTimestamp")),
        "labels": texts(meta.get("labels")),
        "annotations": texts(meta.get("annotations")),
        "owners": tuple(items(meta.get("ownerReferences"))),
    }


@dataclass(frozen=True)
class Container:
    """One container: its limits and requests as written, its host ports, and whether it restarts beside the app."""

    name: str
    limits: Mapping[str, Any]
    requests: Mapping[str, Any]
    ports: tuple[Json, ...] = ()
    restartable: bool = False


@dataclass(frozen=True, eq=False)
class Asks:
    """What a pod's containers ask for, and what readers worked out of it (``derived``, by what they call it)."""

    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...]
    overhead: Any
    derived: dict[Any, Any] = field(default_factory=dict)

    @cached_property
    def request(self) -> Vector:
        app = resources.total(resources.vector(item.requests) for item in self.containers)
        beside: dict[str, int] = {}
        peak: dict[str, int] = {}
        for item in self.init_containers:
            asked = resources.vector(item.requests)
            if item.restartable:
                beside = resources.add(beside, asked)
                peak = resources.maximum(peak, beside)
            else:
                peak = resources.maximum(peak, resources.add(beside, asked))
        request = resources.maximum(resources.add(app, beside), peak)
        overhead = resources.vector(mapping(self.overhead))
        return resources.add(resources.add(request, overhead), {resources.PODS: 1})


#: Pods that are written alike: most pods of a cluster are. Beyond this many ways of writing one, it begins anew.
_ALIKE_MAX = 16384
#: The marshal format that spells equal values alike, whichever objects they are made of.
_PLAIN = 2
_CONTAINERS: dict[bytes, tuple[Container, ...]] = {}
_ASKS: dict[tuple[int, int, bytes], Asks] = {}


def asks_of(containers: tuple[Container, ...], init_containers: tuple[Container, ...], overhead: Any) -> Asks:
    """Return what containers ask for, the same object for the same containers."""
    key = (id(containers), id(init_containers), marshal.dumps(overhead, _PLAIN))
    found = _ASKS.get(key)
    if found is None:
        if len(_ASKS) >= _ALIKE_MAX:
            _ASKS.clear()
        # It holds the containers, so their identities stay theirs as long as it is known by them.
        found = _ASKS[key] = Asks(containers, init_containers, overhead)
    return found


def _containers(value: Any) -> tuple[Container, ...]:
    """Parse a list of containers; lists that are written alike are one."""
    if not value:
        return ()
    key = marshal.dumps(value, _PLAIN)
    found = _CONTAINERS.get(key)
    if found is None:
        if len(_CONTAINERS) >= _ALIKE_MAX:
            _CONTAINERS.clear()
        found = _CONTAINERS[key] = _read_containers(value)
    return found


def _read_containers(value: Any) -> tuple[Container, ...]:
    found = []
    for item in items(value):
        asked = mapping(item.get("resources"))
        found.append(
            Container(
                name=text(item.get("name")),
                limits=mapping(asked.get("limits")),
                requests=mapping(asked.get("requests")),
                ports=tuple(items(item.get("ports"))),
                restartable=item.get("restartPolicy") == "Always",
            )
        )
    return tuple(found)


@dataclass(frozen=True, kw_only=True)
class Pod(Meta):
    """A pod. ``spec`` keeps the placement rules (affinity, tolerations, spread, volumes) as the API gives them."""

    node: str = ""
    phase: str = "Pending"
    scheduler: str = ""
    priority: int | None = None
    priority_class: str = ""
    preemption_policy: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    gates: tuple[str, ...] = ()
    nominated_node: str = ""
    spec: Json = field(default_factory=dict)

    @property
    def group_key(self) -> str:
        """``namespace/name`` of the pod's PodGroup (scheduling/AS-1), empty if it names none."""
        name = self.annotations.get(names.GROUP_NAME, "")
        return f"{self.namespace}/{name}" if name else ""

    @property
    def finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")

    @cached_property
    def asks(self) -> Asks:
        """What its containers ask for; pods whose containers are written alike share it."""
        return asks_of(self.containers, self.init_containers, self.spec.get("overhead"))

    @property
    def request(self) -> Vector:
        """The pod's request (scheduling/R-2): containers, raised by init containers, plus overhead, plus one pod."""
        return self.asks.request


def pod(item: Json, version: str = "") -> Pod:
    """Parse a projected Pod."""
    spec, status = mapping(item.get("spec")), mapping(item.get("status"))
    priority = spec.get("priority")
    return Pod(
        **_meta(item, version),
        node=text(spec.get("nodeName")),
        phase=text(status.get("phase")) or "Pending",
        scheduler=text(spec.get("schedulerName")),
        priority=integer(priority, 0) if priority is not None else None,
        priority_class=text(spec.get("priorityClassName")),
        preemption_policy=text(spec.get("preemptionPolicy")),
        containers=_containers(spec.get("containers")),
        init_containers=_containers(spec.get("initContainers")),
        gates=tuple(text(gate.get("name")) for gate in items(spec.get("schedulingGates"))),
        nominated_node=text(status.get("nominatedNodeName")),
        spec=spec,
    )


@dataclass(frozen=True, kw_only=True)
class Node(Meta):
    """A node with its capacity and allocatable resources as written."""

    allocatable: Mapping[str, Any] | None = None
    capacity: Mapping[str, Any] = field(default_factory=dict)
    unschedulable: bool = False
    taints: tuple[Json, ...] = ()
    images: tuple[Json, ...] = ()

    @cached_property
    def room(self) -> Vector:
        """The allocatable resources as a vector."""
        return resources.vector(self.allocatable or {})


def node(item: Json, version: str = "") -> Node:
    """Parse a projected Node."""
    spec, status = mapping(item.get("spec")), mapping(item.get("status"))
    return Node(
        **_meta(item, version),
        allocatable=_optional(status.get("allocatable")),
        capacity=mapping(status.get("capacity")),
        unschedulable=spec.get("unschedulable") is True,
        taints=tuple(items(spec.get("taints"))),
        images=tuple(items(status.get("images"))),
    )


@dataclass(frozen=True, kw_only=True)
class PodGroup(Meta):
    """A PodGroup (scheduling/PG-1, PG-2). ``has_status``: somebody had written its status when it was observed."""

    min_member: int = 0
    min_task_member: Mapping[str, int] = field(default_factory=dict)
    queue: str = "default"
    priority_class: str = ""
    min_resources: Mapping[str, Any] | None = None
    phase: str = ""
    has_status: bool = False
    automatic: bool = False
    spec: Json = field(default_factory=dict)


def pod_group(item: Json, version: str = "") -> PodGroup:
    """Parse a projected PodGroup."""
    spec, status = mapping(item.get("spec")), mapping(item.get("status"))
    meta = _meta(item, version)
    return PodGroup(
        **meta,
        min_member=integer(spec.get("minMember"), 0),
        min_task_member={role: integer(count, 0) for role, count in mapping(spec.get("minTaskMember")).items()},
        queue=text(spec.get("queue")) or "default",
        priority_class=text(spec.get("priorityClassName")),
        min_resources=_optional(spec.get("minResources")),
        phase=text(status.get("phase")),
        has_status=bool(status),
        automatic=meta["name"].startswith("podgroup-"),
        spec=spec,
    )


@dataclass(frozen=True, kw_only=True)
class Queue(Meta):
    """A Queue (scheduling/Q-1). Resource lists are as written; None where absent."""

    weight: int = 1
    capability: Mapping[str, Any] | None = None
    deserved: Mapping[str, Any] | None = None
    guarantee: Mapping[str, Any] | None = None
    reclaimable: bool = True
    priority: int = 0
    parent: str = ""
    state: str = ""

    @property
    def open(self) -> bool:
        return self.state in ("", "Open")


def queue(item: Json, version: str = "") -> Queue:
    """Parse a projected Queue."""
    spec, status = mapping(item.get("spec")), mapping(item.get("status"))
    return Queue(
        **_meta(item, version),
        capability=_optional(spec.get("capability")),
        deserved=_optional(spec.get("deserved")),
        guarantee=_optional(mapping(spec.get("guarantee")).get("resource")),
        weight=max(integer(spec.get("weight"), 1), 1),
        reclaimable=spec.get("reclaimable") is not False,
        priority=integer(spec.get("priority"), 0),
        parent=text(spec.get("parent")),
        state=text(status.get("state")),
    )


@dataclass(frozen=True, kw_only=True)
class PriorityClass(Meta):
    """A PriorityClass."""

    value: int = 0
    global_default: bool = False
    preemption_policy: str = ""


def priority_class(item: Json, version: str = "") -> PriorityClass:
    """Parse a projected PriorityClass."""
    return PriorityClass(
        **_meta(item, version),
        value=integer(item.get("value"), 0),
        global_default=item.get("globalDefault") is True,
        preemption_policy=text(item.get("preemptionPolicy")),
    )


@dataclass(frozen=True, kw_only=True)
class ConfigMap(Meta):
    """A ConfigMap: its texts by key."""

    data: Mapping[str, str] = field(default_factory=dict)


def config_map(item: Json, version: str = "") -> ConfigMap:
    """Parse a projected ConfigMap."""
    return ConfigMap(**_meta(item, version), data=texts(item.get("data")))


@dataclass(frozen=True, kw_only=True)
class Other(Meta):
    """An object of a kind that the core only looks things up in (namespaces, quotas, volumes): as the API gives it."""

    content: Json = field(default_factory=dict)


def other(item: Json, version: str = "") -> Other:
    """Parse any other projected object."""
    return Other(**_meta(item, version), content=item)
