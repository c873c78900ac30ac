"""Gangs at the binder: bound member by member, and never begun with fewer than minMember (scheduling/F-2, PG-10)."""

from __future__ import annotations

import pytest
from support.service_world import World, refused

from events.kinds import POD, POD_GROUP
from events.records import Outcome
from services.runtime.following import catch_up


def with_gang(members: int) -> World:
    """A node with room for a gang that needs all its members."""
    world = World()
    world.node("n1")
    world.group("gang", members)
    for index in range(members):
        world.pod(f"gang-{index}", "gang")
    return world


async def test_a_gang_is_bound_member_by_member_and_one_refusal_leaves_the_others_f2() -> None:
    world = with_gang(2)
    world.api.faults["bind"] = [None, refused(403, "quota")]
    await world.settle()
    assert [outcome.result for outcome in await world.bodies(Outcome)] == ["applied", "refused", "applied"]
    assert world.get(POD_GROUP, "gang")["status"]["phase"] == "Running"


async def test_who_came_since_the_decision_is_not_of_the_gang_that_was_decided_on_pg10() -> None:
    """A member is deleted and back under its name before the first Binding: without it there are not minMember."""
    world = with_gang(2)
    await world.decide()
    world.store.remove(POD, "team-a", "gang-1")
    world.pod("gang-1", "gang")
    for _ in range(2):
        await world.watcher.step()
    await world.binder.step()
    assert not world.get(POD, "gang-0")["spec"].get("nodeName"), "one of two would be half a gang"
    await world.settle()
    assert all(world.get(POD, name)["spec"].get("nodeName") == "n1" for name in ("gang-0", "gang-1"))


@pytest.mark.parametrize("members", [2, 3])
async def test_a_gang_whose_first_member_is_found_gone_is_not_bound_without_it_pg10(members: int) -> None:
    """Nobody has told of the deletion yet; of those that are left there are too few."""
    world = with_gang(members)
    await world.decide()
    assert not world.binder.model.commands, "the binder has read nothing yet"
    await catch_up(world.binder.follower)
    command = next(iter(world.binder.model.commands.values()))
    assert command.bind
    world.store.remove(POD, "team-a", command.bind.name)
    await world.binder.step()
    assert [outcome.result for outcome in await world.bodies(Outcome)] == ["gone", *["refused"] * (members - 1)]
    world.pod(command.bind.name, "gang")
    await world.settle()
    assert all(world.get(POD, f"gang-{index}")["spec"].get("nodeName") for index in range(members))
