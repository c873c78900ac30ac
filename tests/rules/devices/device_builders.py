"""Objects for the tests of the device rules, in as few words as possible."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from scheduling import objects
from scheduling.devices.arguments import DeviceShareArgs
from scheduling.devices.books import NodeDevices
from scheduling.devices.claims import claim_of, planned_claim
from scheduling.devices.config import DeviceConfig
from scheduling.devices.environment import DeviceEnv
from scheduling.devices.fitting import Fit, Misfit
from scheduling.devices.geometry import Geometry, Group, Instance
from scheduling.devices.request import demand_of

NUMBER, MEMORY, CORES = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
PERCENTAGE = "volcano.sh/vgpu-memory-percentage"
REGISTER = "volcano.sh/node-vgpu-register"
IDS = "volcano.sh/vgpu-ids-new"
A100 = "NVIDIA-NVIDIA A100-SXM4-40GB"

A100_GROUPS = (
    Group("group1", (Instance("1g.5gb", 5120, 7),)),
    Group("group2", (Instance("2g.10gb", 10240, 3), Instance("1g.5gb", 5120, 1))),
    Group("group3", (Instance("3g.20gb", 20480, 2),)),
    Group("group4", (Instance("7g.40gb", 40960, 1),)),
)
A100_GEOMETRY = (Geometry(("A100-SXM4-40GB",), A100_GROUPS),)


def env(config: DeviceConfig | None = None, **arguments: Any) -> DeviceEnv:
    """An environment with vGPU on."""
    return DeviceEnv(config or DeviceConfig(), DeviceShareArgs(**{"vgpu": True, **arguments}))


def mig_env(**arguments: Any) -> DeviceEnv:
    return env(DeviceConfig(geometries=A100_GEOMETRY), **arguments)


def card(uuid: str, memory: int = 8192, shares: int = 10, model: str = "NVIDIA-X", mode: str = "hami-core") -> str:
    return f"{uuid},{shares},{memory},{model},true,{mode}:"


def mig_card(uuid: str = "GPU-m") -> str:
    return card(uuid, 40960, 7, A100, "mig")


def node(register: str | None, name: str = "n1", allocatable: Mapping[str, Any] | None = None, **meta: str) -> Any:
    offered = {NUMBER: "10", MEMORY: "8192", CORES: "100"} if allocatable is None else allocatable
    annotations = {**meta, **({REGISTER: register} if register is not None else {})}
    return objects.node({"metadata": {"name": name, "annotations": annotations}, "status": {"allocatable": offered}})


def legacy_node(memory: Any, number: Any, unhealthy: str = "", name: str = "n1") -> Any:
    capacity = {"volcano.sh/gpu-memory": memory, "volcano.sh/gpu-number": number}
    meta = {"name": name, "annotations": {"volcano.sh/gpu-unhealthy-ids": unhealthy} if unhealthy else {}}
    return objects.node({"metadata": meta, "status": {"capacity": capacity}})


def container(number: Any = None, memory: Any = None, cores: Any = None, percentage: Any = None, **extra: Any) -> Any:
    asked = {NUMBER: number, MEMORY: memory, CORES: cores, PERCENTAGE: percentage}
    limits = {name: value for name, value in asked.items() if value is not None} | extra.pop("limits", {})
    return {"name": extra.pop("name", "main"), "resources": {"limits": limits, "requests": {**limits}}, **extra}


def pod(
    name: str,
    *containers: Any,
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    init: tuple[Any, ...] = (),
    node: str = "",
    namespace: str = "d",
    phase: str = "Pending",
    uid: str = "",
    **asked: Any,
) -> Any:
    """A pod with these containers, or with one that asks for ``asked``."""
    meta = {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}"}
    listed = list(containers) or [container(**asked)]
    for place, item in enumerate(listed):
        item.setdefault("name", f"c{place}")
    spec = {"containers": listed, "initContainers": list(init), "nodeName": node}
    meta |= {"annotations": dict(annotations or {}), "labels": dict(labels or {})}
    return objects.pod({"metadata": meta, "spec": spec, "status": {"phase": phase}})


def holding(name: str, record: str, node: str = "n1", **rest: Any) -> Any:
    """A pod that is on a node with this record."""
    annotations = {**rest.pop("annotations", {}), IDS: record}
    return pod(name, annotations=annotations, node=node, phase="Running", **{"number": 1, **rest})


class World:
    """One node on which pods are placed one after the other."""

    def __init__(self, register: str | Any, env: DeviceEnv, name: str = "n1") -> None:
        found = node(register, name) if isinstance(register, str) else register
        self.env, self.books = env, NodeDevices.empty(name, env).with_node(found)

    def answer(self, item: Any) -> Fit | Misfit:
        return self.books.fit(demand_of(item, self.env))

    def place(self, item: Any) -> str:
        """Place a pod; its allocation (legacy: its indices), or the detail why not (legacy: the reason)."""
        answer = self.answer(item)
        if isinstance(answer, Misfit):
            return answer.detail or answer.reason
        self.books = self.books.with_claim(planned_claim(item, self.env, answer.allocation, answer.gpu_index))
        return answer.allocation or answer.gpu_index

    def see(self, item: Any) -> None:
        """A pod is there that somebody else has placed."""
        claim = claim_of(item, self.env)
        assert claim is not None
        self.books = self.books.with_claim(claim)

    def drop(self, name: str) -> None:
        self.books = self.books.without_claim(f"uid-{name}")

    def words(self, item: Any) -> list[str]:
        answer = self.answer(item)
        assert isinstance(answer, Misfit)
        return [word for _, word in answer.words]


def config_env(base: DeviceEnv, **changes: Any) -> DeviceEnv:
    """The same environment with another device configuration."""
    return replace(base, config=replace(base.config, **changes))
