"""Work that waits although it fits shows: there must be none (scheduling section 9 row 17, Q-11a)."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.service_world import World

from events.canonical import encode
from events.kinds import POD
from events.records import Batch, dump
from scheduling import decide as deciding
from scheduling.cycle.memo import Memo
from scheduling.state.model import CycleResult, Model
from services.runtime.metrics import Metrics
from services.scheduler.scheduler import Scheduler


def looking(world: World) -> Metrics:
    """Give the world a scheduler that looks twice after ten seconds of rest."""
    metrics = Metrics(CollectorRegistry())
    world.scheduler = Scheduler(
        world.log, world.clock, "c1", "second", observer=metrics, second_look_ms=10_000, idle_ms=1_000
    )
    return metrics


def value(metrics: Metrics) -> float | None:
    return metrics.registry.get_sample_value("gpuledger_stuck_podgroups")


async def rest(world: World) -> None:
    await world.settle()
    for _ in range(3):
        world.clock.time_ms += 6_000
        for _ in range(2):  # first what only time asks for, then the second look
            await world.scheduler.step()
        await world.settle()


async def test_nobody_is_stuck() -> None:
    """scheduling section 9 row 17: the second look finds nothing, appends nothing"""
    world = World()
    metrics = looking(world)
    world.node("n1")
    world.single("one")
    await rest(world)
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"
    assert value(metrics) == 0
    assert not any(batch.stuck for batch in await world.bodies(Batch))


def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a fault: what the first decision remembers keeps everybody from being placed, until it is forgotten."""
    run = deciding.cycle.run
    first: list[Memo | None] = []

    def faulty(model: Model, time_ms: int, memo: Memo | None = None, *more: Any) -> CycleResult:
        result = run(model, time_ms, memo, *more)
        first.append(memo)
        if memo is first[0]:
            result.gangs.clear()
        return result

    monkeypatch.setattr(deciding.cycle, "run", faulty)


async def stuck_world(monkeypatch: pytest.MonkeyPatch) -> tuple[World, Metrics]:
    """A pod that fits, and waits."""
    world = World()
    metrics = looking(world)
    world.node("n1")
    world.single("one")
    forgetful(monkeypatch)
    await world.settle()
    return world, metrics


async def test_who_waits_although_it_fits_is_told_and_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    """scheduling section 9 row 17: a fault in what is remembered is found, told, and does not last"""
    world, metrics = await stuck_world(monkeypatch)
    assert "nodeName" not in world.get(POD, "one")["spec"]
    await rest(world)
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"
    (batch,) = [batch for batch in await world.bodies(Batch) if batch.stuck]
    assert (len(batch.stuck), len(batch.binds)) == (1, 1)
    assert world.events(deciding.STUCK_REASON) == [deciding.STUCK_TEXT]
    await rest(world)
    assert value(metrics) == 0


async def test_it_is_found_in_a_cluster_that_never_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    """scheduling section 9 row 17: something changes every few seconds, so no state is ever settled for long"""
    world, metrics = await stuck_world(monkeypatch)
    for seconds in range(0, 120, 6):
        placed = "nodeName" in world.get(POD, "one")["spec"]
        assert not placed or seconds > 90
        world.clock.time_ms += 6_000
        world.node("n1", labels={"seen": str(seconds)})
        await world.settle()
        await world.scheduler.step()
        await world.settle()
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"
    assert [len(batch.stuck) for batch in await world.bodies(Batch) if batch.stuck] == [1]
    assert value(metrics) == 1


async def test_a_batch_that_names_who_was_stuck_is_decided_again_equally() -> None:
    """design section 3: what an audit needs to decide again is in the batch"""
    world = World()
    world.node("n1")
    world.single("one")
    await world.watcher.step()
    await world.scheduler.fold()
    follower = world.scheduler.follower
    now = world.clock.now_ms()
    groups = sorted(follower.state.model.groups)
    first = deciding.decide(follower.state, now, "", 0, groups)
    deciding.forget(follower.state)
    again = deciding.decide(follower.state, now, "", 0, groups)
    assert first is not None
    assert again is not None
    assert encode(dump(first)) == encode(dump(again))
    assert first.stuck == groups
    book = next(change.book for change in first.groups if change.group == groups[0])
    assert (book.event_type, book.event_reason) == ("Warning", deciding.STUCK_REASON)
