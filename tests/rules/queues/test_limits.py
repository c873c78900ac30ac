"""Limits of queues under proportion (scheduling/Q-9 to Q-21)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rules.cycle.build import CORES, MEMORY, NUMBER, PERCENTAGE, Json, World, bare, gang, gpu, group, node, pod, queue

from scheduling.config.model import PluginOption
from scheduling.config.parse import default_config
from scheduling.cycle.accounts import capability_of, over, real_capability
from scheduling.objects import queue as parsed

LACKS = "resource quota insufficient: insufficient"


def test_real_capability() -> None:
    """scheduling/Q-9: what others are not guaranteed, plus the own guarantee, capped"""
    total, guarantees = {"cpu": 10, "g": 8}, {"cpu": 6, "g": 9}
    assert real_capability(total, guarantees, {"g": 5}, {"cpu": 2}) == {"cpu": 6, "g": 0}
    assert real_capability(total, {}, {"g": 5}, {}) == {"cpu": 10, "g": 5}


def test_absent_and_zero_in_a_capability() -> None:
    """scheduling/Q-10: cpu or memory of 0 is unlimited, a scalar of 0 is a limit"""
    found = capability_of(parsed(queue("q", capability={"cpu": "0", "memory": "0", NUMBER: "0", MEMORY: "5"})))
    assert found == {NUMBER: 0, MEMORY: 5000}


def test_exceeded_dimensions() -> None:
    """scheduling/R-5: requested ones only, without pods, strictly, in the order of messages"""
    future = {"b/x": 5, "a/x": 5, "memory": 5, "cpu": 5, "pods": 5, "free/x": 9}
    limit = {"b/x": 4, "a/x": 4, "memory": 4, "cpu": 5, "pods": 1}
    assert over(future, limit, {"b/x": 1, "a/x": 1, "memory": 1, "cpu": 1, "pods": 1, "free/x": 0}) == [
        "memory",
        "a/x",
        "b/x",
    ]


def test_a_scalar_of_zero_takes_nobody() -> None:
    """scheduling/Q-10, Q-18"""
    world = World(node(), queue("q", capability={NUMBER: "0"}), bare("p", gpu(), queue_name="q"))
    world.settle()
    assert world.said("p").message == f"queue q {LACKS} volcano.sh/vgpu-number"


def test_a_cpu_job_is_not_held_by_a_vgpu_limit() -> None:
    """scheduling/Q-19, Q-16"""
    world = World(node(), queue("q", capability={MEMORY: "1000"}), gang("g", 2, gpu(1000), 1, queue="q"))
    world.settle()
    world.see(gang("c", 1, {"cpu": "1"}, queue="q", age=9))
    world.settle()
    assert world.nodes_of("g-worker-0", "g-worker-1", "c-worker-0") == ["a", "", "a"]


def test_a_name_that_no_node_has_is_no_matter_for_the_queue() -> None:
    """scheduling/Q-10a: the pod fails on the nodes, also behind a queue that has all it deserves"""
    world = World(node(), bare("p", gpu()))
    world.settle()
    world.see(bare("odd", {"example.test/fpga": "1"}, age=9))
    world.settle()
    assert world.said("odd").message == "0/1 nodes are unavailable: 1 Insufficient example.test/fpga."
    limited = World(node(), queue("q", capability={"example.test/fpga": "1"}))
    limited.see(bare("odd", {"example.test/fpga": "1"}, queue_name="q"))
    limited.settle()
    assert limited.said("odd").message == f"queue q {LACKS} example.test/fpga"


def test_a_percentage_is_charged_once_its_cards_are_known() -> None:
    """scheduling/Q-10a, Q-17a, Q-21, devices/R-11"""
    world = World(node(cards=2), queue("q", capability={MEMORY: "8000"}))
    world.see([bare(f"p{i}", gpu(None, **{PERCENTAGE: "50"}), queue_name="q", age=i) for i in range(3)])
    world.settle()
    assert world.nodes_of("p0", "p1", "p2") == ["a", "", ""]
    assert world.said("p1").message == f"queue q {LACKS} volcano.sh/vgpu-memory"


def test_several_cards_are_charged_each() -> None:
    """scheduling/Q-21: two pods of two cards with 1500 each really hold 6000; one is admitted"""
    world = World(node(cards=4), queue("q", capability={MEMORY: "4000"}))
    world.see([bare(f"p{i}", gpu(1500, number=2), queue_name="q", age=i) for i in range(2)])
    world.settle()
    assert world.nodes_of("p0", "p1") == ["a", ""]
    assert world.said("p1").message == f"queue q {LACKS} volcano.sh/vgpu-memory"


def test_raw_accounting_counts_memory_once() -> None:
    """scheduling/Q-21: the reference admits both"""
    config = default_config()
    raw = PluginOption("proportion", {"queue.vgpuAccounting": "raw"})
    tiers = tuple(tuple(raw if option.name == "proportion" else option for option in tier) for tier in config.tiers)
    world = World(node(cards=4), queue("q", capability={MEMORY: "4000"}), config=replace(config, tiers=tiers))
    world.see([bare(f"p{i}", gpu(1500, number=2), queue_name="q", age=i) for i in range(2)])
    world.settle()
    assert world.nodes_of("p0", "p1") == ["a", "a"]


def test_a_request_for_several_cards_is_refused_at_the_gate() -> None:
    """scheduling/Q-18a: 2 × 3000 in an automatic group; the written minResources says 3000"""
    world = World(node(cards=2), queue("q", capability={MEMORY: "4000"}))
    world.see(bare("p", gpu(3000, number=2), queue_name="q"))
    world.settle()
    book = world.book("podgroup-uid-pod-p")
    assert (book.phase, book.event_message) == ("Pending", f"queue {LACKS} volcano.sh/vgpu-memory")


def test_resources_are_named_in_order() -> None:
    """scheduling/R-5, E-7, Q-24"""
    limit = {"cpu": "1", "memory": "1Gi", MEMORY: "1", NUMBER: "1", CORES: "1"}
    asked = {"cpu": "2", "memory": "2Gi", **gpu(2, 2, 2)}
    world = World(node(cards=2), queue("q", capability=limit), bare("p", asked, queue_name="q"))
    world.settle()
    names = ("cpu", "memory", CORES, MEMORY, NUMBER)
    text = ", ".join(f"insufficient {name}" for name in names)
    assert world.said("p").message == f"queue q resource quota insufficient: {text}"


def test_weights_split_only_among_queues_with_groups() -> None:
    """scheduling/Q-9, Q-15"""
    world = World(node(), queue("idle", weight=100), queue("q"), gang("g", 2, gpu(4000), queue="q"))
    world.settle()
    assert world.nodes_of("g-worker-0", "g-worker-1") == ["a", "a"]


def test_two_queues_get_what_their_weights_say() -> None:
    """scheduling/Q-12, Q-17 (oracle 812 in small)"""
    world = World(node(cards=4, memory=1000), queue("one"), queue("three", weight=3))
    world.see(gang("one", 4, gpu(1000, 1), 1, queue="one"), gang("three", 4, gpu(1000, 1), 1, queue="three"))
    world.settle()
    placed = {name: sum(bool(world.on(f"{name}-worker-{i}")) for i in range(4)) for name in ("one", "three")}
    assert placed == {"one": 1, "three": 3}
    assert world.said("one-worker-3").message == f"queue one {LACKS} volcano.sh/vgpu-memory"


def test_reservations_count_until_they_are_used() -> None:
    """scheduling/Q-11: minResources beyond what the job has; gated requests are taken out"""
    least = {"minResources": {MEMORY: "6000"}}
    world = World(node(), group("g", 2, spec=least), pod("p", "g", gpu(3000)))
    world.settle()
    assert world.book("g").phase == "Inqueue"
    gates = [{"name": "example.test/wait"}]
    gated = World(node(), group("g", 1, spec=least), pod("p", "g", gpu(6000), spec={"schedulingGates": gates}))
    gated.see(group("h", spec={"minResources": {MEMORY: "8000"}}, age=9))
    gated.settle()
    assert gated.book("h").phase == "Inqueue"


def test_what_a_job_has_beyond_its_minimum_is_elastic() -> None:
    """scheduling/Q-11, Q-18: another group is let in against it"""
    least = {"minResources": {MEMORY: "2000"}}
    world = World(node(), gang("g", 4, gpu(2000), 1, spec=least))
    world.settle()
    world.see(group("h", spec={"minResources": {MEMORY: "6000"}}, age=9))
    world.settle()
    assert world.book("h").phase == "Inqueue"
    world.see(group("i", spec={"minResources": {MEMORY: "1000"}}, age=10))
    world.settle()
    assert world.book("i").phase == "Pending"


@pytest.mark.parametrize(("members", "admitted"), [(1, False), (2, True)])
def test_a_running_group_reserves_only_with_enough_members(members: int, admitted: bool) -> None:
    """scheduling/Q-11: Running with at least minMember placed ones keeps the rest of its minResources"""
    least = {"minResources": {MEMORY: "8000"}}
    runs: Json = {"spec": {"nodeName": "a"}, "status": {"phase": "Running"}}
    pods = [pod(f"p-{i}", "g", {"cpu": "1"}, **runs) for i in range(members)]
    world = World(node(), group("g", 3 - members, spec=least, status={"phase": "Running"}), pods)
    world.see(group("h", spec={"minResources": {MEMORY: "1000"}}))
    assert (world.run().groups["lab/h"].phase == "Pending") == admitted
