"""Whose pods are ours: the names travel in the watcher's term, and the state is of the log alone (scheduling/AS-2)."""

from __future__ import annotations

import uuid

from support.service_world import World

from adapters.log.audit import verify
from events.kinds import POD
from events.projection import Scope
from scheduling.state.fold import Fold
from scheduling.state.snapshot import dump, load, refusal
from services.runtime.settings import Settings
from services.watcher.watcher import Watcher


def watcher_of(world: World, *names: str) -> Watcher:
    """A watcher that is configured as the command line configures one."""
    settings = Settings(scheduler_names=names)
    return Watcher(
        world.watch_api, world.log, world.clock, "c1", uuid.uuid4().hex,
        incarnation=lambda: "i1", scope=settings.scope, config=settings.shown(), stand_back_ms=0,
    )  # fmt: skip


def placed(world: World) -> list[str]:
    return sorted(item["metadata"]["name"] for item in world.store.items(POD) if item["spec"].get("nodeName"))


async def test_only_pods_of_the_configured_names_are_scheduled_as2() -> None:
    world = World()
    world.node("n1", cpu="8")
    for name in ("gpuledger", "volcano", "team"):
        world.single(name, schedulerName=name)
    world.watcher = watcher_of(world, "team")
    await world.settle()
    assert placed(world) == ["team"]
    fold = await world.fold()
    assert fold.model.scheduler_names == ("team",)
    assert list(fold.model.members) == ["team-a/team"]
    world.watcher = watcher_of(world, "gpuledger", "team")
    await world.settle()
    assert placed(world) == ["gpuledger", "team"]
    assert (await verify(world.log)).passed


async def test_a_pod_whose_name_is_served_no_more_waits_for_nobody_as2() -> None:
    world = World()
    world.single("waits", cpu="8", schedulerName="team")
    world.watcher = watcher_of(world, "team")
    await world.settle()
    assert [entry.book.reason for entry in world.scheduler.model.pods.values()] == ["Unschedulable"]
    world.watcher = watcher_of(world, "gpuledger")
    world.node("n1", cpu="8")
    await world.settle()
    assert placed(world) == []
    assert world.scheduler.model.members == {}


async def test_a_snapshot_keeps_whose_pods_are_ours() -> None:
    world = World()
    world.node("n1", cpu="8")
    world.single("one", schedulerName="team")
    world.watcher = watcher_of(world, "team")
    await world.settle()
    fold: Fold = world.scheduler.follower.state
    assert refusal(fold) == ""
    again = load(dump(fold))
    assert again.model.scheduler_names == ("team",)
    assert again.model.members == fold.model.members
    assert again.digest() == fold.digest()


def test_the_scope_and_the_record_name_the_same() -> None:
    settings = Settings(scheduler_names=("a", "b"))
    assert settings.scope == Scope(("a", "b"), settings.scope.config_maps)
    assert settings.shown()["scheduler_names"] == ["a", "b"]
