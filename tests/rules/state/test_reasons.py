"""One typed tree of reasons, from card to queue (scheduling/POD-1, MSG-4, Q-24; devices/F-2)."""

from __future__ import annotations

import pytest
from rules.cycle.build import MEMORY, World, bare, gang, gpu, node, pod, queue

from events.records import PodBook
from scheduling.reasons import Cause, cause_of, queues, why


def test_from_the_gang_down_to_its_cards() -> None:
    """devices/F-2, scheduling/POD-4: the first task has a place, the second finds none, each card says why"""
    world = World(node("a", cards=2), node("b", cards=0), gang("g", 3, gpu(6000)))
    world.settle()
    found = why(world.model, "lab/g", world.time_ms)
    assert found is not None
    assert (found.group, found.queue, found.lacking) == ("lab/g", "default", 1)
    assert found.text == world.book("g").message
    assert [(item.pod, item.cause) for item in found.pods][:2] == [
        ("lab/g-worker-0", Cause.GANG), ("lab/g-worker-1", Cause.GANG),
    ]  # fmt: skip
    assert [item.text for item in found.pods] == [world.said(item.pod[4:]).message for item in found.pods]


def test_nodes_and_cards_of_a_pod_without_a_place() -> None:
    """devices/F-2: the audit word of every card of the node"""
    world = World(node("a", cards=2), node("b", cards=0), *(bare(f"f{i}", gpu(4000)) for i in range(3)))
    world.settle()
    world.see(bare("p", gpu(4300), age=5))
    world.settle()
    found = why(world.model, "lab/podgroup-uid-pod-p", world.time_ms)
    assert found is not None
    (item,) = found.pods
    assert item.cause is Cause.NODES
    by_node = {entry.node: entry for entry in item.nodes}
    assert sorted(by_node) == ["a", "b"]
    assert by_node["b"].reason == "Insufficient volcano.sh/vgpu-cores"
    assert [card.gpu for card in by_node["a"].cards] == ["GPU-a-0", "GPU-a-1"]
    assert all(card.word for card in by_node["a"].cards)
    assert item.text == world.said("p").message


def test_a_group_that_runs_has_no_reason() -> None:
    """scheduling/POD-1"""
    world = World(node(), bare("p", gpu()))
    world.settle()
    assert why(world.model, "lab/podgroup-uid-pod-p", world.time_ms) is None
    assert queues(world.model) == []


def test_queues_sum_up_what_their_pods_wait_for() -> None:
    """scheduling/Q-24: per queue and cause, from what was recorded"""
    world = World(
        node(), queue("small", capability={MEMORY: "1000"}), gang("g", 2, gpu(6000)),
        gang("s", 1, gpu(2000), queue="small"), pod("stray", "nowhere", gpu()),
    )  # fmt: skip
    world.settle()
    found = {(item.queue, cause): count for item in queues(world.model) for cause, count in item.waiting.items()}
    assert found == {
        ("", Cause.MISSING): 1, ("default", Cause.GANG): 1, ("default", Cause.QUEUE): 1, ("small", Cause.QUEUE): 1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        ("no valid scheduler configuration: bad", Cause.CONFIGURATION),
        ("PodGroup ns/g: queue q does not exist", Cause.MISSING),
        ("queue q is not open (state Closing)", Cause.CLOSED),
        ("queue root takes no jobs", Cause.CLOSED),
        ("queue q has child queues, submit to one of them", Cause.CLOSED),
        ("resource in cluster is overused: overused cpu", Cause.CLUSTER),
        ("Pod ns/p can possibly be assigned to n, once resource is released and minAvailable is met", Cause.LEAVING),
        ("Task p with role spec w has already predicated failed, skip", Cause.NODES),
        ("0/3 nodes are unavailable: 3 Insufficient cpu.", Cause.NODES),
        ("pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable", Cause.GANG),
        ("something else", Cause.OTHER),
    ],
)  # fmt: skip
def test_every_text_has_its_cause(text: str, cause: Cause) -> None:
    """scheduling/POD-1, PG-3a, PG-3b, Q-4a, Q-4b, E-8"""
    assert cause_of(PodBook(reason="Unschedulable", message=text)) is cause
