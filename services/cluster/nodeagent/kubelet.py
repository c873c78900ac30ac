"""What a kubelet writes about a pod: that it runs. Pure; times, addresses and ids follow from the pod and the clock."""

from __future__ import annotations

import hashlib
import uuid

from adapters.clock import rfc3339
from events.canonical import Json
from events.reading import items, mapping, meta, spec, status, text

#: The conditions of a pod that runs, in the order in which they come true.
_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
_NAMESPACE = uuid.UUID("0d9c7f0a-7b0e-5a55-9d0b-8f6d2f4a3c11")


def running(pod: Json, node: Json, now_ms: int) -> Json:
    """Return the status patch that turns a bound pod Running, every container ready."""
    time = rfc3339(now_ms)
    address = _address(text(meta(pod).get("uid")))
    patch: Json = {
        "phase": "Running",
        "conditions": _conditions(pod, time),
        "startTime": text(status(pod).get("startTime")) or time,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "qosClass": text(status(pod).get("qosClass")) or qos_class(pod),
        "containerStatuses": [_started(pod, item, time) for item in items(spec(pod).get("containers"))],
    }
    first = [_first(pod, item, time) for item in items(spec(pod).get("initContainers"))]
    if first:
        patch["initContainerStatuses"] = first
    host = _host(node)
    if host:
        patch |= {"hostIP": host, "hostIPs": [{"ip": host}]}
    return patch


def _conditions(pod: Json, time: str) -> list[Json]:
    """The conditions as they will stand: ours True, what others wrote kept."""
    before = items(status(pod).get("conditions"))
    kept = [item for item in before if item.get("type") not in _CONDITIONS]
    result = list(kept)
    for name in _CONDITIONS:
        old = next((item for item in before if item.get("type") == name), None)
        if old is not None and old.get("status") == "True":
            result.append(old)
        else:
            result.append({"type": name, "status": "True", "lastProbeTime": None, "lastTransitionTime": time})
    return result


def _status(pod: Json, container: Json) -> Json:
    name, image = text(container.get("name")), text(container.get("image"))
    uid = text(meta(pod).get("uid"))
    return {
        "name": name,
        "image": image,
        "imageID": "",
        "containerID": f"embedded://{uuid.uuid5(_NAMESPACE, f'{uid}/{name}')}",
        "restartCount": 0,
        "lastState": {},
    }


def _started(pod: Json, container: Json, time: str) -> Json:
    return {**_status(pod, container), "ready": True, "started": True, "state": {"running": {"startedAt": time}}}


def _first(pod: Json, container: Json, time: str) -> Json:
    """An init container: done, or running beside the others if it restarts."""
    if container.get("restartPolicy") == "Always":
        return _started(pod, container, time)
    ended = {"exitCode": 0, "reason": "Completed", "startedAt": time, "finishedAt": time}
    return {**_status(pod, container), "ready": True, "started": False, "state": {"terminated": ended}}


def _address(uid: str) -> str:
    """A pod address of its own, the same for the same pod."""
    digest = hashlib.sha256(uid.encode()).digest()
    return f"10.{128 + digest[0] % 64}.{digest[1]}.{1 + digest[2] % 254}"


def _host(node: Json) -> str:
    addresses = items(status(node).get("addresses"))
    return next((text(item.get("address")) for item in addresses if item.get("type") == "InternalIP"), "")


def qos_class(pod: Json) -> str:
    """The quality-of-service class: Guaranteed, Burstable or BestEffort, by cpu and memory of all containers."""
    containers = items(spec(pod).get("initContainers")) + items(spec(pod).get("containers"))
    asked, guaranteed = False, bool(containers)
    for container in containers:
        resources = mapping(container.get("resources"))
        limits, requests = mapping(resources.get("limits")), mapping(resources.get("requests"))
        asked = asked or any(name in part for part in (limits, requests) for name in ("cpu", "memory"))
        for name in ("cpu", "memory"):
            if name not in limits or requests.get(name, limits[name]) != limits[name]:
                guaranteed = False
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
