"""Dynamic MIG: devices/F-15 to F-23, N-22."""

from __future__ import annotations

import pytest
from device_builders import A100, A100_GROUPS, World, card, config_env, container, env, holding, mig_card, mig_env, pod

from scheduling.devices import geometry
from scheduling.devices.config import DeviceConfig
from scheduling.devices.fitting import Fit, Misfit
from scheduling.devices.geometry import Geometry, Group, Instance, Slice, SliceError

NOT_ENOUGH = "not enough gpu fitted on this node"


def asks(name: str, memory: int, **rest: int) -> object:
    return pod(name, number=1, memory=memory, **rest)


def test_worked_sequence() -> None:
    """devices/F-15 to F-18: the table of section 4.4 (K-2, K-3)"""
    world = World(mig_card(), mig_env())
    booked = []
    for name, memory, slot in (("1", 8000, "group2-0"), ("2", 3000, "group2-3"), ("3", 3000, "group2-1")):
        assert world.place(asks(name, memory)) == f"GPU-m[{slot}],NVIDIA,{memory},0:"
        booked.append(world.books.held("GPU-m")[1])
    assert booked == [10240, 15360, 25600]
    assert world.place(asks("4", 12000)) == NOT_ENOUGH
    assert world.words(asks("4", 12000)) == ["no-mig-slice"]
    for name in "123":
        world.drop(name)
    assert world.place(asks("5", 20000)) == "GPU-m[group3-0],NVIDIA,20000,0:"
    assert world.books.held("GPU-m") == (1, 20480, 0)


def test_a_small_ask_on_a_fresh_card() -> None:
    """devices/F-16, S-18"""
    world = World(mig_card(), mig_env())
    assert world.place(asks("6", 3000)) == "GPU-m[group1-0],NVIDIA,3000,0:"
    assert world.books.held("GPU-m") == (1, 5120, 0)


def test_f15_units_and_mib() -> None:
    """devices/F-15, C-20: factor 2 and 10"""
    groups = (Group("group1", (Instance("1g.10gb", 10240, 2), Instance("2g.20gb", 20480, 1))),)
    two = DeviceConfig(factor=2, geometries=(Geometry(("A100",), groups),))
    world = World(card("GPU-m", 40960, 7, A100, "mig"), env(two))
    assert world.place(asks("p", 6144)) == "GPU-m[group1-2],NVIDIA,6144,0:"
    assert world.books.held("GPU-m")[1] == 10240
    ten = World(card("GPU-m", 4096, 7, A100, "mig"), config_env(mig_env(), factor=10))
    assert ten.place(asks("p", 300)) == "GPU-m[group1-0],NVIDIA,300,0:"
    assert ten.books.held("GPU-m")[1] == 512


def test_f15_cores_are_booked_on_mig_cards_too() -> None:
    """devices/F-15, F-2"""
    world = World(mig_card(), mig_env())
    assert world.place(asks("a", 3000, cores=60)) == "GPU-m[group1-0],NVIDIA,3000,60:"
    assert world.words(asks("b", 3000, cores=41)) == ["insufficient-cores"]
    assert world.place(asks("b", 3000, cores=40)) == "GPU-m[group1-1],NVIDIA,3000,40:"
    assert world.words(asks("c", 3000)) == ["cores-full"]


@pytest.mark.parametrize(
    ("active", "used", "asked", "found"),
    [
        (None, set(), 1, ("group1", 0)),
        (None, set(), 5121, ("group2", 0)),
        (None, set(), 10241, ("group3", 0)),
        (None, set(), 40960, ("group4", 0)),
        (None, set(), 40961, None),
        ("group2", {0, 1, 2}, 1, ("group2", 3)),
        ("group2", {3}, 1, ("group2", 0)),
        ("group2", {0, 2, 3}, 1, ("group2", 1)),
        ("group2", {0, 1, 2, 3}, 1, None),
        ("group2", {0}, 10241, None),
        ("gone", set(), 1, None),
    ],
)
def test_f16_f17_choice(active: str | None, used: set[int], asked: int, found: tuple[str, int] | None) -> None:
    """devices/F-16, F-17"""
    answer = geometry.choose(A100_GROUPS, active, frozenset(used), asked)
    assert (answer and (answer.group, answer.position)) == found


def test_f16_equal_sizes_go_by_the_file() -> None:
    """devices/F-16: ties by file order"""
    groups = (Group("g", (Instance("b", 100, 1), Instance("a", 100, 1), Instance("c", 50, 1))),)
    assert geometry.choose(groups, None, frozenset(), 60) == Slice("g", 0, 100)
    assert geometry.choose(groups, "g", frozenset({0}), 60) == Slice("g", 1, 100)
    assert geometry.choose(groups, None, frozenset(), 10) == Slice("g", 2, 50)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("GPU-m", "invalid format"),
        ("GPU-m[group1-0", "invalid format"),
        ("GPU-m]group1-0[", "invalid format"),
        ("GPU-m[group1]", "invalid format inside brackets"),
        ("GPU-m[a-b-0]", "invalid format inside brackets"),
        ("GPU-m[group1--1]", "invalid format inside brackets"),
        ("GPU-m[group1-x]", 'invalid index: "x" is not a whole number'),
        ("GPU-m[group1-]", 'invalid index: "" is not a whole number'),
    ],
)
def test_f20_decode_errors(text: str, error: str) -> None:
    """devices/F-20"""
    with pytest.raises(SliceError) as caught:
        geometry.decode(text)
    assert str(caught.value) == error


def test_f20_positions() -> None:
    """devices/F-20: a position past the end is no slice (K-15)"""
    assert geometry.decode("GPU-m[group2-3]") == ("group2", 3)
    assert geometry.find(A100_GROUPS, "GPU-m[group2-2]") == Slice("group2", 2, 10240)
    assert geometry.find(A100_GROUPS, "GPU-m[group2-3]") == Slice("group2", 3, 5120)
    assert geometry.find(A100_GROUPS, "GPU-m[group2-4]") is None
    assert geometry.find(A100_GROUPS, "GPU-m[group9-0]") is None


def test_f21_a_slice_is_taken_at_once() -> None:
    """devices/F-21 (K-4), R-10: containers of one pod, and pods of one round"""
    world = World(mig_card(), mig_env())
    pair = [container(number=1, memory=3000), container(number=1, memory=3000)]
    assert world.place(pod("p", *pair)) == "GPU-m[group1-0],NVIDIA,3000,0:;GPU-m[group1-1],NVIDIA,3000,0:"
    assert world.place(asks("q", 3000)) == "GPU-m[group1-2],NVIDIA,3000,0:"


def test_f1_one_slice_per_card_and_container() -> None:
    """devices/F-1, S-20"""
    world = World(mig_card("GPU-m") + mig_card("GPU-n"), mig_env(policy="binpack"))
    two = world.place(pod("p", number=2, memory=3000))
    assert two == "GPU-m[group1-0],NVIDIA,3000,0:GPU-n[group1-0],NVIDIA,3000,0:"


def test_f18_the_group_is_forgotten_with_its_last_slice() -> None:
    """devices/F-18"""
    world = World(mig_card(), mig_env())
    world.place(asks("a", 3000))
    world.place(asks("b", 3000))
    world.drop("a")
    assert world.place(asks("c", 20000)) == NOT_ENOUGH
    world.drop("b")
    assert world.place(asks("c", 20000)) == "GPU-m[group3-0],NVIDIA,20000,0:"


@pytest.mark.parametrize("asked", [{"number": 1}, {"number": 1, "percentage": 100}])
def test_f22_the_whole_card_is_the_largest_slice(asked: dict[str, int]) -> None:
    """devices/F-22, F-23 (K-26)"""
    groups = (Group("group1", (Instance("7g.80gb", 80896, 1),)),)
    found = env(DeviceConfig(geometries=(Geometry(("H",), groups),)))
    world = World(card("GPU-m", 81920, 7, "NVIDIA-H", "mig"), found)
    assert world.place(pod("p", **asked)) == "GPU-m[group1-0],NVIDIA,80896,0:"
    small = World(card("GPU-m", 70000, 7, "NVIDIA-H", "mig"), found)
    assert small.place(pod("p", **asked)) == "GPU-m[group1-0],NVIDIA,70000,0:"


def test_f23_the_record_holds_what_was_asked() -> None:
    """devices/F-23, R-6"""
    world = World(mig_card(), mig_env())
    assert world.place(pod("p", number=1, percentage=10)) == "GPU-m[group1-0],NVIDIA,4096,0:"
    assert world.books.held("GPU-m")[1] == 5120


def test_f12_binpack_scores_the_slice() -> None:
    """devices/F-12, F-15"""
    answer = World(mig_card(), mig_env(policy="binpack", weight=1)).answer(asks("p", 3000))
    assert isinstance(answer, Fit)
    assert (answer.score_milli, answer.score) == (12500, 13)


def test_r14_automatic_mode() -> None:
    """devices/R-14: without an annotation cards of any mode qualify, in policy order"""
    world = World(mig_card() + card("GPU-h"), mig_env(policy="binpack"))
    assert world.place(asks("a", 3000)) == "GPU-m[group1-0],NVIDIA,3000,0:"
    assert World(mig_card() + card("GPU-h"), mig_env()).place(asks("a", 3000)) == "GPU-h,NVIDIA,3000,0:"


@pytest.mark.parametrize(
    "record", ["GPU-m,NVIDIA,3000,5:", "GPU-m[group1-99],NVIDIA,3000,5:", "GPU-m[x],NVIDIA,3000,5:"]
)
def test_n22_what_fits_no_slice_blocks_the_card(record: str) -> None:
    """devices/N-22, F-20, A-4a (K-16): it counts as written until it is gone"""
    world = World(mig_card(), mig_env())
    world.see(holding("forged", record))
    assert world.books.held("GPU-m") == (1, 3000, 5)
    assert world.words(asks("p", 1)) == ["card-unusable"]
    assert world.place(asks("p", 1)) == NOT_ENOUGH
    world.drop("forged")
    assert world.place(asks("p", 1)) == "GPU-m[group1-0],NVIDIA,1,0:"


def test_n22_a_bracket_on_a_hami_core_card_counts_as_written() -> None:
    """devices/N-22"""
    world = World(card("GPU-h"), mig_env())
    world.see(holding("moved", "GPU-h[group1-0],NVIDIA,3000,30:"))
    assert world.books.held("GPU-h") == (1, 3000, 30)
    assert world.place(asks("p", 5192)) == "GPU-h,NVIDIA,5192,0:"


def test_f17_two_groups_on_one_card_block_it() -> None:
    """devices/F-17, N-22: records that cannot both be true"""
    world = World(mig_card(), mig_env())
    world.see(holding("a", "GPU-m[group1-0],NVIDIA,3000,0:"))
    world.see(holding("b", "GPU-m[group2-0],NVIDIA,3000,0:"))
    assert world.words(asks("p", 1)) == ["card-unusable"]
    world.drop("a")
    assert world.place(asks("p", 1)) == "GPU-m[group2-3],NVIDIA,1,0:"


def test_f19_a_type_that_the_group_lost_blocks_the_card() -> None:
    """devices/F-19: the configuration changed under a slice in use"""
    world = World(mig_card(), mig_env())
    world.place(asks("a", 8000))
    world.place(asks("b", 3000))
    shrunk = (Geometry(("A100",), (Group("group2", (Instance("2g.10gb", 10240, 3),)),)),)
    world.books = world.books.with_env(config_env(world.env, geometries=shrunk))
    world.env = world.books.env
    assert world.words(asks("p", 3000)) == ["card-unusable"]
    world.drop("b")
    assert world.place(asks("p", 3000)) == "GPU-m[group2-1],NVIDIA,3000,0:"


def test_f4a_only_when_every_card_lacks_a_geometry() -> None:
    """devices/F-4a"""
    unknown = card("GPU-u", 40960, 7, "NVIDIA-H900", "mig")
    full = World(unknown + mig_card(), mig_env())
    assert full.place(asks("p", 50000)) == NOT_ENOUGH
    sick = World(unknown + "GPU-v,7,1,NVIDIA-H901,false,mig:", mig_env())
    assert sick.place(asks("p", 1)) == NOT_ENOUGH
    only = pod("p", number=1, memory=1, annotations={"volcano.sh/vgpu-use-gpuuuid": "GPU-u"})
    assert full.place(only) == "no MIG geometry for GPU type NVIDIA-H900"
    both = full.answer(pod("p", number=2, memory=1))
    assert isinstance(both, Misfit)
    assert (both.code, both.detail) == (2, NOT_ENOUGH)


def test_a_slice_that_another_pod_holds_too_is_seen_by_who_was_placed_on_it() -> None:
    """devices/F-16: another slice of the card is none of its matter; alone, nor is a geometry that changed (N-22)."""
    world = World(mig_card(), mig_env())
    world.see(holding("a", "GPU-m[group1-0],NVIDIA,3000,0:"))
    world.see(holding("b", "GPU-m[group1-1],NVIDIA,3000,0:"))
    assert not world.books.books["GPU-m"].crowded_for("uid-a")
    world.see(holding("c", "GPU-m[group1-1],NVIDIA,3000,0:"))
    assert [world.books.books["GPU-m"].crowded_for(f"uid-{name}") for name in "abcd"] == [False, True, True, False]
    alone = World(mig_card(), mig_env())
    alone.see(holding("a", "GPU-m[other-0],NVIDIA,3000,0:"))
    assert not alone.books.books["GPU-m"].crowded_for("uid-a")
