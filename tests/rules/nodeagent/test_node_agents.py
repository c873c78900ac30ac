"""Node agents of the embedded cluster (devices/A-10 to A-13, A-21, G-11)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from adapters.clock import ManualClock
from events.canonical import Json
from events.kinds import NODE, POD
from services.cluster.cluster import EmbeddedCluster
from services.cluster.nodeagent import NodeAgents, kubelet
from services.cluster.store import derived_uid

CARD = "GPU-a"
VGPU = {"limits": {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "2000", "volcano.sh/vgpu-cores": "30"}}


class Machine:
    """A cluster with one node ``a`` and its agents."""

    def __init__(self, ends: Any = "all") -> None:
        self.clock = ManualClock(1_767_225_600_000)
        self.cluster = EmbeddedCluster(self.clock, derived_uid)
        self.api = self.cluster.direct("test")
        self.agents = NodeAgents(self.cluster.direct("agents"), self.clock, ends=ends)
        self.node("a")

    def node(self, name: str, **parts: Any) -> None:
        self.cluster.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, **parts}, "status": {}})

    def pod(self, name: str, containers: list[Json], notes: dict[str, str] | None = None, **parts: Any) -> None:
        about = {"name": name, "namespace": "default", "annotations": notes or {}, **parts.pop("metadata", {})}
        spec = {"containers": [{"image": "none", **item} for item in containers], "nodeName": "a", **parts}
        self.cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": about, "spec": spec})

    def bound(self, name: str, record: str, containers: list[Json] | None = None, **notes: str) -> None:
        given = {
            "volcano.sh/vgpu-node": "a",
            "volcano.sh/vgpu-time": "1767225600",
            "volcano.sh/vgpu-ids-new": record,
            "volcano.sh/devices-to-allocate": record,
            "volcano.sh/bind-phase": "allocating",
        }
        given |= {f"volcano.sh/{key.replace('_', '-')}": value for key, value in notes.items()}
        self.pod(name, containers or [{"name": "c", "resources": VGPU}], given)

    def settle(self) -> None:
        async def go() -> None:
            for _ in range(20):
                if not await self.agents.step():
                    return
            raise AssertionError("the agents do not come to rest")

        asyncio.run(go())

    def get(self, name: str) -> Json:
        found = self.cluster.store.get(POD, "default", name)
        assert found is not None
        return found

    def notes(self, name: str) -> dict[str, str]:
        found: dict[str, str] = self.get(name)["metadata"]["annotations"]
        return found

    def env(self, name: str, container: str = "c") -> dict[str, str]:
        lines = self.agents.logs(self.get(name), container).splitlines()
        return dict(line.split("=", 1) for line in lines)


@pytest.fixture
def machine() -> Machine:
    return Machine()


def test_a_bound_pod_runs(machine: Machine) -> None:
    machine.pod("p", [{"name": "c"}], initContainers=[{"name": "first", "image": "none"}])
    machine.settle()
    status = machine.get("p")["status"]
    assert status["phase"] == "Running"
    assert {item["type"] for item in status["conditions"] if item["status"] == "True"} >= {"Ready", "PodScheduled"}
    assert status["containerStatuses"][0]["ready"] is True
    assert status["startTime"] == "2026-01-01T00:00:00Z"
    assert status["podIP"].startswith("10.")
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0


def test_pods_of_other_schedulers_run_too_and_pods_without_node_do_not(machine: Machine) -> None:
    machine.pod("other", [{"name": "c"}], schedulerName="default-scheduler")
    machine.pod("waiting", [{"name": "c"}], nodeName=None)
    machine.settle()
    assert machine.get("other")["status"]["phase"] == "Running"
    assert machine.get("waiting")["status"]["phase"] == "Pending"


def test_a_pod_on_a_node_that_is_not_there_waits_for_it(machine: Machine) -> None:
    machine.pod("p", [{"name": "c"}], nodeName="b")
    machine.settle()
    assert machine.get("p")["status"]["phase"] == "Pending"
    machine.node("b")
    machine.settle()
    assert machine.get("p")["status"]["phase"] == "Running"


def test_nobody_finishes_or_restarts_a_pod(machine: Machine) -> None:
    machine.pod("p", [{"name": "c"}])
    machine.settle()
    asyncio.run(machine.api.patch(POD, "default", "p", {"status": {"phase": "Succeeded"}}, "status"))
    machine.settle()
    assert machine.get("p")["status"]["phase"] == "Succeeded"


def test_the_work_list_is_served(machine: Machine) -> None:
    """devices/A-11, C-13"""
    machine.bound("p", f"{CARD},NVIDIA,2000,30:")
    machine.settle()
    assert machine.notes("p") == {
        "volcano.sh/vgpu-node": "a",
        "volcano.sh/vgpu-time": "18446744073709551615",
        "volcano.sh/vgpu-ids-new": f"{CARD},NVIDIA,2000,30:",
        "volcano.sh/devices-to-allocate": "",
        "volcano.sh/bind-phase": "success",
    }
    assert machine.get("p")["status"]["phase"] == "Running"


def test_containers_are_served_one_by_one(machine: Machine) -> None:
    """devices/A-11, A-12: the embedded agent serves pods with several vGPU containers"""
    seen: list[str] = []
    machine.bound(
        "p",
        f";{CARD},NVIDIA,2000,30:;GPU-b,NVIDIA,1000,0:",
        [{"name": "cpu"}, {"name": "c", "resources": VGPU}, {"name": "d", "resources": VGPU}],
    )
    store = machine.cluster.store
    store.listeners.append(
        lambda kind: seen.append(machine.notes("p")["volcano.sh/devices-to-allocate"]) if kind == POD else None
    )
    machine.settle()
    assert list(dict.fromkeys(seen)) == ["GPU-b,NVIDIA,1000,0:", ""]
    assert machine.env("p", "c")["CUDA_DEVICE_MEMORY_LIMIT_0"] == "2000m"
    assert machine.env("p", "d")["NVIDIA_VISIBLE_DEVICES"] == "GPU-b"
    assert machine.env("p", "cpu") == {}


@pytest.mark.parametrize(
    "notes",
    [{"vgpu_node": "b"}, {"devices_to_allocate": ""}, {"devices_to_allocate": "nonsense"}],
)
def test_only_the_two_keys_make_a_candidate(machine: Machine, notes: dict[str, str]) -> None:
    """devices/A-11: vgpu-node is the node, and devices-to-allocate holds devices"""
    machine.bound("p", f"{CARD},NVIDIA,2000,30:", **notes)
    machine.settle()
    assert machine.notes("p")["volcano.sh/bind-phase"] == "allocating"


def test_a_pod_that_runs_already_is_left_alone(machine: Machine) -> None:
    """devices/A-11: kubelet asks once, when the pod starts"""
    machine.bound("p", f"{CARD},NVIDIA,2000,30:")
    pod = machine.get("p")
    machine.cluster.replace({**pod, "status": {"phase": "Running"}})
    machine.settle()
    assert machine.notes("p")["volcano.sh/bind-phase"] == "allocating"


def test_the_node_lock_goes_when_the_pod_is_served() -> None:
    """devices/A-11, A-21"""
    machine = Machine()
    machine.node("b", annotations={"hamivgpu": "2026-01-01T00:00:00Z", "gpu": "2026-01-01T00:00:00Z", "keep": "x"})
    machine.bound("p", f"{CARD},NVIDIA,2000,30:", vgpu_node="b")
    machine.cluster.replace({**machine.get("p"), "spec": {**machine.get("p")["spec"], "nodeName": "b"}})
    machine.settle()
    node = machine.cluster.store.get(NODE, "", "b")
    assert node is not None
    assert node["metadata"]["annotations"] == {"gpu": "2026-01-01T00:00:00Z", "keep": "x"}


def test_environment_of_a_share(machine: Machine) -> None:
    """devices/A-13, lab 8"""
    containers = [{"name": "c", "resources": VGPU, "env": [{"name": "MINE", "value": "1"}]}]
    machine.bound("p", f"{CARD},NVIDIA,2000,30:", containers)
    machine.settle()
    env = machine.env("p")
    cache = env.pop("CUDA_DEVICE_MEMORY_SHARED_CACHE")
    assert cache.startswith("/tmp/vgpu/")
    assert cache.endswith(".cache")
    assert env == {
        "CUDA_DEVICE_MEMORY_LIMIT_0": "2000m",
        "CUDA_DEVICE_SM_LIMIT": "30",
        "NVIDIA_VISIBLE_DEVICES": CARD,
        "MINE": "1",
    }


def test_environment_of_two_shares_with_factor_and_scaling(machine: Machine) -> None:
    """devices/A-13, C-20"""
    data = {"device-config.yaml": "nvidia: {gpuMemoryFactor: 10, deviceCoreScaling: 2, disableCoreLimit: true}"}
    about = {"name": "volcano-vgpu-device-config", "namespace": "kube-system"}
    machine.cluster.put({"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": data})
    machine.bound("p", "GPU-a,NVIDIA,200,50:GPU-b,NVIDIA,300,60:")
    machine.settle()
    env = machine.env("p")
    assert (env["CUDA_DEVICE_MEMORY_LIMIT_0"], env["CUDA_DEVICE_MEMORY_LIMIT_1"]) == ("2000m", "3000m")
    assert env["CUDA_DEVICE_SM_LIMIT"] == "50"
    assert env["NVIDIA_VISIBLE_DEVICES"] == "GPU-a,GPU-b"
    assert (env["CUDA_OVERSUBSCRIBE"], env["GPU_CORE_UTILIZATION_POLICY"]) == ("true", "disable")


def test_environment_of_a_mig_slice(machine: Machine) -> None:
    """devices/A-13: none of the limits, the MIG device at the position"""
    machine.bound("p", "GPU-m[group2-0],NVIDIA,8000,0:")
    machine.bound("q", "GPU-m[group2-1],NVIDIA,8000,0:")
    machine.settle()
    first, second = machine.env("p"), machine.env("q")
    assert list(first) == ["NVIDIA_VISIBLE_DEVICES"]
    assert first["NVIDIA_VISIBLE_DEVICES"].startswith("MIG-")
    assert first != second


def test_environment_of_legacy_sharing(machine: Machine) -> None:
    """devices/G-11, A-21"""
    status = {"capacity": {"volcano.sh/gpu-number": "2", "volcano.sh/gpu-memory": "2000"}}
    about = {"name": "old", "annotations": {"gpu": "2026-01-01T00:00:00Z"}}
    machine.cluster.put({"apiVersion": "v1", "kind": "Node", "metadata": about, "status": status})
    limits = {"limits": {"volcano.sh/gpu-memory": "600"}}
    notes = {"volcano.sh/gpu-index": "1", "volcano.sh/predicate-time": "1593764466550835304"}
    machine.pod("p", [{"name": "c", "resources": limits}, {"name": "d"}], notes, nodeName="old")
    machine.settle()
    assert machine.env("p") == {
        "NVIDIA_VISIBLE_DEVICES": "1",
        "VOLCANO_GPU_ALLOCATED": "600",
        "VOLCANO_GPU_MEMORY_TOTAL": "1000",
    }
    assert machine.env("p", "d") == {}
    node = machine.cluster.store.get(NODE, "", "old")
    assert node is not None
    assert "gpu" not in (node["metadata"].get("annotations") or {})


def test_a_pod_that_has_not_started_has_printed_nothing(machine: Machine) -> None:
    machine.bound("p", f"{CARD},NVIDIA,2000,30:")
    assert machine.agents.logs(machine.get("p"), "c") == ""


def test_terminating_pods_end(machine: Machine) -> None:
    machine.pod("p", [{"name": "c"}])
    machine.settle()
    asyncio.run(machine.api.delete(POD, "default", "p"))
    assert machine.get("p")["metadata"]["deletionTimestamp"]
    machine.settle()
    assert machine.cluster.store.get(POD, "default", "p") is None


def test_in_a_simulation_only_evicted_pods_end() -> None:
    """scheduling/F-7"""
    machine = Machine(ends="evicted")
    for name in ("p", "q"):
        machine.pod(name, [{"name": "c"}])
    machine.settle()
    evicted = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
    asyncio.run(machine.api.patch(POD, "default", "p", {"status": {"conditions": [evicted]}}, "status"))
    for name in ("p", "q"):
        asyncio.run(machine.api.delete(POD, "default", name))
    machine.settle()
    assert machine.cluster.store.get(POD, "default", "p") is None
    assert machine.get("q")["status"]["phase"] == "Running"


def test_other_peoples_conditions_are_kept() -> None:
    pod = {"status": {"conditions": [{"type": "Mine", "status": "False"}, {"type": "Ready", "status": "False"}]}}
    conditions = {item["type"]: item["status"] for item in kubelet.running(pod, {}, 0)["conditions"]}
    assert conditions["Mine"] == "False"
    assert conditions["Ready"] == "True"


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        (VGPU, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}, "Burstable"),
    ],
)
def test_quality_of_service(resources: Json, expected: str) -> None:
    assert kubelet.qos_class({"spec": {"containers": [{"resources": resources}]}}) == expected
