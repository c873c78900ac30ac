"""The device ConfigMap: devices/N-14 to N-17."""

from __future__ import annotations

import pytest
from device_builders import World, config_env, env, mig_card, mig_env, node, pod

from scheduling.devices.books import NodeDevices
from scheduling.devices.config import DeviceConfig, parse_device_config
from scheduling.devices.geometry import Geometry, Group, Instance

FULL = """
nvidia:
  resourceCountName: x.io/n
  resourceMemoryName: x.io/m
  resourceMemoryPercentageName: x.io/p
  resourceCoreName: x.io/c
  resourcePriorityName: x.io/prio
  overwriteEnv: false
  defaultMemory: 2000
  defaultCores: 30
  defaultGPUNum: 2
  deviceSplitCount: 10
  deviceMemoryScaling: 1.5
  deviceCoreScaling: 1
  disableCoreLimit: true
  gpuMemoryFactor: 10
  passDeviceSpecs: true
  knownMigGeometries:
  - models: ["A30"]
    allowedGeometries:
    - group: group1
      geometries:
      - {name: 1g.6gb, memory: 6144, count: 4}
vnpus:
- chipName: 910A
"""


def geometry(groups: str) -> tuple[tuple[Group, ...], tuple[str, ...]]:
    text = f"nvidia: {{knownMigGeometries: [{{models: [A], allowedGeometries: {groups}}}]}}"
    config, warnings = parse_device_config(text)
    return config.geometries[0].groups, warnings


def test_n14_every_key() -> None:
    """devices/N-14"""
    config, warnings = parse_device_config(FULL)
    assert warnings == ()
    assert config == DeviceConfig(
        "x.io/n",
        "x.io/m",
        "x.io/p",
        "x.io/c",
        default_memory=2000,
        default_cores=30,
        default_number=2,
        factor=10,
        geometries=(Geometry(("A30",), (Group("group1", (Instance("1g.6gb", 6144, 4),)),)),),
    )


@pytest.mark.parametrize(
    "text", [None, "", "nvidia:", "nvidia: {}", "{}", "vnpus: {a: [1]}", "nvidia: {defaultMemory: }"]
)
def test_n15_what_is_missing_has_its_default(text: str | None) -> None:
    """devices/N-15, N-14 (K-20)"""
    assert parse_device_config(text) == (DeviceConfig(), ())


@pytest.mark.parametrize(
    "text", ["{", "a: b: c", "[1, 2", "\t- x", "nvidia: !!python/object:os.system {}", "- - : -", "*x"]
)
def test_n15_broken_yaml_gives_defaults(text: str) -> None:
    """devices/N-15"""
    config, warnings = parse_device_config(text)
    assert config == DeviceConfig()
    assert len(warnings) == 1
    assert "default values are used" in warnings[0]


def test_n14_partial_names() -> None:
    """devices/N-14, N-15: one name renamed, the others at their default"""
    config, _ = parse_device_config("nvidia: {resourceCountName: nvidia.com/gpu, resourceCoreName: ''}")
    assert config == DeviceConfig(number_name="nvidia.com/gpu")


def test_n14a_unknown_keys_in_one_warning() -> None:
    """devices/N-14a"""
    text = (
        "top: 1\nnvidia:\n  odd: 2\n  defaultCores: 5\n  knownMigGeometries:\n"
        "  - models: [A]\n    more: 1\n    allowedGeometries:\n"
        "    - {group: g, x: 1, geometries: [{name: i, memory: 1, count: 1, y: 2}]}"
    )
    config, warnings = parse_device_config(text)
    path = "nvidia.knownMigGeometries[0]"
    (warning,) = warnings
    assert warning.startswith("unknown keys are ignored: ")
    assert sorted(warning.split(": ")[1].split(", ")) == [
        f"{path}.allowedGeometries[0].geometries[0].y",
        f"{path}.allowedGeometries[0].x",
        f"{path}.more",
        "nvidia.odd",
        "top",
    ]
    assert config.default_cores == 5
    assert config.geometries[0].groups == (Group("g", (Instance("i", 1, 1),)),)


def test_n14a_a_number_in_quotes_is_that_number() -> None:
    """devices/N-14a"""
    config, warnings = parse_device_config('nvidia: {defaultMemory: "2000", deviceSplitCount: "7"}')
    assert config.default_memory == 2000
    assert warnings == (
        'nvidia.deviceSplitCount: the number "7" is written in quotes',
        'nvidia.defaultMemory: the number "2000" is written in quotes',
    )
    groups, warnings = geometry("[{group: half, geometries: [{name: 3g.20gb, memory: '20480', count: '2'}]}]")
    assert groups == (Group("half", (Instance("3g.20gb", 20480, 2),)),)
    assert len(warnings) == 2


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("defaultMemory: x", "string x"),
        ("defaultMemory: -1", "integer -1"),
        ("defaultMemory: 1.5", "number 1.5"),
        ("defaultMemory: [1]", "list [1]"),
        ("defaultCores: 101", "integer 101"),
        ("defaultGPUNum: true", "boolean true"),
        ("gpuMemoryFactor: {a: 1}", 'map {"a":1}'),
        ("resourceCountName: 5", "integer 5"),
        ("overwriteEnv: 'yes'", "string yes"),
        ("deviceMemoryScaling: 0", "integer 0"),
        ("deviceCoreScaling: x", "string x"),
        ("knownMigGeometries: 7", "integer 7"),
        ("deviceSplitCount: 99999999999999999999999999", "integer 99999999999999999999999999"),
    ],
)
def test_n14a_a_wrong_value_costs_its_own_key_only(line: str, shown: str) -> None:
    """devices/N-14a (K-39)"""
    config, warnings = parse_device_config(f"nvidia:\n  {line}\n  resourceCoreName: x.io/c\n")
    assert config == DeviceConfig(cores_name="x.io/c")
    (warning,) = warnings
    assert warning.startswith(f"nvidia.{line.split(':')[0]}: ")
    assert warning.endswith(f"got {shown}")


@pytest.mark.parametrize("text", ["5", "[]", "text", "nvidia: []", "nvidia: 3"])
def test_n14a_sections_of_a_wrong_type(text: str) -> None:
    """devices/N-14a"""
    config, warnings = parse_device_config(text)
    assert config == DeviceConfig()
    assert len(warnings) == 1


@pytest.mark.parametrize(
    "group",
    [
        "{group: '', geometries: [{name: i, memory: 1, count: 1}]}",
        "{geometries: [{name: i, memory: 1, count: 1}]}",
        "{group: 3, geometries: [{name: i, memory: 1, count: 1}]}",
        "{group: g}",
        "{group: g, geometries: []}",
        "{group: g, geometries: x}",
        "{group: g, geometries: [3]}",
        "{group: g, geometries: [{memory: 1, count: 1}]}",
        "{group: g, geometries: [{name: i, memory: 0, count: 1}]}",
        "{group: g, geometries: [{name: i, memory: 1, count: 0}]}",
        "{group: g, geometries: [{name: i, memory: 1, count: x}]}",
        "{group: g, geometries: [{name: i, memory: 1.5, count: 1}]}",
        "{group: g, geometries: [{name: i, count: 1}]}",
        "{group: g, geometries: [{name: i, memory: 1, count: 1}, {name: i, memory: 2, count: 1}]}",
        "3",
        *(
            f"{{group: 'a{sign}b', geometries: [{{name: i, memory: 1, count: 1}}]}}"
            for sign in ("-", "[", "]", ",", ":", ";", " ")
        ),
    ],
)
def test_n17_a_bad_group_is_dropped_alone(group: str) -> None:
    """devices/N-17 (K-15)"""
    groups, warnings = geometry(f"[{group}, {{group: good, geometries: [{{name: i, memory: 1, count: 1}}]}}]")
    assert [item.name for item in groups] == ["good"]
    assert len(warnings) == 1
    assert "is dropped" in warnings[0]


def test_n17_group_names_are_unique_in_a_model_entry() -> None:
    """devices/N-17"""
    one, two = (f"{{group: g, geometries: [{{name: i, memory: {size}, count: 1}}]}}" for size in (1, 2))
    groups, warnings = geometry(f"[{one}, {two}]")
    assert groups == (Group("g", (Instance("i", 1, 1),)),)
    assert "the name g is taken" in warnings[0]


def test_n17_the_short_form() -> None:
    """devices/N-17, S-10"""
    groups, warnings = geometry("[{name: 1g.5gb, memory: 5120, count: 7}, {name: 3g.20gb, memory: 20480, count: 2}]")
    assert groups == (
        Group("group1", (Instance("1g.5gb", 5120, 7),)),
        Group("group2", (Instance("3g.20gb", 20480, 2),)),
    )
    assert [text.split(": ")[1].split(";")[0] for text in warnings] == [
        "the short form is read as group1",
        "the short form is read as group2",
    ]


def test_n16_a_change_counts_at_once_and_used_groups_stay() -> None:
    """devices/N-16, N-22"""
    world = World(mig_card(), mig_env())
    world.place(pod("p", number=1, memory=8000))
    groups = world.env.config.geometries[0].groups
    kept = config_env(world.env, geometries=(Geometry(("A100",), groups[1:2]),))
    gone = config_env(world.env, geometries=(Geometry(("A100",), groups[:1]),))
    assert world.books.with_env(kept).cards[0].usable
    assert world.books.with_env(kept).cards[0].used_memory == 10240
    assert not world.books.with_env(gone).cards[0].usable
    assert world.books.with_env(gone).cards[0].used_memory == 8000
    assert world.books.with_env(gone).with_env(world.env) == world.books


def test_n16_defaults_of_the_configuration_reach_requests() -> None:
    """devices/N-14: defaultMemory, defaultCores (R-5, R-7)"""
    config = DeviceConfig(default_memory=2000, default_cores=30)
    world = World("GPU-a,10,8192,NVIDIA-X,true,hami-core:", env(config))
    assert world.place(pod("p", number=1)) == "GPU-a,NVIDIA,2000,30:"
    assert NodeDevices.empty("n1", env()).with_node(node(None)).with_env(env(config)).env.config is config
