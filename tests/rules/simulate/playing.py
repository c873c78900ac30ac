"""Small scenarios for tests: a cluster's usual documents, and a way to play a text."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import yaml

from services.simulator.player import Player
from services.simulator.scenario import read_plays

CARD = "GPU-00000000-0000-4000-8000-000000000001"
EVERYTHING = [
    "no-oversubscription", "one-bind-per-pod", "gang-atomic", "queue-cap", "annotation-matches-node",
    "no-dead-node-binding", "exclusive-rule", "pending-has-no-claim", "released", "replay-equal", "no-crash",
]  # fmt: skip


def node(name: str = "gpu-01", cards: int = 1, memory: int = 12288, **more: Any) -> dict[str, Any]:
    """Return a vGPU node whose cards' UUIDs end in the node's number and the card's."""
    number = int(name.rpartition("-")[2])
    uuids = [f"GPU-00000000-0000-4000-8{number - 1:03d}-{card + 1:012d}" for card in range(cards)]
    register = "".join(f"{uuid},10,{memory},NVIDIA-Tesla T4,true,hami-core:" for uuid in uuids)
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "annotations": {"volcano.sh/node-vgpu-register": register}, **more},
        "status": {"allocatable": {
            "cpu": "32", "memory": "128Gi", "pods": "110", "volcano.sh/vgpu-number": str(10 * cards),
            "volcano.sh/vgpu-memory": str(memory * cards), "volcano.sh/vgpu-cores": str(100 * cards),
        }},
    }  # fmt: skip


def pod(name: str, memory: int = 4000, **meta: Any) -> dict[str, Any]:
    """Return a pod that asks for one share of a card; ``spec`` replaces fields of its spec."""
    spec = meta.pop("spec", {})
    limits = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": memory}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-a", **meta},
        "spec": {
            "schedulerName": "volcano",
            "containers": [{"name": "main", "image": "example.test/cuda:12", "resources": {"limits": limits}}],
            **spec,
        },
    }  # fmt: skip


def group(name: str, minimum: int, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "team-a"}, "spec": {"minMember": minimum, **spec},
    }  # fmt: skip


def member(name: str, of: str, memory: int = 4000, **meta: Any) -> dict[str, Any]:
    return pod(name, memory, annotations={"scheduling.k8s.io/group-name": of}, **meta)


def text(steps: list[Any] | None, expect: list[Any], *documents: dict[str, Any]) -> str:
    """Return a scenario file."""
    head: dict[str, Any] = {"apiVersion": "gpuledger.dev/v1", "kind": "Scenario", "expect": expect}
    if steps is not None:
        head["steps"] = steps
    return yaml.safe_dump_all([head, *documents], sort_keys=False)


def player(path: Path, content: str) -> tuple[Player, list[str]]:
    """Play a file's content; return the player, and the lines without the file's name."""
    path.write_text(content)
    (play,) = read_plays([str(path)])
    one = Player(play, 0)
    outcome = asyncio.run(one.run("table"))
    return one, [line.removeprefix(f"{path}: ") for line in outcome.lines]
