"""The binder: one effect a command, whatever the answers (scheduling/F-1, F-2, F-5, F-12a, devices/A-6 to A-9a)."""

from __future__ import annotations

import pytest
import structlog
from support.service_world import START_MS, World, refused, unknown

from adapters.cluster.port import ApiError
from events import names
from events.canonical import Json
from events.kinds import NODE, PERSISTENT_VOLUME_CLAIM, POD, POD_GROUP
from events.projection import project
from events.records import Outcome
from services.binder.fence import fence
from services.binder.volumes import SELECTED_NODE
from services.runtime.following import catch_up

CARD = "GPU-1,10,8192,NVIDIA-Tesla T4,true,hami-core:"
LIMITS = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1000"}


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


async def test_a_node_that_does_not_exist_any_more_is_refused_f12a() -> None:
    world = World()
    world.node("n1")
    world.single("one")
    await world.decide()
    world.store.remove(NODE, "", "n1")
    await world.binder.step()
    (outcome,) = await world.bodies(Outcome)
    assert (outcome.result, outcome.message) == ("refused", "node n1 does not exist")
    assert not world.store.bindings


async def test_a_binding_that_was_undone_after_its_pod_had_ended_is_given_up_f4() -> None:
    """Its place was free meanwhile: the command is refused before the pod is decided on anew."""
    world = World()
    world.node("n1", register=CARD)
    world.single("one", limits=LIMITS)
    await world.decide()
    saved = world.backup()
    world.api.after["bind"] = [unknown()]
    await world.binder.step()
    await world.watcher.step()
    world.store.write(POD, {**world.get(POD, "one"), "status": {"phase": "Succeeded"}})
    await world.watcher.step()
    world.restore(saved)
    for _ in range(3):
        await world.watcher.step()
        await world.scheduler.step()
    await world.binder.step()
    (outcome,) = await world.bodies(Outcome)
    assert (outcome.result, outcome.message) == (
        "refused",
        "its Binding was undone, and its place may be another's by now",
    )
    assert not world.get(POD, "one")["spec"].get("nodeName")
    await world.settle()
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"
    assert [outcome.result for outcome in await world.bodies(Outcome)] == ["refused", "applied"]


@pytest.mark.parametrize("members", [1, 2])
async def test_a_card_that_a_restored_pod_holds_again_is_refused_f4(members: int) -> None:
    """Nobody of a gang is bound if one has no room any more."""
    world = World()
    world.node("n1", register=CARD.replace(",10,", ",1,"))
    world.node("n2", register=CARD.replace("GPU-1,10,", "GPU-2,1,") if members > 1 else "")
    world.single("old", limits=LIMITS)
    await world.settle()
    world.group("new", members)
    for index in range(members):
        world.pod(f"new-{index}", "new", limits=LIMITS)
    await world.settle()
    saved = world.backup()
    world.store.remove(POD, "team-a", "old")
    await world.decide()
    world.restore(saved)
    for _ in range(3):
        await world.watcher.step()
    await world.binder.step()
    outcomes = [outcome for outcome in await world.bodies(Outcome) if outcome.name != "old"]
    assert [outcome.result for outcome in outcomes] == ["refused"] * members
    assert any(outcome.message.startswith("node n1 has no room left on GPU-1") for outcome in outcomes)
    assert not any(world.get(POD, outcome.name)["spec"].get("nodeName") for outcome in outcomes)
    world.store.remove(POD, "team-a", "old")
    await world.settle()
    assert all(world.get(POD, f"new-{index}")["spec"].get("nodeName") for index in range(members))


#: What a node offers and a pod asks for, so that one pod fills it in one of three measures.
FILLED = {
    "cpu": ({"cpu": "1", "memory": "4Gi", "pods": "9"}, {"cpu": "1"}),
    "memory": ({"cpu": "9", "memory": "4Gi", "pods": "9"}, {"memory": "4Gi"}),
    "pods": ({"cpu": "9", "memory": "4Gi", "pods": "1"}, {"cpu": "1"}),
}


def put_small_node(world: World, what: str, name: str = "n1") -> None:
    offered, _ = FILLED[what]
    status = {"allocatable": offered, "capacity": offered}
    world.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status})


def put_filling_pod(world: World, what: str, name: str, group: str = "") -> None:
    _, asked = FILLED[what]
    container = {"name": "main", "image": "registry.example.test/x", "resources": {"requests": asked}}
    world.pod(name, group, containers=[container])


@pytest.mark.parametrize("what", ["cpu", "memory", "pods"])
@pytest.mark.parametrize("members", [1, 2])
async def test_a_node_that_a_restored_pod_fills_again_is_refused_f4(what: str, members: int) -> None:
    """scheduling/AL-3, AL-20, R-5: what a kubelet would not take, and the scheduler would not place there now."""
    world = World()
    for index in range(members):
        put_small_node(world, what, f"n{index + 1}")
    world.group("old")
    put_filling_pod(world, what, "old")
    await world.settle()
    full = world.get(POD, "old")["spec"]["nodeName"]
    world.group("new", members)
    for index in range(members):
        put_filling_pod(world, what, f"new-{index}", "new")
    await world.settle()
    saved = world.backup()
    world.store.remove(POD, "team-a", "old")
    await world.decide()
    world.restore(saved)
    for _ in range(3):
        await world.watcher.step()
    await world.binder.step()
    outcomes = [outcome for outcome in await world.bodies(Outcome) if outcome.name != "old"]
    assert [outcome.result for outcome in outcomes] == ["refused"] * members
    assert any(outcome.message.startswith(f"node {full} has no room left in {what}") for outcome in outcomes)
    assert not any(world.get(POD, outcome.name)["spec"].get("nodeName") for outcome in outcomes)
    world.store.remove(POD, "team-a", "old")
    await world.settle()
    assert all(world.get(POD, f"new-{index}")["spec"].get("nodeName") for index in range(members))


async def test_who_asks_for_nothing_of_what_a_node_lacks_is_bound_r5() -> None:
    """scheduling/R-5: as the scheduler places it there, so it is bound there."""
    world = World()
    world.node("n1", cpu="1")
    world.single("one", cpu="0", limits={"memory": "1Gi"})
    await world.decide()
    world.pod("other", nodeName="n1", cpu="2")
    await world.watcher.step()
    await world.binder.step()
    (outcome,) = await world.bodies(Outcome)
    assert outcome.result == "applied"


@pytest.mark.parametrize(("pods", "result"), [("true", "refused"), ("false", "applied")])
async def test_the_number_of_pods_counts_where_the_scheduler_counts_it_al20(pods: str, result: str) -> None:
    """scheduling/AL-20: without predicates a pod that was refused would be placed there again, for ever."""
    world = World()
    plugins = f"{{name: gang}}, {{name: predicates, enablePredicate: {pods}}}"
    text = f'{{actions: "enqueue, allocate", tiers: [{{plugins: [{plugins}]}}]}}'
    world.put(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"namespace": "volcano-system", "name": "volcano-scheduler-configmap"},
            "data": {"volcano-scheduler.conf": text},
        }
    )
    put_small_node(world, "pods")
    world.single("one")
    await world.decide()
    world.pod("other", nodeName="n1")
    await world.watcher.step()
    await world.binder.step()
    (outcome,) = await world.bodies(Outcome)
    assert outcome.result == result


@pytest.mark.parametrize(
    ("shares", "crowded"),
    [
        (["GPU-1,NVIDIA,1000,0:"] * 2, False),
        (["GPU-1,NVIDIA,5000,0:"] * 2, True),
        (["GPU-1,NVIDIA,1000,60:"] * 2, True),
        (["GPU-1,NVIDIA,1000,0:"] * 11, True),
    ],
)
async def test_what_is_held_on_a_card_beyond_what_it_has_refuses_a_decision(shares: list[str], crowded: bool) -> None:
    """devices/A-16: who holds shares, whoever gave them to him; here all but the first came after the decision."""
    world = World()
    world.node("n1", register=CARD, cpu="32")
    first, *others = shares
    _, _, memory, cores = first.rstrip(":").split(",")
    world.single("one", limits=LIMITS | {"volcano.sh/vgpu-memory": memory, "volcano.sh/vgpu-cores": cores})
    await world.decide()
    for index, share in enumerate(others):
        world.pod(f"other-{index}", nodeName="n1", annotations={names.VGPU_IDS: share}, limits=LIMITS)
    await world.watcher.step()
    await world.binder.step()
    (outcome,) = await world.bodies(Outcome)
    assert outcome.result == ("refused" if crowded else "applied")


@pytest.mark.parametrize("label", ["batch", "training"])
async def test_a_card_that_another_pod_of_the_rule_holds_is_refused_x5(label: str) -> None:
    """Others that share it against their rule are no matter of a pod without it (devices/X-9)."""
    world = World()
    world.node("n1", register=CARD, cpu="32")
    arguments = "deviceshare.VGPUEnable: true, deviceshare.GPUExclusiveRules: [{workload: training}]"
    text = (
        f'{{actions: "enqueue, allocate", tiers: [{{plugins: [{{name: deviceshare, arguments: {{{arguments}}}}}]}}]}}'
    )
    world.put(
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"namespace": "volcano-system", "name": "volcano-scheduler-configmap"},
            "data": {"volcano-scheduler.conf": text},
        }
    )
    world.single("one", limits=LIMITS, metadata={"labels": {"workload": label}})
    await world.decide()
    held = {"labels": {"workload": "training"}}
    for name in ("other-1", "other-2"):
        notes = {names.VGPU_IDS: "GPU-1,NVIDIA,1000,0:"}
        world.pod(name, nodeName="n1", annotations=notes, limits=LIMITS, metadata=held)
    await world.watcher.step()
    await world.binder.step()
    (outcome,) = await world.bodies(Outcome)
    assert outcome.result == ("refused" if label == "training" else "applied")


async def test_another_node_of_the_name_is_refused_f12a() -> None:
    world = World()
    world.node("n1", uid="u-1")
    world.single("one")
    await world.decide()
    world.store.remove(NODE, "", "n1")
    world.node("n1", uid="u-2")
    await world.binder.step()
    (outcome,) = await world.bodies(Outcome)
    assert outcome.result == "refused"
    assert "another object" in outcome.message
    await world.settle()
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"


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


async def test_a_gang_is_bound_member_by_member_and_one_refusal_leaves_the_others_f2() -> None:
    world = World()
    world.node("n1")
    world.group("gang", 2)
    world.pod("gang-0", "gang")
    world.pod("gang-1", "gang")
    world.api.faults["bind"] = [None, refused(403, "quota")]
    await world.settle()
    assert [outcome.result for outcome in await world.bodies(Outcome)] == ["applied", "refused", "applied"]
    assert world.get(POD_GROUP, "gang")["status"]["phase"] == "Running"


async def test_who_came_since_the_decision_is_not_of_the_gang_that_was_decided_on_pg10() -> None:
    """A member is deleted and back under its name before the first Binding: without it there are not minMember."""
    world = World()
    world.node("n1")
    world.group("gang", 2)
    world.pod("gang-0", "gang")
    world.pod("gang-1", "gang")
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
    world = World()
    world.node("n1")
    world.group("gang", members)
    for index in range(members):
        world.pod(f"gang-{index}", "gang")
    await world.decide()
    first = next(iter(world.binder.model.commands.values()), None)
    assert first is None, "the binder has read nothing yet"
    await catch_up(world.binder.follower)
    command = next(iter(world.binder.model.commands.values()))
    assert command.bind
    world.store.remove(POD, "team-a", command.bind.name)
    await world.binder.step()
    assert [outcome.result for outcome in await world.bodies(Outcome)] == ["gone", *["refused"] * (members - 1)]
    world.pod(command.bind.name, "gang")
    await world.settle()
    assert all(world.get(POD, f"gang-{index}")["spec"].get("nodeName") for index in range(members))


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


# --- volumes --------------------------------------------------------------------------------------------------------


def claimed_world() -> World:
    world = World()
    world.node("n1")
    world.put(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "fast"},
            "provisioner": "example.test/disk",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    )
    world.put(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"namespace": "team-a", "name": "data"},
            "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"]},
        }
    )
    world.single("one", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
    return world


async def test_a_claim_that_waits_for_its_consumer_is_told_the_node_and_waited_for() -> None:
    """scheduling/F-3."""
    world = claimed_world()
    await world.settle()
    claim = world.get(PERSISTENT_VOLUME_CLAIM, "data")
    assert claim["metadata"]["annotations"][SELECTED_NODE] == "n1"
    assert not world.get(POD, "one")["spec"].get("nodeName")
    assert list(world.binder.waiting.values()) == ["persistentvolumeclaim data is not bound yet"]
    world.put({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {}})
    await world.api.patch(PERSISTENT_VOLUME_CLAIM, "team-a", "data", {"spec": {"volumeName": "pv"}})
    await world.settle()
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"


async def test_a_claim_that_is_never_bound_is_refused_in_the_words_of_f3() -> None:
    world = claimed_world()
    await world.settle()
    world.clock.time_ms += 11 * 60_000
    await world.binder.step()
    (outcome,) = await world.bodies(Outcome)
    assert outcome.result == "refused"
    text = (
        "execute preBind for pod team-a/one failed: timed out waiting for persistentvolumeclaim data to be bound, "
        "resync the task"
    )
    assert outcome.prebind
    assert world.events("FailedScheduling")[-1] == text
    conditions = world.get(POD, "one")["status"]["conditions"]
    assert [item["message"] for item in conditions if item["reason"] == "SchedulerError"] == [text]
    await world.scheduler.fold()
    (entry,) = world.scheduler.model.pods.values()
    assert (entry.book.reason, entry.book.message, entry.book.cause) == ("SchedulerError", text, "bind-failed")
    notes = world.get(PERSISTENT_VOLUME_CLAIM, "data")["metadata"].get("annotations", {})
    assert SELECTED_NODE not in notes


async def test_a_node_that_offers_less_than_its_pods_hold_is_logged_once() -> None:
    """scheduling/F-8: out of sync, nobody is evicted for it; told again when other resources are exceeded"""
    world = World()
    world.node("n1", cpu="4")
    world.single("one", cpu="3")
    await world.settle()
    with structlog.testing.capture_logs() as lines:
        for cpu in ("2", "2", "8", "1"):
            world.node("n1", cpu=cpu, labels={"round": cpu})
            await world.settle()
    told = [line for line in lines if line["event"].startswith("node is out of sync")]
    assert [(line["node"], line["resources"]) for line in told] == [("n1", ["cpu"]), ("n1", ["cpu"])]
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"
