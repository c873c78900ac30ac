"""Whose pods are ours: the names travel in the watcher's term, and the state is of the log alone (scheduling/AS-2)."""

from __future__ import annotations

import uuid

from support.service_world import World

from adapters.log.audit import verify
from events.canonical import Json
from events.kinds import EVENT, POD
from events.projection import Scope
from scheduling.config.parse import default_config
from scheduling.state.fold import Fold
from scheduling.state.snapshot import dump, load, refusal
from services.binder.recorder import Recorder
from services.binder.status_config import ConfigStatus
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
    assert fold.model.scope.scheduler_names == ("team",)
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
    assert again.model.scope.scheduler_names == ("team",)
    assert again.model.members == fold.model.members
    assert again.digest() == fold.digest()


def test_the_scope_and_the_record_name_the_same() -> None:
    settings = Settings(scheduler_names=("a", "b"))
    assert settings.scope == Scope(("a", "b"))
    assert settings.shown()["scheduler_names"] == ["a", "b"]


def configured(world: World, **settings: dict[str, str]) -> Watcher:
    found = Settings(**settings)  # type: ignore[arg-type]
    return Watcher(
        world.watch_api, world.log, world.clock, "c1", uuid.uuid4().hex,
        incarnation=lambda: "i1", scope=found.scope, config=found.shown(), stand_back_ms=0,
    )  # fmt: skip


def config_map(name: str, key: str, text: str) -> Json:
    return {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "gpu", "name": name}, "data": {key: text},
    }  # fmt: skip


MINE = {"namespace": "gpu", "name": "mine", "key": "conf"}
CARDS = {"namespace": "gpu", "name": "cards", "key": "devices"}
FIRST_FIT = "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n"
HALVES = "nvidia:\n  gpuMemoryFactor: 2\n"


async def test_the_configurations_are_where_the_watcher_says_cfg6() -> None:
    """Not in the usual ConfigMaps, whatever these hold; back in these when a watcher says so again."""
    world = World()
    world.configure(FIRST_FIT.replace("allocate", "enqueue"))
    world.put(config_map("mine", "conf", FIRST_FIT))
    world.put(config_map("cards", "devices", HALVES))
    world.node("n1", cpu="8")
    world.single("one", schedulerName="gpuledger")
    world.watcher = configured(world, scheduler_config=MINE, device_config=CARDS)
    await world.settle()
    fold = await world.fold()
    assert (fold.model.config_text, fold.model.env.config.factor) == (FIRST_FIT, 2)
    again = load(dump(fold))
    assert (again.model.config_text, again.model.env.config.factor) == (FIRST_FIT, 2)
    assert (again.model.scope, again.digest()) == (fold.model.scope, fold.digest())
    world.watcher = configured(world)
    await world.settle()
    fold = await world.fold()
    assert fold.model.config is not None
    assert (fold.model.config.actions, fold.model.env.config.factor) == (("enqueue",), 1)
    assert (await verify(world.log)).passed


async def test_what_is_wrong_with_a_configuration_is_told_on_its_own_config_map_cfg6() -> None:
    world = World()
    world.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "gpu"}})
    world.put(config_map("mine", "another", "tiers: []"))
    world.watcher = configured(world, scheduler_config=MINE)
    await world.settle()
    recorder = Recorder(world.api, world.clock)
    list(ConfigStatus(recorder).due(world.scheduler.model))
    await recorder.flush()
    about = [(item["involvedObject"]["name"], item["message"]) for item in world.store.items(EVENT, "gpu")]
    assert about == [("mine", "ConfigMap gpu/mine: key conf not found")]


async def test_another_config_map_is_not_the_one_that_was_there_before_cfg6() -> None:
    """The built-in configuration is in force while the one that is named now does not exist."""
    world = World()
    world.configure(FIRST_FIT)
    await world.settle()
    assert (await world.fold()).model.config_text == FIRST_FIT
    world.watcher = configured(world, scheduler_config=MINE)
    await world.settle()
    model = (await world.fold()).model
    assert model.config == default_config()
    assert model.config_report.warnings == ()
