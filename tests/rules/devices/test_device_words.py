"""Words of other schedulers and agents: which we use, which we only know, and which we never write."""

from __future__ import annotations

from pathlib import Path

import pytest
from device_builders import World, card, env, legacy_node, node, pod

from events import names
from scheduling.devices.fitting import Fit, Misfit

_SOURCES = [
    path
    for folder in ("events", "scheduling", "adapters", "services")
    for path in (Path(__file__).parents[3] / folder).rglob("*.py")
]


@pytest.mark.parametrize("word", ["mutex.lock", "vgpu-node-handshake", "hami.io/"])
def test_marks_of_others_are_neither_needed_nor_written(word: str) -> None:
    """devices/C-25, C-26, C-33, S-15."""
    assert not [path for path in _SOURCES if word in path.read_text()]


def test_a_handshake_of_an_older_agent_changes_nothing() -> None:
    """devices/C-26."""
    world = World(node(card("GPU-a"), **{"volcano.sh/node-vgpu-handshake": "Requesting_2026"}), env())
    assert world.books.is_vgpu_node


def test_device_names_in_what_is_written_and_said() -> None:
    """devices/C-30, C-31: the type NVIDIA, the lock hamivgpu, legacy's GpuShare, codes 2 and 3."""
    assert names.VGPU_NODE_LOCK == "hamivgpu"
    world = World(card("GPU-a"), env())
    full = world.answer(pod("full", number=1, memory=9000))
    assert isinstance(full, Misfit)
    assert (full.code, full.reason) == (2, "hami-vgpuDeviceSharing error")
    assert world.place(pod("p", number=1, memory=100)) == "GPU-a,NVIDIA,100,0:"
    none = World(node(None), env()).answer(pod("p", number=1, memory=100))
    assert isinstance(none, Misfit)
    assert none.code == 3
    legacy = World(legacy_node("1000", "1"), env(vgpu=False, sharing=True))
    refused = legacy.answer(pod("p", limits={"volcano.sh/gpu-memory": "2000"}))
    assert isinstance(refused, Misfit)
    assert refused.reason.startswith("GpuShare ")


def test_a_mode_that_is_only_a_constant_is_hami_core() -> None:
    """devices/C-32."""
    assert [item.mode for item in World(card("GPU-a", mode="mps"), env()).books.cards] == ["hami-core"]


def test_ten_on_one_card_are_ten_shares() -> None:
    """devices/S-14."""
    world = World(card("GPU-a", shares=10), env())
    placed = [world.place(pod(f"p{index}", number=1, memory=10)) for index in range(11)]
    assert [text.startswith("GPU-a") for text in placed] == [True] * 10 + [False]


def test_without_a_mode_annotation_any_card_qualifies() -> None:
    """devices/S-4, R-14."""
    assert isinstance(World(card("GPU-a"), env()).answer(pod("p", number=1, memory=100)), Fit)


def test_reservations_survive_since_they_are_derived() -> None:
    """devices/S-2, X-12: books made anew from the pods' records reserve what the old ones did."""
    rules = ((("workloadType", "training"),),)
    labels = {"workloadType": "training"}
    again = World(card("GPU-a"), env(rules=rules))
    again.see(pod("there", number=1, memory=10, labels=labels, node="n1", phase="Running",
                  annotations={names.VGPU_IDS: "GPU-a,NVIDIA,10,0:"}))  # fmt: skip
    assert again.place(pod("next", number=1, memory=10, labels=labels)) == "not enough gpu fitted on this node"
