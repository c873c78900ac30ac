"""Nodes and their cards: devices/N-1 to N-13, N-20 to N-23."""

from __future__ import annotations

import pytest
from device_builders import (
    A100,
    CORES,
    MEMORY,
    NUMBER,
    World,
    card,
    config_env,
    env,
    mig_card,
    mig_env,
    node,
    pod,
)

from scheduling.devices import register
from scheduling.devices.books import NodeDevices
from scheduling.devices.config import DeviceConfig
from scheduling.devices.fitting import Misfit

GOOD = "GPU-a,10,8192,NVIDIA-NVIDIA GeForce RTX 3070 Ti,true,hami-core:"
ONE = {"number": 1, "memory": 100}


def books(text: str | None, allocatable: object = None) -> NodeDevices:
    return NodeDevices.empty("n1", env()).with_node(node(text, allocatable=allocatable))  # type: ignore[arg-type]


def test_n1_n2_a_card_is_read_field_by_field() -> None:
    """devices/N-1, N-2, N-6"""
    found = books(GOOD)
    (only,) = found.cards
    assert found.is_vgpu_node
    assert (only.uuid, only.index, only.shares, only.memory) == ("GPU-a", 0, 10, 8192)
    assert (only.type, only.mode, only.healthy) == ("NVIDIA-NVIDIA GeForce RTX 3070 Ti", "hami-core", True)


def test_n2_fields_after_the_sixth_are_ignored() -> None:
    """devices/N-2"""
    assert books("GPU-a,10,8192,NVIDIA-X,true,mig,0,more:").cards[0].mode == "mig"


@pytest.mark.parametrize("word", ["1", "t", "T", "TRUE", "true", "True"])
def test_n2_health_words(word: str) -> None:
    """devices/N-2"""
    assert books(f"GPU-a,10,8192,NVIDIA-X,{word},hami-core:").cards[0].usable


@pytest.mark.parametrize("word", ["0", "f", "F", "FALSE", "false", "False"])
def test_n20_an_unhealthy_card_takes_no_pods(word: str) -> None:
    """devices/N-2, N-20"""
    world = World(f"GPU-a,10,8192,NVIDIA-X,{word},hami-core:", env())
    assert not world.books.registration.warnings
    assert world.words(pod("p", **ONE)) == ["card-unusable"]


@pytest.mark.parametrize("text", [None, "", "GPU-a,10,8192,NVIDIA-X,true,hami-core", ":", "junk:", "::x:"])
def test_n3_no_colon_or_no_card(text: str | None) -> None:
    """devices/N-3"""
    found = books(text)
    assert not found.is_vgpu_node
    assert found.cards == ()


def test_n4_a_short_card_voids_the_node() -> None:
    """devices/N-4"""
    found = books(GOOD + "GPU-b,10,8192,NVIDIA-X,true:")
    assert not found.is_vgpu_node
    assert found.cards == ()
    assert found.warnings == ("wrong Node GPU info: GPU-b,10,8192,NVIDIA-X,true",)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("GPU-a,x,8192,NVIDIA-X,true,hami-core:", (0, 8192, True)),
        ("GPU-a,10,8Gi,NVIDIA-X,true,hami-core:", (10, 0, True)),
        ("GPU-a,-1,8192,NVIDIA-X,true,hami-core:", (0, 8192, True)),
        ("GPU-a,10,-5,NVIDIA-X,true,hami-core:", (10, 0, True)),
        ("GPU-a,10,8192,NVIDIA-X,yes,hami-core:", (10, 8192, False)),
        ("GPU-a,10,99999999999999999999,NVIDIA-X,true,hami-core:", (10, 0, True)),
    ],
)
def test_n5_unreadable_values_warn_and_close_the_card(text: str, values: tuple[int, int, bool]) -> None:
    """devices/N-5"""
    world = World(text, env())
    (only,) = world.books.cards
    assert (only.shares, only.memory, only.healthy) == values
    assert world.books.is_vgpu_node
    assert len(world.books.warnings) == 1
    assert world.words(pod("p", **ONE)) == ["card-unusable"]


def test_n6_index_is_the_place_in_the_text() -> None:
    """devices/N-6: stray parts count for the index, and nothing hangs on it (K-18)"""
    world = World("junk:" + GOOD, env())
    assert [item.index for item in world.books.cards] == [1]
    assert world.place(pod("p", **ONE)) == "GPU-a,NVIDIA,100,0:"


def test_n7_the_first_of_equal_uuids_counts() -> None:
    """devices/N-7"""
    found = books(card("GPU-a", 8192) + card("GPU-a", 4096))
    assert [item.memory for item in found.cards] == [8192]
    assert found.warnings == ("card GPU-a is registered twice; only the first entry counts",)


@pytest.mark.parametrize("missing", [NUMBER, MEMORY, CORES])
@pytest.mark.parametrize("value", [None, "0", "junk"])
def test_n8_all_three_resources_must_be_there(missing: str, value: str | None) -> None:
    """devices/N-8"""
    offered = {NUMBER: "10", MEMORY: "8192", CORES: "100", missing: value}
    if value is None:
        del offered[missing]
    assert not books(GOOD, offered).is_vgpu_node
    assert not NodeDevices.empty("n1", env()).with_node(node(GOOD, allocatable={})).is_vgpu_node


def test_n8_the_configured_names_count() -> None:
    """devices/N-8, R-12: renamed resources make a vGPU node (K-19)"""
    renamed = config_env(env(), number_name="x.io/n", memory_name="x.io/m", cores_name="x.io/c")
    item = node(GOOD, allocatable={"x.io/n": "10", "x.io/m": "8192", "x.io/c": "100"})
    assert NodeDevices.empty("n1", renamed).with_node(item).is_vgpu_node
    assert not NodeDevices.empty("n1", env()).with_node(item).is_vgpu_node
    assert NodeDevices.empty("n1", env()).with_node(item).with_env(renamed).is_vgpu_node


def test_n8a_the_first_sight_of_a_node_is_enough() -> None:
    """devices/N-8a"""
    assert World(GOOD, env()).place(pod("p", **ONE)) == "GPU-a,NVIDIA,100,0:"


def test_n9_a_node_without_cards_takes_no_vgpu_pod() -> None:
    """devices/N-9"""
    for item in (None, node(None), node("junk")):
        found = NodeDevices.empty("n1", env()).with_node(item)
        world = World(GOOD, env())
        world.books = found
        answer = world.answer(pod("p", **ONE))
        assert answer == Misfit(3, "hami-vgpuDeviceSharing error", "node n1 has no registered vGPU devices")


def test_n10_a_second_device_agent_is_reported() -> None:
    """devices/N-10"""
    offered = {NUMBER: "10", MEMORY: "8192", CORES: "100", "nvidia.com/gpu": "1"}
    found = books(GOOD, offered)
    assert found.is_vgpu_node
    assert found.warnings == (
        "node n1 offers nvidia.com/gpu besides volcano.sh/vgpu-number: two device agents on one node",
    )
    assert not books(GOOD, {**offered, "nvidia.com/gpu": "0"}).warnings


@pytest.mark.parametrize("word", ["mps", "none", "", "MIG", "hami-core"])
def test_n11_every_other_word_is_hami_core(word: str) -> None:
    """devices/N-11"""
    assert books(f"GPU-a,10,8192,NVIDIA-X,true,{word}:").cards[0].mode == "hami-core"


def test_n12_each_card_has_its_own_mode() -> None:
    """devices/N-12, R-14: on a mixed node a pod sees the cards of the mode it asks for"""
    world = World(card("GPU-h") + mig_card(), mig_env())
    for mode, allocation in (("hami-core", "GPU-h,NVIDIA,100,0:"), ("mig", "GPU-m[group1-0],NVIDIA,100,0:")):
        assert world.place(pod(mode, annotations={"volcano.sh/vgpu-mode": mode}, **ONE)) == allocation


def test_n12_only_usable_cards_make_the_mode() -> None:
    """devices/N-12: without a usable card all of them do"""
    broken = "GPU-x,10,8192,NVIDIA-X,false,mig:"
    mode = "pod required sharing mode mig is not the same as the node mode "
    asks = pod("p", annotations={"volcano.sh/vgpu-mode": "mig"}, **ONE)
    assert World(card("GPU-h") + broken, env()).place(asks) == mode + "hami-core"
    assert World("GPU-h,10,8192,NVIDIA-X,false,hami-core:" + broken, env()).place(asks) == mode + "mixed"
    assert World(broken, env()).place(asks) == "not enough gpu fitted on this node"


def test_n13_a_model_without_geometry_closes_its_card_only() -> None:
    """devices/N-13, F-4a (K-9)"""
    unknown = card("GPU-u", 40960, 7, "NVIDIA-H900", "mig")
    answer = World(unknown, mig_env()).answer(pod("p", **ONE))
    assert answer == Misfit(
        3,
        "hami-vgpuDeviceSharing error",
        "no MIG geometry for GPU type NVIDIA-H900",
        (("GPU-u", "card-unusable"),),
    )
    both = World(unknown + mig_card(), mig_env())
    assert both.place(pod("p", **ONE)) == "GPU-m[group1-0],NVIDIA,100,0:"
    assert both.books.warnings == ("card GPU-u: no MIG geometry for GPU type NVIDIA-H900",)


def test_n13_models_are_case_sensitive_parts_and_the_first_entry_wins() -> None:
    """devices/N-13"""
    from scheduling.devices.geometry import Geometry, Group, Instance, groups_of

    first, second = (Group(name, (Instance("i", 1, 1),)) for name in ("first", "second"))
    listed = (Geometry(("a100", "A100"), (first,)), Geometry(("A100-SXM4",), (second,)))
    assert groups_of(listed, A100) == (first,)
    assert groups_of(listed[1:], A100) == (second,)
    assert groups_of(listed[:1], "NVIDIA-A30") == ()


def test_no_record_can_name_a_card_with_such_a_uuid() -> None:
    """devices/A-4c, A-5: a share on it could not be read back, so it takes none"""
    for uuid in ("", "GPU[1", "GPU;1"):
        world = World(f"{uuid},10,8192,NVIDIA-X,true,hami-core:", env())
        assert world.words(pod("p", **ONE)) == ["card-unusable"]
        assert len(world.books.warnings) == 1


def test_a12_the_node_agent_needs_gpu_in_the_uuid() -> None:
    """devices/A-12"""
    assert books(card("CARD-1")).warnings == (
        "card CARD-1: the node agent knows its work by GPU in the UUID, which this one lacks",
    )
    assert books(card("CARD-1")).cards[0].usable


def test_c20_factor_zero_is_one() -> None:
    """devices/C-20, N-14"""
    from scheduling.devices.config import parse_device_config

    assert DeviceConfig().factor == 1
    assert parse_device_config("nvidia: {gpuMemoryFactor: 0}")[0].factor == 1


@pytest.mark.parametrize(
    ("number", "memory", "unhealthy", "indices", "per_card"),
    [
        ("8", "89424", "", tuple(range(8)), 11178),
        ("2", "22358", "0, x", (1,), 11179),
        ("3", "100", " 1 ,,2", (0,), 33),
        ("2", "100", "-1,7", (0, 1), 50),
    ],
)
def test_g1_legacy_cards(number: str, memory: str, unhealthy: str, indices: object, per_card: int) -> None:
    """devices/G-1"""
    from device_builders import legacy_node

    found, _ = register.read_legacy(legacy_node(memory, number, unhealthy))
    assert (found.indices, found.memory) == (indices, per_card)
