"""What each kind shows in a table, column by column."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from events.canonical import Json
from events.kinds import (
    BATCH_JOB,
    COMMAND,
    CONFIG_MAP,
    DAEMON_SET,
    EVENT,
    LEASE,
    NAMESPACE,
    NETWORK_POLICY,
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


@dataclass(frozen=True, slots=True)
class Row:
    """The object of a row, and the time at which it is shown."""

    item: Json
    now_ms: int

    def at(self, path: str, default: Any = None) -> Any:
        """Return what stands at a dotted path."""
        value: Any = self.item
        for step in path.split("."):
            value = value.get(step) if isinstance(value, dict) else None
        return default if value is None else value

    def age(self, path: str = "metadata.creationTimestamp") -> str:
        """Return the time since the time at a path, as people read it."""
        text = self.at(path)
        if not text:
            return "<unknown>"
        then = datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
        return duration(int(self.now_ms / 1000 - then))


@dataclass(frozen=True, slots=True)
class Column:
    """One column: header, the value of a row, its type, and whether it is shown only with ``-o wide``."""

    name: str
    value: Callable[[Row], Any]
    type: str = "string"
    wide: bool = False


def duration(seconds: int) -> str:
    """Return a number of seconds in at most two units, as kubectl writes ages."""
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if seconds < 120:
        return f"{seconds}s"
    if minutes < 10:
        return f"{minutes}m" + (f"{seconds % 60}s" if seconds % 60 else "")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return f"{hours}h" + (f"{minutes % 60}m" if minutes % 60 else "")
    if hours < 48:
        return f"{hours}h"
    if days < 8:
        return f"{days}d" + (f"{hours % 24}h" if hours % 24 else "")
    if days < 365 * 2:
        return f"{days}d"
    if days < 365 * 8:
        return f"{days // 365}y" + (f"{days % 365}d" if days % 365 else "")
    return f"{days // 365}y"


def path(where: str, default: Any = None) -> Callable[[Row], Any]:
    """Return the reader of a dotted path."""
    return lambda row: row.at(where, default)


def text(where: str, default: str = "<none>") -> Callable[[Row], Any]:
    """Return the reader of a text; an empty one is shown as ``<none>``."""
    return lambda row: row.at(where) or default


def size(*paths: str) -> Callable[[Row], Any]:
    """Return the reader of how many entries the mappings at these paths hold."""
    return lambda row: sum(len(row.at(where, {})) for where in paths)


NAME = Column("Name", path("metadata.name"))
AGE = Column("Age", Row.age)
CUSTOM_AGE = Column("AGE", Row.age, "date")


def default_columns() -> tuple[Column, ...]:
    """Return the columns of a kind that has none of its own."""
    return NAME, AGE


# Pods.


def _pod_ready(row: Row) -> str:
    total = row.at("spec.containers", [])
    ready = [item for item in row.at("status.containerStatuses", []) if item.get("ready")]
    return f"{len(ready)}/{len(total)}"


def _pod_status(row: Row) -> str:
    status: str = row.at("status.reason") or row.at("status.phase", "Unknown")
    for condition in row.at("status.conditions", []):
        if (condition.get("type"), condition.get("reason")) == ("PodScheduled", "SchedulingGated"):
            status = "SchedulingGated"
    for container in row.at("status.containerStatuses", []):
        state = container.get("state") or {}
        for key in ("waiting", "terminated"):
            status = (state.get(key) or {}).get("reason") or status
    return "Terminating" if row.at("metadata.deletionTimestamp") else status


def _pod_restarts(row: Row) -> str:
    return str(sum(int(item.get("restartCount") or 0) for item in row.at("status.containerStatuses", [])))


def _readiness_gates(row: Row) -> str:
    gates = [gate.get("conditionType") for gate in row.at("spec.readinessGates", [])]
    if not gates:
        return "<none>"
    true = [item["type"] for item in row.at("status.conditions", []) if item.get("status") == "True"]
    return f"{len([gate for gate in gates if gate in true])}/{len(gates)}"


# Nodes.


def _node_status(row: Row) -> str:
    ready = [item for item in row.at("status.conditions", []) if item.get("type") == "Ready"]
    known = bool(ready)
    status = "Ready" if known and ready[0].get("status") == "True" else "NotReady" if known else "Unknown"
    return status + (",SchedulingDisabled" if row.at("spec.unschedulable") else "")


def _node_roles(row: Row) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = row.at("metadata.labels", {})
    roles = [key.removeprefix(prefix) for key in labels if key.startswith(prefix) and key != prefix]
    return ",".join(sorted(roles)) or "<none>"


def _address(type_: str) -> Callable[[Row], str]:
    def shown(row: Row) -> str:
        found = [item["address"] for item in row.at("status.addresses", []) if item.get("type") == type_]
        return found[0] if found else "<none>"

    return shown


# Workloads.


def _images(row: Row) -> str:
    return ",".join(item.get("image", "") for item in row.at("spec.template.spec.containers", []))


def _container_names(row: Row) -> str:
    return ",".join(item.get("name", "") for item in row.at("spec.template.spec.containers", []))


def _selector(where: str) -> Callable[[Row], str]:
    def shown(row: Row) -> str:
        labels = row.at(where, {})
        return ",".join(f"{key}={labels[key]}" for key in sorted(labels)) or "<none>"

    return shown


_WIDE_TEMPLATE = (
    Column("Containers", _container_names, wide=True),
    Column("Images", _images, wide=True),
)
_WIDE_SELECTOR = Column("Selector", _selector("spec.selector.matchLabels"), wide=True)


def _job_status(row: Row) -> str:
    for condition in row.at("status.conditions", []):
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed", "Suspended"):
            return str(condition["type"])
    return "Running"


def _completions(row: Row) -> str:
    return f"{row.at('status.succeeded', 0)}/{row.at('spec.completions', 1)}"


def _job_duration(row: Row) -> str:
    start = row.at("status.startTime")
    return row.age("status.startTime") if start else ""


# The rest.


def _ports(row: Row) -> str:
    ports = row.at("spec.ports", [])
    return ",".join(f"{port.get('port')}/{port.get('protocol', 'TCP')}" for port in ports) or "<none>"


def _event_object(row: Row) -> str:
    return f"{str(row.at('involvedObject.kind', '')).lower()}/{row.at('involvedObject.name', '')}"


def _event_seen(row: Row) -> str:
    for where in ("series.lastObservedTime", "lastTimestamp", "eventTime", "firstTimestamp"):
        if row.at(where):
            return row.age(where)
    return "<unknown>"


def _event_first(row: Row) -> str:
    return row.age("firstTimestamp") if row.at("firstTimestamp") else row.age("eventTime")


def _event_source(row: Row) -> str:
    component, host = row.at("source.component") or row.at("reportingComponent", ""), row.at("source.host")
    return f"{component}, {host}" if host else str(component)


def _quota_side(limits: bool) -> Callable[[Row], str]:
    def shown(row: Row) -> str:
        hard, used = row.at("status.hard", {}), row.at("status.used", {})
        names = [name for name in sorted(hard) if name.startswith("limits.") == limits]
        return ", ".join(f"{name}: {used.get(name, '0')}/{hard[name]}" for name in names)

    return shown


_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def _modes(where: str) -> Callable[[Row], str]:
    return lambda row: ",".join(_MODES.get(mode, mode) for mode in row.at(where, []))


def _claim(row: Row) -> str:
    name = row.at("spec.claimRef.name")
    return f"{row.at('spec.claimRef.namespace', '')}/{name}" if name else ""


def _queue_state(row: Row) -> str:
    return str(row.at("status.state") or "Open")


COLUMNS: dict[Kind, tuple[Column, ...]] = {
    POD: (
        NAME, Column("Ready", _pod_ready), Column("Status", _pod_status), Column("Restarts", _pod_restarts), AGE,
        Column("IP", text("status.podIP"), wide=True), Column("Node", text("spec.nodeName"), wide=True),
        Column("Nominated Node", text("status.nominatedNodeName"), wide=True),
        Column("Readiness Gates", _readiness_gates, wide=True),
    ),
    NODE: (
        NAME, Column("Status", _node_status), Column("Roles", _node_roles), AGE,
        Column("Version", path("status.nodeInfo.kubeletVersion", "")),
        Column("Internal-IP", _address("InternalIP"), wide=True),
        Column("External-IP", _address("ExternalIP"), wide=True),
        Column("OS-Image", text("status.nodeInfo.osImage", "<unknown>"), wide=True),
        Column("Kernel-Version", text("status.nodeInfo.kernelVersion", "<unknown>"), wide=True),
        Column("Container-Runtime", text("status.nodeInfo.containerRuntimeVersion", "<unknown>"), wide=True),
    ),
    NAMESPACE: (NAME, Column("Status", path("status.phase", "")), AGE),
    CONFIG_MAP: (NAME, Column("Data", size("data", "binaryData")), AGE),
    SECRET: (NAME, Column("Type", path("type", "")), Column("Data", size("data"), "integer"), AGE),
    SERVICE: (
        NAME, Column("Type", path("spec.type", "")), Column("Cluster-IP", text("spec.clusterIP")),
        Column("External-IP", lambda row: "<none>"), Column("Port(s)", _ports), AGE,
        Column("Selector", _selector("spec.selector"), wide=True),
    ),
    EVENT: (
        Column("Last Seen", _event_seen), Column("Type", path("type", "")), Column("Reason", path("reason", "")),
        Column("Object", _event_object), Column("Subobject", path("involvedObject.fieldPath", ""), wide=True),
        Column("Source", _event_source, wide=True), Column("Message", lambda row: str(row.at("message", "")).strip()),
        Column("First Seen", _event_first, wide=True), Column("Count", path("count", 1), wide=True),
        Column("Name", path("metadata.name"), wide=True),
    ),
    RESOURCE_QUOTA: (NAME, Column("Request", _quota_side(False)), Column("Limit", _quota_side(True)), AGE),
    PERSISTENT_VOLUME: (
        NAME, Column("Capacity", path("spec.capacity.storage", "")), Column("Access Modes", _modes("spec.accessModes")),
        Column("Reclaim Policy", path("spec.persistentVolumeReclaimPolicy", "")),
        Column("Status", path("status.phase", "")), Column("Claim", _claim),
        Column("StorageClass", path("spec.storageClassName", "")), Column("Reason", path("status.reason", "")), AGE,
        Column("VolumeMode", path("spec.volumeMode", ""), wide=True),
    ),
    PERSISTENT_VOLUME_CLAIM: (
        NAME, Column("Status", path("status.phase", "")), Column("Volume", path("spec.volumeName", "")),
        Column("Capacity", path("status.capacity.storage", "")), Column("Access Modes", _modes("status.accessModes")),
        Column("StorageClass", path("spec.storageClassName", "")), AGE,
        Column("VolumeMode", path("spec.volumeMode", ""), wide=True),
    ),
    STORAGE_CLASS: (
        NAME, Column("Provisioner", path("provisioner", "")), Column("ReclaimPolicy", path("reclaimPolicy", "")),
        Column("VolumeBindingMode", path("volumeBindingMode", "")),
        Column("AllowVolumeExpansion", path("allowVolumeExpansion", False), "boolean"), AGE,
    ),
    PRIORITY_CLASS: (
        NAME, Column("Value", path("value", 0), "integer"),
        Column("Global-Default", path("globalDefault", False), "boolean"),
        AGE, Column("PreemptionPolicy", path("preemptionPolicy", "")),
    ),
    LEASE: (NAME, Column("Holder", path("spec.holderIdentity", "")), AGE),
    NETWORK_POLICY: (NAME, Column("Pod-Selector", _selector("spec.podSelector.matchLabels")), AGE),
    REPLICA_SET: (
        NAME, Column("Desired", path("spec.replicas", 0), "integer"),
        Column("Current", path("status.replicas", 0), "integer"),
        Column("Ready", path("status.readyReplicas", 0), "integer"), AGE, *_WIDE_TEMPLATE, _WIDE_SELECTOR,
    ),
    STATEFUL_SET: (
        NAME, Column("Ready", lambda row: f"{row.at('status.readyReplicas', 0)}/{row.at('spec.replicas', 0)}"), AGE,
        *_WIDE_TEMPLATE,
    ),
    DAEMON_SET: (
        NAME, Column("Desired", path("status.desiredNumberScheduled", 0), "integer"),
        Column("Current", path("status.currentNumberScheduled", 0), "integer"),
        Column("Ready", path("status.numberReady", 0), "integer"),
        Column("Up-to-date", path("status.updatedNumberScheduled", 0), "integer"),
        Column("Available", path("status.numberAvailable", 0), "integer"),
        Column("Node Selector", _selector("spec.template.spec.nodeSelector")), AGE, *_WIDE_TEMPLATE, _WIDE_SELECTOR,
    ),
    BATCH_JOB: (
        NAME, Column("Status", _job_status), Column("Completions", _completions), Column("Duration", _job_duration),
        AGE, *_WIDE_TEMPLATE, _WIDE_SELECTOR,
    ),
    POD_GROUP: (
        NAME, Column("STATUS", path("status.phase")), Column("minMember", path("spec.minMember"), "integer"),
        Column("RUNNINGS", path("status.running"), "integer"), CUSTOM_AGE, Column("QUEUE", path("spec.queue")),
    ),
    VOLCANO_JOB: (
        NAME, Column("STATUS", path("status.state.phase")),
        Column("minAvailable", path("spec.minAvailable"), "integer"),
        Column("RUNNINGS", path("status.running"), "integer"), CUSTOM_AGE, Column("QUEUE", path("spec.queue")),
    ),
    QUEUE: (
        NAME, Column("PARENT", path("spec.parent")), Column("STATE", _queue_state),
        Column("WEIGHT", path("spec.weight"), "integer"), Column("INQUEUE", path("status.inqueue", 0), "integer"),
        Column("PENDING", path("status.pending", 0), "integer"),
        Column("RUNNING", path("status.running", 0), "integer"),
        Column("UNKNOWN", path("status.unknown", 0), "integer"), CUSTOM_AGE,
        Column("COMPLETED", path("status.completed", 0), "integer", wide=True),
    ),
    COMMAND: (NAME, Column("ACTION", path("action")), Column("TARGET", path("target.name")), CUSTOM_AGE),
}  # fmt: skip
