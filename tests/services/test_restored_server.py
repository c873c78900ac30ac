"""An API server that was restored to an older state (design section 3; scheduling/F-4, F-4a, F-11, F-11a).

Pods that were bound since are unbound or gone, deleted ones are back, versions go back. Versions and deletions bind
within one term only, so the watcher opens another one; at rest the log says what the server says, nothing is held that
is not there, and every pod is bound once by what counts.
"""

from __future__ import annotations

import pytest
from support.service_world import World

from adapters.cluster.port import ApiError
from events.codec import Message
from events.kinds import NODE, POD, POD_GROUP, QUEUE
from events.records import Observed, Opened, Outcome
from services.cluster.direct import DirectApi
from services.cluster.store import Backup
from services.watcher.watcher import CONFIRM_MS

REGISTER = "GPU-a,10,8192,NVIDIA-X,true,hami-core:"
HALF = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "4096"}


async def begun() -> World:
    """A node with one card of which one pod has a half."""
    world = World()
    world.node("n1", register=REGISTER)
    world.single("first", limits=HALF)
    await world.settle()
    return world


async def agrees(world: World) -> None:
    """The log says what the server says; what is held is what its pods hold, and all of them are bound."""
    fold = await world.fold()
    assert fold.ready
    there = {item["metadata"]["uid"]: item["spec"].get("nodeName", "") for item in world.store.items(POD)}
    assert {uid: entry.pod.node for uid, entry in fold.model.pods.items()} == there
    assert all(there.values())
    assert not fold.model.commands
    assert [card.used_memory for card in fold.model.nodes["n1"].devices.cards] == [4096 * len(there)]
    for entry in fold.model.pods.values():
        notes = world.get(POD, entry.pod.name)["metadata"]["annotations"]
        assert notes["volcano.sh/vgpu-ids-new"] == entry.pod.annotations["volcano.sh/vgpu-ids-new"]


def restore_beyond(world: World, saved: Backup) -> None:
    """The older state is back, and has passed the versions that were seen before anybody looks."""
    seen = world.store.version
    world.restore(saved)
    while world.store.version <= seen:
        world.node("n9")


async def watcher_terms(world: World) -> int:
    return sum(body.role == "watcher" for body in await world.bodies(Opened))


async def test_what_was_bound_since_is_bound_again_in_a_new_term_f4a() -> None:
    world = await begun()
    world.single("second", limits=HALF)
    await world.decide()
    saved, terms = world.backup(), await watcher_terms(world)
    await world.settle()
    assert world.get(POD, "second")["spec"]["nodeName"] == "n1"
    world.restore(saved)
    assert not world.get(POD, "second")["spec"].get("nodeName")
    await world.settle()
    await agrees(world)
    assert await watcher_terms(world) == terms + 1
    bound = [body.command for body in await world.bodies(Outcome) if body.name == "second" and body.result == "applied"]
    assert len(set(bound)) == 2, "once in each history, by a decision of its own"


async def test_what_was_made_since_is_gone_and_holds_nothing_f11a() -> None:
    world = await begun()
    saved = world.backup()
    world.single("second", limits=HALF)
    await world.settle()
    world.restore(saved)
    await world.settle()
    await agrees(world)
    assert "team-a/second" not in (await world.fold()).model.groups


async def test_what_was_deleted_since_lives_again_f4a() -> None:
    world = await begun()
    saved = world.backup()
    world.store.remove(POD, "team-a", "first")
    world.store.remove(POD_GROUP, "team-a", "first")
    world.single("other", limits=HALF)
    await world.settle()
    world.restore(saved)
    await world.settle()
    await agrees(world)
    assert [entry.pod.name for entry in (await world.fold()).model.pods.values()] == ["first"]


async def test_what_the_binder_found_gone_and_is_back_as_the_log_has_it_is_bound_f4() -> None:
    """Nobody had told that it was deleted, and nobody can tell that it is back: it is as it was (seed 80000170)."""
    world = await begun()
    world.single("second", limits=HALF)
    await world.decide()
    saved = world.backup()
    world.store.remove(POD, "team-a", "second")
    await world.binder.step()
    assert (await world.bodies(Outcome))[-1].result == "gone"
    world.restore(saved)
    await world.settle()
    await agrees(world)
    assert world.get(POD, "second")["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize("why", ["appended in vain", "listed anew"])
async def test_an_end_is_remembered_when_everything_is_listed_anew_f4a(why: str) -> None:
    """When the object is back, the list has to say so against the end that its own term has told (scheduling/F-11a).

    An end that was appended in vain comes onto the log by the next list; one that counts stays when something
    unreadable makes the watcher list anew.
    """
    world = await begun()
    saved, terms = world.backup(), await watcher_terms(world)
    world.store.remove(POD, "team-a", "first")
    if why == "appended in vain":
        world.log.faults["watcher"] = ["refused"]
    await world.watcher.step()
    if why == "listed anew":
        await world.log.append([Message((("ce_type", b"nonsense"),), b"\xff\xfe")])
    await world.watcher.step()
    assert not (await world.fold()).model.pods
    restore_beyond(world, saved)
    await world.settle()
    await agrees(world)
    assert world.get(POD, "first")
    refused = why == "appended in vain"  # after that another term begins
    assert await watcher_terms(world) == terms + refused, "nobody saw that versions went back"


async def test_what_lives_again_is_told_though_the_list_that_said_so_was_refused_f4a() -> None:
    """The end was told in the same term, and versions had passed what was seen (seed 400003989)."""
    world = await begun()
    saved = world.backup()
    world.store.remove(POD, "team-a", "first")
    await world.watcher.step()
    restore_beyond(world, saved)
    world.log.faults["watcher"] = ["refused"]
    await world.settle()
    assert world.log.faults["watcher"] == []
    await agrees(world)
    assert [entry.pod.name for entry in (await world.fold()).model.pods.values()] == ["first"]


async def test_a_restore_is_noticed_when_something_unreadable_makes_the_watcher_list_anew_f11a() -> None:
    """What was seen in the term that goes on is not forgotten for that."""
    world = await begun()
    saved, terms = world.backup(), await watcher_terms(world)
    world.node("n1", cpu="8", register=REGISTER)
    await world.watcher.step()
    restore_beyond(world, saved)
    await world.log.append([Message((("ce_type", b"nonsense"),), b"\xff\xfe")])
    await world.settle()
    await agrees(world)
    assert await watcher_terms(world) == terms + 1


async def test_versions_that_were_passed_before_anybody_looked_are_found_too_f11a() -> None:
    """The restored server has gone on beyond what was seen: only a list tells."""
    world = await begun()
    saved = world.backup()
    world.single("second", limits=HALF)
    await world.settle()
    seen = world.store.version
    world.restore(saved)
    world.single("third", limits=HALF)
    while world.store.version <= seen:
        world.node("n9")
    await world.settle()
    await agrees(world)
    assert {entry.pod.name for entry in (await world.fold()).model.pods.values()} == {"first", "third"}


async def test_another_form_under_the_same_version_counts_f4a() -> None:
    world = await begun()
    saved = world.backup()
    world.node("n1", cpu="8", register=REGISTER)
    await world.watcher.step()
    version = world.get(NODE, "n1")["metadata"]["resourceVersion"]
    world.restore(saved)
    world.node("n1", cpu="16", register=REGISTER)
    assert world.get(NODE, "n1")["metadata"]["resourceVersion"] == version
    await world.watcher.step()
    assert (await world.bodies(Observed))[-1].listed
    node = (await world.fold()).model.nodes["n1"].node
    assert node is not None
    assert node.allocatable["cpu"] == "16"


async def test_a_report_that_comes_after_the_restored_list_frees_its_place_after_a_while_f4() -> None:
    """A binder that stood still between Binding and report tells of a history that is no more."""
    world = await begun()
    world.single("second", limits=HALF)
    await world.decide()
    saved = world.backup()
    await world.binder._lead()
    world.log.faults["binder"] = ["refused"]
    await world.binder.step()
    assert world.get(POD, "second")["spec"]["nodeName"] == "n1"
    version = world.get(POD, "second")["metadata"]["resourceVersion"]
    world.restore(saved)
    for _ in range(3):
        await world.watcher.step()
    (command,) = (await world.fold()).model.commands.values()
    assert command.bind is not None
    await world.binder._writer.append(
        [("Pod/team-a/second", Outcome(command=command.id, verb="bind", namespace="team-a", name="second",
                                       uid=command.bind.uid, result="applied", node="n1", version=f"{version}0",
                                       time_ms=world.clock.time_ms))]
    )  # fmt: skip
    for _ in range(3):
        world.clock.time_ms += CONFIRM_MS
        await world.settle()
    await agrees(world)


@pytest.mark.parametrize("passed", [False, True])
@pytest.mark.parametrize("kind", [POD_GROUP, QUEUE])
async def test_status_that_went_back_is_written_again(kind: object, passed: bool) -> None:
    """PG-2, Q-23: status is complete at rest, also where it was lost.

    ``passed``: the restored server has gone on beyond what was seen; only a node's version tells (seed 200000523).
    """
    world = await begun()
    saved = world.backup()
    for item_kind, item in saved.items:
        if item_kind == kind:
            item["status"] = {} if kind == QUEUE else {"phase": "Pending"}
    before = [item.get("status") for item in world.store.items(POD_GROUP) + world.store.items(QUEUE)]
    world.node("n1", register=REGISTER, labels={"touched": "1"})
    await world.settle()
    seen = world.store.version
    world.restore(saved)
    while passed and world.store.version <= seen:
        world.node("n9")
    await world.settle()
    assert [item.get("status") for item in world.store.items(POD_GROUP) + world.store.items(QUEUE)] == before


async def test_a_status_that_went_back_was_there() -> None:
    """The test above is no empty one."""
    world = await begun()
    assert world.get(POD_GROUP, "first")["status"]["phase"] == "Running"
    with pytest.raises(ApiError):
        await DirectApi(world.embedded).get(POD_GROUP, "team-a", "nobody")
