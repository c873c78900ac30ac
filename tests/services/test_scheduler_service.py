"""The scheduler: when it decides, and when it must not (design sections 2 and 3, scheduling/F-11, F-12a)."""

from __future__ import annotations

import pytest
from support.service_world import START_MS, World, unknown

from adapters.log.port import LogError
from events.codec import Message
from events.kinds import POD
from events.records import Batch, Opened, Ticked
from services.scheduler.scheduler import Scheduler


async def test_nothing_is_decided_before_every_kind_is_listed_f11() -> None:
    world = World()
    world.node("n1")
    world.single("one")
    world.watch_api.faults["list"] = [None] * 10 + [unknown()]
    await world.watcher.step()
    await world.scheduler.step()
    assert not await world.bodies(Batch)
    await world.settle()
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"


async def test_a_decision_that_finds_nothing_new_appends_nothing() -> None:
    world = World()
    world.node("n1")
    world.single("one")
    await world.settle()
    before = len(await world.records())
    for _ in range(5):
        await world.scheduler.step()
    assert len(await world.records()) == before


@pytest.mark.parametrize("fault", ["vanished", "answer lost"])
async def test_an_append_without_an_answer_ends_the_term_and_the_new_one_decides_again(fault: str) -> None:
    world = World()
    world.node("n1")
    await world.settle()
    world.single("one")
    await world.watcher.step()
    world.log.faults["scheduler"] = [fault]
    await world.settle()
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"
    assert len([body for body in await world.bodies(Opened) if body.role == "scheduler"]) == 2
    assert len(world.store.bindings[world.get(POD, "one")["metadata"]["uid"]]) == 1


async def test_a_batch_that_comes_late_after_the_new_term_is_void_f12a() -> None:
    world = World()
    world.node("n1")
    await world.settle()
    world.single("one")
    await world.watcher.step()
    late: list[Message] = []
    append = world.log.append

    async def delayed(messages: list[Message]) -> int:
        world.log.append = append  # type: ignore[method-assign]  # the fault happens once
        late.extend(messages)
        raise LogError("no answer yet")

    world.log.append = delayed  # type: ignore[method-assign, assignment]  # a fault for one append
    await world.scheduler.step()
    assert late
    await world.settle()
    await world.log.append(late)
    await world.settle()
    assert len(world.store.bindings[world.get(POD, "one")["metadata"]["uid"]]) == 1
    assert not (await world.fold()).model.commands


async def test_a_superseded_scheduler_decides_no_more() -> None:
    world = World()
    world.node("n1")
    await world.settle()
    old = world.scheduler
    world.scheduler = world.new_scheduler()
    await world.settle()
    world.single("one")
    await old.step()
    await world.settle()
    assert not old.leading
    assert world.scheduler.leading
    assert len(world.store.bindings[world.get(POD, "one")["metadata"]["uid"]]) == 1


async def test_a_jump_of_the_clock_needs_two_ticks_and_then_it_decides() -> None:
    world = World()
    world.node("n1")
    await world.settle()
    world.clock.time_ms = START_MS + 3 * 3_600_000
    world.single("one")
    await world.settle()
    assert len(await world.bodies(Ticked)) == 2
    assert (await world.fold()).model.time_ms == world.clock.time_ms
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"


async def test_a_clock_that_goes_backwards_moves_nothing_back() -> None:
    world = World()
    world.node("n1")
    await world.settle()
    before = (await world.fold()).model.time_ms
    world.clock.time_ms = START_MS - 3_600_000
    world.single("one")
    await world.settle()
    assert (await world.fold()).model.time_ms >= before
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"


async def test_an_unknown_version_of_a_known_type_stops_decisions() -> None:
    world = World()
    world.node("n1")
    await world.settle()
    (message,) = [item for _, item in await world.log.read(1, 1)]
    headers = tuple(
        (name, value.replace(b".v1", b".v9") if name == "ce_type" else value) for name, value in message.headers
    )
    await world.log.append([Message(headers, message.value)])
    world.single("one")
    await world.watcher.step()
    await world.scheduler.step()
    await world.scheduler.step()
    assert "nodeName" not in world.get(POD, "one")["spec"]
    assert "nothing is decided" in world.scheduler.failure


async def test_the_decisions_of_a_threaded_scheduler_are_the_same_bytes() -> None:
    worlds = [World(), World()]
    worlds[1].scheduler._threaded = True
    for world in worlds:
        world.node("n1")
        world.single("one")
        await world.settle()
    first, second = [await world.bodies(Batch) for world in worlds]
    assert first == second


async def test_a_shadow_proposes_the_same_thing_once() -> None:
    world = World()
    world.node("n1")
    world.single("one", limits={})
    await world.settle()
    (batch, *_) = [body for body in await world.bodies(Batch) if body.binds]
    (command,) = batch.binds
    later = command.model_copy(update={"members": [command.members[0].model_copy(update={"vgpu_time": 99})]})
    shadow = Scheduler(world.log, world.clock, "c1", "shadow", mode="shadow")
    assert not shadow._proposed_before(batch)
    assert shadow._proposed_before(batch.model_copy(update={"batch": 7, "time_ms": 8, "binds": [later]}))
    assert not shadow._proposed_before(batch.model_copy(update={"binds": []}))
    assert not world.scheduler._proposed_before(batch)
    assert not world.scheduler._proposed_before(batch)
