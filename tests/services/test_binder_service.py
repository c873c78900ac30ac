"""The binder: one effect a command, whatever the answers (scheduling/F-1, F-2, F-5, F-12, devices/A-6 to A-9a)."""

from __future__ import annotations

import pytest
from support.service_world import CARD, LIMITS, START_MS, World, refused, unknown

from adapters.cluster.port import ApiError
from events import names
from events.canonical import Json
from events.kinds import POD
from events.projection import project
from events.records import Outcome
from services.binder.fence import fence


async def test_a_binding_carries_the_decisions_id_and_no_allocation_without_request_a9_a9a() -> None:
    world = World()
    world.node("n1")
    created = world.single("one")["metadata"]["resourceVersion"]
    await world.settle()
    pod = world.get(POD, "one")
    assert pod["spec"]["nodeName"] == "n1"
    notes = pod["metadata"]["annotations"]
    (outcome,) = await world.bodies(Outcome)
    assert notes[names.DECISION] == outcome.command
    assert outcome.result == "applied"
    assert outcome.version == created, "events up to the version that it was made on are older (F-4)"
    assert names.VGPU_IDS not in notes


async def test_an_accepted_binding_is_not_read_back_f1() -> None:
    world = World()
    world.node("n1", cpu="8")
    for name in ("one", "two", "three"):
        world.single(name)
    await world.decide()
    await world.binder.step()
    asked = [call for call in world.api.calls if call[0] in ("get", "bind")]
    assert sorted(asked) == [("bind", "one"), ("bind", "three"), ("bind", "two"), ("get", "n1")]


async def test_the_six_annotations_travel_in_the_binding_a6() -> None:
    world = World()
    world.node("n1", register=CARD)
    world.single("one", limits=LIMITS)
    await world.settle()
    notes = world.get(POD, "one")["metadata"]["annotations"]
    assert notes[names.VGPU_NODE] == "n1"
    assert notes[names.VGPU_IDS] == notes[names.DEVICES_TO_ALLOCATE] == "GPU-1,NVIDIA,1000,0:"
    assert notes[names.BIND_PHASE] == "allocating"
    assert notes[names.VGPU_TIME] == notes[names.BIND_TIME] == str(START_MS // 1000)


async def test_success_is_told_once_e1() -> None:
    """scheduling/E-1, F-1."""
    world = World()
    world.node("n1")
    world.single("one")
    await world.settle()
    assert world.events("Scheduled").count("Successfully assigned team-a/one to n1") == 1


async def test_a_lost_answer_to_an_applied_binding_is_found_on_the_pod_f2() -> None:
    world = World()
    world.node("n1")
    world.single("one")
    world.api.after["bind"] = [unknown()]
    await world.settle()
    outcomes = await world.bodies(Outcome)
    assert [outcome.result for outcome in outcomes] == ["applied"]
    assert len(world.store.bindings[world.get(POD, "one")["metadata"]["uid"]]) == 1


async def test_no_answer_without_effect_is_asked_again_and_the_place_stays_held_f2() -> None:
    world = World()
    world.node("n1", cpu="1")
    world.single("one")
    world.api.faults["bind"] = [unknown(), unknown()]
    await world.settle()
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"
    assert [outcome.result for outcome in await world.bodies(Outcome)] == ["applied"]


async def test_a_conflict_without_a_change_is_tried_again() -> None:
    world = World()
    world.node("n1")
    world.single("one")
    world.api.faults["bind"] = [refused(409), refused(409), refused(409)]
    await world.settle()
    assert [outcome.result for outcome in await world.bodies(Outcome)] == ["applied"]


async def test_a_moved_version_is_read_and_used_status_is_no_change() -> None:
    world = World()
    world.node("n1", cpu="1")
    world.single("one")
    await world.watcher.step()
    await world.scheduler.step()
    await world.scheduler.step()
    await world.api.patch(POD, "team-a", "one", {"status": {"message": "touched"}}, "status")
    await world.settle()
    assert [outcome.result for outcome in await world.bodies(Outcome)] == ["applied"]


async def test_a_pod_that_was_changed_after_the_decision_is_refused_and_decided_anew_f12() -> None:
    world = World()
    world.node("n1", cpu="1")
    world.single("one")
    await world.decide()
    await world.api.patch(POD, "team-a", "one", {"metadata": {"labels": {"role": "other"}}})
    await world.binder.step()
    (outcome,) = await world.bodies(Outcome)
    assert (outcome.result, outcome.message) == ("refused", "the pod was changed after the decision")
    await world.settle()
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"


async def test_somebody_else_was_faster_is_lost() -> None:
    world = World()
    world.node("n1")
    world.node("n2")
    world.single("one")
    await world.decide()
    await world.api._api.bind("team-a", "one", {"target": {"kind": "Node", "name": "n2"}, "metadata": {"name": "one"}})
    await world.settle()
    (outcome,) = await world.bodies(Outcome)
    assert outcome.result == "lost"
    assert world.get(POD, "one")["spec"]["nodeName"] == "n2"


@pytest.mark.parametrize("again", [False, True])
async def test_a_pod_that_is_gone_or_another_one_is_gone_f5(again: bool) -> None:
    world = World()
    world.node("n1")
    first = world.single("one")
    await world.decide()
    world.store.remove(POD, "team-a", "one")
    if again:
        world.pod("one")
    await world.binder.step()
    outcomes = await world.bodies(Outcome)
    assert [outcome.result for outcome in outcomes] == ["gone"]
    assert outcomes[0].uid == first["metadata"]["uid"]
    await world.settle()
    assert not again or world.get(POD, "one")["spec"]["nodeName"] == "n1"


async def test_a_final_refusal_frees_the_place_and_is_told_f2() -> None:
    world = World()
    world.node("n1", cpu="1")
    world.single("one")
    world.api.faults["bind"] = [refused(422, "webhook says no")]
    await world.settle()
    assert [outcome.result for outcome in await world.bodies(Outcome)] == ["refused", "applied"]
    assert "failed to bind to node n1: webhook says no" in world.events("FailedScheduling")


@pytest.mark.parametrize("fault", ["refused", "vanished", "answer lost"])
async def test_an_effect_whose_report_failed_is_reported_in_the_next_life_a9a(fault: str) -> None:
    world = World()
    world.node("n1")
    await world.settle()
    world.single("one")
    await world.decide()
    world.log.faults["binder"] = [fault]
    await world.binder.step()
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"
    world.binder = world.new_binder()
    await world.settle()
    assert [outcome.result for outcome in await world.bodies(Outcome)] == ["applied"]
    assert len(world.store.bindings[world.get(POD, "one")["metadata"]["uid"]]) == 1
    assert not (await world.fold()).model.commands


async def test_a_superseded_binder_has_no_effect_and_stands_back() -> None:
    world = World()
    world.node("n1")
    await world.settle()
    old = world.binder
    world.binder = world.new_binder()
    await world.settle()
    await old.step()
    assert not old.leading
    assert world.binder.leading
    world.single("one")
    await world.settle()
    await old.step()
    assert len(await world.bodies(Outcome)) == 1


async def test_a_binding_under_way_fails_once_its_command_was_given_up() -> None:
    world = World()
    world.node("n1")
    world.node("n2")
    world.single("one")
    await world.decide()
    sent: list[Json] = []
    bind = world.api.bind

    async def delayed(namespace: str, name: str, item: Json) -> None:
        sent.append(item)
        world.api.bind = bind  # type: ignore[method-assign]  # only this request is delayed
        raise unknown()

    world.api.bind = delayed  # type: ignore[method-assign]  # the request is on its way, its answer never comes
    await world.binder.step()
    world.binder = world.new_binder()
    world.api.faults["bind"] = [refused(403, "quota")]
    await world.binder.step()
    assert [outcome.result for outcome in await world.bodies(Outcome)] == ["refused"]
    with pytest.raises(ApiError) as late:
        await world.api.bind("team-a", "one", sent[0])
    assert late.value.status == 409


async def test_the_fence_moves_the_version_even_if_the_condition_is_there_already() -> None:
    world = World()
    world.single("one")
    for command in ("c/1", "c/2", "c/2", "c/2"):
        before = world.get(POD, "one")
        await fence(world.api, world.clock, before, command, "failed to bind to node n1: quota")
        assert world.get(POD, "one")["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
    found = world.get(POD, "one")["status"]["conditions"][0]
    assert (found["status"], found["reason"]) == ("False", "SchedulerError")
    assert "gpuledger.dev/refused" not in project(POD, world.get(POD, "one"))["metadata"]["annotations"]


async def test_a_superseded_binder_does_not_try_again_with_a_new_version() -> None:
    world = World()
    world.node("n1")
    world.single("one")
    await world.decide()
    old = world.binder
    world.binder = world.new_binder()
    bind = world.api.bind

    async def overtaken(namespace: str, name: str, item: Json) -> None:
        world.api.bind = bind  # type: ignore[method-assign]  # while the first request is under way ...
        await world.api.patch(POD, "team-a", "one", {"status": {"message": "x"}}, "status")
        await world.binder.follower.catch_up()
        assert await world.binder._lead()
        raise refused(409)  # ... another binder takes over

    world.api.bind = overtaken  # type: ignore[method-assign]  # ... another binder takes over
    await old.step()
    assert not world.get(POD, "one")["spec"].get("nodeName")
    await world.settle()
    assert len(world.store.bindings[world.get(POD, "one")["metadata"]["uid"]]) == 1
