"""The names of what changed (scheduling/state/changes.py): complete, bounded, and no part of the state."""

from __future__ import annotations

from rules.cycle.build import World, gpu, group, node, pod, queue, thing

from scheduling.state import changes
from scheduling.state.changes import Changes


def test_names_are_found_after_any_place_that_is_still_known() -> None:
    found = Changes()
    found.group("a/1")
    place = found.place
    found.group("a/2")
    found.group("")
    found.queue("q")
    assert found.since(0) == ({"a/1", "a/2"}, {"q"})
    assert found.since(place) == ({"a/2"}, {"q"})
    assert found.since(found.place) == (set(), set())
    assert found.since(found.place + 1) is None


def test_what_was_dropped_is_said_to_be_unknown() -> None:
    found = Changes()
    for number in range(changes._KEPT + 1):
        found.group(f"a/{number}")
    assert found.since(0) is None
    assert found.since(found.place - 1) == ({f"a/{changes._KEPT}"}, set())


def test_everything_makes_every_earlier_place_unknown() -> None:
    found = Changes()
    found.group("a/1")
    place = found.place
    found.everything()
    assert found.since(place) is None
    assert found.since(found.place) == (set(), set())


def names(world: World, place: int) -> tuple[set[str], set[str]] | None:
    return world.model.changes.since(place)


def test_every_record_that_changes_a_job_names_its_group() -> None:
    world = World(node(cards=1), group("g"), pod("p", "g", gpu()))
    place = world.model.changes.place
    assert world.step() is not None
    assert names(world, place) == ({"lab/g"}, set())
    place = world.model.changes.place
    world.effects()
    assert names(world, place) == ({"lab/g"}, set())
    place = world.model.changes.place
    world.see(node(cards=0))  # its cards are gone: what the pod holds there is another amount (devices/N-21a)
    assert names(world, place) == ({"lab/g"}, set())
    place = world.model.changes.place
    world.see(queue("default", parent="root", weight=3))
    assert names(world, place) == (set(), {"default"})
    place = world.model.changes.place
    world.delete("p")
    assert names(world, place) == ({"lab/g"}, set())
    place = world.model.changes.place
    world.see(thing("PriorityClass", "high", value=7))
    assert names(world, place) is None


def test_a_pod_that_changes_its_group_names_both() -> None:
    world = World(group("g"), group("h"), pod("p", "g", gpu()))
    place = world.model.changes.place
    world.see(pod("p", "h", gpu()))
    assert names(world, place) == ({"lab/g", "lab/h"}, set())
