"""What statuses of queues and groups show (scheduling/Q-6 to Q-8, PG-2)."""

from __future__ import annotations

from rules.cycle.build import CORES, MEMORY, NUMBER, World, bare, gang, gpu, group, node, queue

from scheduling.cycle.queue_status import allocated, as_status, group_counts, task_counts


def test_a_queue_shows_what_its_tasks_hold() -> None:
    """scheduling/A-1, Q-6, Q-7"""
    world = World(node(), bare("p", {"cpu": "500m", "memory": "1Gi", **gpu(2000, 30)}))
    world.step()
    shown = as_status(allocated(world.model)["default"])
    assert shown == {"cpu": "500m", "memory": "1Gi", "pods": "1", NUMBER: "1", MEMORY: "2k", CORES: "30"}


def test_empty_and_ending() -> None:
    """scheduling/Q-6, A-3: cpu and memory are always there; a terminating pod is not counted"""
    world = World(node(), bare("p", gpu()))
    world.settle()
    world.terminate("p")
    assert as_status(allocated(world.model)["default"]) == {"cpu": "0", "memory": "0"}


def test_ancestors_hold_what_is_below() -> None:
    """scheduling/Q-6"""
    world = World(
        node(), queue("top", parent="root"), queue("leaf", parent="top"), gang("g", 1, gpu(3000), queue="leaf")
    )
    world.settle()
    found = allocated(world.model)
    assert [found[name].get(MEMORY, 0) for name in ("leaf", "top", "root", "default")] == [3_000_000] * 3 + [0]


def test_a_circle_of_parents_ends() -> None:
    """scheduling/Q-5: such queues do not exist where writes are validated"""
    world = World(node(), queue("x", parent="y"), queue("y", parent="x"), queue("z", parent="z"))
    assert set(allocated(world.model)) == {"default", "root", "x", "y", "z"}


def test_several_cards_show_what_they_hold() -> None:
    """scheduling/Q-7"""
    world = World(node(cards=2), bare("p", gpu(None, 5, number=2)))
    world.settle()
    shown = as_status(allocated(world.model)["default"])
    assert (shown[NUMBER], shown[MEMORY], shown[CORES]) == ("2", "16384", "10")


def test_counters() -> None:
    """scheduling/Q-8, PG-2"""
    world = World(node(), gang("g", 2, gpu()), gang("big", 1, gpu(9000)), group("lost", queue="none"))
    world.settle()
    world.pod_phase("g-worker-0", "Succeeded")
    assert group_counts(world.model)["default"] == {
        "pending": 0,
        "inqueue": 1,
        "running": 1,
        "unknown": 0,
        "completed": 0,
    }
    assert task_counts(world.model, "lab/g") == {"running": 1, "succeeded": 1, "failed": 0}
    assert task_counts(world.model, "lab/none") == {"running": 0, "succeeded": 0, "failed": 0}
