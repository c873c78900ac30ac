"""The API server's defaulting: what an object is given where it says nothing.

It runs on every object that comes in, also on one that a simulation writes past validation; so it never fails, and
leaves alone what has the wrong type. It is idempotent, and never replaces what is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from events.canonical import Json
from events.kinds import (
    BATCH_JOB,
    DAEMON_SET,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    REPLICA_SET,
    RESOURCE_QUOTA,
    SECRET,
    SERVICE,
    STATEFUL_SET,
    STORAGE_CLASS,
    VOLCANO_JOB,
    Kind,
)  # fmt: skip
from scheduling import quantity
from services.cluster.reading import mapping, mappings

ROOT_QUEUE, DEFAULT_QUEUE = "root", "default"


def apply(kind: Kind, item: Json) -> None:
    """Complete an object in place."""
    item["apiVersion"], item["kind"] = kind.api_version, kind.name
    meta = item["metadata"]
    if kind.namespaced and not meta.get("namespace"):
        meta["namespace"] = "default"
    for empty in ("labels", "annotations"):
        if empty in meta and not meta[empty]:
            del meta[empty]
    if kind in _BY_KIND:
        _BY_KIND[kind](item)


def _under(item: Json, key: str) -> Json | None:
    """Return the mapping at a key, made if it is absent; None if something else stands there."""
    value = item.get(key)
    if value is None:
        value = item[key] = {}
    return value if isinstance(value, dict) else None


def _set(item: Json | None, **defaults: Any) -> None:
    for key, value in defaults.items():
        if item is not None and item.get(key) is None:
            item[key] = value


def _texts_for_floats(amounts: Any) -> None:
    """Write a quantity that came as a floating-point number as text, since no number of ours has a fraction."""
    if isinstance(amounts, dict):
        for name, value in amounts.items():
            if isinstance(value, float):
                amounts[name] = repr(value)


def canonical_amounts(amounts: Any) -> None:
    """Write the quantities of a resource list as the server returns them; what is no quantity stays."""
    if isinstance(amounts, dict):
        for name, value in amounts.items():
            if quantity.parse(value) is not None:
                amounts[name] = quantity.canonical(value)


# Pods and their templates.


def _pod(item: Json) -> None:
    spec = _under(item, "spec")
    if spec is not None:
        pod_spec(spec)
        for container in mappings(spec.get("initContainers")) + mappings(spec.get("containers")):
            _requests_from_limits(container)
    status = _under(item, "status")
    _set(status, phase="Pending")
    if status is not None and spec is not None:
        _set(status, qosClass=_quality(spec))


def pod_spec(spec: Json) -> None:
    """Complete the spec of a pod or of a pod template."""
    _set(spec, restartPolicy="Always", dnsPolicy="ClusterFirst", schedulerName="default-scheduler",
         terminationGracePeriodSeconds=30, securityContext={}, enableServiceLinks=True)  # fmt: skip
    for container in mappings(spec.get("initContainers")) + mappings(spec.get("containers")):
        _container(container)
    _texts_for_floats(spec.get("overhead"))


def _container(container: Json) -> None:
    image = container.get("image")
    if isinstance(image, str):
        tag = image.rpartition("/")[2].partition(":")[2]
        pull = "Always" if tag in ("", "latest") and "@" not in image else "IfNotPresent"
        _set(container, imagePullPolicy=pull)
    _set(container, terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File", resources={})
    for port in mappings(container.get("ports")):
        _set(port, protocol="TCP")
    resources = container.get("resources")
    if isinstance(resources, dict):
        _texts_for_floats(resources.get("limits"))
        _texts_for_floats(resources.get("requests"))


def _requests_from_limits(container: Json) -> None:
    resources = container.get("resources")
    limits = resources.get("limits") if isinstance(resources, dict) else None
    if not isinstance(resources, dict) or not isinstance(limits, dict) or not limits:
        return
    requests = _under(resources, "requests")
    if requests is not None:
        for name, value in limits.items():
            requests.setdefault(name, value)


def _quality(spec: Json) -> str:
    """Return the pod's quality of service class, from its cpu and memory."""
    containers = mappings(spec.get("containers")) + mappings(spec.get("initContainers"))
    asked = [container.get("resources") or {} for container in containers]
    pairs = [
        (name, (side.get("requests") or {}).get(name), (side.get("limits") or {}).get(name))
        for side in asked
        if isinstance(side, dict) and all(isinstance(side.get(key) or {}, dict) for key in ("requests", "limits"))
        for name in ("cpu", "memory")
    ]
    if not any(request or limit for _, request, limit in pairs):
        return "BestEffort"
    sure = all(limit and quantity.parse(request) == quantity.parse(limit) for _, request, limit in pairs)
    return "Guaranteed" if sure else "Burstable"


def _template(item: Json) -> None:
    spec = item.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    inner = template.get("spec") if isinstance(template, dict) else None
    if isinstance(inner, dict):
        pod_spec(inner)


def _replica_set(item: Json) -> None:
    _set(_under(item, "spec"), replicas=1)
    _set(_under(item, "status"), replicas=0)
    _template(item)


def _stateful_set(item: Json) -> None:
    _set(_under(item, "spec"), replicas=1, podManagementPolicy="OrderedReady", revisionHistoryLimit=10)
    _set(_under(item, "status"), replicas=0, availableReplicas=0)
    _template(item)


def _daemon_set(item: Json) -> None:
    _set(_under(item, "spec"), revisionHistoryLimit=10)
    _set(_under(item, "status"), currentNumberScheduled=0, numberMisscheduled=0, desiredNumberScheduled=0,
         numberReady=0)  # fmt: skip
    _template(item)


def _batch_job(item: Json) -> None:
    _set(_under(item, "spec"), parallelism=1, completions=1, backoffLimit=6, completionMode="NonIndexed", suspend=False)
    _under(item, "status")
    _template(item)


# The other kinds.


def _node(item: Json) -> None:
    _under(item, "spec")
    status = _under(item, "status")
    if status is None:
        return
    for key in ("capacity", "allocatable"):
        _texts_for_floats(status.get(key))
    if status.get("allocatable") is None and isinstance(status.get("capacity"), dict):
        status["allocatable"] = dict(status["capacity"])


def _namespace(item: Json) -> None:
    _set(_under(item, "spec"), finalizers=["kubernetes"])
    _set(_under(item, "status"), phase="Active")
    labels, name = _under(item["metadata"], "labels"), item["metadata"].get("name")
    if labels is not None and name:
        labels.setdefault("kubernetes.io/metadata.name", name)


def _priority_class(item: Json) -> None:
    _set(item, preemptionPolicy="PreemptLowerPriority")


def _pod_group(item: Json) -> None:
    spec = _under(item, "spec")
    _set(spec, queue=DEFAULT_QUEUE)
    if spec is None:
        return
    _texts_for_floats(spec.get("minResources"))
    _topology(spec)
    for policy in mappings(spec.get("subGroupPolicy")):
        _set(policy, subGroupSize=1, minSubGroups=0)
        _topology(policy)


def _topology(spec: Json) -> None:
    topology = spec.get("networkTopology")
    if isinstance(topology, dict):
        _set(topology, mode="hard")


def _queue(item: Json) -> None:
    spec = _under(item, "spec")
    _set(spec, weight=1, reclaimable=True, priority=0, dequeueStrategy="traverse")
    if spec is None:
        return
    if item["metadata"].get("name") != ROOT_QUEUE and not spec.get("parent"):
        spec["parent"] = ROOT_QUEUE
    for key in ("capability", "deserved"):
        _texts_for_floats(spec.get(key))
    guarantee = spec.get("guarantee")
    if isinstance(guarantee, dict):
        _texts_for_floats(guarantee.get("resource"))


def _volcano_job(item: Json) -> None:
    spec = _under(item, "spec")
    _set(spec, queue=DEFAULT_QUEUE, maxRetry=3)
    if spec is None:
        return
    _topology(spec)
    for task in mappings(spec.get("tasks")):
        _set(task, replicas=1, maxRetry=3)
        partition, template = task.get("partitionPolicy"), task.get("template")
        if isinstance(partition, dict):
            _topology(partition)
        inner = template.get("spec") if isinstance(template, dict) else None
        for container in mappings(inner.get("containers")) if isinstance(inner, dict) else []:
            resources = container.get("resources")
            if isinstance(resources, dict):
                _texts_for_floats(resources.get("limits"))
                _texts_for_floats(resources.get("requests"))


def _service(item: Json) -> None:
    spec = _under(item, "spec")
    _set(spec, type="ClusterIP", sessionAffinity="None")
    for port in mappings((spec or {}).get("ports")):
        _set(port, protocol="TCP", targetPort=port.get("port"))
    _set(_under(item, "status"), loadBalancer={})


def _secret(item: Json) -> None:
    _set(item, type="Opaque")


def _volume(item: Json) -> None:
    _set(_under(item, "spec"), persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    _set(_under(item, "status"), phase="Pending")


def _claim(item: Json) -> None:
    _set(_under(item, "spec"), volumeMode="Filesystem")
    _set(_under(item, "status"), phase="Pending")


def _storage_class(item: Json) -> None:
    _set(item, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _quota(item: Json) -> None:
    spec = _under(item, "spec")
    _texts_for_floats((spec or {}).get("hard"))
    _under(item, "status")


_BY_KIND: dict[Kind, Callable[[Json], None]] = {
    POD: _pod, NODE: _node, NAMESPACE: _namespace, PRIORITY_CLASS: _priority_class, POD_GROUP: _pod_group,
    QUEUE: _queue, VOLCANO_JOB: _volcano_job, SERVICE: _service, SECRET: _secret, PERSISTENT_VOLUME: _volume,
    PERSISTENT_VOLUME_CLAIM: _claim, STORAGE_CLASS: _storage_class, RESOURCE_QUOTA: _quota, REPLICA_SET: _replica_set,
    STATEFUL_SET: _stateful_set, DAEMON_SET: _daemon_set, BATCH_JOB: _batch_job,
}  # fmt: skip


# Quantities as the server returns them.


def canonical(kind: Kind, item: Json) -> None:
    """Write the quantities of a core kind canonically, as the typed server does; custom resources keep their texts."""
    spec, status = mapping(item.get("spec")), mapping(item.get("status"))
    if kind == NODE:
        canonical_amounts(status.get("capacity"))
        canonical_amounts(status.get("allocatable"))
    elif kind == RESOURCE_QUOTA:
        canonical_amounts(spec.get("hard"))
    elif kind == POD:
        _canonical_containers(spec)
    elif kind in (REPLICA_SET, STATEFUL_SET, DAEMON_SET, BATCH_JOB):
        template = spec.get("template")
        inner = template.get("spec") if isinstance(template, dict) else None
        if isinstance(inner, dict):
            _canonical_containers(inner)
    elif kind == PERSISTENT_VOLUME:
        canonical_amounts(spec.get("capacity"))
    elif kind == PERSISTENT_VOLUME_CLAIM and isinstance(spec.get("resources"), dict):
        canonical_amounts(spec["resources"].get("requests"))


def _canonical_containers(spec: Json) -> None:
    for container in mappings(spec.get("initContainers")) + mappings(spec.get("containers")):
        resources = container.get("resources")
        if isinstance(resources, dict):
            canonical_amounts(resources.get("limits"))
            canonical_amounts(resources.get("requests"))
    canonical_amounts(spec.get("overhead"))
