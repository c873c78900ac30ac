"""Who is let in (scheduling/AL-4, PG-4 to PG-5, Q-4a, Q-4b, E-5, E-7, EV-1)."""

from __future__ import annotations

from dataclasses import replace

from rules.cycle.build import MEMORY, NUMBER, World, bare, gang, gpu, group, node, pod, queue, thing

from scheduling.config.parse import default_config

LEAST = {"minResources": {"pods": "1", NUMBER: "1", MEMORY: "3000"}}


def test_a_refused_job_does_not_stop_later_ones() -> None:
    """scheduling/AL-4, E-7"""
    items = [group("big", spec={"minResources": {MEMORY: "9000"}}), group("small", spec=LEAST, age=1)]
    world = World(node(), items)
    world.settle()
    assert [world.book(name).phase for name in ("big", "small")] == ["Pending", "Inqueue"]
    book = world.book("big")
    assert (book.event_type, book.event_reason) == ("Normal", "Unschedulable")
    assert book.event_message == "queue resource quota insufficient: insufficient volcano.sh/vgpu-memory"


def test_what_is_admitted_counts_for_the_next_at_once() -> None:
    """scheduling/Q-18: 3000 + 3000 fit, a third does not; the older comes first"""
    world = World(node(), [group(f"g{i}", spec=LEAST, age=3 - i) for i in range(3)])
    result = world.run()
    assert [result.groups[f"lab/g{i}"].phase for i in range(3)] == ["Pending", "Inqueue", "Inqueue"]


def test_without_min_resources_everybody_is_admitted() -> None:
    """scheduling/PG-4, Q-22"""
    world = World(node(), queue("small", capability={MEMORY: "1"}), group("g", queue="small"))
    world.settle()
    assert world.book("g").phase == "Inqueue"


def test_without_the_action_all_are_admitted_unchecked() -> None:
    """scheduling/PG-5"""
    config = replace(default_config(), actions=("allocate", "backfill"))
    world = World(node(), group("g", spec={"minResources": {MEMORY: "9000"}}), config=config)
    world.settle()
    assert world.book("g").phase == "Inqueue"


def test_a_queue_that_is_not_open_says_so() -> None:
    """scheduling/Q-4, Q-4a, Q-24a: no E-7, the origin part and the pod carry the text"""
    world = World(node(), queue("q", state="Closing"), gang("g", 1, gpu(), queue="q"))
    world.settle()
    text = "queue q is not open (state Closing)"
    book = world.book("g")
    assert book.phase == "Pending"
    assert book.message.endswith(f"Pending: 1 Unschedulable. Origin reason is: {text}")
    assert (book.event_type, book.event_message) == (
        "Warning",
        f"1/1 tasks in gang unschedulable: pod group is not ready, 1 Pending, 1 minAvailable; "
        f"Pending: 1 Unschedulable. Origin reason is: {text}",
    )
    assert world.said("g-worker-0").message == text


def test_a_queue_that_closes_places_nobody_of_the_admitted() -> None:
    """scheduling/Q-4, Q-4a: allocatable says no, running tasks go on"""
    world = World(node(), queue("q"), gang("g", 2, gpu(5000), 1, queue="q"))
    world.settle()
    assert world.nodes_of("g-worker-0", "g-worker-1") == ["a", ""]
    world.see(queue("q", state="Closed"), node("b"))
    world.settle()
    assert world.nodes_of("g-worker-0", "g-worker-1") == ["a", ""]
    assert world.said("g-worker-1").message == "queue q is not open (state Closed)"
    world.see(queue("q"))
    world.settle()
    assert world.on("g-worker-1") == "b"


def test_only_leaf_queues_take_jobs() -> None:
    """scheduling/Q-4b"""
    world = World(node(), queue("top", parent="root"), queue("leaf", parent="top"))
    world.see(gang("in-top", 1, gpu(), queue="top"), gang("in-root", 1, gpu(), queue="root"))
    world.see(gang("in-leaf", 1, gpu(), queue="leaf"))
    world.settle()
    assert world.said("in-top-worker-0").message == "queue top has child queues, submit to one of them"
    assert world.said("in-root-worker-0").message == "queue root takes no jobs"
    assert world.on("in-leaf-worker-0") == "a"


def test_a_reservation_without_tasks_is_released_in_time() -> None:
    """scheduling/PG-4a: after the timeout, for the same time, then admitted again"""
    world = World(node(), group("g", spec=LEAST))
    world.settle()
    world.time_ms += 599_000
    world.settle()
    assert world.book("g").phase == "Inqueue"
    world.time_ms += 1_000
    world.settle()
    book = world.book("g")
    assert (book.phase, book.event_type, book.event_reason, book.event_message) == (
        "Pending",
        "Normal",
        "Unschedulable",
        "no task within 10m, reservation released",
    )
    world.see(group("other", spec={"minResources": {MEMORY: "8000"}}))
    world.settle()
    assert world.book("other").phase == "Inqueue"
    world.gone(world.objects["PodGroup", "uid-podgroup-other"])
    world.time_ms += 599_000
    world.settle()
    assert world.book("g").phase == "Pending"
    world.time_ms += 1_000
    world.settle()
    assert world.book("g").phase == "Inqueue"


def test_the_timeout_is_an_argument_and_may_be_off() -> None:
    """scheduling/PG-4a"""
    for written, phase in (("30s", "Pending"), ("0", "Inqueue")):
        config = replace(default_config(), action_arguments={"enqueue": {"inqueue-timeout": written}})
        world = World(node(), group("g", spec=LEAST), config=config)
        world.settle()
        world.time_ms += 30_000
        world.settle()
        assert world.book("g").phase == phase
    assert world.book("g").event_message == ""


def test_a_group_with_tasks_or_without_reservation_is_not_timed_out() -> None:
    """scheduling/PG-4a"""
    world = World(group("free"), group("held", spec=LEAST), pod("p", "held", gpu(3000)), node())
    world.settle()
    world.time_ms += 3_600_000
    world.settle()
    assert (world.book("free").phase, world.book("held").phase) == ("Inqueue", "Running")


def test_an_automatic_group_without_live_pods_reserves_nothing_and_is_not_judged() -> None:
    """scheduling/Q-11"""
    world = World(node(), bare("p", gpu(8000)))
    world.settle()
    world.delete("p")
    world.settle()
    world.see(bare("next", gpu(8000), age=9))
    world.settle()
    assert world.on("next") == "a"
    assert world.book("podgroup-uid-pod-p").event_reason == "Scheduled"


def test_who_could_not_be_placed_reserves_nothing_any_more() -> None:
    """scheduling/Q-11a: the group that fits is let in although the other is still Inqueue"""
    cards = node(cards=2, memory=4000)
    world = World(cards, gang("wide", 1, gpu(5000), spec={"minResources": {MEMORY: "5000"}}))
    world.settle()
    assert (world.book("wide").phase, world.book("wide").reserves) == ("Inqueue", False)
    world.see(gang("fits", 1, gpu(4000), spec={"minResources": {MEMORY: "4000"}}, age=5))
    world.settle()
    assert world.on("fits-worker-0") == "a"
    assert world.book("wide").phase == "Inqueue"


def test_a_pod_that_may_never_run_reserves_nothing_and_says_why() -> None:
    """devices/R-9a: judged before queues and nodes"""
    world = World(node(), bare("bad", gpu(8000, 200)), bare("good", gpu(8000), age=5))
    world.settle()
    assert world.said("bad").message == "invalid volcano.sh/vgpu-cores 200 in container c0"
    assert world.book("podgroup-uid-pod-bad").message == (
        "1/1 tasks in gang unschedulable: pod group is not ready, 1 Pending, 1 minAvailable; Pending: 1 Unschedulable. "
        "Origin reason is: invalid volcano.sh/vgpu-cores 200 in container c0"
    )
    assert world.on("good") == "a"


def test_priority_of_the_class_orders_jobs_at_the_gate() -> None:
    """scheduling/PG-3, section 4.7: the class, else the global default, else 0"""
    classes = [
        thing("PriorityClass", "high", value=10),
        thing("PriorityClass", "usual", value=5, globalDefault=True),
        thing("PriorityClass", "low", value=1),
    ]
    names = ("low", "", "high")
    groups = [group(f"g{i}", spec={**LEAST, "priorityClassName": name}) for i, name in enumerate(names)]
    world = World(node(), classes, groups)
    assert [world.run().groups[f"lab/g{i}"].phase for i in range(3)] == ["Pending", "Inqueue", "Inqueue"]
