"""Defaulting of pods and pod templates."""

from __future__ import annotations

from events.canonical import Json
from scheduling import quantity
from services.cluster.filling import fill, texts_for_floats, under
from services.cluster.reading import mappings


def pod(item: Json) -> None:
    """Complete a pod."""
    spec = under(item, "spec")
    if spec is not None:
        pod_spec(spec)
        fill(spec, enableServiceLinks=True)
        for container in mappings(spec.get("initContainers")) + mappings(spec.get("containers")):
            _requests_from_limits(container)
    status = under(item, "status")
    fill(status, phase="Pending")
    if status is not None and spec is not None:
        fill(status, qosClass=_quality(spec))


def pod_spec(spec: Json) -> None:
    """Complete the spec of a pod or of a pod template."""
    fill(spec, restartPolicy="Always", dnsPolicy="ClusterFirst", schedulerName="default-scheduler",
         terminationGracePeriodSeconds=30, securityContext={})  # fmt: skip
    grace = spec.get("terminationGracePeriodSeconds")
    if isinstance(grace, int) and grace < 0:
        spec["terminationGracePeriodSeconds"] = 1
    for container in mappings(spec.get("initContainers")) + mappings(spec.get("containers")):
        _container(container)
    for volume in mappings(spec.get("volumes")):
        for source in ("configMap", "secret", "projected", "downwardAPI"):
            fill(_there(volume, source), defaultMode=0o644)
        if set(volume) == {"name"}:
            volume["emptyDir"] = {}
        fill(_there(volume, "hostPath"), type="")
    if spec.get("hostNetwork") is True:
        for container in mappings(spec.get("initContainers")) + mappings(spec.get("containers")):
            for port in mappings(container.get("ports")):
                fill(port, hostPort=port.get("containerPort"))
    texts_for_floats(spec.get("overhead"))


def _there(item: Json, key: str) -> Json | None:
    """Return the mapping at a key, None if there is none."""
    value = item.get(key)
    return value if isinstance(value, dict) else None


def _container(container: Json) -> None:
    image = container.get("image")
    if isinstance(image, str):
        tag = image.rpartition("/")[2].partition(":")[2]
        pull = "Always" if tag in ("", "latest") and "@" not in image else "IfNotPresent"
        fill(container, imagePullPolicy=pull)
    fill(container, terminationMessagePath="/dev/termination-log", terminationMessagePolicy="File", resources={})
    for port in mappings(container.get("ports")):
        fill(port, protocol="TCP")
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        probe = _there(container, name)
        fill(probe, timeoutSeconds=1, periodSeconds=10, successThreshold=1, failureThreshold=3)
        fill(_there(probe or {}, "httpGet"), scheme="HTTP", path="/")
    resources = container.get("resources")
    if isinstance(resources, dict):
        texts_for_floats(resources.get("limits"))
        texts_for_floats(resources.get("requests"))


def _requests_from_limits(container: Json) -> None:
    resources = container.get("resources")
    limits = resources.get("limits") if isinstance(resources, dict) else None
    if not isinstance(resources, dict) or not isinstance(limits, dict) or not limits:
        return
    requests = under(resources, "requests")
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
