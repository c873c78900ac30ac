"""One bad object never holds up another, not even one that no admission has judged: it simply stands in the store.

A real API server takes much of this where its CRDs are old, where Volcano's webhook is not installed, or from before.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import pytest

from events.kinds import (
    CONFIG_MAP,
    NAMESPACE,
    NODE,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    RESOURCE_QUOTA,
    VOLCANO_JOB,
    Kind,
)  # fmt: skip
from events.names import SCHEDULER_CONFIG
from services.cluster import defaults
from services.simulator.system import System

Objects: TypeAlias = list[tuple[Kind, dict[str, Any]]]

HUGE: Final = 10**30
CONFIG: Final = """
actions: "enqueue, allocate, preempt, reclaim, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins:
  - {name: drf}
  - {name: predicates}
  - {name: QUEUES}
  - {name: nodeorder}
  - {name: deviceshare, arguments: {deviceshare.VGPUEnable: true}}
"""
OFFERED: Final = {"cpu": "8", "memory": "8Gi", "pods": "110", "volcano.sh/vgpu-number": "10",
                  "volcano.sh/vgpu-memory": "8192", "volcano.sh/vgpu-cores": "100"}  # fmt: skip
LIMITS: Final = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "10"}


def node(name: str) -> tuple[Kind, dict[str, Any]]:
    register = {"volcano.sh/node-vgpu-register": f"GPU-{name},10,8192,NVIDIA-X,true,hami-core:"}
    return NODE, {"metadata": {"name": name, "annotations": register}, "status": {"allocatable": OFFERED}}


def pod(name: str, group: str = "", **spec: Any) -> tuple[Kind, dict[str, Any]]:
    about = {"name": name, "namespace": "default"}
    notes = {"annotations": {"scheduling.k8s.io/group-name": group}} if group else {}
    containers = [{"name": "c", "image": "x", "resources": {"limits": LIMITS}}]
    content = {"schedulerName": "gpuledger", "containers": containers, **spec}
    return POD, {"metadata": {**about, **notes}, "spec": content, "status": {"phase": "Pending"}}


def raw(kind: Kind, name: str, content: Any, status: Any = None, **about: Any) -> tuple[Kind, dict[str, Any]]:
    place = {"namespace": "default"} if kind.namespaced else {}
    item = {"metadata": {"name": name, **place, **about}, "spec": content}
    return kind, item if status is None else {**item, "status": status}


def queue(name: str, **spec: Any) -> tuple[Kind, dict[str, Any]]:
    return raw(QUEUE, name, {"weight": 1, **spec}, {"state": "Open"})


def job(name: str, tasks: Any, **spec: Any) -> tuple[Kind, dict[str, Any]]:
    return raw(VOLCANO_JOB, name, {"schedulerName": "gpuledger", "tasks": tasks, **spec})


def task(name: str, replicas: Any = 1, **more: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "image": "x"}]}}
    return {"name": name, "replicas": replicas, "template": template, **more}


def owner(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": f"uid-{name}", "controller": True}


ABSURD: Final[dict[str, Objects]] = {
    "queues in a circle": [
        queue("a", parent="b"), queue("b", parent="a"), queue("c", parent="c"), raw(POD_GROUP, "g", {"queue": "a"}),
        pod("x", "g"),
    ],
    "queues in a long row": [
        *(queue(f"d{number}", parent=f"d{number - 1}" if number else "root") for number in range(200)),
        raw(POD_GROUP, "g", {"queue": "d199"}), pod("x", "g"),
    ],
    "weights": [
        queue(f"w{number}", weight=weight) for number, weight in enumerate((0, -5, HUGE, "x", True, 1.5, None, []))
    ],
    "resources of queues": [
        queue("r0", capability={"cpu": "NaN"}, deserved={"cpu": "-1"}, guarantee={"resource": {"cpu": "1e400"}}),
        queue("r1", capability=[], deserved="x", guarantee=5),
        queue("r2", capability={"cpu": 5.5, "x": None, "volcano.sh/vgpu-memory": "-9"}),
    ],
    "queues without content": [raw(QUEUE, "s0", None), raw(QUEUE, "s1", [], {"state": 5})],
    "minima of groups": [
        raw(POD_GROUP, "m0", {"minMember": -1}), raw(POD_GROUP, "m1", {"minMember": HUGE}),
        raw(POD_GROUP, "m2", {"minMember": "3", "minTaskMember": {"a": -1, "b": HUGE, "c": "x"}}),
        raw(POD_GROUP, "m3", {"minMember": True, "minResources": {"cpu": "NaN"}}),
        *(pod(f"m{number}-p", f"m{number}") for number in range(4)),
    ],
    "nodes": [
        raw(NODE, "z0", None), raw(NODE, "z1", {"taints": "x", "unschedulable": "yes"}, labels=5, annotations=[]),
        raw(NODE, "z2", {}, {"allocatable": {"cpu": "NaN", "pods": "-1", "volcano.sh/vgpu-number": HUGE}}),
        raw(NODE, "z3", {"taints": [{"key": None, "effect": 5}, {}]}, {"allocatable": []}),
    ],
    "pods": [
        raw(POD, "y0", {"schedulerName": "gpuledger"}), pod("y1", containers="x"), pod("y2", priority="high"),
        pod("y3", affinity=5, tolerations={}, nodeSelector=[]), pod("y4", priority=HUGE, overhead={"cpu": "x"}),
        pod("y5", affinity={"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": 5, "labelSelector": "x"}]}}),
        pod("y6", volumes=[{"persistentVolumeClaim": {}}], topologySpreadConstraints=[{"maxSkew": "x"}]),
        raw(POD, "y7", {"nodeName": "nowhere", "containers": []}, {"phase": ["x"]}),
        raw(POD, "y8", {"schedulerName": "gpuledger"}, creationTimestamp="never", deletionTimestamp=5, labels=[1]),
    ],
    "owners in a circle": [
        raw(POD, "o1", {"schedulerName": "gpuledger"}, uid="uid-o1", ownerReferences=[owner("o2")]),
        raw(POD, "o2", {"schedulerName": "gpuledger"}, uid="uid-o2", ownerReferences=[owner("o1"), 5, {}]),
    ],
    "tasks that wait for each other": [
        job("j", [
            task("a", dependsOn={"name": ["b"]}), task("b", dependsOn={"name": ["a"]}),
            task("c", dependsOn={"name": ["c", "none"]}),
        ]),
    ],
    "jobs": [
        job("k0", [task("a", "x")]), job("k1", [task("a", -5)], minAvailable=HUGE), job("k2", "x"),
        job("k3", [5, None, {}]), job("k4", [task("a", template=None)]),
        job("k5", [task("a")], policies=[{"event": 5}], plugins={"svc": 5, "ssh": None}, volumes=[{}]),
        job("k6", [task("a")], maxRetry="x", ttlSecondsAfterFinished="y"),
        job("k7", [task("a", partitionPolicy={"totalPartitions": 0, "partitionSize": 0, "minPartitions": -1})]),
    ],
    "quotas and priorities": [
        raw(RESOURCE_QUOTA, "q", {"hard": {"pods": "NaN", "cpu": -1, "x": []}}, 5),
        (PRIORITY_CLASS, {"metadata": {"name": "p0"}, "value": HUGE, "preemptionPolicy": 5}),
        (PRIORITY_CLASS, {"metadata": {"name": "p1"}, "value": "x"}),
    ],
}  # fmt: skip


def put(system: System, objects: Objects) -> None:
    for kind, content in objects:
        item = {"apiVersion": kind.api_version, "kind": kind.name, **content}
        defaults.apply(kind, item)
        system.store.put(kind, item)


@pytest.mark.parametrize("queues", ["proportion", "capacity, enabledHierarchy: true"])
@pytest.mark.parametrize("absurd", ABSURD)
async def test_a_plain_pod_is_bound_beside_it(absurd: str, queues: str) -> None:
    system = System()
    namespace, name, key = SCHEDULER_CONFIG
    config = {"metadata": {"name": name, "namespace": namespace}, "data": {key: CONFIG.replace("QUEUES", queues)}}
    namespaces = [(NAMESPACE, {"metadata": {"name": found}}) for found in ("default", namespace)]
    put(system, [*namespaces, (CONFIG_MAP, config), queue("root"), queue("default"), node("n1")])
    put(system, ABSURD[absurd])
    await system.settle()
    put(system, [pod("plain")])
    await system.settle()
    assert [entry.node for entry in system.model.pods.values() if entry.pod.name == "plain"] == ["n1"]
