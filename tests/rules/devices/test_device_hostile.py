"""Bad input of any form gives an answer, never an exception, and never a bad book (docs/spec/devices.md K-36)."""

from __future__ import annotations

from typing import Any

import pytest
from device_builders import (
    CORES,
    MEMORY,
    NUMBER,
    PERCENTAGE,
    REGISTER,
    World,
    card,
    env,
    holding,
    mig_card,
    mig_env,
    node,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduling import objects
from scheduling.config.plain import LENGTH_MAX
from scheduling.devices import record
from scheduling.devices.arguments import parse_deviceshare
from scheduling.devices.books import NodeDevices
from scheduling.devices.claims import claim_of, planned_claim
from scheduling.devices.config import DeviceConfig, parse_device_config
from scheduling.devices.fitting import Fit
from scheduling.devices.register import read_cards
from scheduling.devices.request import demand_of

MANY = settings(max_examples=1000)
SOME = settings(max_examples=400)

_SIGNS = [",", ",", ",", ":", ":", ";", "[", "]", "-", " ", "\n", "\x00", "\u0663", "\u00e9"]
_NUMBERS = ["0", "10", "99", "-1", "1e9", "8192", "40960", "4294967296", "9" * 40]
_WORDS = ["GPU-a", "GPU-m", "NVIDIA", "NVIDIA-X", "group1", "true", "mig", "hami-core"]
pieces = st.sampled_from([*_SIGNS, *_NUMBERS, *_WORDS])
garbage = st.one_of(st.lists(pieces, max_size=40).map("".join), st.text(max_size=80))
quantities = st.one_of(
    st.integers(-(10**30), 10**30),
    st.sampled_from(["0", "1", "-1", "0.5", "500m", "1e3", "1e999", "8Gi", "9" * 30, "", "x", "NaN", "+2", ".", "1n"]),
    st.none(),
    st.booleans(),
    st.floats(),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
    st.text(max_size=12),
)
limits = st.dictionaries(
    st.sampled_from(
        [NUMBER, MEMORY, CORES, PERCENTAGE, "volcano.sh/gpu-memory", "volcano.sh/gpu-number", "nvidia.com/gpu", "cpu"]
    ),
    quantities,
    max_size=5,
)
plain = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=6)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=12,
)


@MANY
@given(garbage)
def test_register_texts(text: str) -> None:
    """devices/N-1 to N-7"""
    cards, warnings = read_cards(text)
    assert len({item.uuid for item in cards}) == len(cards)
    assert all(isinstance(item, str) for item in warnings)
    world = World(card("GPU-z"), mig_env())
    world.books = NodeDevices.empty("n1", world.env).with_node(node(text))
    item = objects.pod({"metadata": {"name": "p", "uid": "u"}, "spec": {"containers": [_container({"n": 1})]}})
    answer = world.answer(item)
    if isinstance(answer, Fit) and answer.allocation:
        claim = planned_claim(item, world.env, answer.allocation, "")
        assert claim.shares == answer.shares
        assert not claim.fault


def _container(asked: Any) -> Any:
    return {"name": "c", "resources": {"limits": {"volcano.sh/vgpu-number": 1, **asked}}}


@MANY
@given(garbage)
def test_allocation_records(text: str) -> None:
    """devices/A-4, A-4a, A-5, F-20: what is read can be written, and the books stay whole"""
    found = record.decode(text)
    assert _named(record.decode(record.encode(found.shares)).shares) == _named(found.shares)
    world = World(card("GPU-a") + mig_card(), mig_env(policy="binpack", weight=1))
    empty = world.books
    world.see(holding("x", text, number=2))
    assert world.books.charge("uid-x") is not None
    answer = world.answer(holding("y", "", number=1, memory=10))
    assert answer is not None
    for found_card in world.books.cards:
        assert found_card.used_memory >= 0
    world.drop("x")
    assert world.books == empty


def _named(shares: tuple[record.Share, ...]) -> list[tuple[object, ...]]:
    """The shares without their place among entries that could not be read."""
    return [(item.uuid, item.suffix, item.memory, item.cores, item.container) for item in shares]


@MANY
@given(st.lists(limits, max_size=3), limits, st.dictionaries(st.sampled_from([REGISTER]), garbage), garbage, garbage)
def test_pods_of_any_content(app: list[Any], init: Any, meta: Any, text: str, mode: str) -> None:
    """devices/R-1 to R-9, F-8, F-9, G-2"""
    lists = {"volcano.sh/vgpu-use-gpuuuid": text, "nvidia.com/nouse-gputype": text, "volcano.sh/vgpu-cores": text}
    more = {"volcano.sh/gpu-index": text, "volcano.sh/vgpu-mode": mode, **meta}
    item = objects.pod(
        {
            "metadata": {"name": "p", "namespace": "d", "uid": "u", "annotations": {**lists, **more}},
            "spec": {
                "nodeName": "n1",
                "containers": [{"name": "c", "resources": {"limits": part, "requests": part}} for part in app],
                "initContainers": [{"name": "i", "resources": {"limits": init}}],
            },
        }
    )
    for under in (env(), env(vgpu=False, sharing=True), env(vgpu=False, number=True)):
        demand = demand_of(item, under)
        if demand.kind == "vgpu" and not demand.refusal:
            assert all(demand.charge_before(under).get(name, 0) >= 0 for name in under.resource_names)
        answer = NodeDevices.empty("n1", under).with_node(node(card("GPU-a"))).fit(demand)
        assert answer is not None
        claim_of(item, under)


@SOME
@given(st.dictionaries(st.text(max_size=4), quantities, max_size=3), quantities, quantities, garbage)
def test_nodes_of_any_content(allocatable: Any, number: Any, memory: Any, unhealthy: str) -> None:
    """devices/N-8, G-1"""
    item = objects.node(
        {
            "metadata": {"name": "n1", "annotations": {"volcano.sh/gpu-unhealthy-ids": unhealthy}},
            "status": {
                "allocatable": {**allocatable, "volcano.sh/vgpu-number": number, "volcano.sh/vgpu-memory": memory},
                "capacity": {"volcano.sh/gpu-memory": memory, "volcano.sh/gpu-number": number},
            },
        }
    )
    books = NodeDevices.empty("n1", env(vgpu=False, sharing=True)).with_node(item)
    assert all(isinstance(text, str) for text in books.warnings)


@SOME
@given(st.one_of(garbage, st.text(alphabet="abn :-[]{},&*!|>\n'\"#%@?<<=", max_size=60)))
def test_device_configs_of_any_text(text: str) -> None:
    """devices/N-15"""
    config, warnings = parse_device_config(text)
    assert config.factor >= 1
    assert all(isinstance(item, str) for item in warnings)


@SOME
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "resourceCountName": plain,
            "defaultMemory": plain,
            "deviceMemoryScaling": plain,
            "gpuMemoryFactor": plain,
            "knownMigGeometries": st.one_of(
                plain,
                st.lists(
                    st.fixed_dictionaries(
                        {"models": plain, "allowedGeometries": st.one_of(plain, st.lists(plain, max_size=2))}
                    ),
                    max_size=2,
                ),
            ),
        },
    )
)
def test_device_configs_of_any_shape(content: Any) -> None:
    """devices/N-14a, N-17"""
    import yaml

    config, _ = parse_device_config(yaml.safe_dump({"nvidia": content}))
    assert config.default_memory >= 0
    assert config.number_name
    for geometry in config.geometries:
        assert all(item.memory > 0 and item.count > 0 for group in geometry.groups for item in group.instances)


@SOME
@given(plain, plain)
def test_rules_and_arguments_of_any_shape(rules: Any, other: Any) -> None:
    """devices/P-11, X-2"""
    keys = ("VGPUEnable", "ScheduleWeight", "SchedulePolicy", "KnownGeometriesCMName")
    arguments = {f"deviceshare.{key}": other for key in keys}
    values, errors, warnings = parse_deviceshare({**arguments, "deviceshare.GPUExclusiveRules": rules}, arguments)
    assert values.weight >= 0
    assert not (errors and values.rules and not values.sharing)
    assert all(isinstance(text, str) for text in (*errors, *warnings))


LAUGHS = "a0: &a0 x\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
MERGES = "a0: &a0 {k: v}\n" + "".join(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}\n" for n in range(1, 12))


@pytest.mark.parametrize(
    "text",
    [
        LAUGHS,
        MERGES,
        "[" * 100_000,
        "{a: " * 50_000,
        "- " * 100_000,
        "x" * (LENGTH_MAX + 1),
        "a: &a [*a]",
        "&a {a: *a}",
        "? [a]\n: b",
        '"\\UFFFFFFFF"',
        '"\\U00110000"',
        'nvidia: {resourceCountName: "\\uD800"}',
        "nvidia: !!timestamp nonsense",
        "nvidia: !!bool maybe",
        "nvidia: !!int x",
        "nvidia: !!float x",
        "nvidia: !!binary \u00e9",
        "x: " + "9" * 5000,
        "--- a\n--- b\n",
        "\x00",
        "[1, 2]: {",
        "[" + "a," * 200_00 * 6 + "]",
    ],
    ids=lambda text: repr(text[:24]),
)
def test_yaml_bombs_are_refused(text: str) -> None:
    """devices/N-15: soon, and without a trace"""
    config, warnings = parse_device_config(text)
    assert config == DeviceConfig()
    assert len(warnings) == 1


def test_aliases_in_measure_are_read() -> None:
    """devices/N-14: anchors and merge keys are YAML like any other"""
    text = "x: &x {defaultCores: 5}\nnvidia: {<<: *x, defaultMemory: 7}"
    assert parse_device_config(text)[0] == DeviceConfig(default_cores=5, default_memory=7)


def test_odd_keys_and_tags_can_be_shown() -> None:
    """devices/N-14a: dates and keys that are no text, in the same words every time"""
    text = "nvidia: {defaultCores: 2026-01-01, ? 1 : 2, ? 2026-01-02 : x, gpuMemoryFactor: {2026-01-01: 1}}"
    _, warnings = parse_device_config(text)
    assert warnings == (
        "nvidia.defaultCores: want a whole number up to 100, got string 2026-01-01",
        'nvidia.gpuMemoryFactor: want a whole number, got map {"2026-01-01":1}',
        "unknown keys are ignored: nvidia.1, nvidia.2026-01-02",
    )
