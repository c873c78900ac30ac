"""Design sections 5 and 12: the log is compared with its cluster; what differs is named, and where the log says so."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from support.service_world import World

from adapters.cluster.port import Page
from adapters.log.drift import DriftReport, compare
from adapters.log.memory import MemoryLog
from adapters.log.writer import TermWriter
from events import names
from events.codec import from_message
from events.kinds import NODE, POD, Kind
from events.records import Batch, Opened, Record

REGISTER = "GPU-a,10,8192,NVIDIA-X,true,hami-core:"
LIMITS = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1000"}


async def settled() -> World:
    world = World()
    world.node("n1", register=REGISTER)
    world.node("n2")
    world.single("one", limits=LIMITS)
    await world.settle()
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"
    return world


async def drift(world: World) -> DriftReport:
    return await compare(world.log, world.api, looks=3, pause_s=0)


async def batch_position(world: World) -> int:
    """Return where the decision about the pod stands."""
    found = [
        position
        for position, message in await world.log.read(0, 100_000)
        if isinstance(record := from_message(message), Record) and isinstance(record.body, Batch) and record.body.binds
    ]
    assert len(found) == 1
    return found[0]


def change(world: World, kind: Kind, name: str, **fields: Any) -> None:
    """Change an object behind everybody's back; a dotted name goes down, None removes."""
    item = deepcopy(world.get(kind, name))
    del item["metadata"]["resourceVersion"]
    for path, value in fields.items():
        *above, last = path.split("__")
        place = item
        for part in above:
            place = place[part]
        place[last] = value
    world.store.replace(kind, item)


def annotate(world: World, name: str, key: str, value: str | None) -> None:
    item = deepcopy(world.get(POD, name))
    del item["metadata"]["resourceVersion"]
    notes = item["metadata"]["annotations"]
    if value is None:
        del notes[key]
    else:
        notes[key] = value
    world.store.replace(POD, item)


async def test_a_log_agrees_with_its_cluster() -> None:
    world = await settled()
    found = await drift(world)
    assert found.differences == ()
    assert (found.objects, found.placements, found.unchecked) == (6, 1, 0)


@pytest.mark.parametrize("seen", [True, False])
async def test_cards_that_differ_from_the_decision_are_named_invariant_5(seen: bool) -> None:
    """Whether the watcher has seen the change or not: the decision says otherwise."""
    world = await settled()
    notes = world.get(POD, "one")["metadata"]["annotations"]
    decided, decision = notes[names.VGPU_IDS], notes[names.DECISION]
    annotate(world, "one", names.VGPU_IDS, decided.replace("1000", "4000"))
    if seen:
        await world.watcher.step()
    found = await drift(world)
    (placed,) = [item for item in found.differences if item.record == decision]
    assert placed.position == await batch_position(world)
    assert placed.problem == (
        f'Pod team-a/one: {names.VGPU_IDS} is "{decided.replace("1000", "4000")}" on the API server, '
        f'decided was "{decided}"'
    )
    assert len(found.differences) == (1 if seen else 2)
    assert found.differences[0] == placed, "the first in the order of the log"


async def test_another_node_than_the_decided_one_is_named_invariant_5() -> None:
    world = await settled()
    change(world, POD, "one", spec__nodeName="n2")
    problems = [item.problem for item in (await drift(world)).differences]
    assert 'Pod team-a/one: spec.nodeName is "n2" on the API server, decided was "n1"' in problems
    assert 'Pod team-a/one: spec.nodeName is "n2" on the API server, "n1" on the log' in problems


async def test_a_form_that_the_log_has_not_is_named_with_the_record_that_says_otherwise() -> None:
    world = await settled()
    change(world, NODE, "n2", spec={"unschedulable": True})
    (found,) = (await drift(world)).differences
    assert found.problem == "Node n2: spec.unschedulable is true on the API server, nothing on the log"
    ((position, message),) = await world.log.read(found.position, 1)
    record = from_message(message)
    assert isinstance(record, Record)
    assert (position, record.id, record.subject) == (found.position, found.record, "Node/n2")


async def test_what_only_one_of_them_has_is_named() -> None:
    world = await settled()
    world.store.remove(NODE, "", "n2")
    world.node("n3")
    problems = [item.problem for item in (await drift(world)).differences]
    assert problems == [
        "Node n2 is on the log, the API server does not have it",
        "Node n3 is on the API server, the log does not know it",
    ]


@pytest.mark.parametrize(
    ("mark", "problem"),
    [
        (None, "Pod team-a/one was bound by this decision and bears it no more"),
        ("c1/i1/9.9/0", "Pod team-a/one bears a decision that the log does not have"),
        ("other/i9/1.1/0", "Pod team-a/one bears a decision that the log does not have"),
        ("nonsense", "Pod team-a/one bears a decision that the log does not have"),
    ],
)
async def test_a_mark_that_is_gone_or_forged_is_named_invariant_5(mark: str | None, problem: str) -> None:
    world = await settled()
    annotate(world, "one", names.DECISION, mark)
    await world.watcher.step()
    assert [item.problem for item in (await drift(world)).differences] == [problem]


async def test_a_binding_of_a_void_decision_is_named_invariant_5() -> None:
    """A batch of a superseded term has no effect; a pod that was bound by it is drift."""
    world = await settled()
    records = [record for record in await world.records() if isinstance(record.body, Batch) and record.body.binds]
    late = TermWriter(world.log, world.clock, "c1", "scheduler", "late")
    late.term, late.incarnation = 77, records[0].id.split("/")[1]
    await late.append([("", records[0].body)])
    annotate(world, "one", names.DECISION, f"c1/{late.incarnation}/77.{records[0].body.batch}/0")
    await world.watcher.step()
    (found,) = (await drift(world)).differences
    assert "bears a decision that the log does not have" in found.problem


async def test_what_the_watcher_tells_while_they_are_compared_is_no_drift() -> None:
    world = await settled()
    change(world, NODE, "n2", spec={"unschedulable": True})
    world.store.remove(POD, "team-a", "one")

    class Api:
        looks = 0

        async def list(self, kind: Kind, **more: Any) -> Page:
            if kind == NODE:
                self.looks += 1
                if self.looks == 2:
                    await world.watcher.step()
            return await world.api.list(kind, **more)

    api = Api()
    found = await compare(world.log, api, looks=10, pause_s=0)  # type: ignore[arg-type]  # one verb only
    assert found.differences == ()
    assert api.looks == 3, "it ends as soon as nothing is left"


async def test_a_decision_from_before_the_front_is_counted_and_not_judged() -> None:
    """scheduling/F-11b: the log began anew; what it was before nobody can say."""
    world = await settled()
    world.log.truncate(0)
    world.watcher = world.new_watcher()
    for _ in range(3):
        await world.watcher.step()
    found = await drift(world)
    assert found.differences == ()
    assert (found.placements, found.unchecked) == (0, 1)


async def test_pods_of_schedulers_that_the_watcher_does_not_observe_are_none_of_ours() -> None:
    """The scope is the one that the watcher's term names."""
    world = World()
    world.watcher._config = {"scheduler_names": ["gpuledger"]}
    world.node("n1")
    world.pod("theirs")
    await world.watcher.step()
    assert (await world.bodies(Opened))[0].config == {"scheduler_names": ["gpuledger"]}
    problems = [item.problem for item in (await drift(world)).differences]
    assert problems == ["Pod team-a/theirs is on the log, the API server does not have it"], "the default scope took it"


async def test_an_empty_log_knows_nothing() -> None:
    world = World()
    found = await compare(MemoryLog(), world.api, looks=1, pause_s=0)
    assert {item.problem for item in found.differences} == {
        "Queue default is on the API server, the log does not know it",
        "Namespace team-a is on the API server, the log does not know it",
    }
