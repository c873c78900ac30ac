"""What is under way at once: requests of the controllers, Bindings of the binder, outcomes in one append."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from support.service_world import FaultyLog, World

from adapters.cluster.port import ClusterApi
from adapters.log.follower import Follower
from events.canonical import Json
from events.codec import Message
from events.kinds import POD, POD_GROUP
from events.records import Outcome
from scheduling.state.fold import Fold
from services.binder.binder import Binder
from services.cluster.direct import DirectApi
from services.controller.manager import ControllerManager


class Slow:
    """An API server that takes its time: each request lets the others go on some turns. ``most`` were there at once."""

    def __init__(self, api: ClusterApi) -> None:
        self._api = api
        self._now: dict[str, int] = {}
        self.most: dict[str, int] = {}
        self.asked: list[tuple[str, str]] = []

    def __getattr__(self, verb: str) -> Any:
        ask = getattr(self._api, verb)

        async def slowly(*args: Any, **more: Any) -> Any:
            self.asked.append((verb, args[0].name if verb != "bind" else args[1]))
            self._now[verb] = self._now.get(verb, 0) + 1
            self.most[verb] = max(self.most.get(verb, 0), self._now[verb])
            for _ in range(20):
                await asyncio.sleep(0)
            try:
                return await ask(*args, **more)
            finally:
                self._now[verb] -= 1

        return slowly


def pod(name: str, owner: str = "") -> Json:
    meta: Json = {"name": name, "namespace": "team-a"}
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": f"uid-{owner}"}
        meta["ownerReferences"] = [{**reference, "controller": True}]
    containers = [{"name": "main", "image": "registry.example.test/x"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta,
        "spec": {"schedulerName": "gpuledger", "containers": containers},
    }


async def test_podgroups_of_different_pods_are_made_at_once_and_that_of_one_owner_only_once_as3() -> None:
    world = World()
    slow = Slow(DirectApi(world.embedded, "controller"))
    manager = ControllerManager(slow, world.clock, parallel=8)
    for number in range(20):
        world.put(pod(f"single-{number:02d}"))
        world.put(pod(f"replica-{number:02d}", "web"))
    while await manager.step():
        pass
    assert slow.most == {"list": 1, "watch": 1, "create": 8, "patch": 8}
    made = [name for verb, name in slow.asked if verb == "create"]
    assert made.count("PodGroup") == 21
    assert len(world.store.items(POD_GROUP)) == 21
    assert all("scheduling.k8s.io/group-name" in item["metadata"]["annotations"] for item in world.store.items(POD))


class SlowLog:
    """A log whose appends take some turns; counts them."""

    def __init__(self, log: FaultyLog) -> None:
        self.bounds, self.read, self.wait, self.close, self._append = (
            log.bounds,
            log.read,
            log.wait,
            log.close,
            log.append,
        )
        self.appends = 0

    async def append(self, messages: Sequence[Message]) -> int:
        self.appends += 1
        for _ in range(20):
            await asyncio.sleep(0)
        return await self._append(messages)


def binder_of(world: World, api: ClusterApi, log: SlowLog, parallel: int) -> Binder:
    return Binder(api, log, Follower(log, Fold()), world.clock, "c1", "b-own", parallel=parallel)


async def test_bindings_to_one_node_are_under_way_at_once_and_reported_together() -> None:
    world = World()
    world.node("n1", cpu="64")
    for number in range(30):
        world.single(f"p{number:02d}")
    await world.decide()
    slow, log = Slow(DirectApi(world.embedded, "binder")), SlowLog(world.log)
    binder = binder_of(world, slow, log, 8)
    while await binder.step():
        pass
    assert slow.most["bind"] == 8
    assert slow.asked.count(("get", "Node")) == 1
    outcomes = await world.bodies(Outcome)
    assert [outcome.result for outcome in outcomes] == ["applied"] * 30
    assert log.appends < 15, "one for the term, and few for thirty outcomes"


async def test_a_failed_append_of_outcomes_loses_none_of_them_f12() -> None:
    """Whoever shared the append that failed is told so; the effects are found on the pods and reported again."""
    world = World()
    world.node("n1", cpu="64")
    for number in range(10):
        world.single(f"p{number:02d}")
    await world.decide()
    world.log.faults["binder"] = ["", "", "vanished"]
    binder = binder_of(world, Slow(DirectApi(world.embedded, "binder")), SlowLog(world.log), 4)
    for _ in range(3):
        world.clock.time_ms += 120_000
        while await binder.step():
            pass
    outcomes = await world.bodies(Outcome)
    assert sorted(outcome.name for outcome in outcomes) == [f"p{number:02d}" for number in range(10)]
    assert [len(bindings) for bindings in world.store.bindings.values()] == [1] * 10
