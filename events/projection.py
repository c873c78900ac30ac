"""What of an API object may reach the log: the projection of each kind, by named fields only.

Each kind has a *shape*: a nested table that names the fields to keep. What a shape does not name never reaches the
log: environment, secrets, images, container statuses, managed fields, unknown annotations. The result has the form
of the API's own JSON, so that ``scheduling.objects`` reads it as it would read the object itself.

Nothing here fails: a field of the wrong type is left out or kept as it is written, since the reader of the field is
the one who must refuse it by name. Floats become text, because a record holds none. ``metadata.resourceVersion`` is
not part of a projection, it travels as ``Observed.version``.

``compare_key`` leaves out what moves without meaning for a decision: the echo of our own writes (a PodGroup's phase),
the node agent's marks, the node locks. A record is appended only if the key changed (design section 3).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from events import canonical, kinds, names
from events.canonical import Json
from events.kinds import Kind
from events.reading import mapping

#: How deep the parts that are kept whole (affinity, selectors) may be nested; the API's own need about 12.
MAX_DEPTH: Final = 24

#: Integers from here on are kept as text (a record holds at most 18 digits), monstrous ones in hexadecimal.
_INTEGER_LIMIT: Final = 10**18
_PREEMPTS: Final = "PreemptLowerPriority"  # the policy of a pod that names none
_DECIMAL_BITS_MAX: Final = 1024


#: Namespace and name of a ConfigMap, and the key that is read.
ConfigKey: TypeAlias = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Scope:
    """Which pods and ConfigMaps are observed: our scheduler names, and where the two configurations are."""

    scheduler_names: tuple[str, ...] = names.SCHEDULER_NAMES
    scheduler_config: ConfigKey = names.SCHEDULER_CONFIG
    device_config: ConfigKey = names.DEVICE_CONFIG

    @property
    def config_maps(self) -> tuple[ConfigKey, ConfigKey]:
        return self.scheduler_config, self.device_config


DEFAULT_SCOPE: Final = Scope()


def scope_in(config: Json) -> Scope:
    """Return the scope that a watcher's effective configuration says; what it does not say is the usual."""
    named = config.get("scheduler_names")
    served = tuple(name for name in named if isinstance(name, str)) if isinstance(named, list) else ()
    return Scope(
        served or names.SCHEDULER_NAMES,
        _config_key(config.get("scheduler_config"), names.SCHEDULER_CONFIG),
        _config_key(config.get("device_config"), names.DEVICE_CONFIG),
    )


def _config_key(found: Any, usual: ConfigKey) -> ConfigKey:
    part = mapping(found)
    namespace, name, key = (part.get(field) for field in ("namespace", "name", "key"))
    if isinstance(namespace, str) and isinstance(name, str) and isinstance(key, str):
        return namespace, name, key
    return usual


# --- shapes ---------------------------------------------------------------------------------------------------------
# A shape is True (the value as it is), a dict (these fields of an object), or a list of one dict (of each item).

_ANY: Final = True
_OWNER = {"apiVersion": _ANY, "kind": _ANY, "name": _ANY, "uid": _ANY, "controller": _ANY}
_META = {
    "name": _ANY,
    "namespace": _ANY,
    "uid": _ANY,
    "creationTimestamp": _ANY,
    "deletionTimestamp": _ANY,
    "labels": _ANY,
    "annotations": _ANY,
    "ownerReferences": [_OWNER],
}
_PORT = {"hostPort": _ANY, "hostIP": _ANY, "protocol": _ANY}
_CONTAINER = {
    "name": _ANY,
    "resources": {"limits": _ANY, "requests": _ANY},
    "ports": [_PORT],
    "restartPolicy": _ANY,
}
_POD = {
    "metadata": _META,
    "spec": {
        "nodeName": _ANY,
        "schedulerName": _ANY,
        "priority": _ANY,
        "priorityClassName": _ANY,
        "preemptionPolicy": _ANY,
        "containers": [_CONTAINER],
        "initContainers": [_CONTAINER],
        "overhead": _ANY,
        "nodeSelector": _ANY,
        "affinity": _ANY,
        "tolerations": _ANY,
        "schedulingGates": [{"name": _ANY}],
        "topologySpreadConstraints": _ANY,
        "volumes": [{"name": _ANY, "persistentVolumeClaim": {"claimName": _ANY}, "ephemeral": {}}],
    },
    "status": {"phase": _ANY, "nominatedNodeName": _ANY},
}
_NODE = {
    "metadata": _META,
    "spec": {"unschedulable": _ANY, "taints": [{"key": _ANY, "value": _ANY, "effect": _ANY}]},
    "status": {"allocatable": _ANY, "capacity": _ANY},
}
_POD_GROUP = {
    "metadata": _META,
    "spec": {
        "minMember": _ANY,
        "minTaskMember": _ANY,
        "queue": _ANY,
        "priorityClassName": _ANY,
        "minResources": _ANY,
        "networkTopology": _ANY,
        "subGroupPolicy": _ANY,
    },
    # The phase, and whether there is any more: a status that nobody has written yet can be written without reading.
    "status": {"phase": _ANY, "conditions": [{"type": _ANY}], "running": _ANY, "succeeded": _ANY, "failed": _ANY},
}
_QUEUE = {
    "metadata": _META,
    "spec": {
        "weight": _ANY,
        "capability": _ANY,
        "deserved": _ANY,
        "guarantee": _ANY,
        "reclaimable": _ANY,
        "priority": _ANY,
        "parent": _ANY,
        "dequeueStrategy": _ANY,
    },
    "status": {"state": _ANY},
}
_CLAIM = {
    "metadata": _META,
    "spec": {
        "volumeName": _ANY,
        "storageClassName": _ANY,
        "accessModes": _ANY,
        "volumeMode": _ANY,
        "selector": _ANY,
        "resources": {"requests": _ANY},
    },
    "status": {"phase": _ANY},
}
_VOLUME = {
    "metadata": _META,
    "spec": {
        "capacity": _ANY,
        "accessModes": _ANY,
        "volumeMode": _ANY,
        "storageClassName": _ANY,
        "claimRef": {"namespace": _ANY, "name": _ANY, "uid": _ANY},
        "nodeAffinity": _ANY,
        "csi": {"driver": _ANY},
    },
    "status": {"phase": _ANY},
}
_SHAPES: Final[Mapping[Kind, Json]] = {
    kinds.POD: _POD,
    kinds.NODE: _NODE,
    kinds.POD_GROUP: _POD_GROUP,
    kinds.QUEUE: _QUEUE,
    kinds.NAMESPACE: {"metadata": _META},
    kinds.CONFIG_MAP: {"metadata": _META, "data": _ANY},
    kinds.RESOURCE_QUOTA: {"metadata": _META, "spec": {"hard": _ANY}},
    kinds.PERSISTENT_VOLUME: _VOLUME,
    kinds.PERSISTENT_VOLUME_CLAIM: _CLAIM,
    kinds.STORAGE_CLASS: {
        "metadata": _META,
        "provisioner": _ANY,
        "volumeBindingMode": _ANY,
        "allowedTopologies": _ANY,
    },
    kinds.PRIORITY_CLASS: {"metadata": _META, "value": _ANY, "globalDefault": _ANY, "preemptionPolicy": _ANY},
}

_ANNOTATION_PREFIXES: Final = ("volcano.sh/", "scheduling.volcano.sh/", "scheduling.k8s.io/", "gpuledger.dev/")
_ANNOTATION_KEYS: Final = frozenset(
    {
        names.USE_GPU_TYPE,
        names.NOUSE_GPU_TYPE,
        names.VGPU_NODE_LOCK,
        names.GPUSHARE_NODE_LOCK,
        "sla-waiting-time",
        "volume.kubernetes.io/selected-node",
    }
)
#: Of no meaning to us: what node agents write again and again (devices/C-26), what only they read, the binder's mark.
_ANNOTATIONS_LEFT_OUT: Final = frozenset(
    {
        "volcano.sh/node-vgpu-handshake",
        "volcano.sh/node-vgpu-reported",
        names.BIND_PHASE,
        names.BIND_TIME,
        names.PREDICATE_TIME,
        names.REFUSED,
        *names.LOCK_MARKS.values(),
    }
)
#: Means nothing on a pod without a node (devices/A-7a); ``vgpu-node`` alone is enough to find it (devices/A-7b).
_ALLOCATION_MARKS: Final = frozenset({names.VGPU_IDS, names.VGPU_TIME, names.GPU_INDEX})
#: Moved by the node agent or by our own binder, without meaning for a decision.
_ECHOED_ANNOTATIONS: Final = frozenset(
    {
        names.VGPU_TIME,
        names.VGPU_NODE_LOCK,
        names.GPUSHARE_NODE_LOCK,
    }
)


# --- public ---------------------------------------------------------------------------------------------------------


def project(kind: Kind, item: Json, scope: Scope = DEFAULT_SCOPE) -> Json:
    """Return what of an object of this kind may reach the log; absent fields stay absent."""
    found = _pick(_SHAPES.get(kind, {"metadata": _META}), item)
    kept = found if isinstance(found, dict) else {}
    meta = kept.get("metadata")
    if isinstance(meta, dict) and "annotations" in meta:
        _replace(meta, "annotations", _annotations(meta["annotations"]))
    if kind is kinds.POD:
        _trim_pod(kept)
    if kind is kinds.CONFIG_MAP:
        _replace(kept, "data", _texts_of(kept.get("data"), _data_keys(scope)))
    return kept


def relevant(kind: Kind, item: Json, scope: Scope = DEFAULT_SCOPE) -> bool:
    """Tell whether an object is observed at all.

    Pods of other schedulers only once they are assigned (scheduling/AS-2). ConfigMaps only the configured ones and
    those that hold one of their keys: ``deviceshare.KnownGeometriesCMName`` (devices/P-7) may name another one.
    """
    meta, spec = mapping(item.get("metadata")), mapping(item.get("spec"))
    if not isinstance(meta.get("name"), str) or not meta["name"]:
        return False
    if kind is kinds.POD:
        return _assigned(spec) or spec.get("schedulerName") in scope.scheduler_names
    if kind is kinds.CONFIG_MAP:
        named = any((meta.get("namespace"), meta["name"]) == entry[:2] for entry in scope.config_maps)
        return named or bool(_texts_of(item.get("data"), _data_keys(scope)))
    return True


def compare_key(kind: Kind, projection: Json) -> bytes:
    """Return the canonical bytes of a projection without what only echoes our own writes or the node agent's."""
    if kind is kinds.POD_GROUP:
        projection = {key: value for key, value in projection.items() if key != "status"}
    meta = mapping(projection.get("metadata"))
    notes = mapping(meta.get("annotations"))
    if not _ECHOED_ANNOTATIONS.isdisjoint(notes):
        rest = {key: value for key, value in notes.items() if key not in _ECHOED_ANNOTATIONS}
        meta = {key: value for key, value in meta.items() if key != "annotations"} | (
            {"annotations": rest} if rest else {}
        )
        projection = {**projection, "metadata": meta}
    return canonical.trusted(projection)


def list_digest(uids: Iterable[str]) -> str:
    """Return the digest of a list's uids as ``ListEnd`` carries it: SHA-256 of them, sorted, one a line."""
    text = "".join(f"{uid}\n" for uid in sorted(uids))
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def version_number(version: str) -> int | None:
    """Return a resourceVersion as a number, or None if it is none (scheduling/F-4a compares numbers only)."""
    return int(version) if version.isascii() and version.isdigit() and len(version) <= 40 else None


def newer(version: str, than: str) -> bool:
    """Compare resourceVersions as numbers (scheduling/F-4a); what is no number is taken as newer."""
    here, there = version_number(version), version_number(than)
    return here is None or there is None or here > there


# --- parts ----------------------------------------------------------------------------------------------------------


def _pick(shape: Any, value: Any) -> Any:
    """Return the part of a value that a shape names; None where nothing of it is left."""
    if shape is _ANY:
        return plain(value)
    if isinstance(shape, list):
        if not isinstance(value, list):
            return None
        return [_pick(shape[0], item) for item in value if isinstance(item, dict)]
    if not isinstance(value, dict):
        return None
    found = {}
    for field, inner in shape.items():
        if field in value:
            part = _pick(inner, value[field])
            if part is not None:
                found[field] = part
    return found


def plain(value: Any, depth: int = MAX_DEPTH) -> Any:
    """Return a JSON value that a record may hold: no floats, no keys but texts, no endless nesting or numbers."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return value if -_INTEGER_LIMIT < value < _INTEGER_LIMIT else _long_number(value)
    if isinstance(value, float):
        return repr(value)
    if depth <= 0:
        return None
    if isinstance(value, dict):
        return {key: plain(item, depth - 1) for key, item in value.items() if isinstance(key, str)}
    if isinstance(value, list | tuple):
        return [plain(item, depth - 1) for item in value]
    return str(value)


def _long_number(value: int) -> str:
    return str(value) if value.bit_length() <= _DECIMAL_BITS_MAX else hex(value)


def _assigned(spec: Json) -> bool:
    return isinstance(spec.get("nodeName"), str) and bool(spec["nodeName"])


def _replace(item: Json, field: str, value: Json) -> None:
    """Set a field, or remove it if nothing is left of it."""
    item.pop(field, None)
    if value:
        item[field] = value


def _annotations(value: Any) -> Json:
    return {
        key: text
        for key, text in mapping(value).items()
        if isinstance(text, str)
        and key not in _ANNOTATIONS_LEFT_OUT
        and (key in _ANNOTATION_KEYS or key.startswith(_ANNOTATION_PREFIXES))
    }


def _data_keys(scope: Scope) -> frozenset[str]:
    return frozenset(key for _, _, key in scope.config_maps)


def _texts_of(value: Any, keys: frozenset[str]) -> Json:
    return {key: text for key, text in mapping(value).items() if key in keys and isinstance(text, str)}


def _trim_pod(kept: Json) -> None:
    """Drop what of a pod means nothing: marks without a node, the work list, defaults, ports that bind no host."""
    meta, spec = mapping(kept.get("metadata")), mapping(kept.get("spec"))
    if isinstance(meta.get("annotations"), dict):
        _replace(meta, "annotations", _pod_annotations(meta["annotations"], _assigned(spec)))
    if spec.get("preemptionPolicy") == _PREEMPTS:
        del spec["preemptionPolicy"]
    for field in ("containers", "initContainers"):
        for container in spec.get(field, ()):
            ports = [port for port in container.pop("ports", ()) if port.get("hostPort")]
            if ports:
                container["ports"] = ports
    if isinstance(spec.get("volumes"), list):
        claims = [volume for volume in spec["volumes"] if len(volume) > 1]
        spec.pop("volumes")
        if claims:
            spec["volumes"] = claims


def _pod_annotations(notes: Json, assigned: bool) -> Json:
    """An assigned pod's work list is the node agent's; on an unassigned one only its presence counts (A-7b)."""
    if assigned:
        return {key: text for key, text in notes.items() if key != names.DEVICES_TO_ALLOCATE}
    kept = {key: text for key, text in notes.items() if key not in _ALLOCATION_MARKS}
    if names.DEVICES_TO_ALLOCATE in kept:
        kept[names.DEVICES_TO_ALLOCATE] = ""
    return kept
