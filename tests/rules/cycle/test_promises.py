"""Places that an eviction made (scheduling/PG-11c)."""

from __future__ import annotations

from rules.cycle.build import World, bare, gang, gpu, group, node, pod, thing

from events.records import Promise

CARD = "GPU-a-0,NVIDIA,6000,10:"


def promised(world: World, name: str, at: str = "a", allocation: str = CARD) -> None:
    uid = f"uid-pod-{name}"
    world.model.promises[uid] = Promise(uid=uid, node=at, allocation=allocation)


def ending(*more: object) -> World:
    """A node whose card is held by a terminating pod, and a waiting gang of one that is promised the card."""
    world = World(node(), bare("old", gpu(6000)))
    world.settle()
    world.terminate("old")
    world.see(gang("mine", 1, gpu(6000), age=9), *more)
    promised(world, "mine-worker-0")
    return world


def test_a_promise_stands_while_the_place_is_not_free() -> None:
    """scheduling/PG-11c, POD-1: with the node nominated"""
    world = ending()
    world.rest()
    assert list(world.model.promises) == ["uid-pod-mine-worker-0"]
    assert world.said("mine-worker-0").nominated_node == "a"
    assert "once resource is released" in world.said("mine-worker-0").message


def test_the_place_goes_to_whom_it_was_promised() -> None:
    """scheduling/PG-11c: not to an older job of higher priority, which comes first in order"""
    high = thing("PriorityClass", "high", value=9)
    world = ending(high, gang("other", 1, gpu(6000), age=1, spec={"priorityClassName": "high"}))
    world.rest()
    world.delete("old")
    world.settle()
    assert world.nodes_of("mine-worker-0", "other-worker-0") == ["a", ""]
    assert world.model.promises == {}


def test_a_promise_holds_card_and_queue_for_all_others() -> None:
    """scheduling/PG-11c: 4000 would fit beside it now, but not beside both"""
    world = ending(gang("late", 1, gpu(4000), age=20))
    world.rest()
    assert world.on("late-worker-0") == ""


def test_a_promise_ends_with_its_pod() -> None:
    """scheduling/PG-11c"""
    world = ending()
    world.rest()
    world.delete("mine-worker-0")
    world.rest()
    assert world.model.promises == {}


def test_a_promise_that_cannot_be_kept_is_dropped() -> None:
    """scheduling/PG-11c: its node does not take it any more; the task is judged like any other"""
    world = ending()
    world.rest()
    world.see(node(spec={"unschedulable": True}))
    world.rest()
    assert world.model.promises == {}
    assert world.said("mine-worker-0").message == "0/1 nodes are unavailable: 1 node(s) were unschedulable."


def test_a_gang_keeps_its_places_until_all_are_free() -> None:
    """scheduling/PG-11c: one victim is gone, the other is not"""
    world = World(node(cards=2), bare("old-0", gpu(6000)), bare("old-1", gpu(6000)))
    world.settle()
    world.terminate("old-0")
    world.terminate("old-1")
    world.see(gang("mine", 2, gpu(6000), age=9), gang("thief", 1, gpu(6000), age=1))
    promised(world, "mine-worker-0", allocation="GPU-a-0,NVIDIA,6000,10:")
    promised(world, "mine-worker-1", allocation="GPU-a-1,NVIDIA,6000,10:")
    world.rest()
    world.delete("old-0")
    world.settle()
    assert world.nodes_of("mine-worker-0", "mine-worker-1", "thief-worker-0") == ["", "", ""]
    assert len(world.model.promises) == 2
    world.delete("old-1")
    world.settle()
    assert world.nodes_of("mine-worker-0", "mine-worker-1", "thief-worker-0") == ["a", "a", ""]
    assert world.model.promises == {}


def test_a_gang_that_cannot_be_completed_gives_its_places_back() -> None:
    """scheduling/PG-11c: a member's promise fell through"""
    world = World(node(cards=1), gang("mine", 2, gpu(6000)), group("other"), pod("o", "other", gpu(6000), age=9))
    promised(world, "mine-worker-0")
    world.settle()
    assert world.nodes_of("mine-worker-0", "mine-worker-1", "o") == ["", "", "a"]
    assert world.model.promises == {}


def test_a_gang_that_becomes_ready_by_another_place_is_bound_with_the_places_that_were_kept() -> None:
    """scheduling/AL-10, PG-11c: one promised place is free, one is not, and a third member finds room meanwhile"""
    world = World(node(cards=2), bare("old-0", gpu(6000)), bare("old-1", gpu(6000)))
    world.settle()
    world.terminate("old-0")
    world.terminate("old-1")
    world.see(gang("mine", 3, gpu(6000), minimum=2, age=9))
    promised(world, "mine-worker-0", allocation="GPU-a-0,NVIDIA,6000,10:")
    promised(world, "mine-worker-1", allocation="GPU-a-1,NVIDIA,6000,10:")
    world.rest()
    world.delete("old-0")
    world.rest()
    world.see(node("b"))
    batch = world.step()
    assert batch is not None
    assert [{member.name for member in command.members} for command in batch.binds] == [
        {"mine-worker-0", "mine-worker-2"}
    ]
    world.settle()
    assert world.nodes_of("mine-worker-0", "mine-worker-1", "mine-worker-2") == ["a", "", "b"]
    world.delete("old-1")
    world.settle()
    assert world.on("mine-worker-1") == "a"
    assert world.model.promises == {}
