"""Legacy GPU sharing: devices/G-4 to G-11."""

from __future__ import annotations

import pytest
from device_builders import World, container, holding, legacy_node, pod

from scheduling.devices.arguments import DeviceShareArgs
from scheduling.devices.claims import read_indices
from scheduling.devices.environment import DeviceEnv
from scheduling.devices.fitting import Fit, Misfit

SHARING, NUMBERS = (DeviceEnv(args=DeviceShareArgs(**{key: True})) for key in ("sharing", "number"))  # type: ignore[arg-type]
NO_MEMORY, NO_NUMBER = "GpuShare no enough gpu memory on node n1", "GpuNumber no enough gpu number on node n1"


def share(name: str, memory: object, **rest: object) -> object:
    return pod(name, container(limits={"volcano.sh/gpu-memory": memory}), **rest)  # type: ignore[arg-type]


def cards(name: str, number: object) -> object:
    return pod(name, container(limits={"volcano.sh/gpu-number": number}))


def test_g4_the_example() -> None:
    """devices/G-4: first fit by lowest index"""
    world = World(legacy_node(2000, 2), SHARING)
    assert [world.place(share(*item)) for item in (("a", 600), ("b", 600), ("c", 400))] == ["0", "1", "0"]
    assert world.answer(share("d", 500)) == Misfit(2, NO_MEMORY, "")
    assert world.answer(share("e", 400)) == Fit(gpu_index="1", charge=share("e", 400).request)  # type: ignore[attr-defined]


def test_g4_both_pods_of_the_guide_share_card_0() -> None:
    """devices/G-4, S-16"""
    world = World(legacy_node(89424, 8), SHARING)
    assert [world.place(share(name, 1024)) for name in "ab"] == ["0", "0"]


def test_g4_idle_is_never_below_zero() -> None:
    """devices/G-4"""
    world = World(legacy_node(2000, 2), SHARING)
    world.see(share("big", 3000, node="n1", annotations={"volcano.sh/gpu-index": "0"}))
    assert world.place(share("a", 1000)) == "1"
    assert world.answer(share("b", 1)) == Misfit(2, NO_MEMORY, "")


def test_g4_a_card_is_crowded_for_who_holds_it_with_others_beyond_its_memory() -> None:
    """devices/G-4: a pod that is too much alone is nobody else's doing"""
    world = World(legacy_node(2000, 2), SHARING)
    world.place(share("a", 600))
    assert world.books.crowded_for("uid-a") == []
    world.see(share("back", 500, node="n1", annotations={"volcano.sh/gpu-index": "0"}))
    world.see(share("big", 3000, node="n1", annotations={"volcano.sh/gpu-index": "1"}))
    assert [world.books.crowded_for(f"uid-{name}") for name in ("a", "back", "big")] == [["card 0"], ["card 0"], []]
    world.drop("back")
    assert world.books.crowded_for("uid-a") == []


def test_g5_a_whole_card_is_crowded_for_who_should_have_it_alone() -> None:
    """devices/G-5"""
    world = World(legacy_node(4000, 4), NUMBERS)
    world.place(cards("a", 2))
    world.see(pod("back", container(limits={"volcano.sh/gpu-number": 1}), node="n1",
                  annotations={"volcano.sh/gpu-index": "1"}))  # fmt: skip
    assert world.books.crowded_for("uid-a") == ["card 1"]


def test_g5_whole_cards_by_lowest_index() -> None:
    """devices/G-5 (K-33)"""
    world = World(legacy_node(4000, 4, "1"), NUMBERS)
    assert world.place(cards("a", 2)) == "0,2"
    assert world.answer(cards("b", 2)) == Misfit(2, NO_NUMBER, "")
    assert world.place(cards("b", 1)) == "3"
    world.drop("a")
    assert world.place(cards("c", 1)) == "0"


def test_g6_number_mode_places_by_number() -> None:
    """devices/G-6 (K-34)"""
    both = container(limits={"volcano.sh/gpu-memory": 5, "volcano.sh/gpu-number": 2})
    assert World(legacy_node(4000, 4), NUMBERS).place(pod("p", both)) == "0,1"
    both = container(limits={"volcano.sh/gpu-memory": 5, "volcano.sh/gpu-number": 2})
    assert World(legacy_node(4000, 4), SHARING).place(pod("p", both)) == "0"


@pytest.mark.parametrize("number", [0, "x", -1, "1500m", 10**9])
def test_g1_no_usable_number_no_cards(number: object) -> None:
    """devices/G-1"""
    world = World(legacy_node(4000, number), SHARING)
    assert world.answer(share("p", 1)) == Misfit(2, NO_MEMORY, "")
    assert world.books.warnings == (f"invalid volcano.sh/gpu-number={number}",)


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("0", (0,)),
        ("0,3", (0, 3)),
        ("3,0", (0, 3)),
        ("", ()),
        ("x", ()),
        ("0,x", ()),
        ("0,", ()),
        (" 0", ()),
        ("0,0", (0,)),
    ],
)
def test_g8_reading_the_index(text: str, indices: tuple[int, ...]) -> None:
    """devices/G-8: any unreadable item voids the whole"""
    assert read_indices(text) == indices


def test_g8_ids_of_removed_cards_are_ignored() -> None:
    """devices/G-8, G-1"""
    world = World(legacy_node(2000, 2), SHARING)
    world.see(share("a", 1000, node="n1", annotations={"volcano.sh/gpu-index": "1,7"}))
    world.books = world.books.with_node(legacy_node(1000, 1))
    assert world.place(share("b", 1000)) == "0"


def test_g11_policy_and_score_have_no_part() -> None:
    """devices/G-11, F-13"""
    under = DeviceEnv(args=DeviceShareArgs(sharing=True, policy="spread", weight=10))
    answer = World(legacy_node(2000, 2), under).answer(share("p", 1))
    assert isinstance(answer, Fit)
    assert (answer.gpu_index, answer.score, answer.allocation) == ("0", 0, "")


def test_r1a_vgpu_pods_wait_while_legacy_is_on() -> None:
    """devices/R-1a"""
    answer = World(legacy_node(2000, 2), SHARING).answer(pod("p", number=1))
    assert isinstance(answer, Misfit)
    assert answer.detail == "vGPU sharing is off: deviceshare.VGPUEnable is not true"


def test_vgpu_records_do_not_disturb_legacy_cards() -> None:
    """devices/G-4, A-4b: what closes a node for vGPU pods does not close it here"""
    world = World(legacy_node(2000, 2), SHARING)
    world.see(holding("x", "junk,a:"))
    assert world.place(share("a", 5)) == "0"
