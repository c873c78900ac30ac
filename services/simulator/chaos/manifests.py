"""The objects of a simulated cluster: awkward sizes, exact fits, one more and one less."""

from __future__ import annotations

from random import Random
from typing import Any, Final
from zlib import crc32

from events.canonical import Json
from events.names import DEVICES_TO_ALLOCATE, VGPU_NODE
from services.simulator.chaos.plan import MEMORIES, Setting

NAMESPACE: Final = "lab"
QUEUES: Final = ("default", "small", "wide", "wide")
PRIORITIES: Final = {"low": 10, "mid": 100, "high": 1000}
RULES: Final = ({"workload": "training"}, {"workload": "batch", "tier": "hot"})
CARD_MEMORIES: Final = (3, 7, 11, 21, 22)
#: Slices of the MIG cards below.
MIG_MEMORIES: Final = (9728, 19968, 40192, 80896)

_CONFIG = """actions: "{actions}"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: deviceshare
    arguments:
{arguments}
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
_DEVICES = """nvidia:
  knownMigGeometries:
    - models: [A100-SXM4-80GB]
      allowedGeometries:
        - group: group1
          geometries:
            - {name: 1g.10gb, memory: 9728, count: 7}
        - group: group2
          geometries:
            - {name: 2g.20gb, memory: 19968, count: 3}
            - {name: 1g.10gb, memory: 9728, count: 1}
        - group: group3
          geometries:
            - {name: 3g.40gb, memory: 40192, count: 2}
        - group: group4
          geometries:
            - {name: 7g.80gb, memory: 80896, count: 1}
"""


def configuration(setting: Setting) -> list[Json]:
    """Return the two ConfigMaps."""
    actions = "enqueue, allocate, preempt, reclaim, backfill" if setting.eviction else "enqueue, allocate, backfill"
    arguments = {"deviceshare.GPUSharingEnable" if setting.legacy else "deviceshare.VGPUEnable": "true"}
    if setting.policy:
        arguments["deviceshare.SchedulePolicy"] = setting.policy
    if setting.lock:
        arguments["deviceshare.NodeLockEnable"] = "true"
    lines = [f"      {key}: {value}" for key, value in arguments.items()]
    if setting.exclusive:
        lines.append("      deviceshare.GPUExclusiveRules:")
        for rule in RULES:
            pairs = [f"{key}: {value}" for key, value in rule.items()]
            lines += [f"      {'-' if place == 0 else ' '} {pair}" for place, pair in enumerate(pairs)]
    text = _CONFIG.format(actions=actions, arguments="\n".join(lines))
    return [
        _map("volcano-system", "volcano-scheduler-configmap", "volcano-scheduler.conf", text),
        _map("kube-system", "volcano-vgpu-device-config", "device-config.yaml", _DEVICES),
    ]


def _map(namespace: str, name: str, key: str, text: str) -> Json:
    return {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace},
        "data": {key: text},
    }  # fmt: skip


def node(name: str, setting: Setting, rng: Random) -> Json:
    """Return a node with cards of odd sizes; every third one has MIG cards where the setting has them."""
    mig = setting.mig and rng.random() < 0.4
    cards = []
    for index in range(setting.cards):
        memory = 81920 if mig else rng.choice(CARD_MEMORIES) * setting.unit + rng.choice((-1, 0, 0, 1))
        shares = rng.choice((1, 3, 7, 10))
        model, mode = ("NVIDIA-NVIDIA A100-SXM4-80GB", "mig") if mig else ("NVIDIA-Tesla T4", "hami-core")
        cards.append(f"GPU-{name}-{index},{shares},{max(memory, 1)},{model},true,{mode}:")
    cpus = ("3", "3", "4") if setting.eviction else ("3", "7", "11")
    allocatable = {"cpu": rng.choice(cpus), "memory": "64Gi", "pods": rng.choice(("7", "11", "110"))}
    if setting.legacy:
        allocatable |= {"volcano.sh/gpu-number": str(setting.cards), "volcano.sh/gpu-memory": str(11 * setting.cards)}
        notes = {}
    else:
        notes = {"volcano.sh/node-vgpu-register": "".join(cards)}
        allocatable |= offered(cards)
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}, "annotations": notes},
        "status": {"capacity": allocatable, "allocatable": allocatable,
                   "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip


def offered(cards: list[str]) -> dict[str, str]:
    """Return what a node with these registered cards offers."""
    parts = [card.split(",") for card in cards]
    return {
        "volcano.sh/vgpu-number": str(sum(int(part[1]) for part in parts)),
        "volcano.sh/vgpu-memory": str(sum(int(part[2]) for part in parts)),
        "volcano.sh/vgpu-cores": str(100 * len(parts)),
    }


def queue(name: str, setting: Setting, rng: Random) -> Json:
    spec: Json = {"weight": rng.choice((1, 3, 7)), "reclaimable": True}
    if name == "small":
        spec["capability"] = capability(setting, rng)
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip


def capability(setting: Setting, rng: Random) -> dict[str, str]:
    """Return what the queue with a limit may hold."""
    return {
        "volcano.sh/vgpu-number": str(rng.choice((3, 7, 11))),
        "volcano.sh/vgpu-memory": str(rng.choice((11, 21, 22)) * setting.unit + rng.choice((-1, 0, 1))),
    }


def priority(name: str) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name},
        "value": PRIORITIES[name],
    }  # fmt: skip


def pod(name: str, setting: Setting, rng: Random, group: str = "") -> Json:
    """Return a pod of an awkward size."""
    labels: dict[str, str] = {}
    if setting.exclusive and rng.random() < 0.6:
        labels = dict(rng.choice(RULES))
    notes = {"scheduling.k8s.io/group-name": group} if group else {}
    if not group and setting.queues and rng.random() < 0.6:
        notes["scheduling.volcano.sh/queue-name"] = rng.choice(QUEUES)
    spec: Json = {"schedulerName": "volcano", "containers": _containers(setting, rng)}
    if crc32(repr((name, spec)).encode()) % 13 == 0:  # a copied manifest carries the marks of another pod
        notes |= {VGPU_NODE: "n0", DEVICES_TO_ALLOCATE: "GPU-n0-0,NVIDIA,1,0:"}
    if setting.eviction and rng.random() < 0.7:
        spec["priorityClassName"] = rng.choice(("low", "mid", "high", "high", "high"))
    if rng.random() < 0.1:
        notes["volcano.sh/preemptable"] = rng.choice(("true", "false"))
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels, "annotations": notes}, "spec": spec,
    }  # fmt: skip


def _containers(setting: Setting, rng: Random) -> list[Json]:
    count = 1 if rng.random() < 0.85 else 2
    return [
        {"name": f"c{index}", "image": "none", "resources": {"limits": _limits(setting, rng)}} for index in range(count)
    ]


def _limits(setting: Setting, rng: Random) -> dict[str, Any]:
    limits: dict[str, Any] = {}
    if setting.eviction:  # CPU is short, since any pod can leave that to any other
        limits["cpu"] = rng.choice(("1", "1", "700m", "1100m", "2"))
    elif rng.random() < 0.3:
        limits["cpu"] = rng.choice(("1", "3", "700m", "1100m"))
    if rng.random() < (0.4 if setting.eviction else 0.1):
        return limits
    if setting.legacy:
        return {**limits, "volcano.sh/gpu-memory": str(rng.choice(MEMORIES))}
    limits["volcano.sh/vgpu-number"] = str(rng.choice((1, 1, 1, 1, 2, 3)))
    if setting.mig and rng.random() < 0.4:
        limits["volcano.sh/vgpu-memory"] = str(rng.choice(MIG_MEMORIES) + rng.choice((-1, 0, 1)))
    elif rng.random() < 0.9:
        sizes = (1, 1, 3, 7) if setting.eviction else MEMORIES
        limits["volcano.sh/vgpu-memory"] = str(max(1, rng.choice(sizes) * setting.unit + rng.choice((-1, 0, 0, 1))))
    if rng.random() < 0.3:
        limits["volcano.sh/vgpu-cores"] = str(rng.choice((1, 30, 33, 50, 100)))
    return limits


def group(name: str, members: int, setting: Setting, rng: Random) -> Json:
    """Return a PodGroup that needs all, some, or one more than its members; who is too many may be made to go."""
    spares = (-5, -4, -3, -2, -1, 0, 1) if setting.eviction else (-2, -1, 0, 0, 0, 0, 1)
    minimum = max(1, members + rng.choice(spares))
    spec: Json = {"minMember": minimum}
    if setting.queues:
        spec["queue"] = rng.choice(QUEUES)
    if setting.eviction and rng.random() < 0.7:
        spec["priorityClassName"] = rng.choice(("low", "low", "low", "mid", "high"))
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec,
    }  # fmt: skip


def job(name: str, setting: Setting, rng: Random) -> Json:
    replicas = rng.choice((1, 2, 3))
    template = pod("template", setting, rng)
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "schedulerName": "volcano", "queue": "default", "minAvailable": replicas, "maxRetry": 3,
            "tasks": [{"name": "t", "replicas": replicas, "template": {
                "metadata": {"labels": template["metadata"]["labels"]},
                "spec": {**template["spec"], "restartPolicy": "Never"}}}],
        },
    }  # fmt: skip
