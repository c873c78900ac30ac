"""Numbers for metrics (scheduling section 8)."""

from __future__ import annotations

from fractions import Fraction

from rules.cycle.build import CORES, MEMORY, NUMBER, World, gang, gpu, group, node, queue

from scheduling.cycle.measures import QueueMeasures, measure


def test_a_full_queue_is_overused() -> None:
    """scheduling/A-5, Q-16"""
    limit = {NUMBER: "2", MEMORY: "4000", CORES: "60"}
    world = World(node(), queue("small", capability=limit), gang("fit", 2, gpu(1000, 30), queue="small"))
    world.settle()
    found = measure(world.model).queues["small"]
    assert (found.overused, found.share) == (True, 1)
    assert found.allocated == {NUMBER: 2000, MEMORY: 2_000_000, CORES: 60_000, "pods": 2}
    assert found.capacity == {NUMBER: 2000, MEMORY: 4_000_000, CORES: 60_000}
    assert found.real_capacity[MEMORY] == 4_000_000
    assert found.deserved[MEMORY] == 2_000_000


def test_a_queue_without_groups_measures_nothing() -> None:
    """scheduling/ME-3"""
    assert measure(World(queue("idle")).model).queues["idle"] == QueueMeasures()


def test_jobs() -> None:
    """scheduling section 8: u of MSG-1 and the share"""
    world = World(node(), gang("runs", 1, gpu(4096)), gang("waits", 2, gpu(9000)), group("empty"))
    world.settle()
    found = measure(world.model).jobs
    assert (found["lab/runs"].unscheduled, found["lab/runs"].share) == (0, Fraction(1, 2))
    assert found["lab/waits"].unscheduled == 2
    assert found["lab/empty"].unscheduled == 0
