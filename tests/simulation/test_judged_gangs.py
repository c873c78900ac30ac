"""How the simulation judges a gang that lost a member between its decision and its first Binding."""

from __future__ import annotations

import pytest

from events.kinds import POD
from services.simulator.chaos.plan import Step, draw
from services.simulator.chaos.playing import Player

#: Decided on, a gang of two that needs both, and not bound.
DECIDED = [Step("gang", 7), *[Step(f"run {role}", 1) for role in ("controller", "watcher", "scheduler", "status")] * 8]


@pytest.mark.parametrize("told", [True, False])
def test_a_gang_is_torn_by_who_could_know_of_a_member_that_was_gone(told: bool) -> None:
    """The second member went before the first was bound; nobody had told of it when that was reported, or somebody."""
    player = Player(draw(2, 1).only(DECIDED))
    for step in DECIDED:
        player._step(step)
        player.judge.look()
    world, judge = player.world, player.judge
    world.inspect()
    state = world.inspector.state
    first, second = [command.bind for command in state.model.commands.values() if command.bind]
    world.store.remove(POD, second.namespace, second.name)
    player._step(Step("run binder", 1))
    judge.look()
    assert len(state.members_at_first) == 1
    if told:
        state.members_at_first = dict.fromkeys(state.members_at_first, frozenset({first.uid}))
    assert bool([*judge.torn_gangs()]) == told
