"""The shapes of the objects that a file may hold: kind, name, and the types of the fields that are read.

Only what the file alone shows is judged here. Whether a quantity, a register text or a configuration makes sense is for
the cluster: how the system takes it is what scenarios are for. Fields that are not named here are carried as they are.
"""

from __future__ import annotations

from typing import Any

from events import kinds
from services.simulator.document import DOCUMENT_KINDS, KIND_BY_WORD, Document
from services.simulator.judge import (
    Check,
    Judge,
    either,
    flag,
    is_whole,
    join,
    list_of,
    map_of,
    open_shape,
    optional,
    scalar,
    text,
)


def int32(value: Any, at: str, judge: Judge) -> None:
    """A number field of the API holds 32 bits."""
    if not is_whole(value) or not -(2**31) <= value < 2**31:
        judge.say(at, "must be a whole number of 32 bits")


_API_VERSIONS = {kind.name: kind.api_version for kind in DOCUMENT_KINDS}
_TEXTS = map_of(optional(text))
_QUANTITIES = map_of(scalar)
_OWNERS = list_of(open_shape(apiVersion=text, kind=text, name=text, uid=text, controller=flag))
_META = {
    "namespace": text, "uid": text, "creationTimestamp": text, "deletionTimestamp": text, "resourceVersion": scalar,
    "labels": _TEXTS, "annotations": _TEXTS, "ownerReferences": _OWNERS, "finalizers": list_of(text),
    "generation": either("a whole number", is_whole),
}  # fmt: skip


def _int_or_text(value: Any, at: str, judge: Judge) -> None:
    if not is_whole(value) and not isinstance(value, str):
        judge.say(at, "must be a whole number or text")


_EXPRESSIONS = list_of(open_shape(key=text, operator=text, values=list_of(scalar)))
_TERM = open_shape(matchExpressions=_EXPRESSIONS, matchFields=_EXPRESSIONS)
_NODE_AFFINITY = open_shape(
    requiredDuringSchedulingIgnoredDuringExecution=open_shape(nodeSelectorTerms=list_of(_TERM)),
    preferredDuringSchedulingIgnoredDuringExecution=list_of(open_shape(weight=int32, preference=_TERM)),
)
_POD_TERM = open_shape(
    labelSelector=open_shape(matchLabels=_TEXTS, matchExpressions=_EXPRESSIONS),
    topologyKey=text,
    namespaces=list_of(text),
)
_POD_AFFINITY = open_shape(
    requiredDuringSchedulingIgnoredDuringExecution=list_of(_POD_TERM),
    preferredDuringSchedulingIgnoredDuringExecution=list_of(open_shape(weight=int32, podAffinityTerm=_POD_TERM)),
)
_CONTAINER = open_shape(
    name=text, image=text, restartPolicy=text,
    resources=open_shape(limits=_QUANTITIES, requests=_QUANTITIES),
    ports=list_of(open_shape(hostPort=int32, containerPort=int32, protocol=text, hostIP=text)),
    env=list_of(open_shape(name=text)), command=list_of(scalar), args=list_of(scalar),
)  # fmt: skip
_POD_FIELDS: dict[str, Check] = {
    "schedulerName": text, "nodeName": text, "priorityClassName": text, "priority": int32, "preemptionPolicy": text,
    "containers": list_of(_CONTAINER), "initContainers": list_of(_CONTAINER), "nodeSelector": _TEXTS,
    "tolerations": list_of(open_shape(key=text, operator=text, value=scalar, effect=text)),
    "affinity": open_shape(nodeAffinity=_NODE_AFFINITY, podAffinity=_POD_AFFINITY, podAntiAffinity=_POD_AFFINITY),
    "topologySpreadConstraints": list_of(open_shape(maxSkew=int32, topologyKey=text, whenUnsatisfiable=text)),
    "schedulingGates": list_of(open_shape(name=text)), "overhead": _QUANTITIES, "restartPolicy": text,
    "volumes": list_of(open_shape(name=text)), "hostNetwork": flag,
}  # fmt: skip
_CONDITIONS = list_of(open_shape(type=text, status=text, reason=text, message=text))
_POD_SPEC = open_shape(**_POD_FIELDS)
_POD_STATUS = open_shape(phase=text, conditions=_CONDITIONS, nominatedNodeName=text, reason=text, message=text)

_POLICIES = list_of(open_shape(event=text, events=list_of(text), action=text, exitCode=int32, timeout=scalar))
_TASK = open_shape(
    name=text, replicas=int32, minAvailable=int32, policies=_POLICIES, maxRetry=int32,
    template=open_shape(metadata=open_shape(labels=_TEXTS, annotations=_TEXTS), spec=_POD_SPEC),
)  # fmt: skip
_JOB_SPEC = open_shape(
    minAvailable=int32, minSuccess=int32, queue=text, schedulerName=text, priorityClassName=text,
    maxRetry=int32, tasks=list_of(_TASK), policies=_POLICIES, plugins=map_of(optional(list_of(scalar))),
    ttlSecondsAfterFinished=int32, volumes=list_of(open_shape()),
)  # fmt: skip

#: By kind, the checks of its top-level fields besides ``metadata``.
_FIELDS: dict[str, dict[str, Check]] = {
    "Node": {
        "spec": open_shape(unschedulable=flag, taints=list_of(open_shape(key=text, value=scalar, effect=text))),
        "status": open_shape(allocatable=_QUANTITIES, capacity=_QUANTITIES, conditions=_CONDITIONS),
    },
    "Pod": {"spec": _POD_SPEC, "status": _POD_STATUS},
    "ConfigMap": {"data": _TEXTS, "binaryData": _TEXTS},
    "Namespace": {"spec": open_shape(), "status": open_shape(phase=text)},
    "PriorityClass": {
        "value": int32, "globalDefault": flag, "preemptionPolicy": text, "description": text,
    },
    "ResourceQuota": {
        "spec": open_shape(hard=_QUANTITIES, scopes=list_of(text)),
        "status": open_shape(hard=_QUANTITIES, used=_QUANTITIES),
    },
    "PodGroup": {
        "spec": open_shape(
            minMember=int32, minTaskMember=map_of(int32), queue=text, priorityClassName=text,
            minResources=_QUANTITIES, networkTopology=open_shape(), subGroupPolicy=list_of(open_shape()),
        ),
        "status": open_shape(phase=text, conditions=_CONDITIONS, running=int32, succeeded=int32, failed=int32),
    },
    "Queue": {
        "spec": open_shape(
            weight=int32, capability=_QUANTITIES, deserved=_QUANTITIES, reclaimable=flag, priority=int32,
            guarantee=open_shape(resource=_QUANTITIES), parent=text, type=text,
        ),
        "status": open_shape(state=text, allocated=_QUANTITIES),
    },
    "Job": {"spec": _JOB_SPEC, "status": open_shape(state=open_shape(phase=text))},
    "Command": {"action": text, "target": open_shape(apiVersion=text, kind=text, name=text, uid=text)},
}  # fmt: skip


def check_document(document: Document, judge: Judge) -> None:
    """Judge the content of an object document (a List with its items)."""
    content = document.content
    if not isinstance(content, dict):
        judge.say("", "must be a mapping")
    elif not document.is_list:
        _check_object(content, "", judge)
    elif content.get("apiVersion") != "v1":
        judge.say("apiVersion", "must be v1")
    else:
        list_of(_check_object)(content.get("items"), "items", judge)


def _check_object(item: Any, at: str, judge: Judge) -> None:
    if not isinstance(item, dict):
        judge.say(at, "must be a mapping")
        return
    kind = item.get("kind")
    if "kind" not in item or not isinstance(kind, str):
        judge.say(join(at, "kind"), "is missing" if "kind" not in item else "must be text")
    elif kind not in _API_VERSIONS:
        judge.say(join(at, "kind"), f"unknown kind {kind}")
    elif item.get("apiVersion") != _API_VERSIONS[kind]:
        judge.say(join(at, "apiVersion"), f"must be {_API_VERSIONS[kind]} for a {kind}")
    else:
        _check_meta(item.get("metadata"), join(at, "metadata"), judge)
        for field, check in _FIELDS[kind].items():
            if item.get(field) is not None:
                check(item[field], join(at, field), judge)


def _check_meta(meta: Any, at: str, judge: Judge) -> None:
    if not isinstance(meta, dict):
        judge.say(join(at, "name") if meta is None else at, "is missing" if meta is None else "must be a mapping")
        return
    name = meta.get("name")
    if name is None or name == "":
        judge.say(join(at, "name"), "is missing")
    elif not isinstance(name, str):
        judge.say(join(at, "name"), "must be text")
    elif "/" in name:
        judge.say(join(at, "name"), "must not hold a '/'")
    open_shape(**_META)(meta, at, judge)


def known_kind(value: Any, at: str, judge: Judge) -> None:
    """A kind as steps and assertions name it."""
    if not isinstance(value, str) or value not in KIND_BY_WORD:
        judge.say(at, f"unknown kind {value}")


def observed_kind(value: Any, at: str, judge: Judge) -> None:
    """A kind that has a watch."""
    if value not in [kind.name for kind in kinds.OBSERVED_KINDS]:
        judge.say(at, f"no kind that is watched: {value}")


def object_name(value: Any, at: str, judge: Judge) -> None:
    """``Kind/namespace/name``, or ``Kind/name`` for kinds without namespace."""
    parts = value.split("/") if isinstance(value, str) else []
    kind = KIND_BY_WORD.get(parts[0]) if parts else None
    if len(parts) > 1 and kind is None:
        judge.say(at, f"unknown kind {parts[0]}")
    elif kind is None or len(parts) != (3 if kind.namespaced else 2) or not all(parts):
        judge.say(at, "must be Kind/namespace/name, or Kind/name for a kind without namespace")


def pod_name(value: Any, at: str, judge: Judge) -> None:
    """``namespace/name``."""
    parts = value.split("/") if isinstance(value, str) else []
    if len(parts) != 2 or not all(parts):
        judge.say(at, "must be namespace/name")
