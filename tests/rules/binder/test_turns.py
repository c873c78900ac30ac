"""A single pod does not wait for a gang of thousands to be bound: commands have their turn, group by group."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.service_world import World

from events.kinds import POD
from events.records import EvictCommand
from scheduling.state.model import Command
from services.binder.turns import Turns


def commands(*groups: str) -> list[Command]:
    """One command each, of these groups, in the order of the log."""
    found = []
    for place, group in enumerate(groups):
        evict = EvictCommand(n=place, namespace="n", name=group, uid=str(place), reason="preempt", for_group="")
        found.append(Command(f"c/{place}", evict=evict))
    return found


def group_of(command: Command) -> str:
    assert command.evict is not None
    return command.evict.name


def ids(found: list[Command]) -> list[str]:
    return [command.id for command in found]


def test_few_are_taken_as_they_stand_on_the_log() -> None:
    few = commands("a", "b", "a")
    assert Turns(3).take(few, group_of) == few


def test_of_many_each_group_has_one_before_any_has_two() -> None:
    many = commands(*["gang"] * 10, "one", "two")
    assert ids(Turns(4).take(many, group_of)) == ["c/0", "c/1", "c/10", "c/11"]


def test_who_was_tried_comes_after_who_was_not() -> None:
    """What waits (for a lock, a volume, its next try) does not keep the others from their turn."""
    turns, many = Turns(2), commands("a", "a", "a", "a", "b")
    assert [ids(turns.take(many, group_of)) for _ in range(3)] == [["c/0", "c/4"], ["c/1", "c/2"], ["c/0", "c/3"]]


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=30), st.integers(1, 5))
def test_everybody_has_a_turn(groups: list[str], most: int) -> None:
    """In as many steps as it takes at the least, whoever comes first; and nobody twice in one step."""
    turns, many = Turns(most), commands(*groups)
    steps = -(-len(many) // most)
    seen = [ids(turns.take(many, group_of)) for _ in range(steps)]
    assert {found for step in seen for found in step} == {command.id for command in many}
    assert all(len(set(step)) == len(step) for step in seen)


async def test_a_pod_that_comes_while_a_large_gang_is_bound() -> None:
    """Its binding is not the 201st."""
    world = World()
    for name in ("n1", "n2"):
        world.node(name, cpu="500")
    world.group("gang", members=200)
    for place in range(200):
        world.pod(f"gang-w-{place}", "gang")
    await world.decide()
    await world.binder.step()
    world.single("late")
    await world.decide()
    await world.binder.step()
    bound = [item["metadata"]["name"] for item in world.store.items(POD) if item["spec"].get("nodeName")]
    assert "late" in bound
    assert len(bound) < 200
    await world.settle()
    assert all(item["spec"].get("nodeName") for item in world.store.items(POD))
