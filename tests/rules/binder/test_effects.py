"""Clean-up before a Binding, and evictions (devices/A-7a, A-7b, G-7, scheduling/F-7, E-3, E-4)."""

from __future__ import annotations

import pytest
from support.service_world import CARD, LIMITS, World, refused, unknown

from adapters.clock import ManualClock
from events import names
from events.kinds import POD
from events.records import EvictCommand, Member
from scheduling.state.model import Command
from services.binder.binding import binding
from services.binder.evictions import Evictions

COPIED = {
    names.VGPU_NODE: "n1",
    names.DEVICES_TO_ALLOCATE: "GPU-1,NVIDIA,1000,0:",
    names.VGPU_IDS: "GPU-1,NVIDIA,1000,0:",
}


async def test_copied_marks_are_removed_before_the_first_binding_to_that_node_a7b() -> None:
    world = World()
    world.node("n1", register=CARD)
    world.single("copy", cpu="1000", annotations=COPIED)
    world.single("other", cpu="1000", annotations=COPIED | {names.VGPU_NODE: "n2"})
    world.single("one", limits=LIMITS)
    await world.settle()
    notes = world.get(POD, "copy")["metadata"]["annotations"]
    assert names.VGPU_NODE not in notes
    assert names.DEVICES_TO_ALLOCATE not in notes
    assert world.get(POD, "other")["metadata"]["annotations"][names.VGPU_NODE] == "n2"
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"
    assert len(world.events("StaleAllocation")) == 1


async def test_a_copied_manifest_of_the_pod_itself_is_bound_with_its_own_record_a7a() -> None:
    world = World()
    world.node("n1", register=CARD)
    world.single("one", limits={**LIMITS, "volcano.sh/vgpu-memory": "500"}, annotations=COPIED)
    await world.settle()
    pod = world.get(POD, "one")
    assert pod["spec"]["nodeName"] == "n1"
    assert pod["metadata"]["annotations"][names.VGPU_IDS] == "GPU-1,NVIDIA,500,0:"


async def test_pods_of_other_schedulers_are_left_alone_a7b() -> None:
    world = World()
    world.node("n1", register=CARD)
    world.pod("foreign", schedulerName="default-scheduler", annotations=COPIED)
    world.single("one", limits=LIMITS)
    await world.settle()
    assert world.get(POD, "foreign")["metadata"]["annotations"][names.VGPU_NODE] == "n1"


async def test_a_clean_up_that_fails_holds_back_the_binding_a7b() -> None:
    world = World()
    world.node("n1", register=CARD)
    world.single("copy", cpu="1000", annotations=COPIED)
    world.single("one", limits=LIMITS)
    await world.decide()
    world.api.faults["patch"] = [unknown()]
    await world.binder.step()
    assert not world.get(POD, "one")["spec"].get("nodeName")
    await world.settle()
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"


def test_legacy_keys_of_a_binding_g7() -> None:
    member = Member(
        n=0, namespace="a", name="p", uid="u", version="7", node="n", node_uid="x", gpu_index="0,3",
        predicate_time_ns=1593764466550835304,
    )  # fmt: skip
    made = binding(Command("c/i/1.0/0", bind=member), member, "7", ManualClock(0))
    assert made["metadata"]["annotations"] == {
        names.DECISION: "c/i/1.0/0",
        names.GPU_INDEX: "0,3",
        names.PREDICATE_TIME: "1593764466550835304",
    }
    assert (made["metadata"]["uid"], made["metadata"]["resourceVersion"]) == ("u", "7")


# --- evictions ------------------------------------------------------------------------------------------------------


def evict_command(uid: str) -> tuple[Command, EvictCommand]:
    evict = EvictCommand(n=0, namespace="team-a", name="victim", uid=uid, reason="preempt", for_group="team-a/high")
    return Command("c1/i/1.1/0", evict=evict), evict


async def victim(world: World) -> str:
    world.node("n1")
    world.single("victim", terminationGracePeriodSeconds=30)
    await world.settle()
    uid: str = world.get(POD, "victim")["metadata"]["uid"]
    return uid


async def test_an_eviction_says_why_and_deletes_f7() -> None:
    world = World()
    command, evict = evict_command(await victim(world))
    answer = await Evictions(world.api, world.clock).carry_out(command, evict)
    assert answer.outcome is not None
    assert answer.outcome.result == "applied"
    pod = world.get(POD, "victim")
    assert pod["metadata"]["deletionTimestamp"]
    conditions = {item["type"]: item for item in pod["status"]["conditions"]}
    ready, target = conditions["Ready"], conditions["DisruptionTarget"]
    assert (ready["status"], ready["reason"]) == ("False", "Evict")
    assert ready["message"] == "Pod is evicted, because of preempt"
    assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")
    assert target["message"] == "volcano: preempting to accommodate a higher priority pod"
    assert "PodScheduled" in conditions


async def test_a_repeated_eviction_changes_nothing_more() -> None:
    world = World()
    command, evict = evict_command(await victim(world))
    evictions = Evictions(world.api, world.clock)
    await evictions.carry_out(command, evict)
    version = world.get(POD, "victim")["metadata"]["resourceVersion"]
    answer = await evictions.carry_out(command, evict)
    assert answer.outcome is not None
    assert answer.outcome.result == "applied"
    assert world.get(POD, "victim")["metadata"]["resourceVersion"] == version


async def test_another_pod_of_the_name_is_never_evicted_f7() -> None:
    world = World()
    await victim(world)
    command, evict = evict_command("another uid")
    answer = await Evictions(world.api, world.clock).carry_out(command, evict)
    assert answer.outcome is not None
    assert answer.outcome.result == "gone"
    assert "deletionTimestamp" not in world.get(POD, "victim")["metadata"]


@pytest.mark.parametrize(
    ("verb", "fault", "result"),
    [
        ("delete", refused(403), "refused"),
        ("delete", refused(404), "gone"),
        ("delete", refused(409), None),
        ("delete", refused(429), None),
        ("delete", unknown(), None),
        ("patch", refused(409), None),
        ("get", unknown(), None),
    ],
)
async def test_answers_to_an_eviction_f7(verb: str, fault: Exception, result: str | None) -> None:
    world = World()
    command, evict = evict_command(await victim(world))
    world.api.faults[verb] = [fault]
    answer = await Evictions(world.api, world.clock).carry_out(command, evict)
    assert (answer.outcome.result if answer.outcome else None) == result
