"""Gangs whose bindings were refused (scheduling/F-2, F-9)."""

from __future__ import annotations

from rules.cycle.build import World, gang, gpu, group, node, pod

from scheduling.cycle.undo import ATTEMPTS_MAX


def evicted(world: World) -> list[tuple[str, str]]:
    commands = (command.evict for command in world.model.commands.values())
    return [(evict.name, evict.reason) for evict in commands if evict]


def test_a_refused_member_is_placed_anew() -> None:
    """scheduling/F-2"""
    world = World(node("a"), node("b"), gang("g", 2, gpu(6000)))
    world.step()
    world.effects(refuse=("g-worker-1",))
    assert world.said("g-worker-1").message == "failed to bind to node b: no"
    world.settle()
    assert world.nodes_of("g-worker-0", "g-worker-1") == ["a", "b"]
    assert world.model.groups["lab/g"].attempts == 0


def test_after_too_many_refusals_the_bound_members_go() -> None:
    """scheduling/F-2"""
    world = World(node("a"), node("b"), gang("g", 2, gpu(6000)))
    for _ in range(ATTEMPTS_MAX):
        world.step()
        assert evicted(world) == []
        world.effects(refuse=("g-worker-1",))
    batch = world.step()
    assert batch is not None
    assert (evicted(world), batch.binds) == ([("g-worker-0", "gang incomplete")], [])


def test_a_member_that_finds_no_place_undoes_the_gang_at_once() -> None:
    """scheduling/F-2: nothing would ever change"""
    world = World(node("a"), node("b"), gang("g", 2, gpu(6000)))
    world.step()
    world.effects(refuse=("g-worker-1",))
    world.see(node("b", spec={"unschedulable": True}))
    world.step()
    assert evicted(world) == [("g-worker-0", "gang incomplete")]


def test_so_it_does_if_another_binding_was_under_way_when_that_was_found() -> None:
    """scheduling/F-2: the phase is Unknown by then, since members run (PG-6), and the gang was never complete"""
    world = World(node("a"), node("b"), node("c"), gang("g", 3, gpu(6000)))
    world.step()
    world.effects(refuse=("g-worker-1",), wait=("g-worker-2",))
    world.see(node("b", spec={"unschedulable": True}))
    world.step()
    assert (evicted(world), world.book("g").phase) == ([], "Unknown")
    world.effects()
    world.step()
    assert sorted(evicted(world)) == [("g-worker-0", "gang incomplete"), ("g-worker-2", "gang incomplete")]


def test_who_is_refused_beside_a_gang_that_was_complete_undoes_nothing() -> None:
    """scheduling/F-9: the gang lost a member, and the next one was refused, again and again"""
    world = World(node("a"), node("b"), gang("g", 2, gpu(6000)))
    world.settle()
    world.delete("g-worker-1")
    world.see(pod("g-worker-2", "g", gpu(6000)))
    for _ in range(ATTEMPTS_MAX + 1):
        world.step()
        world.effects(refuse=("g-worker-2",))
    world.see(node("b", spec={"unschedulable": True}))
    world.settle()
    assert world.nodes_of("g-worker-0", "g-worker-2") == ["a", ""]
    assert world.book("g").phase == "Unknown"


def test_a_gang_whose_member_is_deleted_waits_for_the_next_one() -> None:
    """scheduling/F-2: it is not tried while it is too small"""
    world = World(node("a"), node("b"), gang("g", 2, gpu(6000)))
    world.step()
    world.effects(refuse=("g-worker-1",))
    world.delete("g-worker-1")
    world.settle()
    assert world.on("g-worker-0") == "a"
    world.see(pod("g-worker-2", "g", gpu(6000)))
    world.settle()
    assert world.nodes_of("g-worker-0", "g-worker-2") == ["a", "b"]


def test_a_gang_that_ran_keeps_its_members() -> None:
    """scheduling/F-9"""
    world = World(node("a"), node("b"), gang("g", 2, gpu(6000)))
    world.settle()
    world.delete("g-worker-1")
    world.see(node("b", spec={"unschedulable": True}), pod("g-worker-2", "g", gpu(6000)))
    world.settle()
    assert world.on("g-worker-0") == "a"
    assert world.book("g").phase == "Unknown"


def test_pods_that_arrived_bound_are_never_undone() -> None:
    """scheduling/F-2: only what a refused binding of ours left behind"""
    bound = pod("p-0", "g", gpu(6000), spec={"nodeName": "a"}, status={"phase": "Running"})
    world = World(node("a"), group("g", 2), bound, pod("p-1", "g", gpu(6000)))
    world.settle()
    assert world.nodes_of("p-0", "p-1") == ["a", ""]
