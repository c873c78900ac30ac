"""overcommit and capacity without hierarchy (scheduling/CFG-13, E-8)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rules.cycle.build import MEMORY, World, bare, gang, gpu, group, node, queue

from scheduling.config.model import PluginOption, SchedulerConfig
from scheduling.config.parse import default_config
from scheduling.cycle.plugins.capacity import CapacityPlugin
from scheduling.cycle.plugins.overcommit import OvercommitPlugin

LACKS = "resource quota insufficient: insufficient"


def overcommitted(**arguments: Any) -> SchedulerConfig:
    config = default_config()
    option = PluginOption("overcommit", arguments)
    return replace(config, tiers=(*config.tiers[:-1], (*config.tiers[-1], option)))


def with_capacity() -> SchedulerConfig:
    config = default_config()
    tiers = tuple(
        tuple(PluginOption("capacity") if option.name == "proportion" else option for option in tier)
        for tier in config.tiers
    )
    return replace(config, tiers=tiers)


def asking(name: str, memory: int, queue_name: str, age: int = 0) -> Any:
    return group(name, queue=queue_name, spec={"minResources": {MEMORY: str(memory)}}, age=age)


def phases(world: World, *names: str) -> list[str]:
    return [world.book(name).phase for name in names]


def test_the_cluster_is_let_full_by_a_fifth_more() -> None:
    """scheduling/CFG-13: total × 1.2 − used over all queues (oracle 844)"""
    queues = [queue(name) for name in ("one", "two", "three")]
    world = World(node(), queues, bare("first", gpu(6000), queue_name="one"), config=overcommitted())
    world.settle()
    world.see(asking("small", 3000, "two", 5))
    world.settle()
    world.see(asking("big", 6000, "three", 6))
    world.settle()
    text = "resource in cluster is overused: overused volcano.sh/vgpu-memory"
    assert phases(world, "small", "big") == ["Inqueue", "Pending"]
    book = world.book("big")
    assert (book.event_type, book.event_reason, book.event_message) == ("Normal", "Unschedulable", text)


def test_what_waits_inside_counts() -> None:
    """scheduling/CFG-13, Q-11a: until it has had its turn"""
    queues = [queue(name) for name in ("one", "two")]
    world = World(node(), queues, asking("a", 8000, "one"), asking("b", 3000, "two", 1), config=overcommitted())
    world.settle()
    assert phases(world, "a", "b") == ["Inqueue", "Pending"]


def test_factors_below_one_are_replaced() -> None:
    """scheduling/CFG-13"""
    for factor, phase in ((0.5, "Inqueue"), (1.0, "Pending"), (2, "Inqueue")):
        queues = [queue(name) for name in ("one", "two")]
        config = overcommitted(**{"overcommit-factor": factor})
        world = World(node(), queues, asking("a", 8000, "one"), asking("b", 1800, "two", 1), config=config)
        world.settle()
        assert phases(world, "a", "b") == ["Inqueue", phase], factor
    assert OvercommitPlugin.name == "overcommit"


def test_capacity_lets_a_queue_grow_to_its_real_capability() -> None:
    """scheduling/CFG-13: deserved limits nobody while there is room, capability and others' guarantee do"""
    world = World(
        node(),
        queue("q", deserved={MEMORY: "1000"}, capability={MEMORY: "7000"}),
        queue("kept", guarantee={"resource": {MEMORY: "2000"}}),
        config=with_capacity(),
    )
    world.see(gang("g", 8, gpu(1000, 1), 1, queue="q"))
    world.settle()
    assert sum(bool(world.on(f"g-worker-{i}")) for i in range(8)) == 6
    assert world.said("g-worker-7").message == f"queue q {LACKS} volcano.sh/vgpu-memory"
    assert CapacityPlugin.name == "capacity"


def test_capacity_gates_at_the_real_capability() -> None:
    """scheduling/CFG-13, Q-18"""
    world = World(node(), queue("q", capability={MEMORY: "4000"}), config=with_capacity())
    world.see(asking("fits", 4000, "q"), asking("not", 1000, "q", 1))
    world.settle()
    assert phases(world, "fits", "not") == ["Inqueue", "Pending"]
    assert world.book("not").event_message == f"queue {LACKS} volcano.sh/vgpu-memory"
