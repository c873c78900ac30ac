"""What the simulation finds in a decision itself, whatever becomes of it: places, times, gangs, victims.

And how the log's time moves, what each pod holds beside what it asks for, and how a card is cut.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest

from events import names
from events.kinds import POD, QUEUE
from events.records import Batch, BindCommand, EvictCommand, Member, Record, Ticked
from scheduling.state.fold import JUMP_MS
from services.binder.binder import Binder
from services.simulator.chaos import decided
from services.simulator.chaos.driving import at_once
from services.simulator.chaos.inspecting import Inspector
from services.simulator.chaos.plan import Step, draw
from services.simulator.chaos.playing import Player

PODS = [Step("pod", number) for number in range(7, 11)]
DECIDE = [Step(f"run {role}", 1) for role in ("controller", "watcher", "scheduler")] * 8


def played(*steps: Step) -> Player:
    player = Player(draw(2, 1).only(steps))
    for step in steps:
        player._step(step)
        player.judge.look()
    player.world.inspect()
    return player


def onlooker(*steps: Step) -> Inspector:
    """Return who has read what was decided on a small cluster, none of it bound."""
    return played(*steps, *DECIDE).world.inspector.state


def said_of(
    state: Inspector, times: dict[str, int] | None = None, *, evictions: tuple[EvictCommand, ...] = (),
    came_between: bool = False,
) -> list[decided.Wrong]:  # fmt: skip
    """Return what is said of a batch that places all that is placed, as if it were the last record."""
    groups: dict[str, list[Member]] = {}
    placed = [entry.placement for entry in state.model.pods.values() if entry.placement]
    for member in sorted(placed, key=lambda member: member.vgpu_time):
        groups.setdefault(state.model.pods[member.uid].pod.group_key, []).append(member)
    binds = [BindCommand.model_construct(group=group, members=members) for group, members in groups.items()]
    place = state.sequence - 1
    batch = Batch.model_construct(base=place - came_between, binds=binds, evictions=list(evictions))
    return [*decided.wrong(state.model, batch, place, {} if times is None else times)]


@pytest.mark.parametrize(("what", "said"), [("cordoned", "is cordoned"), ("ill", "or ill"), ("lost", "or ill")])
def test_nobody_is_placed_where_nobody_may_be(what: str, said: str) -> None:
    """devices/F-2: a card that is ill takes nobody, and a node that is cordoned neither."""
    state = onlooker(*PODS)
    assert said_of(state) == []
    for name, view in state.model.nodes.items():
        assert view.node is not None
        text = view.node.annotations[names.NODE_REGISTER]
        changed = {
            "cordoned": replace(view.node, unschedulable=True),
            "ill": replace(view.node, annotations={names.NODE_REGISTER: text.replace(",true,", ",false,")}),
            "lost": replace(view.node, annotations={names.NODE_REGISTER: ""}),
        }[what]
        state.model.nodes[name] = replace(view, node=changed)
    found = said_of(state)
    assert found
    assert all(number == 1 and said in text for number, text in found)


def test_the_times_of_pods_on_a_node_rise() -> None:
    """devices/A-8."""
    state, times = onlooker(*PODS), dict[str, int]()
    assert said_of(state, times) == []
    found = said_of(state, times)
    assert found
    assert all("has no later time than another pod" in text for _, text in found)


def test_a_gang_is_decided_on_with_enough_of_it() -> None:
    state = onlooker(Step("gang", 7))
    assert said_of(state) == []
    (entry,) = state.model.groups.values()
    entry.group = replace(entry.group, min_member=9)
    ((number, said),) = said_of(state)
    assert number == 3
    assert " of 9 members of lab/g" in said
    assert said.endswith("are decided to be bound")
    assert said_of(state, came_between=True) == []


@pytest.mark.parametrize(
    ("mine", "theirs", "minimum", "said"),
    [
        ("low", "high", 0, []),
        ("low", "low", 0, []),
        ("high", "low", 0, ["makes way for"]),
        ("low", "high", 2, ["left"]),
    ],
)
def test_nobody_makes_way_for_a_lower_one_nor_from_a_gang_that_needs_it(
    mine: str, theirs: str, minimum: int, said: list[str]
) -> None:
    """scheduling/PG-11a, PG-11b."""
    state = onlooker(*PODS)
    victim, other = list(state.model.pods.values())[:2]
    for entry, priority in ((victim, mine), (other, theirs)):
        group = state.model.groups[entry.pod.group_key]
        group.group = replace(group.group, priority_class=priority)
        entry.placement = None
    gang = state.model.groups[victim.pod.group_key]
    gang.group = replace(gang.group, min_member=minimum)
    pod, of = victim.pod, other.pod.group_key
    victim.evicting = EvictCommand(
        n=0, namespace=pod.namespace, name=pod.name, uid=pod.uid, reason="preempt", for_group=of
    )
    found = [text for number, text in said_of(state, evictions=(victim.evicting,)) if number == 3]
    assert len(found) == len(said)
    assert all(word in text for word, text in zip(said, found, strict=True))


@pytest.mark.parametrize(
    ("times", "now", "said"),
    [
        ((5,), 5, ""),
        ((5,), -1, "took the log's time back"),
        ((JUMP_MS + 1, JUMP_MS + 1), JUMP_MS + 1, ""),
        ((JUMP_MS + 1,), JUMP_MS + 1, "alone moved"),
        ((JUMP_MS + 1, 5, JUMP_MS + 9), JUMP_MS + 9, "alone moved"),
    ],
)
def test_the_logs_time_moves_as_two_records_say(times: tuple[int, ...], now: int, said: str) -> None:
    """Never backwards, and far ahead only if two records in a row say so; the last record here moves it to ``now``."""
    state = Inspector()
    begin = state.model.time_ms = 1_000_000
    for number, time_ms in enumerate(times):
        before, last = state.model.time_ms, number == len(times) - 1
        state.model.time_ms = begin + now if last else before + (time_ms if time_ms < JUMP_MS else 0)
        record = Record(str(number), "scheduler", 1, number, "", 0, Ticked(time_ms=begin + time_ms))
        state._check_time(record, "applied", before)
    assert len(state.wrong) == bool(said)
    assert all(said in text for text in state.wrong)


def test_a_pod_that_has_another_amount_than_it_asks_for_is_a_breach() -> None:
    judge = played(*PODS, *[Step("run all", 1)] * 8).judge
    seen = next(seen for seen in judge._seen.values() if seen.shares and seen.shares[0].memory > 1)
    assert [*judge._asked(seen)] == []
    whole = seen.shares
    seen.shares = tuple(replace(share, memory=share.memory // 2) for share in whole)
    assert all("asks for memory" in text for text in judge._asked(seen))
    assert len([*judge._asked(seen)]) == len(whole)
    seen.shares = (*whole, whole[0])
    (said,) = judge._asked(seen)
    assert "cards and has" in said


def test_a_card_that_is_cut_in_two_ways_is_a_breach() -> None:
    """devices/F-17."""
    judge = played(*PODS, *[Step("run all", 1)] * 8).judge
    fresh, other = [seen for seen in judge._seen.values() if seen.shares][:2]
    decision = next(
        found for found in judge.world.inspector.state.decisions.values() if found.member.uid == fresh.pod.uid
    )
    uuid = fresh.shares[0].uuid
    other.pod = replace(other.pod, node=fresh.pod.node)
    for cut, wrong in (("[group1-1]", False), ("[group2-1]", True)):
        fresh.shares = tuple(replace(share, uuid=uuid, suffix="[group1-0]") for share in fresh.shares[:1])
        other.shares = tuple(replace(share, uuid=uuid, suffix=cut) for share in other.shares[:1])
        assert any("cut in two ways" in text for text in judge._devices(fresh, decision)) == wrong


@pytest.mark.parametrize("named", [True, False])
def test_a_binder_deletes_nobody_but_whom_an_eviction_names(named: bool) -> None:
    """scheduling/F-7."""
    player = played(*PODS)
    world = player.world
    meta = world.store.items(POD)[0]["metadata"]
    if named:
        world.inspector.state.evicted.add(meta["uid"])
    (binder,) = world.of("binder")
    world.network.calm = True
    at_once(cast(Binder, binder.instance)._evictions._api.delete(POD, meta["namespace"], meta["name"]))
    player.judge.look()
    assert any("no eviction that stands names it" in text for text in player.judge.breaches) != named


def test_a_decision_is_held_to_the_capability_that_it_knew() -> None:
    """scheduling/F-12 voids nothing for a queue: what it may have may change before the decision is on the log."""
    player = played(*PODS, *DECIDE)
    world, known = player.world, player.world.inspector.state
    (queue,) = [item for item in world.store.items(QUEUE) if "capability" in item["spec"]]
    name, before, base = queue["metadata"]["name"], queue["spec"]["capability"], known.sequence
    world.store.write(QUEUE, {**queue, "spec": {**queue["spec"], "capability": {"volcano.sh/vgpu-number": "1"}}})
    player._step(Step("run watcher", 1))
    world.inspect()
    assert known.model.queues[name].capability != before
    assert (known._limit(name, base), known._limit(name, known.sequence)) == (before, {"volcano.sh/vgpu-number": "1"})
