"""How the simulation judges a gang that lost a member between its decision and its first Binding."""

from __future__ import annotations

from dataclasses import replace

import pytest

from events.canonical import Json
from events.kinds import POD, POD_GROUP
from services.simulator.chaos.apilink import INVALID, TIMEOUT_LATE
from services.simulator.chaos.judge import Judge
from services.simulator.chaos.plan import Step, draw
from services.simulator.chaos.playing import Player
from services.simulator.chaos.world import World

#: Decided on, a gang of two that needs both, and not bound.
DECIDED = [Step("gang", 7), *[Step(f"run {role}", 1) for role in ("controller", "watcher", "scheduler", "status")] * 8]


def decided() -> Player:
    player = Player(draw(2, 1).only(DECIDED))
    for step in DECIDED:
        player._step(step)
        player.judge.look()
    return player


def half_bound() -> tuple[World, Judge, Json]:
    """Return a gang of which one was bound (its pod comes along) and the other one refused: it is torn."""
    player = decided()
    world, judge = player.world, player.judge
    world.network.arm(INVALID, "binder", "bind")
    player._step(Step("run binder", 1))
    judge.look()
    (bound,) = [item for item in world.store.items(POD) if item["spec"].get("nodeName")]
    assert [*judge.torn_gangs()]
    return world, judge, bound


def test_a_gang_that_lost_a_member_by_its_failing_is_not_torn() -> None:
    """The first was bound and failed at once, the second was refused: without the first there are too few (F-9)."""
    world, judge, bound = half_bound()
    world.store.write(POD, {**bound, "status": {"phase": "Failed"}})
    judge.look()
    seen = judge._seen[bound["metadata"]["uid"]]
    seen.pod = replace(seen.pod, phase="Running")  # a gang of which all that are bound have ended is never torn
    assert not [*judge.torn_gangs()]


def test_a_gang_that_is_being_undone_is_not_torn() -> None:
    """scheduling/F-2: its last member waits for a node that is away."""
    world, judge, bound = half_bound()
    world.store.write(POD, {**bound, "metadata": {**bound["metadata"], "deletionTimestamp": "2026-01-01T00:00:09Z"}})
    judge.look()
    assert not [*judge.torn_gangs()]


def test_a_gang_whose_podgroup_is_another_by_now_is_not_torn() -> None:
    """Its pods and a PodGroup that asks for more came under the old names; the log had told of the pods only."""
    world, judge, bound = half_bound()
    key = bound["metadata"]["annotations"]["scheduling.k8s.io/group-name"]
    group = world.store.get(POD_GROUP, bound["metadata"]["namespace"], key)
    assert group is not None
    world.store.remove(POD_GROUP, group["metadata"]["namespace"], key)
    world.store.put(POD_GROUP, {**group, "metadata": {**group["metadata"], "uid": "another"}})
    judge.look()
    assert not [*judge.torn_gangs()]


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("late", [True, False])
def test_a_gang_is_torn_by_a_binder_that_was_told_of_a_member_that_was_gone(told: bool, late: bool) -> None:
    """The second member went before the first was bound; the binder that asked for that had read it, or had not.

    ``late``: its request takes effect when it has been killed, everybody has read it and another one reports.
    """
    player = decided()
    world, judge = player.world, player.judge
    world.inspect()
    first, second = [command.bind for command in world.inspector.state.model.commands.values() if command.bind]
    world.store.remove(POD, second.namespace, second.name)
    if late:
        world.network.arm(TIMEOUT_LATE, "binder", "bind")
    player._step(Step("run binder", 1))
    if late:
        world.kill(*world.of("binder"))
        player._step(Step("run watcher", 1))
        world.network.deliver(everything=True)
        world.start("binder")
        for _ in range(5):
            player._step(Step("run all", 1))
    assert world.noted.known == {first.uid: {first.uid, second.uid}}
    if told:
        world.noted.known[first.uid] = frozenset({first.uid})
    judge.look()
    assert bool([*judge.torn_gangs()]) == told
