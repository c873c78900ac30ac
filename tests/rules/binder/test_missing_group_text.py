"""A pod whose PodGroup is on its way: that text does not hold back the next one (scheduling/POD-2, PG-3b)."""

from __future__ import annotations

from support.service_world import World

from events.canonical import Json
from events.kinds import POD, POD_GROUP

NO_GROUP = "PodGroup team-a/waits does not exist"


def message(world: World) -> str:
    conditions: list[Json] = world.get(POD, "waits")["status"]["conditions"]
    return str(next(item["message"] for item in conditions if item["type"] == "PodScheduled"))


async def work(world: World) -> str:
    """Let the services do what there is, while the cluster is not known to be at rest; return the pod's text."""
    for _ in range(10):
        await world.watcher.step()
        await world.scheduler.step()
        await world.binder.step()
        await world.status.step()
    return message(world)


async def test_the_first_reason_is_told_as_soon_as_the_group_is_there() -> None:
    """scheduling/POD-2, PG-3b: with no ten seconds in between"""
    world = World()
    world.node("n1", cpu="6")
    world.node("n2", cpu="6")
    world.pod("waits", "waits", cpu="8")
    assert await work(world) == NO_GROUP
    world.group("waits")
    assert await work(world) == "0/2 nodes are unavailable: 2 Insufficient cpu."
    assert world.events("FailedScheduling") == [NO_GROUP, message(world)]


async def test_texts_of_judgements_are_paced_as_ever() -> None:
    """scheduling/POD-2: a second one within ten seconds waits, and then the newest is there"""
    world = World()
    world.node("n1", cpu="6")
    world.node("n2", cpu="6")
    world.group("waits")
    world.pod("waits", "waits", cpu="8")
    assert await work(world) == "0/2 nodes are unavailable: 2 Insufficient cpu."
    world.node("n3", cpu="6")
    assert await work(world) == "0/2 nodes are unavailable: 2 Insufficient cpu."
    world.clock.time_ms += 10_000
    assert await work(world) == "0/3 nodes are unavailable: 3 Insufficient cpu."
    await world.api.delete(POD_GROUP, "team-a", "waits")
    assert await work(world) == NO_GROUP
