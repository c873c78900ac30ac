"""A binder that is held at any of its requests, while its successor gives the command up, binds nothing afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from events.kinds import NODE, POD
from services.simulator.chaos.driving import hold
from services.simulator.chaos.plan import Step, draw
from services.simulator.chaos.playing import Player

#: One pod that is decided on and not bound.
DECIDED = [Step("pod", 8), *[Step(f"run {role}", 1) for role in ("controller", "watcher", "scheduler")] * 8]
#: From the first reading of the log to the Binding's second try.
REQUESTS = 10


@pytest.mark.parametrize("number", range(REQUESTS))
def test_whoever_wakes_late_binds_nothing_that_was_given_up(number: int) -> None:
    """A conflict makes it read the pod's version anew: the fence has moved that, and the log says so (F-2)."""
    drawn = draw(2, 1)
    player = Player(replace(drawn, setting=replace(drawn.setting, lanes=1)).only(DECIDED))
    for step in DECIDED:
        player._step(step)
        player.judge.look()
    world = player.world
    world.inspect()
    (command,) = world.inspector.state.model.commands.values()
    assert command.bind is not None
    pod = command.bind.namespace, command.bind.name
    item = world.store.get(POD, *pod)
    assert item is not None
    # Something of no matter to the decision: its Binding meets a conflict, and is made again.
    world.store.write(POD, {**item, "status": {**item["status"], "hostIP": "10.0.0.1"}})
    (sleeper,) = world.of("binder")
    passed = 0
    point = world.network.point

    async def counted(who: str, place: str) -> None:
        nonlocal passed
        await point(who, place)
        if who == sleeper.name and place.startswith("before "):
            passed += 1
            if passed == number + 1:
                await hold()

    world.network.point = counted  # type: ignore[method-assign]
    world.run(sleeper)
    assert sleeper.task is not None, "it is held"
    node = world.store.get(NODE, "", command.bind.node)
    assert node is not None
    world.store.write(NODE, {**node, "spec": {"unschedulable": True}})  # its successor may not bind there any more
    processes = [world.start("binder")] * 4 + [sleeper] * 4
    for process in processes:
        world.run(process)
        player.judge.look()
    world.inspect()
    found = world.store.get(POD, *pod)
    assert found is not None
    assert world.inspector.state.outcomes == {"bind refused": 1}
    assert not found["spec"].get("nodeName")
    assert player.judge.breaches == []
