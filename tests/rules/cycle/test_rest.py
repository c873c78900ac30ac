"""Whatever happens, the world comes to rest, and at rest the promises of the design hold (design section 12)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from rules.cycle.build import MEMORY, Json, World, bare, gang, gpu, node, queue

from scheduling.cycle.queue_status import allocated
from scheduling.status import ALLOC, TaskStatus

LIMIT = 6000
ASKED: tuple[Json, ...] = (
    gpu(1000, 10),
    gpu(3000, 40),
    gpu(None, None),
    gpu(2000, 0, 2),
    {"cpu": "3"},
    {},
    gpu(1000, 300),
)

arrivals = st.tuples(st.just("come"), st.integers(0, 4), st.sampled_from(range(len(ASKED))))
events = st.one_of(
    arrivals,
    arrivals,
    st.tuples(st.sampled_from(["end", "finish", "vanish", "refuse", "cordon", "restore", "limit"]), st.integers(0, 9)),
)


def come(world: World, number: int, kind: int, asked: Json) -> None:
    where = "q" if number % 2 else "default"
    if kind < 2:
        world.see(bare(f"w{number}", asked, queue_name=where, age=number))
    else:
        world.see(gang(f"w{number}", kind, asked, max(kind - number % 2, 1), queue=where, age=number))


def happen(world: World, number: int, event: tuple[object, ...]) -> None:
    what, place = event[0], event[1]
    assert isinstance(place, int)
    if what == "come":
        assert isinstance(event[2], int)
        come(world, number, place, ASKED[event[2]])
        return
    bound = sorted(entry.pod.name for entry in world.model.pods.values() if entry.pod.node)
    name = bound[place % len(bound)] if bound else ""
    if what == "cordon":
        world.see(node("n0", 1, 4000, spec={"unschedulable": True}))
    elif what == "restore":
        world.see(node("n0", 1, 4000))
    elif what == "limit":
        world.see(queue("q", capability={MEMORY: str(LIMIT)}))
    elif what == "refuse":
        if world.step() is not None:
            waiting = [command.bind.name for command in world.model.commands.values() if command.bind]
            world.effects(refuse=tuple(sorted(waiting)[: place % 2 + 1]))
    elif name:
        {"end": world.terminate, "vanish": world.delete, "finish": lambda n: world.pod_phase(n, "Succeeded")}[
            str(what)
        ](name)


def check(world: World, limited: bool) -> None:
    for name, view in world.model.nodes.items():
        assert not [dim for dim, used in view.used.items() if used > view.room.get(dim, 0)], name
        for card in view.devices.cards:
            assert card.used_memory <= card.memory
            assert card.used_cores <= 100
    if limited:
        assert allocated(world.model)["q"].get(MEMORY, 0) <= LIMIT * 1000
    for key, entry in world.model.groups.items():
        book = entry.book
        assert book.phase in ("Pending", "Inqueue", "Running", "Unknown", "Completed")
        # PG-6: the first rule asks for a task that runs; terminating ones beside a waiting one leave it Running.
        runs = any(world.model.pods[uid].status is TaskStatus.RUNNING for uid in world.model.members.get(key, ()))
        assert not (book.phase == "Running" and book.unschedulable and runs)


@settings(max_examples=40)
@given(st.lists(events, min_size=1, max_size=14), st.booleans())
def test_the_world_comes_to_rest(story: list[tuple[object, ...]], limited: bool) -> None:
    """No over-use of nodes, cards and queues; the same cycle again says nothing new."""
    world = World(node("n0", 1, 4000), node("n1", 2, 8192, pods="6"), queue("q"))
    if limited:
        world.see(queue("q", capability={MEMORY: str(LIMIT)}))
    for number, event in enumerate(story):
        if event[0] == "limit" and not limited:
            continue
        happen(world, number, event)
        if number % 2:
            world.settle()
            check(world, limited)
    world.settle()
    check(world, limited)
    assert world.step() is None


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(2, 4), st.sampled_from(range(4))), min_size=1, max_size=6))
def test_gangs_are_whole_or_not_at_all(gangs: list[tuple[int, int]]) -> None:
    """scheduling/PG-10, AL-9: design section 12, number 3; who waits says why"""
    world = World(node("n0", 1, 4000), node("n1", 2, 8192))
    for number, (size, asked) in enumerate(gangs):
        world.see(gang(f"g{number}", size, ASKED[asked], age=number))
        if number % 2:
            world.settle()
    world.settle()
    for number, (size, _) in enumerate(gangs):
        members = [world.model.pods[f"uid-pod-g{number}-worker-{i}"] for i in range(size)]
        assert sum(member.status in ALLOC for member in members) in (0, size)
    for entry in world.model.pods.values():
        assert entry.node or entry.book.message
