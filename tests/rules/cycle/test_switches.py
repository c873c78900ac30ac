"""The optional switches: off by default, so that the rules hold as written (scheduling section 9)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rules.cycle.build import MEMORY, World, bare, gang, gpu, group, node, pod, queue

from scheduling.config.arguments import boolean
from scheduling.config.model import SchedulerConfig
from scheduling.config.parse import default_config, parse

ACTIONS = ("enqueue", "allocate", "backfill")


def config(allocate: dict[str, Any] | None = None, **plugins: Any) -> SchedulerConfig:
    """The default configuration with arguments for plugins and for allocate."""
    found = default_config()
    tiers = tuple(
        tuple(replace(option, arguments={**option.arguments, **plugins.get(option.name, {})}) for option in tier)
        for tier in found.tiers
    )
    return SchedulerConfig(ACTIONS, tiers, {"allocate": allocate or {}})


def running(world: World) -> list[str]:
    """The pods that are on nodes, by name."""
    return sorted(entry.pod.name for entry in world.model.pods.values() if entry.node)


def stream(world: World, rounds: int) -> None:
    """Small pods come and go: whenever one ends, the next one is there already."""
    world.settle()
    for number in range(rounds):
        world.see(bare(f"next{number}", gpu(4000), age=100 + number))
        running_now = [name for name in running(world) if not name.startswith("big")]
        if not running_now:
            return
        world.delete(running_now[0])
        world.settle()


def starving(**allocate: Any) -> World:
    """One card full of small pods, then a gang of two that needs all of it; small ones of higher order keep coming."""
    world = World(node(), bare("a", gpu(4000)), bare("b", gpu(4000)), config=config(allocate=allocate))
    world.settle()
    world.see(gang("big", 2, gpu(4000), age=50), *(bare(f"more{i}", gpu(4000), age=60 + i) for i in range(2)))
    return world


def test_a_big_gang_starves_by_default() -> None:
    """scheduling section 9 row 7, scheduling/AL-13: no reservation for the failed gang unless it is asked for"""
    world = starving()
    stream(world, 6)
    assert "big-worker-0" not in running(world)
    assert world.book("big").passed_over == 0


def test_a_gang_that_was_passed_over_keeps_what_it_could_have() -> None:
    """scheduling section 9 row 7: after K failed cycles at the head of its queue"""
    world = starving(**{"gang-reservation-cycles": 2})
    stream(world, 8)
    assert {"big-worker-0", "big-worker-1"} <= set(running(world))
    assert world.book("big").passed_over == 0


def test_what_is_kept_is_told_as_a_trial_and_nothing_is_bound() -> None:
    """scheduling section 9 row 7, scheduling/POD-1"""
    world = starving(**{"gang-reservation-cycles": 1})
    stream(world, 1)
    assert world.book("big").passed_over == 1
    world.delete(running(world)[0])
    world.settle()
    said = world.said("big-worker-0")
    assert (said.reason, said.message[:45]) == ("Schedulable", "Pod lab/big-worker-0 can possibly be assigned")
    assert len(running(world)) == 1


def test_nothing_is_kept_for_a_gang_that_never_fits() -> None:
    """scheduling section 9 row 7, scheduling/Q-11a: it would hold others back for ever"""
    world = World(node(), bare("a", gpu(4000)), config=config(allocate={"gang-reservation-cycles": 1}))
    world.settle()
    world.see(gang("big", 3, gpu(4000), age=50), bare("b", gpu(4000), age=60))
    stream(world, 4)
    assert len(running(world)) == 2


def half(first: bool) -> World:
    """A gang of two that lost a member, and a fresh gang with no share: one place is left."""
    world = World(node(memory=6000), gang("half", 2, gpu(2000)), config=config(gang={"gang.runningFirst": first}))
    world.settle()
    world.delete("half-worker-1")
    world.see(bare("fill", gpu(2000), age=1))
    world.settle()
    world.see(pod("half-worker-2", "half", gpu(2000), age=9), bare("fresh", gpu(2000), age=8))
    world.settle()
    return world


def test_a_fresh_job_comes_before_a_half_running_gang_by_default() -> None:
    """scheduling section 9 row 7, scheduling/Q-25: the lower share first"""
    assert "fresh" in running(half(False))


def test_a_gang_below_its_minimum_that_runs_goes_first() -> None:
    """scheduling section 9 row 7: the second switch"""
    assert "half-worker-2" in running(half(True))


def shares(borrow: bool) -> World:
    """Three cards, two queues of one weight, pods of two cards each: one and a half for each queue."""
    items = [node("n", cards=3), queue("q1"), queue("q2")]
    for name in ("q1", "q2"):
        items += [group(name, queue=name), *(pod(f"{name}-{i}", name, gpu(8192, 100, 2), age=i) for i in range(2))]
    return World(*items, config=config(proportion={"proportion.borrow": borrow}))


def test_a_fraction_that_fits_nobody_leaves_the_cluster_idle_by_default() -> None:
    """scheduling section 9 row 8, scheduling/Q-17"""
    world = shares(False)
    world.settle()
    assert running(world) == []


def test_the_queue_with_the_lowest_share_may_borrow_for_one_task() -> None:
    """scheduling section 9 row 8"""
    world = shares(True)
    world.settle()
    assert running(world) == ["q1-0"]


def test_nobody_borrows_beyond_the_real_capability() -> None:
    """scheduling section 9 row 8, scheduling/Q-9"""
    world = shares(True)
    world.see(queue("q1", capability={MEMORY: "9000"}), queue("q2", capability={MEMORY: "9000"}))
    world.settle()
    assert running(world) == []


def test_pods_of_a_blocked_gang_are_schedulable_by_default() -> None:
    """scheduling section 9 row 16, scheduling/POD-1"""
    for hidden, reason in ((False, "Schedulable"), (True, "Unschedulable")):
        world = World(node(), gang("g", 2, gpu(6000)), config=config(gang={"gang.reportUnschedulable": hidden}))
        world.settle()
        said = world.said("g-worker-0")
        text = "Pod lab/g-worker-0 can possibly be assigned to a, once minAvailable is satisfied"
        assert (said.reason, said.message) == (reason, text)


def test_the_switches_are_known_arguments() -> None:
    """scheduling section 9 rows 7, 8 and 16, scheduling/CFG-11: no warning, and a wrong type is told"""
    text = """
actions: "enqueue, allocate"
tiers:
- plugins:
  - name: gang
    arguments: {gang.reportUnschedulable: true, gang.runningFirst: "true"}
  - name: proportion
    arguments: {proportion.borrow: 3}
configurations:
- name: allocate
  arguments: {gang-reservation-cycles: 5}
"""
    report = parse(text)
    assert report.config is not None
    assert report.warnings == ("Could not parse argument: 3 for key proportion.borrow to bool",)
    option = report.config.plugin("gang")
    assert option is not None
    assert boolean(option.arguments, "gang.runningFirst", False)
