"""The Kubernetes kinds that the system speaks of, in one table.

Everything that needs a kind's group, plural or scope (watcher, binder, controllers, embedded API server) looks it up
here, so that a new kind is one new row.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of API object: its coordinates on the API server."""

    name: str
    group: str
    version: str
    plural: str
    namespaced: bool
    short_names: tuple[str, ...] = ()

    @property
    def api_version(self) -> str:
        """``v1`` or ``group/version``, as it stands in an object's ``apiVersion``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def prefix(self) -> str:
        """The path below which the kind is served: ``/api/v1`` or ``/apis/<group>/<version>``."""
        return f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Return the URL path of the collection, the object, or its subresource."""
        parts = [self.prefix]
        if self.namespaced and namespace:
            parts += ["namespaces", namespace]
        parts.append(self.plural)
        parts += [part for part in (name, subresource) if part]
        return "/".join(parts)


POD = Kind("Pod", "", "v1", "pods", True, ("po",))
NODE = Kind("Node", "", "v1", "nodes", False, ("no",))
NAMESPACE = Kind("Namespace", "", "v1", "namespaces", False, ("ns",))
CONFIG_MAP = Kind("ConfigMap", "", "v1", "configmaps", True, ("cm",))
SECRET = Kind("Secret", "", "v1", "secrets", True)
SERVICE = Kind("Service", "", "v1", "services", True, ("svc",))
EVENT = Kind("Event", "", "v1", "events", True, ("ev",))
RESOURCE_QUOTA = Kind("ResourceQuota", "", "v1", "resourcequotas", True, ("quota",))
PERSISTENT_VOLUME = Kind("PersistentVolume", "", "v1", "persistentvolumes", False, ("pv",))
PERSISTENT_VOLUME_CLAIM = Kind("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims", True, ("pvc",))
STORAGE_CLASS = Kind("StorageClass", "storage.k8s.io", "v1", "storageclasses", False, ("sc",))
PRIORITY_CLASS = Kind("PriorityClass", "scheduling.k8s.io", "v1", "priorityclasses", False, ("pc",))
LEASE = Kind("Lease", "coordination.k8s.io", "v1", "leases", True)
NETWORK_POLICY = Kind("NetworkPolicy", "networking.k8s.io", "v1", "networkpolicies", True, ("netpol",))
REPLICA_SET = Kind("ReplicaSet", "apps", "v1", "replicasets", True, ("rs",))
STATEFUL_SET = Kind("StatefulSet", "apps", "v1", "statefulsets", True, ("sts",))
DAEMON_SET = Kind("DaemonSet", "apps", "v1", "daemonsets", True, ("ds",))
BATCH_JOB = Kind("Job", "batch", "v1", "jobs", True)
POD_GROUP = Kind("PodGroup", "scheduling.volcano.sh", "v1beta1", "podgroups", True, ("pg", "podgroup-v1beta1"))
QUEUE = Kind("Queue", "scheduling.volcano.sh", "v1beta1", "queues", False, ("q", "queue-v1beta1"))
VOLCANO_JOB = Kind("Job", "batch.volcano.sh", "v1alpha1", "jobs", True, ("vcjob", "vj"))
COMMAND = Kind("Command", "bus.volcano.sh", "v1alpha1", "commands", True)

ALL_KINDS: tuple[Kind, ...] = (
    POD, NODE, NAMESPACE, CONFIG_MAP, SECRET, SERVICE, EVENT, RESOURCE_QUOTA, PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS, PRIORITY_CLASS, LEASE, NETWORK_POLICY, REPLICA_SET, STATEFUL_SET,
    DAEMON_SET, BATCH_JOB, POD_GROUP, QUEUE, VOLCANO_JOB, COMMAND,
)  # fmt: skip

#: What the watcher observes, in the order in which a term's first lists are taken: what others refer to comes first.
OBSERVED_KINDS: tuple[Kind, ...] = (
    CONFIG_MAP, NAMESPACE, PRIORITY_CLASS, RESOURCE_QUOTA, STORAGE_CLASS, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM,
    QUEUE, NODE, POD_GROUP, POD,
)  # fmt: skip

_BY_API = {(kind.api_version, kind.name): kind for kind in ALL_KINDS}


def kind_of(api_version: str, name: str) -> Kind | None:
    """Return the kind that an object's ``apiVersion`` and ``kind`` name, or None if it is unknown here."""
    return _BY_API.get((api_version, name))
