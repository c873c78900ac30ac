"""The message grammar (scheduling/MSG-1 to MSG-7, POD-1)."""

from __future__ import annotations

from rules.cycle.build import World, gang, gpu, group, node, pod

from scheduling.reasons.kinds import NoNode
from scheduling.reasons.texts import histogram, text


def test_entries_are_sorted_as_strings() -> None:
    """scheduling/MSG-3: count included, capitals first"""
    assert histogram({"minAvailable": 2, "Pending": 10}) == "10 Pending, 2 minAvailable"
    assert histogram({"minAvailable": 2, "Pending": 2}) == "2 Pending, 2 minAvailable"
    assert histogram({"minAvailable": 0, "Pending": 1, "Running": 0}) == "0 minAvailable, 1 Pending"


def test_node_summary() -> None:
    """scheduling/MSG-5: k nodes gave a reason, each adds to each of its reasons"""
    assert text(NoNode()) == "0/0 nodes are unavailable"
    counts = {"Insufficient volcano.sh/vgpu-memory": 2, "node(s) pod number exceeded": 1}
    assert text(NoNode(3, counts)) == (
        "0/3 nodes are unavailable: 1 node(s) pod number exceeded, 2 Insufficient volcano.sh/vgpu-memory."
    )


def test_a_gang_of_six_of_which_three_fit() -> None:
    """scheduling/MSG-6, first example: three nodes, one of which is full of pods"""
    world = World(node("a", pods="0"), node("b", memory=9000), node("c", memory=9000))
    world.see(gang("task", 6, gpu(3000, 1)))
    world.settle()
    # Room for six by the sums, three on each node; the cards and scalars hold them all.
    assert world.nodes_of("task-worker-0", "task-worker-5") == ["b", "c"]
    world = World(node("a", pods="0"), node("b", memory=8000), node("c", memory=5000), node("d", memory=7000))
    world.see(gang("task", 6, gpu(3000, 1)))
    world.settle()
    assert world.book("task").message == (
        "1/6 tasks in gang unschedulable: pod group is not ready, 6 Pending, 6 minAvailable; "
        "Pending: 1 Unschedulable, 5 Schedulable. Origin reason is task-worker-5: 0/4 nodes are unavailable: "
        "1 node(s) pod number exceeded, 3 Insufficient volcano.sh/vgpu-memory."
    )


def test_two_gangs_of_three_and_room_for_one_more() -> None:
    """scheduling/MSG-6, third example"""
    world = World(node("a"), node("b"), gang("one", 3, gpu(3000)), gang("two", 3, gpu(3000), age=5))
    world.settle()
    assert world.book("two").message == (
        "2/3 tasks in gang unschedulable: pod group is not ready, 3 Pending, 3 minAvailable; "
        "Pending: 1 Schedulable, 2 Unschedulable. Origin reason is two-worker-1: 0/2 nodes are unavailable: "
        "2 Insufficient volcano.sh/vgpu-memory."
    )
    assert world.said("two-worker-0").message == (
        "Pod lab/two-worker-0 can possibly be assigned to b, once minAvailable is satisfied"
    )
    assert world.said("two-worker-2").message == (
        "pod group is not ready, 3 Pending, 3 minAvailable; Pending: 1 Schedulable, 2 Unschedulable. "
        "Origin reason is two-worker-1: 0/2 nodes are unavailable: 2 Insufficient volcano.sh/vgpu-memory."
    )


def test_fewer_pods_than_the_minimum() -> None:
    """scheduling/MSG-1, MSG-6, PG-9"""
    world = World(node(), group("g", 3), pod("p0", "g", gpu()), pod("p1", "g", gpu()))
    world.settle()
    text = "pod group is not ready, 2 Pending, 3 minAvailable; Pending: 2 Unschedulable"
    assert world.book("g").message == f"3/2 tasks in gang unschedulable: {text}"
    assert world.said("p0").message == text
    assert world.book("g").event_message == f"2/2 tasks in gang unschedulable: {text}"


def test_a_pod_that_waits_beside_a_ready_gang() -> None:
    """scheduling/POD-1, MSG-2: the elastic rest carries its own reason"""
    world = World(node(cards=2, memory=4000), gang("g", 3, gpu(3000), 1))
    world.settle()
    assert world.nodes_of("g-worker-0", "g-worker-1", "g-worker-2") == ["a", "a", ""]
    assert world.said("g-worker-2").message.startswith("queue default resource quota insufficient")
    assert (world.book("g").phase, world.book("g").unschedulable) == ("Running", None)


def test_every_status_is_counted() -> None:
    """scheduling/MSG-2, PG-2"""
    on = {"spec": {"nodeName": "a"}}
    members = [
        pod("run", "g", gpu(100), **on, status={"phase": "Running"}),
        pod("end", "g", gpu(100), **on, status={"phase": "Succeeded"}),
        pod("bad", "g", gpu(100), **on, status={"phase": "Failed"}),
        pod("odd", "g", gpu(100), **on, status={"phase": "Unknown"}),
        pod("wait", "g", gpu(90000)),
    ]
    world = World(node(), group("g", 4), members)
    world.settle()
    assert world.book("g").message.startswith(
        "2/5 tasks in gang unschedulable: pod group is not ready, 1 Failed, 1 Pending, 1 Running, 1 Succeeded, "
        "1 Unknown, 4 minAvailable; Pending: 1 Unschedulable"
    )
