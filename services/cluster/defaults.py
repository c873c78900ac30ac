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
from services.cluster import pod_defaults
from services.cluster.filling import fill, texts_for_floats, under
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


def canonical_amounts(amounts: Any) -> None:
    """Write the quantities of a resource list as the server returns them; what is no quantity stays."""
    if isinstance(amounts, dict):
        for name, value in amounts.items():
            if quantity.parse(value) is not None:
                amounts[name] = quantity.canonical(value)


# Kinds.


def _template(item: Json) -> None:
    spec = item.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    inner = template.get("spec") if isinstance(template, dict) else None
    if isinstance(inner, dict):
        pod_defaults.pod_spec(inner)


def _replica_set(item: Json) -> None:
    fill(under(item, "spec"), replicas=1)
    fill(under(item, "status"), replicas=0)
    _template(item)


def _stateful_set(item: Json) -> None:
    fill(under(item, "spec"), replicas=1, podManagementPolicy="OrderedReady", revisionHistoryLimit=10)
    fill(under(item, "status"), replicas=0, availableReplicas=0)
    _template(item)


def _daemon_set(item: Json) -> None:
    fill(under(item, "spec"), revisionHistoryLimit=10)
    fill(under(item, "status"), currentNumberScheduled=0, numberMisscheduled=0, desiredNumberScheduled=0,
         numberReady=0)  # fmt: skip
    _template(item)


def _batch_job(item: Json) -> None:
    fill(under(item, "spec"), parallelism=1, completions=1, backoffLimit=6, completionMode="NonIndexed", suspend=False)
    under(item, "status")
    _template(item)


# The other kinds.


def _node(item: Json) -> None:
    under(item, "spec")
    status = under(item, "status")
    if status is None:
        return
    for key in ("capacity", "allocatable"):
        texts_for_floats(status.get(key))
    if status.get("allocatable") is None and isinstance(status.get("capacity"), dict):
        status["allocatable"] = dict(status["capacity"])


def _namespace(item: Json) -> None:
    fill(under(item, "spec"), finalizers=["kubernetes"])
    fill(under(item, "status"), phase="Active")
    labels, name = under(item["metadata"], "labels"), item["metadata"].get("name")
    if labels is not None and name:
        labels.setdefault("kubernetes.io/metadata.name", name)


def _priority_class(item: Json) -> None:
    fill(item, value=0, preemptionPolicy="PreemptLowerPriority")
    if item.get("globalDefault") is False:
        del item["globalDefault"]


def _pod_group(item: Json) -> None:
    spec = under(item, "spec")
    fill(spec, queue=DEFAULT_QUEUE)
    if spec is None:
        return
    texts_for_floats(spec.get("minResources"))
    _topology(spec)
    for policy in mappings(spec.get("subGroupPolicy")):
        fill(policy, subGroupSize=1, minSubGroups=0)
        _topology(policy)


def _topology(spec: Json) -> None:
    topology = spec.get("networkTopology")
    if isinstance(topology, dict):
        fill(topology, mode="hard")


def _queue(item: Json) -> None:
    spec = under(item, "spec")
    fill(spec, weight=1, reclaimable=True, priority=0, dequeueStrategy="traverse")
    if spec is None:
        return
    if item["metadata"].get("name") != ROOT_QUEUE and not spec.get("parent"):
        spec["parent"] = ROOT_QUEUE
    for key in ("capability", "deserved"):
        texts_for_floats(spec.get(key))
    guarantee = spec.get("guarantee")
    if isinstance(guarantee, dict):
        texts_for_floats(guarantee.get("resource"))


def _volcano_job(item: Json) -> None:
    spec = under(item, "spec")
    fill(spec, queue=DEFAULT_QUEUE, maxRetry=3)
    if spec is None:
        return
    _topology(spec)
    for task in mappings(spec.get("tasks")):
        fill(task, replicas=1, maxRetry=3)
        partition, template = task.get("partitionPolicy"), task.get("template")
        if isinstance(partition, dict):
            _topology(partition)
        inner = template.get("spec") if isinstance(template, dict) else None
        for container in mappings(inner.get("containers")) if isinstance(inner, dict) else []:
            resources = container.get("resources")
            if isinstance(resources, dict):
                texts_for_floats(resources.get("limits"))
                texts_for_floats(resources.get("requests"))


def _service(item: Json) -> None:
    spec = under(item, "spec")
    fill(spec, type="ClusterIP", sessionAffinity="None")
    for port in mappings((spec or {}).get("ports")):
        fill(port, protocol="TCP", targetPort=port.get("port"))
    fill(under(item, "status"), loadBalancer={})


def _secret(item: Json) -> None:
    fill(item, type="Opaque")


def _volume(item: Json) -> None:
    fill(under(item, "spec"), persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    fill(under(item, "status"), phase="Pending")


def _claim(item: Json) -> None:
    fill(under(item, "spec"), volumeMode="Filesystem")
    fill(under(item, "status"), phase="Pending")


def _storage_class(item: Json) -> None:
    fill(item, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _quota(item: Json) -> None:
    spec = under(item, "spec")
    texts_for_floats((spec or {}).get("hard"))
    under(item, "status")


_BY_KIND: dict[Kind, Callable[[Json], None]] = {
    POD: pod_defaults.pod, NODE: _node, NAMESPACE: _namespace, PRIORITY_CLASS: _priority_class, POD_GROUP: _pod_group,
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
