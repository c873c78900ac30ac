"""Whom allocate looks at (scheduling/AL-5): each of the others is left out for one reason alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from rules.cycle.build import MEMORY, World, bare, gpu, group, node, pod, queue

from scheduling.config.parse import default_config

#: Without backfill, which would place what asks for nothing.
CONFIG = replace(default_config(), actions=("enqueue", "allocate"))
OTHERS: dict[str, list[Any]] = {
    "it is Pending": [
        queue("small", capability={MEMORY: "500"}),
        group("out", queue="small", spec={"minResources": gpu(1000)}),
        pod("out", "out", gpu(100)),
    ],
    "it is not valid": [group("out", 2), pod("out", "out", gpu(100))],
    "its queue is not known": [group("out", queue="nowhere"), pod("out", "out", gpu(100))],
    "its tasks ask for nothing": [group("out"), pod("out", "out")],
    "its tasks are gated": [group("out"), pod("out", "out", gpu(100), spec={"schedulingGates": [{"name": "later"}]})],
    "it has no task that waits": [
        group("out"),
        pod("out", "out", {"cpu": "1"}, spec={"nodeName": "a"}, status={"phase": "Running"}),
    ],
}


def bound(world: World) -> list[str]:
    batch = world.step()
    return [member.name for command in batch.binds for member in command.members] if batch else []


@pytest.mark.parametrize("why", OTHERS)
def test_who_is_left_out(why: str) -> None:
    """scheduling/AL-5: and the job behind it is placed"""
    world = World(node(), queue(), OTHERS[why], bare("in", gpu(), age=30), config=CONFIG)
    assert bound(world) == ["in"], why


def test_who_takes_part() -> None:
    """scheduling/AL-5: the same job, with nothing against it"""
    world = World(
        node(), queue(), [group("out"), pod("out", "out", gpu(100))], bare("in", gpu(), age=30), config=CONFIG
    )
    assert bound(world) == ["out", "in"]
