"""The API server restored to an older state, in the simulation: what it does, and how it is judged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from unittest import mock

import pytest

from adapters.cluster.port import ApiUnknown
from events.kinds import POD
from services.simulator.chaos.agreeing import told_otherwise
from services.simulator.chaos.apilink import ARRIVED, ApiLink
from services.simulator.chaos.driving import Task, at_once
from services.simulator.chaos.inspecting import Decision, decision_at
from services.simulator.chaos.mishaps import RESTORED, UNBOUND, UNDELETED
from services.simulator.chaos.plan import Plan, Step, draw
from services.simulator.chaos.playing import Player, play
from services.simulator.chaos.world import World

#: Enough rounds that whatever fits is bound.
RUN = [Step("run all", 1)] * 8


def plan(steps: Sequence[Step]) -> Plan:
    return draw(2, 1).only(steps)


def played(steps: Sequence[Step]) -> Player:
    """Play steps, without the end of a run."""
    player = Player(plan(steps))
    play_on(player, player.plan.steps)
    return player


def play_on(player: Player, steps: Sequence[Step]) -> None:
    for step in steps:
        player._step(step)
        player.judge.look()


def bound(world: World) -> set[str]:
    return {item["metadata"]["name"] for item in world.store.items(POD) if item["spec"].get("nodeName")}


def pods(count: int) -> list[Step]:
    return [Step("pod", number) for number in range(7, 7 + count)]


def test_bindings_and_deletions_since_the_backup_are_undone_and_bound_anew() -> None:
    before = played([*pods(4), *RUN])
    there = bound(before.world)
    assert there
    unbound = [*pods(4), Step("backup", 1), *RUN, Step("restore", 1)]
    undone = played(unbound)
    assert bound(undone.world) == set()
    assert undone.world.network.fired[UNBOUND] == len(there)
    assert undone.world.network.fired[RESTORED] == 1
    assert undone.judge.breaches == []
    result = play(plan([*unbound, *RUN]))
    assert result.failures == []
    assert result.bound == 2 * len(there), "judged when they became bound, in either history"

    gone = [Step("delete pod", number) for number in range(20)]
    back = played([*pods(4), *RUN, Step("backup", 1), *gone, *RUN, Step("restore", 1)])
    assert there <= bound(back.world)
    assert back.world.network.fired[UNDELETED] >= len(there)
    assert play(back.plan).failures == []


def test_a_restore_without_a_backup_is_nothing() -> None:
    assert played([*pods(2), *RUN, Step("restore", 1)]).world.network.fired[RESTORED] == 0


def test_what_was_under_way_at_a_restore_is_lost() -> None:
    world = World(plan([]))
    link = ApiLink(world.api, world.network, "watcher9", world.rng)
    world.back_up()
    world.network.later(3, ARRIVED, lambda: pytest.fail("arrived at a server that was not there any more"))
    world.network.arm("hold", "watcher9", "after list")
    asking = Task(link.list(POD))  # type: ignore[arg-type]
    assert not asking.drive()
    world.restore(world.backups[0])
    with pytest.raises(ApiUnknown, match="went away"):
        asking.drive()
    world.network.deliver(everything=True)


def test_a_pod_that_came_back_counts_once_the_log_has_told_of_it() -> None:
    """The same over-commitment is nobody's fault before, and a breach after."""
    player = played([*pods(4), *RUN])
    world, judge = player.world, player.judge
    world.inspect()
    decision = next(iter(world.inspector.state.decisions.values()))
    seen = next(seen for seen in judge._seen.values() if seen.pod.uid == decision.member.uid)
    assert seen in judge._held(decision, judge._on(seen.pod.node))
    judge._came_back.add(seen.pod.uid)
    assert seen not in judge._held(decision, judge._on(seen.pod.node))
    later = replace(decision, holding=frozenset({seen.pod.uid}))
    assert seen in judge._held(later, judge._on(seen.pod.node))


def test_a_pod_whose_end_was_undone_counts_once_the_log_has_told_that_it_runs_again() -> None:
    """A decision that knew of the end may give its cards away; one that knows of the restored pod may not."""
    player = played([*pods(4), *RUN, Step("backup", 1)])
    world, judge = player.world, player.judge
    world.inspect()
    decision = next(iter(world.inspector.state.decisions.values()))
    ended = decision.member

    def decided_now() -> Decision:
        world.inspect()
        return decision_at(
            decision.place, world.inspector.state.model, decision.group_uid, ended, decision.queue, decision.capability
        )

    def counts(now: Decision) -> bool:
        judge.look()
        return any(seen.pod.uid == ended.uid for seen in judge._held(now, judge._on(ended.node)))

    assert counts(decided_now())
    item = world.store.get(POD, ended.namespace, ended.name)
    assert item is not None
    world.store.write(POD, {**item, "status": {**item["status"], "phase": "Succeeded"}})
    play_on(player, RUN)
    knew_of_the_end = decided_now()
    assert not counts(knew_of_the_end)
    player.mishaps.play("restore", Random(1))
    assert not counts(knew_of_the_end)
    assert not counts(decided_now()), "nobody has told of the restore yet"
    play_on(player, RUN)
    assert counts(decided_now())
    assert judge.breaches == []


def test_the_judge_still_sees_a_binding_that_nobody_decided_after_a_restore() -> None:
    player = played([*pods(4), Step("backup", 1), *RUN, Step("restore", 1), *RUN])
    world, judge = player.world, player.judge
    holders = [item for item in world.store.items(POD) if item["spec"].get("nodeName")]
    victim = next(item for item in holders if "volcano.sh/vgpu-ids-new" in item["metadata"]["annotations"])
    meta = {**victim["metadata"], "name": "copy", "uid": "copy"}
    world.store.put(POD, {**victim, "metadata": meta})
    world.store.accept_binding("copy", victim["spec"]["nodeName"], existed=True)
    judge.look()
    assert any(text.startswith("5: pod lab/copy is bound") for text in judge.breaches)


def test_a_pod_that_is_decided_on_twice_is_a_breach() -> None:
    turns = [Step(f"run {role}", 1) for role in ("controller", "watcher", "scheduler")] * 6
    inspector = played([*pods(1), *turns]).world.inspector
    state = inspector.state
    at_once(inspector.catch_up())
    (first,) = state.model.commands.values()
    record = mock.Mock(id="the-second")
    state._check_single(record)
    assert state.wrong == []
    state.model.commands["second"] = replace(first, id="second")
    state._check_single(record)
    (said,) = state.wrong
    assert said.startswith("7: batch the-second: pod lab/")
    assert said.endswith("has 2 commands")


def test_who_ended_and_who_runs_must_be_on_the_log_at_rest() -> None:
    """What a restore brought back may be unknown for a while, and not for ever."""
    world = played([*pods(4), *RUN]).world
    world.inspect()
    assert [*told_otherwise(world)] == []
    item = next(item for item in world.store.items(POD) if item["spec"].get("nodeName"))
    world.store.write(POD, {**item, "status": {**item["status"], "phase": "Succeeded"}})
    (said,) = told_otherwise(world)
    node = item["spec"]["nodeName"]
    assert said.endswith(f"is live on {node} on the log, ended on {node} on the API server")
