"""What only pods have: binding, eviction, logs. And the scale of replica sets.

A Binding is applied whole or not at all: node, annotations and the PodScheduled condition, under the uid and
resourceVersion that it names (design section 4).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from events.canonical import Json
from events.kinds import NODE, POD
from services.cluster import patches, reading
from services.cluster.deletes import Deletes
from services.cluster.reading import mapping, mappings
from services.cluster.refusal import Refused, bad_request, conflict, not_found, success
from services.cluster.routes import Request, Response, Target
from services.cluster.store import Store
from services.cluster.validation import annotations_of
from services.cluster.writes import Writes

#: Returns the log of a pod's container (pod, container name).
Logs = Callable[[Json, str], str]


def no_logs(pod: Json, container: str) -> str:
    return ""


class Pods:
    """The subresources of pods, on one store."""

    def __init__(self, store: Store, writes: Writes, deletes: Deletes, logs: Logs) -> None:
        self._store, self._writes, self._deletes, self.logs = store, writes, deletes, logs

    def _pod(self, target: Target) -> Json:
        pod = self._store.get(POD, target.namespace, target.name)
        if pod is None:
            raise not_found(POD, target.name)
        return pod

    def bind(self, target: Target, request: Request) -> Response:
        """Assign a pod to a node. Raises Refused: 404, 409 if it is assigned or not as expected, 422."""
        binding, meta = _meant_for("Binding", target, request.body)
        node = _node_of(binding, target.name)
        annotations = annotations_of(meta.get("annotations"))
        pod = self._pod(target)
        self._judge(pod, target.name, meta)
        bound = _bound(pod, node, annotations, self._store.now())
        if not request.dry_run:
            existed = self._store.get(NODE, "", node) is not None
            uid = pod["metadata"].get("uid")
            self._store.accept_binding(uid if isinstance(uid, str) else "", node, existed)
            self._store.write(POD, bound)
        return Response(201, success(201))

    def _judge(self, pod: Json, name: str, wanted: Json) -> None:
        meta, spec = pod["metadata"], reading.spec(pod)
        for key, shown in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
            if wanted.get(key) and wanted[key] != meta.get(key):
                path = f"/registry/pods/{meta.get('namespace', '')}/{name}"
                why = f"{shown} in precondition: {wanted[key]}, {shown} in object meta: {meta.get(key, '')}"
                raise conflict(POD, name, f"StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, "
                               f"AdditionalErrorMsg: Precondition failed: {why}")  # fmt: skip
        if meta.get("deletionTimestamp"):
            why = f"pod {name} is being deleted, cannot be assigned to a host"
        elif spec.get("nodeName"):
            why = f'pod {name} is already assigned to node "{spec["nodeName"]}"'
        elif spec.get("schedulingGates"):
            why = f"pod {name} has non-empty .spec.schedulingGates"
        else:
            return
        raise conflict(POD, name, why, "pods/binding")

    def evict(self, target: Target, request: Request) -> Response:
        """End a pod by its eviction subresource."""
        body, _ = _meant_for("Eviction", target, request.body)
        pod = self._pod(target)
        if not request.dry_run:
            pod = self._store.write(POD, _evicted(pod, self._store.now()))
        options = body.get("deleteOptions")
        query = {key: value for key, value in request.query.items() if key == "dryRun"}
        self._deletes.delete(Target(POD, target.namespace, pod["metadata"]["name"]),
                             Request("DELETE", request.path, query, options, client=request.client))  # fmt: skip
        return Response(201, success(201))

    def log(self, target: Target, request: Request) -> Response:
        """Return a container's log as text."""
        pod = self._pod(target)
        spec = reading.spec(pod)
        main = [str(item.get("name")) for item in mappings(spec.get("containers"))]
        names = [str(item.get("name")) for item in mappings(spec.get("initContainers"))] + main
        container = request.query.get("container", "") or (main[0] if len(main) == 1 else "")
        if not container:
            raise bad_request(f"a container name must be specified for pod {target.name}, choose one of: {names}")
        if container not in names:
            raise bad_request(f"container {container} is not valid for pod {target.name}")
        if not spec.get("nodeName"):
            raise bad_request(f"pod {target.name} does not have a host assigned")
        return Response(200, {}, text=_tail(self.logs(pod, container), request))

    # Scale.

    def scale(self, target: Target, item: Json, request: Request) -> Response:
        """Read or write the number of replicas of a set."""
        if request.method == "GET":
            return Response(200, _scale_of(item))
        scale = request.body
        if request.method == "PATCH":
            scale = (patches.json_patch(_scale_of(item), request.body) if request.content_type == patches.JSON_PATCH
                     else patches.merge(_scale_of(item), request.body))  # fmt: skip
        spec = scale.get("spec") if isinstance(scale, dict) else None
        replicas = spec.get("replicas", 0) if isinstance(spec, dict) else None
        if not isinstance(replicas, int) or isinstance(replicas, bool):
            raise bad_request("Scale: spec.replicas: must be a whole number")
        if replicas < 0:
            message = (f'Scale.autoscaling "{target.name}" is invalid: spec.replicas: Invalid value: {replicas}: must '
                       "be greater than or equal to 0")  # fmt: skip
            raise Refused(422, "Invalid", message)
        wanted = mapping(scale.get("metadata")).get("resourceVersion")
        changed = patches.merge(item, {"spec": {"replicas": replicas}})
        changed["metadata"] = {**changed["metadata"], "resourceVersion": wanted or item["metadata"]["resourceVersion"]}
        main = Target(target.kind, target.namespace, target.name)
        return Response(200, _scale_of(self._writes.change(main, changed, item, dry_run=request.dry_run)))


def _meant_for(kind: str, target: Target, body: Any) -> tuple[Json, Json]:
    """Judge that a body is of this kind and names the pod of the path; return it and its metadata. Raises Refused."""
    if not isinstance(body, dict) or (body.get("kind") or kind) != kind:
        raise bad_request(f"the body of the request must be a {kind} object")
    meta = body.get("metadata") or {}
    if not isinstance(meta, dict):
        raise bad_request(f"{kind}: metadata: must be a mapping")
    if meta.get("name") != target.name:
        raise bad_request(f"name in URL does not match name in {kind} object")
    if meta.get("namespace") not in (None, "", target.namespace):
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    return body, meta


def _node_of(binding: Json, name: str) -> str:
    target = binding.get("target")
    node = target.get("name") if isinstance(target, dict) else None
    kind = target.get("kind") if isinstance(target, dict) else None
    if kind not in (None, "", "Node"):
        message = (f'Binding "{name}" is invalid: target.kind: Unsupported value: "{kind}": supported values: "Node", '
                   '"<empty>"')  # fmt: skip
        raise Refused(422, "Invalid", message)
    if not isinstance(node, str) or not node:
        raise Refused(422, "Invalid", f'Binding "{name}" is invalid: target.name: Required value')
    return node


def _bound(pod: Json, node: str, annotations: dict[str, str], now: str) -> Json:
    meta = dict(pod["metadata"])
    if annotations:
        meta["annotations"] = {**mapping(meta.get("annotations")), **annotations}
    status = dict(reading.status(pod))
    old = mappings(status.get("conditions"))
    condition: Json = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    before = next((item for item in old if item.get("type") == "PodScheduled"), None)
    if before is not None and before.get("status") == "True" and before.get("lastTransitionTime"):
        condition["lastTransitionTime"] = before["lastTransitionTime"]
    status["conditions"] = [item for item in old if item.get("type") != "PodScheduled"] + [condition]
    return {**pod, "metadata": meta, "spec": {**reading.spec(pod), "nodeName": node}, "status": status}


def _evicted(pod: Json, now: str) -> Json:
    """Return a pod whose conditions say why it ends."""
    condition = {"type": "DisruptionTarget", "status": "True", "lastProbeTime": None, "lastTransitionTime": now,
                 "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}  # fmt: skip
    status = dict(reading.status(pod))
    others = [item for item in mappings(status.get("conditions")) if item.get("type") != "DisruptionTarget"]
    return {**pod, "status": {**status, "conditions": [*others, condition]}}


def _tail(text: str, request: Request) -> str:
    lines = request.query.get("tailLines", "")
    if lines.isascii() and lines.isdigit() and len(lines) < 10:
        kept = text.splitlines(keepends=True)
        return "".join(kept[len(kept) - min(len(kept), int(lines)) :])
    return text


def _scale_of(item: Json) -> Json:
    meta = {key: item["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
            if key in item["metadata"]}  # fmt: skip
    spec, status = reading.spec(item), reading.status(item)
    labels = mapping(mapping(spec.get("selector")).get("matchLabels"))
    selector = ",".join(f"{key}={labels[key]}" for key in sorted(labels))
    return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": meta,
            "spec": {"replicas": spec.get("replicas", 1)},
            "status": {"replicas": status.get("replicas", 0), "selector": selector}}  # fmt: skip
