"""The lab as an acceptance script (scheduling appendix A), and the texts of MSG-6."""

from __future__ import annotations

from rules.cycle.build import CORES, MEMORY, NUMBER, World, bare, gang, gpu, node, queue

SMALL = {NUMBER: "2", MEMORY: "4000", CORES: "60"}
LAB_6 = (
    "1/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; "
    "Pending: 1 Schedulable, 1 Unschedulable"
)


def test_a_bare_pod_is_admitted_bound_and_running() -> None:
    """scheduling/A-1, PG-4, PG-6"""
    world = World(node(), bare("p", gpu(2000, 30)))
    batch = world.step()
    assert batch is not None
    assert [(m.name, m.node, m.allocation) for m in batch.binds[0].members] == [("p", "a", "GPU-a-0,NVIDIA,2000,30:")]
    assert world.book("podgroup-uid-pod-p").phase == "Inqueue"
    world.effects()
    world.settle()
    book = world.book("podgroup-uid-pod-p")
    assert (book.phase, book.scheduled, book.unschedulable) == ("Running", True, None)
    assert (book.event_type, book.event_reason, book.event_message) == ("Normal", "Scheduled", "pod group is ready")


def test_a_gang_is_bound_in_one_command() -> None:
    """scheduling/A-2, AL-6"""
    world = World(node(), gang("fit", 2, gpu(2000, 30)))
    batch = world.step()
    assert batch is not None
    assert [[member.name for member in command.members] for command in batch.binds] == [
        ["fit-worker-0", "fit-worker-1"]
    ]
    world.effects()
    world.settle()
    assert world.book("fit").phase == "Running"


def test_a_gang_that_does_not_fit_waits_as_the_lab_shows() -> None:
    """scheduling/A-4, Q-14, Q-17, Q-24, MSG-6, POD-1"""
    world = World(node(), gang("gang", 2, gpu(6000, 30)))
    world.settle()
    book = world.book("gang")
    queue_text = "queue default resource quota insufficient: insufficient volcano.sh/vgpu-memory"
    assert book.phase == "Inqueue"
    assert (book.unschedulable, book.reason) == (True, "NotEnoughResources")
    assert book.message == f"{LAB_6}. Origin reason is: {queue_text}"
    assert book.event_message.startswith("2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending")
    first, second = world.said("gang-worker-0"), world.said("gang-worker-1")
    assert (first.reason, first.message) == (
        "Schedulable",
        "Pod lab/gang-worker-0 can possibly be assigned to a, once minAvailable is satisfied",
    )
    assert (second.reason, second.message) == ("Unschedulable", queue_text)
    assert world.nodes_of("gang-worker-0", "gang-worker-1") == ["", ""]


def test_a_queue_limit_holds_the_gang_until_it_is_raised() -> None:
    """scheduling/A-5, A-6, A-7, Q-22"""
    world = World(node(), queue("small", capability=SMALL), gang("fit", 2, gpu(1000, 30), queue="small"))
    world.settle()
    assert world.nodes_of("fit-worker-0", "fit-worker-1") == ["a", "a"]
    for name in ("fit-worker-0", "fit-worker-1"):
        world.delete(name)
    world.gone(world.objects["PodGroup", "uid-podgroup-fit"])
    world.see(gang("over", 2, gpu(3000, 30), queue="small"))
    world.settle()
    text = "queue small resource quota insufficient: insufficient volcano.sh/vgpu-memory"
    assert world.book("over").message == f"{LAB_6}. Origin reason is: {text}"
    assert world.book("over").phase == "Inqueue"
    assert world.said("over-worker-1").message == text
    world.see(queue("small", capability=SMALL | {MEMORY: "6000"}))
    world.settle()
    assert world.nodes_of("over-worker-0", "over-worker-1") == ["a", "a"]
    assert world.book("over").unschedulable is False


def test_explicit_requests_above_the_limit_are_refused_at_enqueue() -> None:
    """scheduling/A-8, Q-18, Q-23, E-7: no pods yet, so no condition either"""
    least = {"pods": "2", NUMBER: "2", MEMORY: "6000", CORES: "60"}
    items = gang("over", 2, gpu(3000, 30), queue="small", spec={"minResources": least})
    world = World(node(), queue("small", capability=SMALL), items[0])
    world.settle()
    book = world.book("over")
    assert (book.phase, book.unschedulable, book.event_type, book.event_reason) == (
        "Pending",
        None,
        "Normal",
        "Unschedulable",
    )
    assert book.event_message == "queue resource quota insufficient: insufficient volcano.sh/vgpu-memory"


def test_a_bare_pod_above_the_limit_says_why() -> None:
    """scheduling/Q-23, Q-24a"""
    world = World(node(), queue("small", capability=SMALL), bare("p", gpu(6000, 10), queue_name="small"))
    world.settle()
    text = "queue small resource quota insufficient: insufficient volcano.sh/vgpu-memory"
    book = world.book("podgroup-uid-pod-p")
    assert book.phase == "Pending"
    assert book.message == (
        "1/1 tasks in gang unschedulable: pod group is not ready, 1 Pending, 1 minAvailable; "
        f"Pending: 1 Unschedulable. Origin reason is: {text}"
    )
    assert world.said("p").message == text


def test_a_deleted_gang_is_not_called_unschedulable_while_it_ends() -> None:
    """scheduling/A-3, PG-13"""
    world = World(node(), gang("fit", 2, gpu(2000, 30)))
    world.settle()
    world.terminate("fit-worker-0")
    world.terminate("fit-worker-1")
    world.settle()
    book = world.book("fit")
    assert (book.phase, book.unschedulable, book.message) == ("Running", None, "")
