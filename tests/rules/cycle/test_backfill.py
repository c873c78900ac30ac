"""Best-effort tasks (scheduling/AL-14 to AL-16, PG-10)."""

from __future__ import annotations

from rules.cycle.build import World, gang, gpu, group, node, pod, queue


def test_best_effort_tasks_are_placed_by_backfill() -> None:
    """scheduling/AL-14, R-6"""
    world = World(node(), group("g"), pod("p", "g", {}))
    batch = world.step()
    assert batch is not None
    assert [[member.name for member in command.members] for command in batch.binds] == [["p"]]


def test_a_failing_task_does_not_stop_the_others() -> None:
    """scheduling/AL-14"""
    pods = [pod(f"p-{i}", "g", {}, spec={"nodeSelector": {"disk": "ssd"}} if not i else {}) for i in range(2)]
    world = World(node(), group("g", 1), pods)
    world.settle()
    assert world.nodes_of("p-0", "p-1") == ["", "a"]
    assert world.said("p-0").message == (
        "0/1 nodes are unavailable: 1 node(s) didn't match Pod's node affinity/selector."
    )


def test_a_mixed_gang_is_bound_by_allocate_and_completed_by_backfill() -> None:
    """scheduling/AL-15, PG-10: the waiting best-effort task counts as ready"""
    world = World(node(), group("g", 2), pod("big", "g", gpu()), pod("light", "g", {}))
    batch = world.step()
    assert batch is not None
    assert [[member.name for member in command.members] for command in batch.binds] == [["big"], ["light"]]


def test_queues_that_are_not_open_are_skipped() -> None:
    """scheduling/AL-16"""
    world = World(node(), queue("q", state="Closed"), group("g", queue="q", status={"phase": "Inqueue"}))
    world.see(pod("p", "g", {}))
    world.settle()
    assert world.on("p") == ""


def test_the_place_of_a_terminating_pod_is_only_promised() -> None:
    """scheduling/F-6, AL-22: it still counts among the pods of its node"""
    world = World(node(pods="1"), group("old"), pod("old", "old", gpu()))
    world.settle()
    world.terminate("old")
    world.see(group("g"), pod("p", "g", {}))
    world.settle()
    assert world.on("p") == ""
    assert "once resource is released" in world.said("p").message
    world.delete("old")
    world.settle()
    assert world.on("p") == "a"


def test_a_vgpu_pod_is_not_best_effort() -> None:
    """scheduling/R-6"""
    world = World(gang("g", 1, gpu()))
    world.settle()
    assert world.said("g-worker-0").message == "0/0 nodes are unavailable"
