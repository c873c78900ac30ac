"""Jobs that wait at rest (``cycle.resting``): not looked at while nothing changes that they were refused for.

Each step of a ``World`` decides with and without memory and compares. What is shown here besides is who is looked at:
a job keeps the very notes that it rests on as long as its turn is left out.
"""

from __future__ import annotations

from rules.cycle.build import MEMORY, World, bare, gang, gpu, group, node, queue

from scheduling.cycle.memo import Memo
from scheduling.cycle.resting import INSIDE, OUTSIDE, Rest


def rest_of(world: World, key: str) -> Rest:
    """What a job rests on; it must be at rest."""
    memo = world.fold.findings
    assert isinstance(memo, Memo)
    assert memo.standing is not None
    found = memo.standing.jobs[key].rest
    assert found is not None
    return found


def full(*, memory: int = 1000, queues: int = 2) -> World:
    """Queues of 1000 that are full, each with a job of so much memory that waits."""
    world = World(node("a", cards=4, memory=8000), node("b", cards=4, memory=8000))
    for number in range(queues):
        world.see(queue(f"q{number}", capability={MEMORY: "1000"}))
        world.see(gang(f"runs-{number}", 1, gpu(1000), queue=f"q{number}"))
    world.settle()
    for number in range(queues):
        world.see(gang(f"waits-{number}", 1, gpu(memory), queue=f"q{number}", age=9))
    world.settle()
    return world


def test_who_its_queue_refuses_rests_while_others_are_placed() -> None:
    """scheduling/Q-17: what happens in other queues is no matter."""
    world = full()
    before = rest_of(world, "lab/waits-0")
    assert before.where == INSIDE
    world.see(gang("new", 1, gpu(500)))
    world.settle()
    assert world.on("new-worker-0")
    world.see(queue("q1", capability={MEMORY: "2000"}))
    world.settle()
    assert world.on("waits-1-worker-0")
    assert not world.on("waits-0-worker-0")
    assert rest_of(world, "lab/waits-0") is before
    world.delete("runs-0-worker-0")
    world.settle()
    assert world.on("waits-0-worker-0")


def test_room_is_an_interval() -> None:
    """scheduling/Q-17, R-5: a change of a limit wakes nobody whom it does not let in; one that does wakes him."""
    world = full()
    before = rest_of(world, "lab/waits-0")
    for memory in ("1200", "1999", "1001"):
        world.see(queue("q0", capability={MEMORY: memory}))
        world.settle()
        assert rest_of(world, "lab/waits-0") is before
    world.see(queue("q0", capability={MEMORY: "2000"}))
    world.settle()
    assert world.on("waits-0-worker-0")


def test_a_limit_of_another_kind_is_looked_at() -> None:
    """scheduling/Q-10a: a resource that matters from now on was not noted before; Q-24: the text names both."""
    world = World(node("a", memory=8000, room={"example.com/thing": "4"}))
    asked = {**gpu(2000), "example.com/other": "1"}
    world.see(queue("q0", capability={MEMORY: "1000"}), gang("waits", 1, asked, queue="q0"))
    world.settle()
    assert world.said("waits-worker-0").message.endswith("insufficient volcano.sh/vgpu-memory")
    world.see(queue("q0", capability={MEMORY: "1000", "example.com/other": "0"}))
    world.settle()
    assert "insufficient example.com/other, insufficient volcano.sh/vgpu-memory" in world.said("waits-worker-0").message


def test_who_no_node_takes_rests_until_a_node_says_something_else() -> None:
    """scheduling/AL-19, MSG-5: other placements wake nobody as long as the nodes' reasons are the same."""
    world = World(node("a", cards=1, memory=4000), node("b", cards=1, memory=4000))
    world.see(gang("waits", 1, gpu(5000)))
    world.settle()
    before = rest_of(world, "lab/waits")
    world.see(bare("small", gpu(500)))
    world.settle()
    assert world.on("small")
    assert rest_of(world, "lab/waits") is before
    world.see(node("c", cards=0))
    world.settle()
    assert "0/3 nodes" in world.said("waits-worker-0").message
    world.see(node("c", cards=1, memory=6000))
    world.settle()
    assert world.on("waits-worker-0") == "c"


def test_who_is_not_let_in_rests_until_there_is_room() -> None:
    """scheduling/Q-18, PG-4"""
    world = World(node("a", memory=8000), queue("q0", capability={MEMORY: "1000"}))
    world.see(gang("waits", 1, gpu(2000), queue="q0", spec={"minResources": {MEMORY: "2000"}}))
    world.settle()
    before = rest_of(world, "lab/waits")
    assert before.where == OUTSIDE
    world.see(bare("other", gpu(500)))
    world.settle()
    assert rest_of(world, "lab/waits") is before
    world.see(queue("q0", capability={MEMORY: "2000"}))
    world.settle()
    assert world.on("waits-worker-0") == "a"


def test_a_closed_queue_that_opens_wakes_its_jobs() -> None:
    """scheduling/Q-4a"""
    world = World(node("a", memory=8000), queue("q0", state="Closed"), gang("waits", 1, gpu(2000), queue="q0"))
    world.settle()
    before = rest_of(world, "lab/waits")
    world.see(bare("other", gpu(500)))
    world.settle()
    assert rest_of(world, "lab/waits") is before
    world.see(queue("q0", state="Open"))
    world.settle()
    assert world.on("waits-worker-0") == "a"


def test_time_wakes_who_waits_for_it() -> None:
    """scheduling/PG-4a: a reservation without tasks is released after its time"""
    world = World(node("a", memory=8000), group("empty", spec={"minResources": {MEMORY: "1000"}}))
    world.rest()
    assert world.book("empty").phase == "Inqueue"
    before = rest_of(world, "lab/empty")
    world.time_ms += 599_999
    world.step()
    assert rest_of(world, "lab/empty") is before
    world.time_ms += 1
    world.step()
    assert world.book("empty").phase == "Pending"


def test_a_better_job_of_the_same_queue_has_its_turn_before_those_that_rest() -> None:
    """scheduling/AL-6: those before it keep their refusal, those after it are compared with what is left."""
    world = World(node("a", cards=4, memory=8000), queue("q0", capability={MEMORY: "1000"}))
    world.see(gang("one", 1, gpu(600), queue="q0", age=1), gang("two", 1, gpu(600), queue="q0", age=2))
    world.settle()
    assert world.nodes_of("one-worker-0", "two-worker-0") == ["a", ""]
    before = rest_of(world, "lab/two")
    world.see(gang("three", 1, gpu(300), queue="q0", age=3))
    world.settle()
    assert world.on("three-worker-0") == "a"
    assert rest_of(world, "lab/two") is before
    world.delete("one-worker-0")
    world.settle()
    assert world.on("two-worker-0") == "a"
