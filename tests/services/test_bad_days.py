"""Seeded bad days: lost answers, refusals, broken watches, restarts and deposed services, then peace.

In the end everything that fits is bound exactly once, no node holds more than it has, nothing is left waiting on the
log, and folding the log afresh gives the live state.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pytest
from support.service_world import World, refused, unknown

from adapters.log.port import OutOfRange
from events.kinds import NODE, POD, POD_GROUP, QUEUE
from events.names import GROUP_NAME
from events.records import Outcome
from services.binder.binder import Binder
from services.scheduler.scheduler import Scheduler
from services.watcher.watcher import Watcher

SEEDS = range(int(os.environ.get("BAD_DAYS", "24")))
STEPS = 90
NODES, CPU = 3, 7


class BadDay:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.world = World()
        self.deposed: list[Watcher | Scheduler | Binder] = []
        self.fired: Counter[str] = Counter()
        self.pods = 0
        for number in range(NODES):
            self.world.node(f"n{number}", cpu=str(CPU))

    # --- what happens ---

    def work(self) -> None:
        self.pods += 1
        if self.random.random() < 0.3:
            self.world.group(f"g{self.pods}", 2)
            for member in range(2):
                self.world.pod(f"g{self.pods}-{member}", f"g{self.pods}")
        else:
            self.world.single(f"p{self.pods}")

    def delete(self) -> None:
        pods = self.world.store.items(POD)
        if len(pods) > 4:
            pod = self.random.choice(pods)["metadata"]
            self.world.store.remove(POD, pod["namespace"], pod["name"])
            self.world.store.remove(POD_GROUP, pod["namespace"], pod["name"])

    def touch(self) -> None:
        pods = self.world.store.items(POD)
        if pods:
            pod = self.random.choice(pods)
            meta = {**pod["metadata"], "labels": {"touched": str(self.random.randrange(99))}}
            del meta["resourceVersion"]
            self.world.put({**pod, "metadata": meta})

    def api_fault(self) -> None:
        api = self.random.choice([self.world.api, self.world.watch_api])
        verb = self.random.choice(["bind", "get", "patch", "list", "watch", "create"])
        fault = self.random.choice([unknown(), refused(409), refused(429), refused(403)])
        if verb in ("list", "watch"):
            fault = self.random.choice([unknown(), refused(410)])
        api.faults.setdefault(verb, []).append(fault)

    def lost_answer(self) -> None:
        self.world.api.after.setdefault("bind", []).append(unknown())

    def log_fault(self) -> None:
        role = self.random.choice(["watcher", "scheduler", "binder"])
        fault = self.random.choice(["refused", "vanished", "answer lost"])
        self.world.log.faults.setdefault(role, []).append(fault)

    def broken_watch(self) -> None:
        self.world.store.break_watch(self.random.choice([POD, NODE, POD_GROUP, QUEUE]), self.random.choice([410, 500]))

    def restart(self) -> None:
        who = self.random.choice(["watcher", "scheduler", "binder"])
        old = getattr(self.world, who)
        self.start(who)
        if self.random.random() < 0.5:
            self.deposed.append(old)

    def late_event(self) -> None:
        kind = self.random.choice([POD, NODE])
        items = self.world.store.items(kind)
        if items:
            item = self.random.choice(items)
            old = {**item, "metadata": {**item["metadata"], "resourceVersion": "1"}}
            self.world.store.emit(kind, "MODIFIED", old)

    def cut(self) -> None:
        if self.random.random() < 0.2:
            self.world.log.truncate(self.random.randrange(1, 30))

    def clock(self) -> None:
        self.world.clock.time_ms += self.random.choice([1_000, 20_000, 3_600_000, -30_000])

    async def step(self) -> None:
        """Step one service; one that stood where the log was cut ends, and is started again (F-11b)."""
        who = self.random.choice(["watcher", "scheduler", "binder", "status", *self.deposed])
        service = getattr(self.world, who) if isinstance(who, str) else who
        try:
            await service.step()
        except OutOfRange:
            if not isinstance(who, str):
                self.deposed.remove(who)
            else:
                self.start("binder" if who == "status" else who)

    def start(self, who: str) -> None:
        setattr(self.world, who, getattr(self.world, f"new_{who}")())

    async def run(self) -> None:
        events = [self.work, self.work, self.delete, self.touch, self.api_fault, self.api_fault, self.lost_answer,
                  self.log_fault, self.broken_watch, self.restart, self.late_event, self.cut, self.clock]  # fmt: skip
        for _ in range(STEPS):
            if self.random.random() < 0.35:
                event = self.random.choice(events)
                self.fired[event.__name__] += 1
                event()
            await self.step()

    async def peace(self) -> None:
        for api in (self.world.api, self.world.watch_api):
            api.faults.clear()
            api.after.clear()
        self.world.log.faults.clear()
        for _ in range(4):
            self.world.clock.time_ms += 3_600_000
            for service in list(self.deposed):
                try:
                    await service.step()
                except OutOfRange:
                    self.deposed.remove(service)
            for who in ("watcher", "scheduler", "binder"):
                try:
                    await getattr(self.world, who).step()
                except OutOfRange:
                    self.start(who)
            await self.world.settle(turns=200)
        self.deposed.clear()
        self.world.clock.time_ms += 36_000_000
        await self.world.settle(turns=200)


def used(world: World) -> Counter[str]:
    return Counter(pod["spec"].get("nodeName", "") for pod in world.store.items(POD))


def left_waiting(world: World) -> list[str]:
    """Pods that are not bound although their gang has all its members."""
    pods = world.store.items(POD)
    sizes = Counter(pod["metadata"]["annotations"][GROUP_NAME] for pod in pods)
    least = {group["metadata"]["name"]: group["spec"]["minMember"] for group in world.store.items(POD_GROUP)}
    waiting = [pod["metadata"] for pod in pods if not pod["spec"].get("nodeName")]
    groups = ((meta["name"], meta["annotations"][GROUP_NAME]) for meta in waiting)
    return [name for name, group in groups if group in least and sizes[group] >= least[group]]


@pytest.mark.parametrize("seed", SEEDS)
async def test_after_a_bad_day_everything_that_fits_is_bound_once(seed: int) -> None:
    day = BadDay(seed)
    await day.run()
    await day.peace()
    world = day.world
    held = used(world)
    del held[""]
    assert all(count <= CPU for count in held.values()), held
    room = NODES * CPU - sum(held.values())
    assert not left_waiting(world) or room <= 1, f"{left_waiting(world)} wait beside room for {room}"
    for uid, bindings in world.store.bindings.items():
        assert len(bindings) == 1, uid
    fresh = await world.fold()
    assert not fresh.model.commands
    for service in (world.scheduler, world.binder):
        assert service.follower.state.digest() == fresh.digest()
        assert service.follower.state.diverged == 0
    applied = Counter(body.uid for body in await world.bodies(Outcome) if body.result == "applied")
    assert all(count == 1 for count in applied.values())


async def test_every_kind_of_trouble_was_seen() -> None:
    fired: Counter[str] = Counter()
    for seed in SEEDS:
        day = BadDay(seed)
        await day.run()
        fired += day.fired
    assert len(fired) == 11
