"""Places of decisions that stand and are lost: node gone or full, card held by others (F-4, F-8, F-12a)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import structlog
from support.service_world import CARD, LIMITS, World, unknown

from events import names
from events.kinds import NODE, POD
from events.records import Outcome


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


@pytest.mark.parametrize("told", [True, False])
async def test_a_binding_that_was_undone_after_its_pod_had_ended_is_given_up_f4(told: bool) -> None:
    """Its place was free meanwhile: the command is refused before the pod is decided on anew.

    Not ``told``: the log does not know of the restore yet, but knows that the pod was bound.
    """
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
    for _ in range(3 if told else 0):
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


async def beside_who_came_back(world: World, members: int, put: Callable[[str, str], object]) -> list[Outcome]:
    """Return what becomes of ``new-*``: decided on for the place of ``old``, which a restore brings back then."""
    world.group("old")
    put("old", "old")
    await world.settle()
    world.group("new", members)
    for index in range(members):
        put(f"new-{index}", "new")
    await world.settle()
    saved = world.backup()
    world.store.remove(POD, "team-a", "old")
    await world.decide()
    world.restore(saved)
    for _ in range(3):
        await world.watcher.step()
    await world.binder.step()
    return [outcome for outcome in await world.bodies(Outcome) if outcome.name != "old"]


async def all_are_refused_and_bound_once_it_is_gone(world: World, outcomes: list[Outcome], why: str) -> None:
    """Nobody of a gang is bound if one has no room any more."""
    pods = [outcome.name for outcome in outcomes]
    assert [outcome.result for outcome in outcomes] == ["refused"] * len(pods)
    assert any(outcome.message.startswith(why) for outcome in outcomes)
    assert not any(world.get(POD, name)["spec"].get("nodeName") for name in pods)
    world.store.remove(POD, "team-a", "old")
    await world.settle()
    assert all(world.get(POD, name)["spec"].get("nodeName") for name in pods)


@pytest.mark.parametrize("members", [1, 2])
async def test_a_card_that_a_restored_pod_holds_again_is_refused_f4(members: int) -> None:
    world = World()
    world.node("n1", register=CARD.replace(",10,", ",1,"))
    world.node("n2", register=CARD.replace("GPU-1,10,", "GPU-2,1,") if members > 1 else "")
    outcomes = await beside_who_came_back(world, members, lambda name, of: world.pod(name, of, limits=LIMITS))
    assert len(outcomes) == members
    await all_are_refused_and_bound_once_it_is_gone(world, outcomes, "node n1 has no room left on GPU-1")


@pytest.mark.parametrize("what", ["cpu", "memory", "pods"])
@pytest.mark.parametrize("members", [1, 2])
async def test_a_node_that_a_restored_pod_fills_again_is_refused_f4(what: str, members: int) -> None:
    """scheduling/AL-3, AL-20, R-5: what a kubelet would not take, and the scheduler would not place there now."""
    world = World()
    for index in range(members):
        put_small_node(world, what, f"n{index + 1}")
    outcomes = await beside_who_came_back(world, members, lambda name, of: put_filling_pod(world, what, name, of))
    assert len(outcomes) == members
    full = world.get(POD, "old")["spec"]["nodeName"]
    await all_are_refused_and_bound_once_it_is_gone(world, outcomes, f"node {full} has no room left in {what}")


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
    world.configure(text)
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
    world.configure(text)
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
