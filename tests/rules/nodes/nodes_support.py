"""Short ways to nodes, pods and clusters for the tests of this folder."""

from __future__ import annotations

from typing import Any

from scheduling import objects
from scheduling.config.model import PluginOption
from scheduling.devices.books import NodeDevices
from scheduling.nodes.cluster import ClusterView
from scheduling.nodes.predicates import Predicates
from scheduling.nodes.view import NodeTask, NodeView
from scheduling.objects import Pod
from scheduling.status import TaskStatus

HOST = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def pod(name: str = "p", requests: dict[str, Any] | None = None, **spec: Any) -> Pod:
    """A pod of one container; ``labels``, ``namespace``, ``ports`` and ``deleting`` are taken out of ``spec``."""
    meta: dict[str, Any] = {"name": name, "namespace": spec.pop("namespace", "lab"), "uid": f"uid-{name}"}
    meta["labels"] = spec.pop("labels", {})
    if spec.pop("deleting", False):
        meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    container = {"name": "c", "resources": {"requests": requests or {}}, "ports": spec.pop("ports", [])}
    spec.setdefault("containers", [container])
    return objects.pod({"metadata": meta, "spec": spec})


def view(
    name: str = "a",
    pods: tuple[Pod, ...] = (),
    status: TaskStatus = TaskStatus.RUNNING,
    labels: dict[str, str] | None = None,
    taints: tuple[dict[str, Any], ...] = (),
    unschedulable: bool = False,
    images: tuple[dict[str, Any], ...] = (),
    places: str = "110",
    **room: Any,
) -> NodeView:
    """A node with pods on it, all of one status."""
    allocatable = {"cpu": "32", "memory": "128Gi", "pods": places, **room}
    item = {
        "metadata": {"name": name, "labels": {HOST: name, **(labels or {})}},
        "spec": {"taints": list(taints), "unschedulable": unschedulable},
        "status": {"allocatable": allocatable, "images": list(images)},
    }
    tasks = {each.uid: NodeTask(each, each.request, status) for each in pods}
    return NodeView(name, objects.node(item), tasks, NodeDevices(name))


def cluster(*views: NodeView, **others: list[dict[str, Any]]) -> ClusterView:
    """A cluster of these nodes; other objects by kind."""
    kinds = {
        kind: {each.key: each for each in (objects.other(item) for item in found)} for kind, found in others.items()
    }
    return ClusterView({each.name: each for each in views}, kinds)


def reasons(
    incoming: Pod, *views: NodeView, arguments: dict[str, Any] | None = None, **others: Any
) -> list[str | None]:
    """Why a pod may not run on each of the nodes."""
    found = Predicates(PluginOption("predicates", arguments or {}))
    where = cluster(*views, **others)
    assert found.prefilter(incoming, where) is None
    return [found.check(incoming, each, where) for each in views]
