"""gangpreempt and gangreclaim: eviction gang by gang (scheduling/GP-1 to GP-6)."""

from __future__ import annotations

from typing import Any

import pytest
from rules.cycle.build import World, gpu, node, pod, queue
from rules.evictions.worlds import BY_GANG, config, decided, evicted, job, there, world

CARD = node("a", cards=1, memory=8000)
GANGS = config(*BY_GANG)


def full(*jobs: Any, settings: Any = GANGS, **fields: Any) -> World:
    place = world(CARD, *(jobs or (job("low", 4, minimum=2, **fields),)), settings=settings)
    place.settle()
    return place


def test_what_is_above_the_minimum_goes_first() -> None:
    """scheduling/GP-3, GP-4: both of the safe bundle, though one would do: a bundle goes as one"""
    place = full()
    place.see(job("high", 1, klass="high", age=9))
    commands = decided(place)
    assert [command.name for command in commands] == ["low-w-3", "low-w-2"]
    assert {command.reason for command in commands} == {"gangpreempt"}
    assert {command.for_group for command in commands} == {"lab/high"}


def test_a_whole_gang_goes_where_that_is_not_enough() -> None:
    """scheduling/GP-3"""
    place = full()
    place.see(job("high", 1, gpu(8000), klass="high", age=9))
    assert evicted(place) == ["low-w-3", "low-w-2", "low-w-1", "low-w-0"]
    place.effects()
    place.settle()
    assert place.on("high-w-0") == "a"


@pytest.mark.parametrize("allowed", [True, False])
def test_a_bare_pod_is_a_whole_bundle(allowed: bool) -> None:
    """scheduling/GP-1, GP-3: it gives way unless whole bundles are not allowed"""
    settings = config(*BY_GANG, gangpreempt={"allowWholeBundle": allowed})
    place = full(job("low", 1, gpu(8000)), settings=settings)
    place.see(job("high", 1, klass="high", age=9))
    assert evicted(place) == (["low-w-0"] if allowed else [])


@pytest.mark.parametrize("most", [1, 8, 0, -3])
def test_without_topology_the_cluster_is_the_one_domain(most: int) -> None:
    """scheduling/GP-1: however many may be looked at, it is looked at, as a whole"""
    settings = config(*BY_GANG, gangpreempt={"maxDomains": most})
    nodes = (node("a", cards=1, memory=4000), node("b", cards=1, memory=4000))
    place = world(*nodes, job("low", 2, gpu(4000), minimum=2), settings=settings)
    place.settle()
    place.see(job("high", 2, gpu(4000), klass="high", age=9))
    assert sorted(evicted(place)) == ["low-w-0", "low-w-1"]
    place.effects()
    place.settle()
    assert {place.on("high-w-0"), place.on("high-w-1")} == {"a", "b"}


def test_equal_priority_gives_nothing() -> None:
    """scheduling/GP-2: strictly lower"""
    place = full()
    place.see(job("other", 1, age=9))
    assert evicted(place) == []


def test_a_whole_gang_with_a_critical_pod_stays() -> None:
    """scheduling/GP-3, CFG-14"""
    place = world(CARD, job("low", 1, gpu(4000), minimum=2), settings=GANGS)
    place.see(pod("low-w-1", "low", gpu(4000), spec={"priorityClassName": "system-node-critical"}))
    place.settle()
    place.see(job("high", 1, klass="high", age=9))
    assert evicted(place) == []


def test_a_safe_bundle_shrinks_by_who_may_not_go() -> None:
    """scheduling/GP-3"""
    place = world(CARD, job("low", 3, minimum=2), settings=GANGS)
    place.see(pod("low-w-3", "low", gpu(2000), annotations={"volcano.sh/preemptable": "false"}))
    place.settle()
    place.see(job("high", 1, klass="high", age=9))
    assert evicted(place) == ["low-w-2", "low-w-1"]


def test_bundles_that_are_not_needed_are_given_back() -> None:
    """scheduling/GP-5: the first bundle is on the wrong card"""
    place = world(node("a", cards=2, memory=8000), settings=GANGS)
    for name, card, size in (("one", 0, 4000), ("two", 1, 8000)):
        only = {"volcano.sh/vgpu-use-gpuuuid": f"GPU-a-{card}"}
        place.see(job(name, 8000 // size, gpu(size), age=card, minimum=8000 // size, annotations=only))
    place.settle()
    only = {"volcano.sh/vgpu-use-gpuuuid": "GPU-a-0"}
    place.see(job("high", 1, gpu(8000), klass="high", age=9, annotations=only))
    assert sorted(evicted(place)) == ["one-w-0", "one-w-1"]


def test_nothing_fits_and_nobody_goes() -> None:
    """scheduling/GP-4"""
    place = full()
    place.see(job("high", 1, gpu(8001), klass="high", age=9))
    assert evicted(place) == []
    assert "possibly" not in place.said("high-w-0").message


def test_a_gang_takes_all_its_places_at_once() -> None:
    """scheduling/GP-4, PG-11c"""
    place = full()
    place.see(job("high", 2, gpu(3000), minimum=2, klass="high", age=9))
    assert evicted(place) == ["low-w-3", "low-w-2", "low-w-1", "low-w-0"]
    assert len(place.model.promises) == 2
    place.effects()
    place.settle()
    assert there(place, "high-w-0", "high-w-1") == ["high-w-0", "high-w-1"]


def test_a_job_that_never_preempts_waits() -> None:
    """scheduling/CFG-13, GP-2"""
    place = full()
    place.see(job("high", 1, klass="high", age=9, spec={"preemptionPolicy": "Never"}))
    assert evicted(place) == []


def test_without_gang_each_bundle_must_give_a_place() -> None:
    """scheduling/GP-4: who gives none is not taken"""
    place = full(job("low", 2, gpu(4000), minimum=2), settings=config(*BY_GANG, off=("gang",)))
    place.see(job("high", 1, gpu(8001), klass="high", age=9))
    assert evicted(place) == []
    place.see(job("next", 1, gpu(8000), klass="high", age=9))
    assert evicted(place) == ["low-w-1", "low-w-0"]


# --- gangreclaim ---


def shared(minimum: int, *, settings: Any = GANGS) -> World:
    place = world(CARD, queue("one"), queue("two"), job("low", 4, queue="one", minimum=minimum), settings=settings)
    place.settle()
    return place


def test_a_queue_takes_back_gang_by_gang() -> None:
    """scheduling/GP-2, GP-6: of the safe bundle no more than is above the deserved"""
    place = shared(1)
    place.see(job("back", 1, queue="two", age=9))
    commands = decided(place)
    assert [command.name for command in commands] == ["low-w-3"]
    assert {command.reason for command in commands} == {"gangreclaim"}


def test_a_whole_gang_of_a_queue_above_its_deserved_goes() -> None:
    """scheduling/GP-3: and does not come back in turn"""
    place = shared(4)
    place.see(job("back", 2, queue="two", minimum=2, age=9))
    assert len(evicted(place)) == 4
    place.effects()
    for number in range(4):
        place.see(pod(f"low-w-{number}", "low", gpu(2000), uid=f"again-{number}"))
    place.settle()
    assert there(place, "back-w-0", "back-w-1") == ["back-w-0", "back-w-1"]


def test_a_queue_within_its_deserved_loses_nothing() -> None:
    """scheduling/GP-2, PG-11b"""
    place = shared(1)
    place.see(queue("one", weight=9))
    place.see(job("back", 2, queue="two", minimum=2, age=9))
    assert evicted(place) == []


def test_the_queue_with_the_largest_share_gives_first() -> None:
    """scheduling/GP-4"""
    deserved = {"volcano.sh/vgpu-memory": "2000"}
    place = world(
        CARD, queue("one", deserved=deserved), queue("two", deserved=deserved), queue("three", deserved=deserved),
        job("a", 1, queue="one", minimum=0), job("b", 3, queue="three", minimum=0),
        settings=config(*BY_GANG, queues="capacity"),
    )  # fmt: skip
    place.settle()
    place.see(job("back", 1, queue="two", age=9))
    assert evicted(place)[0] == "b-w-2"


def test_a_queue_that_is_not_reclaimable_gives_nothing() -> None:
    """scheduling/GP-2"""
    place = world(CARD, queue("one", reclaimable=False), queue("two"), job("low", 4, queue="one"), settings=GANGS)
    place.settle()
    place.see(job("back", 1, queue="two", age=9))
    assert evicted(place) == []
