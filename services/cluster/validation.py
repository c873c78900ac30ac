"""Validation at the front door: names, shapes, quantities, and what an update may not change.

What comes past it (a simulation's raw writes) is never judged again by an update that leaves the spec alone: such an
object comes from a cluster, or a time, that accepted it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from events.canonical import Json
from events.kinds import (
    COMMAND,
    CONFIG_MAP,
    DAEMON_SET,
    NODE,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    REPLICA_SET,
    RESOURCE_QUOTA,
    STATEFUL_SET,
    VOLCANO_JOB,
    Kind,
)  # fmt: skip
from scheduling import quantity
from services.cluster import metadata, placement
from services.cluster.reading import mapping, mappings
from services.cluster.refusal import Problems, bad_request

_DATA_KEY = re.compile(r"[-._a-zA-Z0-9]{1,253}", re.ASCII)
_QUANTITY_TEXT = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)  # fmt: skip
OBJECT_BYTES_MAX = 1024 * 1024  # a ConfigMap's or Secret's data
_CONTAINERS = ("initContainers", "containers")
_PULL = ["Always", "IfNotPresent", "Never"]
_PROTOCOLS = ["SCTP", "TCP", "UDP"]
_COUNTS = ("pods", "services", "secrets", "configmaps", "persistentvolumeclaims", "resourcequotas")
_STANDARD = ("cpu", "memory", "ephemeral-storage")
_QUOTAS = (*_COUNTS, *_STANDARD, "storage", "replicationcontrollers", "services.nodeports", "services.loadbalancers")
_NATIVE_PREFIXES = ("hugepages-", "requests.", "limits.")


def check(kind: Kind, item: Json) -> None:
    """Judge a new object. Raises Refused: 422 with every field at fault, 400 where the content has no such shape."""
    problems = Problems()
    metadata.check(kind, item["metadata"], problems)
    if kind in _SPECS:
        _SPECS[kind](item, problems)
    problems.refuse(kind, item["metadata"].get("name", ""))


def check_update(kind: Kind, new: Json, old: Json) -> None:
    """Judge a new form of an object: what is new in it, and that nothing changed that may not. Raises Refused (422)."""
    problems = Problems()
    metadata.check_update(new["metadata"], old["metadata"], problems)
    if kind == POD:
        _pod_update(new, old, problems)
    elif content(new) != content(old):
        try:
            if kind in _SPECS:
                _SPECS[kind](new, problems)
            _fixed_fields(kind, new, old, problems)
        except (AttributeError, TypeError):  # what came in past the door may have any shape
            problems.forbidden("spec", "it holds values of the wrong type, which must be put right at the same time")
    problems.refuse(kind, new["metadata"]["name"])


def content(item: Json) -> Json:
    """Return what an object says beside metadata and status."""
    return {key: value for key, value in item.items() if key not in ("metadata", "status")}


# Quantities.


def amounts(field: str, value: Any, problems: Problems, *, whole_extended: bool = False) -> None:
    """Judge a resource list: quantities, not negative, extended resources whole."""
    for name, amount in (value or {}).items():
        exact = quantity.parse(amount)
        if exact is None:
            problems.invalid(f"{field}[{name}]", amount, _QUANTITY_TEXT)
        elif exact < 0:
            problems.invalid(f"{field}[{name}]", str(amount), "must be greater than or equal to 0")
        elif whole_extended and is_extended(name) and exact.denominator != 1:
            problems.invalid(f"{field}[{name}]", str(amount), "must be an integer")


def is_extended(name: str) -> bool:
    """Whether a resource is one that a device plug-in brought: qualified, and not Kubernetes' own."""
    prefix, slash, _ = name.partition("/")
    return bool(slash) and not prefix.endswith("kubernetes.io") and not name.startswith(_NATIVE_PREFIXES)


def _resources(field: str, resources: Any, problems: Problems) -> None:
    limits, requests = (resources or {}).get("limits") or {}, (resources or {}).get("requests") or {}
    for side, names in (("limits", limits), ("requests", requests)):
        for name in names:
            if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
                why = "must be a standard resource type or fully qualified"
                problems.invalid(f"{field}.{side}[{name}]", name, why)
    amounts(f"{field}.limits", limits, problems, whole_extended=True)
    amounts(f"{field}.requests", requests, problems, whole_extended=True)
    for name, request in requests.items():
        asked, limit = quantity.parse(request), quantity.parse(limits[name]) if name in limits else None
        if is_extended(name) and name not in limits:
            problems.required(f"{field}.limits", "Limit must be set for non overcommitable resources")
        elif asked is None or limit is None:
            continue
        elif is_extended(name) and asked != limit:
            problems.invalid(f"{field}.requests", str(request), f"must be equal to {name} limit of {limits[name]}")
        elif asked > limit:
            shown = f"must be less than or equal to {name} limit of {limits[name]}"
            problems.invalid(f"{field}.requests", str(request), shown)


# Kinds.


def _pod(item: Json, problems: Problems) -> None:
    spec = item["spec"]
    if not spec.get("containers"):
        problems.required("spec.containers")
    seen: set[str] = set()
    for field in _CONTAINERS:
        for place, container in enumerate(spec.get(field) or []):
            _container(f"spec.{field}[{place}]", container, seen, problems)
    _supported(spec, "restartPolicy", ["Always", "OnFailure", "Never"], problems)
    _supported(spec, "dnsPolicy", ["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], problems)
    amounts("spec.overhead", spec.get("overhead"), problems)
    if spec.get("schedulingGates") and spec.get("nodeName"):
        problems.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")
    volumes = [volume.get("name") for volume in spec.get("volumes") or []]
    for place, name in enumerate(volumes):
        if not name:
            problems.required(f"spec.volumes[{place}].name")
        elif name in volumes[:place]:
            problems.duplicate(f"spec.volumes[{place}].name", name)
    for field in _CONTAINERS:
        for place, container in enumerate(spec.get(field) or []):
            for number, mount in enumerate(container.get("volumeMounts") or []):
                if mount.get("name") not in volumes:
                    problems.missing(f"spec.{field}[{place}].volumeMounts[{number}].name", mount.get("name"))
    metadata.selector("spec.nodeSelector", spec.get("nodeSelector") or {}, problems)
    placement.check(spec, problems)


def _container(field: str, container: Json, seen: set[str], problems: Problems) -> None:
    name = container.get("name")
    if not name:
        problems.required(f"{field}.name")
    elif not metadata.LABEL.fullmatch(name):
        problems.invalid(f"{field}.name", name, metadata.LABEL_TEXT)
    elif name in seen:
        problems.duplicate(f"{field}.name", name)
    seen.add(name or "")
    if not container.get("image"):
        problems.required(f"{field}.image")
    if (container.get("imagePullPolicy") or "Always") not in _PULL:
        problems.unsupported(f"{field}.imagePullPolicy", container["imagePullPolicy"], _PULL)
    _resources(f"{field}.resources", container.get("resources"), problems)
    for place, port in enumerate(container.get("ports") or []):
        _port(f"{field}.ports[{place}]", port, problems)
    for place, variable in enumerate(container.get("env") or []):
        if not variable.get("name"):
            problems.required(f"{field}.env[{place}].name")


def _port(field: str, port: Json, problems: Problems) -> None:
    number, outside = port.get("containerPort"), port.get("hostPort")
    if not number:
        problems.required(f"{field}.containerPort")
    for key, value in (("containerPort", number), ("hostPort", outside)):
        if value and not 0 < value < 65536:
            problems.invalid(f"{field}.{key}", value, "must be between 1 and 65535, inclusive")
    if (port.get("protocol") or "TCP") not in _PROTOCOLS:
        problems.unsupported(f"{field}.protocol", port["protocol"], _PROTOCOLS)


def _supported(spec: Json, key: str, known: list[str], problems: Problems) -> None:
    if spec.get(key) not in known:
        problems.unsupported(f"spec.{key}", spec.get(key), known)


def _node(item: Json, problems: Problems) -> None:
    status = item.get("status") or {}
    amounts("status.capacity", status.get("capacity"), problems)
    amounts("status.allocatable", status.get("allocatable"), problems)
    placement.taints(item["spec"].get("taints") or [], problems)


def _set(item: Json, problems: Problems) -> None:
    """Judge what makes pods by a template: a number of replicas, and a selector that finds them."""
    spec = item["spec"]
    replicas, template = spec.get("replicas") or 0, mapping(spec.get("template"))
    labels, selector = mapping(mapping(template.get("metadata")).get("labels")), mapping(spec.get("selector"))
    if replicas < 0:
        problems.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
    wanted = mapping(selector.get("matchLabels"))
    if not selector:
        problems.required("spec.selector")
    elif any(labels.get(key) != value for key, value in wanted.items()):
        problems.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")
    if not mappings(mapping(template.get("spec")).get("containers")):
        problems.required("spec.template.spec.containers")


def _config_map(item: Json, problems: Problems) -> None:
    size = 0
    for field in ("data", "binaryData"):
        for key, value in (item.get(field) or {}).items():
            size += len(value.encode("utf-8", "surrogatepass"))
            if key in (".", ".."):
                problems.invalid(f"{field}[{key}]", key, f"must not be '{key}'")
            elif not _DATA_KEY.fullmatch(key):
                problems.invalid(f"{field}[{key}]", key, "a valid config key must consist of alphanumeric characters, "
                                 "'-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for "
                                 "validation is '[-._a-zA-Z0-9]+')")  # fmt: skip
    if size > OBJECT_BYTES_MAX:
        problems.too_long("", OBJECT_BYTES_MAX)


def _priority_class(item: Json, problems: Problems) -> None:
    name, value = item["metadata"].get("name", ""), item.get("value", 0)
    if not name.startswith("system-") and value > 1_000_000_000:
        problems.forbidden("value", "maximum allowed value of a user defined priority is 1000000000")
    elif name.startswith("system-") and name not in SYSTEM_PRIORITIES:
        why = "priority class names with 'system-' prefix are reserved for system use only"
        problems.forbidden("metadata.name", why)
    known = ["Never", "PreemptLowerPriority"]
    if item.get("preemptionPolicy") not in known:
        problems.unsupported("preemptionPolicy", item.get("preemptionPolicy"), known)


#: Priority classes that exist in every cluster.
SYSTEM_PRIORITIES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def _quota(item: Json, problems: Problems) -> None:
    hard = item["spec"].get("hard") or {}
    amounts("spec.hard", hard, problems, whole_extended=True)
    for name, amount in hard.items():
        if "/" not in name and name not in _QUOTAS and not name.startswith(_NATIVE_PREFIXES):
            problems.invalid(f"spec.hard[{name}]", name, "must be a standard resource type or fully qualified")
        exact = quantity.parse(amount)
        counted = name in _COUNTS or name.startswith("count/")
        if counted and exact is not None and exact.denominator != 1:
            problems.invalid(f"spec.hard[{name}]", str(amount), "must be an integer")


def _least(problems: Problems, spec: Json, field: str, key: str, least: int, most: int = 2**31 - 1) -> None:
    """Judge a whole number of a custom resource against its bounds, in the words of a schema."""
    value = spec.get(key)
    if isinstance(value, int) and not least <= value <= most:
        side = f"greater than or equal to {least}" if value < least else f"less than or equal to {most}"
        problems.invalid(f"{field}.{key}", value, f"{field}.{key} in body should be {side}")


def _pod_group(item: Json, problems: Problems) -> None:
    spec = item["spec"]
    _least(problems, spec, "spec", "minMember", 0)
    mode = mapping(spec.get("networkTopology")).get("mode") or "hard"
    if mode not in ("hard", "soft"):
        problems.unsupported("spec.networkTopology.mode", mode, ["hard", "soft"])
    amounts("spec.minResources", spec.get("minResources"), problems)
    for name in spec.get("minTaskMember") or {}:
        _least(problems, spec["minTaskMember"], "spec.minTaskMember", name, 0)


def _volcano_job(item: Json, problems: Problems) -> None:
    spec = item["spec"]
    for key, least in (("minAvailable", 0), ("minSuccess", 1), ("maxRetry", 0), ("ttlSecondsAfterFinished", 0)):
        _least(problems, spec, "spec", key, least)
    for place, task in enumerate(spec.get("tasks") or []):
        for key in ("replicas", "minAvailable", "maxRetry"):
            _least(problems, task, f"spec.tasks[{place}]", key, 0)


def _queue(item: Json, problems: Problems) -> None:
    spec = item["spec"]
    _least(problems, spec, "spec", "weight", 1, 65535)
    _least(problems, spec, "spec", "priority", -(2**31))
    if spec.get("dequeueStrategy") not in ("traverse", "fifo"):
        problems.unsupported("spec.dequeueStrategy", spec.get("dequeueStrategy"), ["traverse", "fifo"])
    amounts("spec.capability", spec.get("capability"), problems)
    amounts("spec.deserved", spec.get("deserved"), problems)
    amounts("spec.guarantee.resource", (spec.get("guarantee") or {}).get("resource"), problems)


def _command(item: Json, problems: Problems) -> None:
    if not item.get("action"):
        problems.required("action")
    if "target" not in item:
        problems.required("target")
        return
    for key in ("apiVersion", "kind", "name", "uid"):
        if key not in item["target"]:
            problems.required(f"target.{key}")


_SPECS: dict[Kind, Callable[[Json, Problems], None]] = {
    POD: _pod, REPLICA_SET: _set, STATEFUL_SET: _set, DAEMON_SET: _set, NODE: _node,
    CONFIG_MAP: _config_map, PRIORITY_CLASS: _priority_class, RESOURCE_QUOTA: _quota,
    VOLCANO_JOB: _volcano_job,
    POD_GROUP: _pod_group, QUEUE: _queue, COMMAND: _command,
}  # fmt: skip


# Updates.

_POD_UPDATE_TEXT = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _pod_update(new: Json, old: Json, problems: Problems) -> None:
    before, after = old.get("spec") or {}, new.get("spec") or {}
    if before == after:
        return
    gates = before.get("schedulingGates") or []
    if any(gate not in gates for gate in after.get("schedulingGates") or []):
        problems.forbidden("spec.schedulingGates", "only deletion is allowed, but found new scheduling gates")
    tolerations = after.get("tolerations") or []
    if any(item not in tolerations for item in before.get("tolerations") or []):
        problems.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
    resized = [field for field in _CONTAINERS if len(before.get(field) or []) != len(after.get(field) or [])]
    for field in resized:
        problems.forbidden(f"spec.{field}", "pod updates may not add or remove containers")
    if not resized and _fixed(before, bool(gates)) != _fixed(after, bool(gates)):
        problems.forbidden("spec", _POD_UPDATE_TEXT)
    for field in _CONTAINERS:
        for place, container in enumerate(after.get(field) or []):
            if isinstance(container, dict) and not container.get("image"):
                problems.required(f"spec.{field}[{place}].image")


def _fixed(spec: Json, gated: bool) -> Json:
    """Return the part of a pod's spec that stands for good. Placement rules may still change while it is gated."""
    loose = {"tolerations", "activeDeadlineSeconds", "schedulingGates"}
    if gated:
        loose |= {"nodeSelector", "affinity"}
    fixed = {key: value for key, value in spec.items() if key not in loose}
    for field in _CONTAINERS:
        if isinstance(fixed.get(field), list):
            fixed[field] = [
                {key: value for key, value in item.items() if key not in ("image", "imagePullPolicy")}
                if isinstance(item, dict) else item
                for item in fixed[field]
            ]  # fmt: skip
    return fixed


def _fixed_fields(kind: Kind, new: Json, old: Json, problems: Problems) -> None:
    if kind == PRIORITY_CLASS and new.get("value") != old.get("value"):
        problems.forbidden("value", "may not be changed in an update.")
    if new.get("immutable") is not None or old.get("immutable"):
        if old.get("immutable") and not new.get("immutable"):
            problems.forbidden("immutable", "field is immutable when `immutable` is set")
        if old.get("immutable") and any(new.get(key) != old.get(key) for key in ("data", "binaryData", "stringData")):
            problems.forbidden("data", "field is immutable when `immutable` is set")
    if kind == NODE and old["spec"].get("providerID") not in (None, "", new["spec"].get("providerID")):
        problems.forbidden("spec.providerID", 'node updates may not change providerID except from "" to valid')


def coordinates(kind: Kind, item: Any, namespace: str, name: str) -> Json:
    """Judge that a body is an object of this kind, meant for this place; return it. Raises Refused (400)."""
    if not isinstance(item, dict):
        raise bad_request(f"the body of the request must be a {kind.name} object, not {type(item).__name__}")
    given = (item.get("apiVersion") or kind.api_version, item.get("kind") or kind.name)
    if given != (kind.api_version, kind.name):
        raise bad_request(f"the API version and kind in the data ({given[0]}, {given[1]}) do not match the expected "
                          f"({kind.api_version}, {kind.name})")  # fmt: skip
    meta = item.get("metadata", {})
    if meta is None:
        meta = item["metadata"] = {}
    if not isinstance(meta, dict):
        raise bad_request(f"{kind.name}: metadata: must be a mapping, not {type(meta).__name__}")
    item.setdefault("metadata", meta)
    for key in ("name", "namespace", "generateName", "uid", "resourceVersion"):
        if meta.get(key) is not None and not isinstance(meta[key], str):
            raise bad_request(f"{kind.name}: metadata.{key}: must be a string, not {type(meta[key]).__name__}")
    if kind.namespaced and meta.get("namespace") not in (None, "", namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    if not kind.namespaced and meta.get("namespace"):
        raise bad_request("namespace is not allowed on this type: the object is cluster-scoped")
    if name and meta.get("name") not in (None, "", name):
        raise bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({name})")
    return item


def annotations_of(value: Any) -> dict[str, str]:
    """Judge the annotations that a Binding brings; return them. Raises Refused (400)."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad_request("Binding: metadata.annotations: must be a mapping")
    for key, text in value.items():
        if not isinstance(text, str):
            raise bad_request(f"Binding: metadata.annotations[{key}]: must be a string, not {type(text).__name__}")
    return dict(value)
