"""The environment that the device plugin gives a container (devices/A-13, G-11).

Derived from the pod's own record and the registration of its node, so it can be read back at any time; identifiers that
the real plugin draws at random are made from the pod's uid, so that the same pod always shows the same.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass

from events import names
from events.canonical import Json
from events.reading import items, mapping, meta, spec, text
from scheduling import quantity
from scheduling.config.plain import Unreadable, load
from scheduling.devices import record
from scheduling.devices.config import parse_device_config
from scheduling.devices.register import read_legacy
from scheduling.objects import node as parse_node
from services.cluster.nodeagent.reading import note

_NAMESPACE = uuid.UUID("4c1e5b1d-3c0f-5f43-8a52-6f5f3b1ac0de")


@dataclass(frozen=True)
class AgentConfig:
    """What the plugin takes from the device ConfigMap: MiB per unit, and the two settings of the core limit."""

    factor: int = 1
    core_scaling_over_one: bool = False
    core_limit_off: bool = False


def agent_config(data: str | None) -> AgentConfig:
    """Read ``device-config.yaml``; what cannot be read keeps its default."""
    if data is None:
        return AgentConfig()
    config, _ = parse_device_config(data)
    try:
        nvidia = mapping(mapping(load(data)[0]).get("nvidia"))
    except Unreadable:
        nvidia = {}
    scaling = nvidia.get("deviceCoreScaling")
    over = isinstance(scaling, int | float) and not isinstance(scaling, bool) and scaling > 1
    return AgentConfig(config.factor, over, nvidia.get("disableCoreLimit") is True)


def environment(pod: Json, node: Json | None, container: str, config: AgentConfig) -> dict[str, str]:
    """Return the container's environment: what its spec gives as text, and what the plugin adds."""
    containers = items(spec(pod).get("containers"))
    place = next((index for index, item in enumerate(containers) if item.get("name") == container), None)
    if place is None:
        return {}
    given = {text(item.get("name")): item.get("value") for item in items(containers[place].get("env"))}
    result = {name: value for name, value in given.items() if name and isinstance(value, str)}
    return result | _vgpu(pod, place, container, config) | _legacy(pod, node, containers[place])


def _vgpu(pod: Json, place: int, container: str, config: AgentConfig) -> dict[str, str]:
    if note(pod, names.BIND_PHASE) != "success":
        return {}
    shares = [share for share in record.decode(note(pod, names.VGPU_IDS)).shares if share.container == place]
    if not shares:
        return {}
    if any(share.suffix for share in shares):
        slices = [f"MIG-{_derived(f'{share.uuid}{share.suffix}')}" for share in shares]
        return {"NVIDIA_VISIBLE_DEVICES": ",".join(slices)}
    limits = {f"CUDA_DEVICE_MEMORY_LIMIT_{i}": f"{x.memory * config.factor}m" for i, x in enumerate(shares)}
    cache = _derived(f"{text(meta(pod).get('uid'))}/{container}")
    limits |= {
        "CUDA_DEVICE_SM_LIMIT": str(shares[0].cores),
        "CUDA_DEVICE_MEMORY_SHARED_CACHE": f"/tmp/vgpu/{cache}.cache",
        "NVIDIA_VISIBLE_DEVICES": ",".join(share.uuid for share in shares),
    }
    if config.core_scaling_over_one:
        limits["CUDA_OVERSUBSCRIBE"] = "true"
    if config.core_limit_off:
        limits["GPU_CORE_UTILIZATION_POLICY"] = "disable"
    return limits


def _derived(name: str) -> str:
    return str(uuid.uuid5(_NAMESPACE, name))


def _legacy(pod: Json, node: Json | None, container: Json) -> dict[str, str]:
    """Legacy sharing (G-11): the card's index, the container's memory and the card's."""
    index = note(pod, names.GPU_INDEX)
    limits = mapping(mapping(container.get("resources")).get("limits"))
    asked = limits.get(names.GPU_MEMORY, limits.get(names.GPU_NUMBER))
    if not index or asked is None:
        return {}
    result = {"NVIDIA_VISIBLE_DEVICES": index}
    memory = quantity.whole(limits.get(names.GPU_MEMORY))
    if memory:
        result["VOLCANO_GPU_ALLOCATED"] = str(memory)
    if node is not None:
        result["VOLCANO_GPU_MEMORY_TOTAL"] = str(read_legacy(parse_node(node))[0].memory)
    return result
