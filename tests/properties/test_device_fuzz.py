"""200,000 generated inputs: register texts, allocation records, ConfigMaps, quantities. Nothing escapes, nothing hangs.

Seeded mutation instead of shrinking: pieces of valid texts, broken in the ways that texts break. A case that fails is
named with its seed. After each, a plain pod is still answered (one bad object leaves the rest alone).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from events import names
from scheduling import objects, quantity, resources
from scheduling.config.parse import parse
from scheduling.devices.arguments import DeviceShareArgs
from scheduling.devices.books import NodeDevices
from scheduling.devices.claims import claim_of
from scheduling.devices.config import DeviceConfig, parse_device_config
from scheduling.devices.environment import DeviceEnv
from scheduling.devices.fitting import Fit, Misfit
from scheduling.devices.request import demand_of
from scheduling.nodes.view import NodeTask, NodeView
from scheduling.status import TaskStatus

ENV = DeviceEnv(DeviceConfig(), DeviceShareArgs(vgpu=True))
AMOUNTS = {"cpu": "8", "pods": "10", names.VGPU_NUMBER: "20", names.VGPU_MEMORY: "16384", names.VGPU_CORES: "200"}
GOOD = "GPU-a,10,8192,NVIDIA-X,true,hami-core:GPU-b,10,8192,NVIDIA-X,true,mig:"
NUMBERS = [
    "0", "1", "-1", "007", "2147483647", "2147483648", "4294967296", "9223372036854775807", "9223372036854775808",
    "1e3", "1e999", "-1e-999", "0x10", "1.5", ".5", "5.", "1_000", "NaN", "Inf", "-Inf", "true", "", " ",
    "\uff11\uff12", "\u0663",
    "1Ki", "3Gi", "1Ei", "999Ei", "0.0000001n", "1u", "1m", "10k", "1kk", "+5", "++5", "9" * 70,
]  # fmt: skip
PIECES = [
    "GPU-a", "GPU-b", "GPU-", "", "NVIDIA", "NVIDIA-X", "hami-core", "mig", "mps", "true", "false", "T", ",", ":", ";",
    "[", "]", "-", "[group1-0]", "[group1-99]", "[-]", "[group-1-0]", "\x00", "\u202e", "\ud800", "é", "💥", "\n", "\t",
    "a" * 300, "{", "}", "'", '"', "#", "&a", "*a", "!!python/object", "|", "- ", "? ", "\\UFFFFFFFF", *NUMBERS,
]  # fmt: skip
YAML = [
    "actions: ", "tiers:", "- plugins:", "  - name: ", "    arguments:", "deviceshare", "deviceshare.VGPUEnable: ",
    "nvidia:", "  resourceCountName: ", "  knownMigGeometries:", "  - models: [A30]", "    allowedGeometries:",
    "    - group: group1", "      geometries: [{name: x, memory: 1, count: 1}]", "configurations:", "\n", "  ", "\n  ",
]  # fmt: skip


def mutated(rng: random.Random, text: str, pieces: list[str]) -> str:
    for _ in range(rng.randrange(6)):
        place = rng.randrange(len(text) + 1)
        cut = rng.choice((0, 0, 1, 3, 20))
        text = text[:place] + rng.choice(pieces) + text[place + cut :]
    return text


def assembled(rng: random.Random, pieces: list[str]) -> str:
    return "".join(rng.choice(pieces) for _ in range(rng.randrange(14)))


def one_of(rng: random.Random, text: str, pieces: list[str] = PIECES) -> str:
    return mutated(rng, text, pieces) if rng.random() < 0.6 else assembled(rng, pieces)


def node(register: str, allocatable: dict[str, Any] | None = None) -> objects.Node:
    meta = {"name": "n1", "annotations": {names.NODE_REGISTER: register}}
    return objects.node({"metadata": meta, "status": {"allocatable": allocatable or AMOUNTS}})


def pod(limits: dict[str, Any], **annotations: str) -> objects.Pod:
    meta = {"namespace": "ns", "name": "p", "uid": "u", "annotations": annotations}
    container = {"name": "c", "resources": {"limits": limits, "requests": limits}}
    return objects.pod({"metadata": meta, "spec": {"containers": [container]}, "status": {"phase": "Pending"}})


PLAIN = demand_of(pod({names.VGPU_NUMBER: "1", names.VGPU_MEMORY: "1"}), ENV)


def answered(books: NodeDevices) -> None:
    assert isinstance(books.fit(PLAIN), Fit | Misfit)


def register_text(rng: random.Random) -> None:
    """devices/N-1 to N-7."""
    amounts = {key: rng.choice(NUMBERS) if rng.random() < 0.1 else value for key, value in AMOUNTS.items()}
    answered(NodeDevices.empty("n1", ENV).with_node(node(one_of(rng, GOOD), amounts)))


def record(rng: random.Random) -> None:
    """devices/A-4, A-4a, F-20: a live pod with any record; books add up and are undone exactly."""
    text = one_of(rng, "GPU-a,NVIDIA,2000,30:;GPU-b[group1-0],NVIDIA,1000,0:")
    holder = objects.pod(
        {
            "metadata": {"namespace": "ns", "name": "h", "uid": "h", "annotations": {names.VGPU_IDS: text}},
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "resources": {"limits": {names.VGPU_NUMBER: 1}}}]},
            "status": {"phase": "Running"},
        }
    )
    claim = claim_of(holder, ENV)
    if claim is None:
        return
    before = _BOOKS
    after = before.with_claim(claim)
    answered(after)
    view = NodeView("n1", node(GOOD), {"h": NodeTask(holder, holder.request, TaskStatus.RUNNING)}, after)
    assert all(isinstance(value, int) for value in view.idle.values())
    assert after.without_claim("h").cards == before.cards


_BOOKS = NodeDevices.empty("n1", ENV).with_node(node(GOOD))


def request(rng: random.Random) -> None:
    """devices/R-1 to R-9, R-8: any quantity in any place."""
    limits = {
        name: rng.choice(NUMBERS)
        for name in (names.VGPU_NUMBER, names.VGPU_MEMORY, names.VGPU_CORES, names.VGPU_MEMORY_PERCENTAGE)
        if rng.random() < 0.6
    }
    asked = pod(limits, **{names.VGPU_CORES: rng.choice(NUMBERS), names.USE_GPU_UUID: one_of(rng, "GPU-a, GPU-b")})
    demand = demand_of(asked, ENV)
    assert isinstance(_BOOKS.fit(demand), Fit | Misfit)
    assert all(isinstance(value, int) for value in demand.charge_before(ENV).values())


def number(rng: random.Random) -> None:
    """devices/R-5a, R-8, scheduling/R-1: exact, or none."""
    text = one_of(rng, rng.choice(NUMBERS), NUMBERS)
    exact = quantity.parse(text)
    assert quantity.canonical(text) is not None
    if exact is not None:
        assert quantity.parse(quantity.canonical(text)) is not None
    assert all(isinstance(value, int) for value in resources.vector({"cpu": text, "a/b": text}).values())


def config_map(rng: random.Random) -> None:
    """devices/N-14 to N-17, scheduling/CFG-6: read, or refused with words."""
    text = assembled(rng, [*YAML, *PIECES]) if rng.random() < 0.5 else mutated(rng, "".join(YAML), [*YAML, *PIECES])
    config, warnings = parse_device_config(text)
    assert isinstance(config, DeviceConfig)
    assert all(isinstance(warning, str) for warning in warnings)
    report = parse(text)
    assert report.config is not None or report.errors


@pytest.mark.parametrize(
    ("case", "count"),
    [(register_text, 45_000), (record, 35_000), (request, 40_000), (number, 70_000), (config_map, 10_000)],
)
def test_nothing_escapes(case: Callable[[random.Random], None], count: int) -> None:
    for seed in range(count):
        try:
            case(random.Random(seed))
        except Exception as error:
            raise AssertionError(f"{case.__name__}, seed {seed}: {error!r}") from error
