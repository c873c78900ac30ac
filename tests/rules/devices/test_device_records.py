"""Allocation records and what follows from them: devices/A-1 to A-5, A-7a, A-14 to A-18, N-21 to N-23a."""

from __future__ import annotations

from typing import Any

import pytest
from device_builders import (
    CORES,
    IDS,
    MEMORY,
    NUMBER,
    World,
    card,
    container,
    env,
    holding,
    node,
    pod,
)

from scheduling.devices import record
from scheduling.devices.arguments import DeviceShareArgs
from scheduling.devices.books import NodeDevices, rebuild
from scheduling.devices.claims import claim_of, planned_claim
from scheduling.devices.environment import DeviceEnv
from scheduling.devices.fitting import Misfit
from scheduling.devices.record import Share

TWO = card("GPU-a") + card("GPU-b")
ASK = {"number": 1, "memory": 100}


@pytest.mark.parametrize(
    ("containers", "text"),
    [
        ([container(number=2, memory=3000, cores=50)], "GPU-a,NVIDIA,3000,50:GPU-b,NVIDIA,3000,50:"),
        (
            [container(number=1, memory=2000, cores=30), container(number=1, memory=1000)],
            "GPU-a,NVIDIA,2000,30:;GPU-a,NVIDIA,1000,0:",
        ),
        ([container(), container(number=1, memory=1000)], ";GPU-a,NVIDIA,1000,0:"),
        ([container(number=1, memory=1000), container(), container()], "GPU-a,NVIDIA,1000,0:"),
        (
            [container(), container(number=1, memory=1), container(), container(number=1, memory=2), container()],
            ";GPU-a,NVIDIA,1,0:;;GPU-a,NVIDIA,2,0:",
        ),
    ],
)
def test_a1_a2_a3_what_is_written(containers: list[Any], text: str) -> None:
    """devices/A-1, A-2, A-3 (K-13)"""
    assert World(TWO, env(policy="binpack")).place(pod("p", *containers)) == text


@pytest.mark.parametrize(
    ("text", "shares", "unreadable"),
    [
        ("", [], 0),
        ("GPU-a,NVIDIA,1,2:", [("GPU-a", 1, 2, 0)], 0),
        ("GPU-a,NVIDIA,1,2", [("GPU-a", 1, 2, 0)], 0),
        ("GPU-0,NVIDIA,-5,30:GPU-1,NVIDIA,2048,10:", [("GPU-1", 2048, 10, 0)], 1),
        ("junk:GPU-a,NVIDIA,1,2,more,fields:", [("GPU-a", 1, 2, 0)], 0),
        (";;GPU-a,NVIDIA,1,2:", [("GPU-a", 1, 2, 2)], 0),
        ("GPU-a,NVIDIA,1:", [], 1),
        ("GPU-a,NVIDIA,4294967295,0:GPU-b,NVIDIA,4294967296,0:", [("GPU-a", 4294967295, 0, 0)], 1),
        ("GPU-a,NVIDIA, 1,0:GPU-b,NVIDIA,+1,0:GPU-c,NVIDIA,,0:GPU-d,NVIDIA,1_0,0:", [], 4),
        ("GPU-a,NVIDIA,٣,0:", [], 1),
        ("GPU-a,NVIDIA,007,0:", [("GPU-a", 7, 0, 0)], 0),
        (",,0,0:", [], 0),
        (",:", [], 0),
        ("[group1-0],NVIDIA,1,0:", [], 0),
    ],
)
def test_a4_reading(text: str, shares: list[Any], unreadable: int) -> None:
    """devices/A-4, A-4c"""
    found = record.decode(text)
    assert [(item.uuid, item.memory, item.cores, item.container) for item in found.shares] == shares
    assert len(found.unreadable) == unreadable


def test_a4_written_text_reads_back() -> None:
    """devices/A-1, A-4"""
    shares = (
        Share("GPU-a", "", 5, 6, 1, 0),
        Share("GPU-b", "[group1-0]", 7, 0, 1, 1),
        Share("GPU-a", "", 2147483647, 100, 3, 0),
    )
    assert record.decode(record.encode(shares)).shares == shares


def test_a4a_an_unreadable_entry_closes_the_node() -> None:
    """devices/A-4a, F-6 (K-40)"""
    world = World(TWO, env())
    bad = holding("bad", "GPU-a,NVIDIA,eight,0:GPU-b,NVIDIA,500,10:", number=2, memory=8000, cores=5)
    world.see(bad)
    detail = "pod d/bad on node n1 has an unreadable allocation record"
    assert world.answer(pod("p", **ASK)) == Misfit(2, "hami-vgpuDeviceSharing error", detail)
    assert world.books.held("GPU-b") == (1, 500, 10)
    assert world.books.charge("uid-bad") == {"pods": 1, NUMBER: 2000, MEMORY: 16000000, CORES: 10000}
    assert world.place(pod("plain")) == ""
    world.see(holding("bad", "GPU-a,NVIDIA,8000,0:", number=1, memory=8000))
    assert world.place(pod("p", **ASK)) == "GPU-b,NVIDIA,100,0:"
    world.see(bad)
    world.drop("bad")
    assert world.place(pod("q", **ASK)).startswith("GPU-b")


def test_a4a_stray_text_that_hides_a_card() -> None:
    """devices/A-4, A-4a: a part without comma is skipped, unless a share asked for is then missing"""
    world = World(TWO, env())
    world.see(holding("whole", "stray:GPU-a,NVIDIA,500,0:", number=1))
    assert world.place(pod("p", **ASK)) == "GPU-b,NVIDIA,100,0:"
    world.see(holding("torn", "GPU-a,NVIDIA,500,0:GPU-", number=2))
    assert world.place(pod("q", **ASK)) == "pod d/torn on node n1 has an unreadable allocation record"


@pytest.mark.parametrize("text", ["", ",,0,0:", ";;", "junk"])
def test_a4b_a_pod_without_record_closes_the_node(text: str) -> None:
    """devices/A-4b, A-4c"""
    world = World(TWO, env())
    world.see(pod("lost", annotations={IDS: text}, node="n1", number=1, memory=700))
    detail = "pod d/lost on node n1 has no allocation record"
    assert world.answer(pod("p", **ASK)) == Misfit(2, "hami-vgpuDeviceSharing error", detail)
    assert world.books.charge("uid-lost") == {"pods": 1, NUMBER: 1000, MEMORY: 700000}
    assert not world.books.only_orphans("uid-lost")
    world.drop("lost")
    assert world.place(pod("p", **ASK)) == "GPU-b,NVIDIA,100,0:"


def test_a4b_does_not_apply_without_request() -> None:
    """devices/A-4b, R-4"""
    world = World(TWO, env())
    world.see(pod("zero", node="n1", number=0))
    world.see(pod("cores", node="n1", cores=10))
    assert world.place(pod("p", **ASK)) == "GPU-b,NVIDIA,100,0:"


def test_a4_the_first_faulty_pod_by_name_is_named() -> None:
    """devices/A-4a, A-4b: one text whatever the order of events"""
    first, second = (pod(name, node="n1", number=1) for name in ("a", "b"))
    for order in ((first, second), (second, first)):
        world = World(TWO, env())
        for item in order:
            world.see(item)
        assert world.place(pod("p", **ASK)) == "pod d/a on node n1 has no allocation record"


def test_a5_cards_are_found_by_equality() -> None:
    """devices/A-5 (K-14)"""
    world = World(card("GPU-1") + card("GPU-10"), env())
    world.see(holding("x", "GPU-10[group1-0],NVIDIA,500,0:GPU-1,NVIDIA,7,0:GPU,NVIDIA,9,0:"))
    assert world.books.held("GPU-10") == (1, 500, 0)
    assert world.books.held("GPU-1") == (1, 7, 0)
    assert world.books.held("GPU") == (1, 9, 0)


def test_a7a_a_record_on_a_pod_without_node_means_nothing() -> None:
    """devices/A-7a, A-16"""
    text = {IDS: "GPU-a,NVIDIA,8192,0:"}
    assert claim_of(pod("copy", annotations=text, number=1), env()) is None
    world = World(card("GPU-a"), env())
    assert world.place(pod("copy", annotations=text, number=1, memory=5)) == "GPU-a,NVIDIA,5,0:"


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a16_a_finished_pod_holds_nothing(phase: str) -> None:
    """devices/A-16"""
    item = pod("p", annotations={IDS: "GPU-a,NVIDIA,5,0:"}, node="n1", phase=phase, number=1)
    assert claim_of(item, env()) is None


def test_a16_a_terminating_pod_is_live() -> None:
    """devices/A-16 (K-29)"""
    from dataclasses import replace

    item = replace(holding("p", "GPU-a,NVIDIA,5,0:"), deleting=True)
    assert claim_of(item, env()) is not None


def test_a14_the_same_pod_twice_and_two_shares_on_one_card() -> None:
    """devices/A-14 (K-5)"""
    world = World(card("GPU-a"), env())
    item = holding("p", "GPU-a,NVIDIA,100,5:;GPU-a,NVIDIA,200,6:")
    world.see(item)
    once = world.books
    world.see(item)
    assert world.books == once
    assert world.books.held("GPU-a") == (2, 300, 11)
    world.drop("p")
    assert world.books.held("GPU-a") == (0, 0, 0)
    assert world.books == NodeDevices.empty("n1", env()).with_node(node(card("GPU-a")))


def test_a15_undoing_a_placement_gives_the_books_before() -> None:
    """devices/A-15 (K-28, K-38)"""
    world = World(TWO, env())
    world.place(pod("a", **ASK))
    before = world.books
    world.place(pod("b", number=2, memory=50))
    world.drop("b")
    assert world.books == before


def test_a16a_release_is_by_uid_and_twice_is_once() -> None:
    """devices/A-16a"""
    world = World(TWO, env())
    world.see(holding("p", "GPU-a,NVIDIA,100,0:", uid="old"))
    world.see(holding("p", "GPU-b,NVIDIA,200,0:", uid="new"))
    world.books = world.books.without_claim("old")
    once = world.books
    assert once.without_claim("old") is once
    assert (once.held("GPU-a"), once.held("GPU-b")) == ((0, 0, 0), (1, 200, 0))


def test_a17_the_echo_wins() -> None:
    """devices/A-17 (K-30)"""
    world = World(TWO, env())
    item = pod("p", **ASK)
    assert world.place(item) == "GPU-b,NVIDIA,100,0:"
    assert world.books.held("GPU-b") == (1, 100, 0)
    world.see(holding("p", "GPU-a,NVIDIA,700,0:"))
    assert (world.books.held("GPU-a"), world.books.held("GPU-b")) == ((1, 700, 0), (0, 0, 0))


def test_planned_and_echoed_claims_are_equal() -> None:
    """devices/A-17: the echo of our own placement changes nothing"""
    world = World(TWO, env())
    planned = planned_claim(pod("p", **ASK), world.env, "GPU-b,NVIDIA,100,0:", "")
    assert planned == claim_of(holding("p", "GPU-b,NVIDIA,100,0:", **ASK), world.env)


def test_n21_a_card_that_moves_keeps_its_state() -> None:
    """devices/N-21, N-6 (K-8)"""
    world = World(TWO, env())
    world.place(pod("p", number=1, memory=300))
    moved = world.books.with_node(node("junk:" + card("GPU-b") + card("GPU-a")))
    assert [(item.uuid, item.index) for item in moved.cards] == [("GPU-b", 1), ("GPU-a", 2)]
    assert moved.held("GPU-b") == (1, 300, 0)
    assert moved.with_node(node(TWO)) == world.books


def test_n21_a_card_below_its_use_takes_nothing_new() -> None:
    """devices/N-21"""
    world = World(card("GPU-a"), env())
    world.place(pod("a", number=1, memory=4000))
    world.place(pod("b", number=1, memory=1000))
    world.books = world.books.with_node(node(card("GPU-a", memory=3000)))
    assert world.words(pod("p", number=1, memory=1)) == ["insufficient-memory"]
    world.books = world.books.with_node(node(card("GPU-a", shares=1)))
    assert world.words(pod("p", number=1, memory=1)) == ["shares-exhausted"]
    assert world.books.held("GPU-a") == (2, 5000, 0)


def test_n21_n21a_orphans_wait_and_count_in_no_sum() -> None:
    """devices/N-21, N-21a, A-18, R-13"""
    world = World(TWO, env())
    world.place(pod("both", number=2, memory=300, cores=10))
    world.place(pod("one", number=1, memory=50))
    swapped = world.books.with_node(node(card("GPU-c") + card("GPU-a")))
    assert swapped.charge("uid-both") == {"pods": 1, NUMBER: 1000, MEMORY: 300000, CORES: 10000}
    assert swapped.charge("uid-one") == {"pods": 1}
    assert swapped.only_orphans("uid-one")
    assert not swapped.only_orphans("uid-both")
    assert swapped.held("GPU-b") == (2, 350, 10)
    assert swapped.warnings == (
        "pod d/both holds a share of card GPU-b, which node n1 does not register",
        "pod d/one holds a share of card GPU-b, which node n1 does not register",
    )
    assert swapped.is_vgpu_node
    assert swapped.with_node(node(TWO)) == world.books


def test_n23_a_node_that_is_no_vgpu_node_for_a_while() -> None:
    """devices/N-23"""
    world = World(TWO, env())
    world.place(pod("p", number=1, memory=300))
    before = world.books
    world.books = before.with_node(node(TWO, allocatable={NUMBER: "0", MEMORY: "1", CORES: "1"}))
    assert world.place(pod("q", **ASK)) == "node n1 has no registered vGPU devices"
    assert world.books.held("GPU-b") == (1, 300, 0)
    assert world.books.charge("uid-p") == before.charge("uid-p")
    assert world.place(pod("plain")) == ""
    assert world.books.with_node(node(TWO)).held("GPU-b") == (1, 300, 0)


def test_n23a_claims_wait_for_their_node_and_end_without_it() -> None:
    """devices/N-23a"""
    stays, ends = (claim_of(holding(name, f"GPU-{name},NVIDIA,100,0:"), env()) for name in ("a", "b"))
    assert stays is not None
    assert ends is not None
    books = NodeDevices.empty("n1", env()).with_claim(stays).with_claim(ends)
    assert books.with_node(node(TWO)).held("GPU-b") == (1, 100, 0)
    gone = books.with_node(node(TWO)).with_node(None).without_claim(ends.uid)
    back = gone.with_node(node(TWO))
    assert (back.held("GPU-a"), back.held("GPU-b")) == ((1, 100, 0), (0, 0, 0))
    assert back == rebuild("n1", env(), node(TWO), [stays])


def test_x10_p13_switching_vgpu_off_and_on() -> None:
    """devices/P-13, R-1a, N-16: the books come back as they were"""
    world = World(TWO, env())
    world.place(pod("p", number=1, memory=300))
    world.see(pod("lost", node="n1", number=1))
    off = world.books.with_env(DeviceEnv(args=DeviceShareArgs()))
    assert off.held("GPU-b") == (1, 300, 0)
    assert off.with_env(world.env) == world.books


def test_renaming_resources_finds_requests_anew() -> None:
    """devices/N-16, R-12, A-4b: what asked for nothing may ask for a card under new names"""
    from device_builders import config_env

    renamed = config_env(env(), number_name="x.io/n")
    item = pod("p", container(limits={"x.io/n": 1}), node="n1")
    world = World(TWO, env())
    world.see(item)
    assert world.books.faulty == ()
    assert [claim.key for claim in world.books.with_env(renamed).faulty] == ["d/p"]
