"""Every file of the collections must hold on a bad day too: what it asserts does not depend on nothing going wrong.

To each file's settles a fault is added, and another settle where the fault needs one. A plain run gives each file one
fault, another one for each file in turn; ``GPULEDGER_BAD_DAYS=all`` plays every file with every fault.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from services.simulator.player import Player
from services.simulator.report import files_below
from services.simulator.scenario import Play, Step, read_plays

HERE = Path(__file__).parent
FILES = files_below([HERE / "field", HERE / "oracle"])
KINDS = ("Pod", "Node", "PodGroup", "Queue", "ConfigMap")
SETTLE = {"settle": True}


@dataclasses.dataclass(frozen=True)
class Day:
    """What is added before and after each settle of a file."""

    before: Callable[[Play], list[dict[str, Any]]] = lambda play: []
    after: tuple[dict[str, Any], ...] = ()


def bindings_fail(result: str) -> Day:
    """The first binding call for each pod fails."""

    def faults(play: Play) -> list[dict[str, Any]]:
        items = [item for document in play.documents if document.number for item in document.objects()]
        names = [
            f"{i['metadata'].get('namespace', 'default')}/{i['metadata']['name']}" for i in items if i["kind"] == "Pod"
        ]
        return [{"bindResult": {"pod": name, "result": result}} for name in dict.fromkeys(names)]

    return Day(faults)


def watches_break(code: int) -> Day:
    steps = tuple({"watchError": {"code": code, "kind": kind}} for kind in KINDS)
    return Day(lambda play: list(steps), (*steps, SETTLE))


DAYS = {
    "everything is restarted": Day(after=({"restart": "all"}, SETTLE)),
    "partitions move": Day(
        after=(
            *({"rebalance": {"who": who, "uncommitted": 7}} for who in ("watcher", "scheduler", "binder")), SETTLE,
        )
    ),
    "watches are too old": watches_break(410),
    "watches break": watches_break(500),
    "the log is cut": Day(after=({"truncateLog": {"keepLast": 2}}, SETTLE)),
    "the log is cut and everything restarted": Day(
        after=({"truncateLog": {"keepLast": 2}}, {"restart": "all"}, SETTLE)
    ),
    "another scheduler takes over, and the old one wakes": Day(
        after=({"pause": "scheduler"}, {"failover": "scheduler"}, SETTLE, {"resume": "scheduler"}, SETTLE)
    ),
    "no answer to bindings": bindings_fail("timeout"),
    "bindings meet a conflict": bindings_fail("conflict"),
    "bindings fail": bindings_fail("error"),
    "time passes": Day(after=({"advance": "7s"}, SETTLE)),
}  # fmt: skip


def steps_of(play: Play, day: Day) -> Iterator[Step]:
    for step in play.steps:
        whole = step.verb == "settle" and step.body is True
        for extra in day.before(play) if whole else ():
            yield from (Step(step.place, verb, body) for verb, body in extra.items())
        yield step
        for extra in day.after if whole else ():
            yield from (Step(step.place, verb, body) for verb, body in extra.items())


def cases() -> list[Any]:
    every = os.environ.get("GPULEDGER_BAD_DAYS") == "all"
    names = list(DAYS)
    pairs = [(path, names[index % len(names)]) for index, path in enumerate(FILES)]
    if every:
        pairs = [(path, name) for path in FILES for name in names]
    return [pytest.param(path, name, id=f"{path.stem}, {name}") for path, name in pairs]


@pytest.mark.parametrize(("path", "name"), cases())
def test_the_file_holds_although(path: Path, name: str) -> None:
    (play,) = read_plays([str(path)])
    play = dataclasses.replace(play, steps=tuple(steps_of(play, DAYS[name])))
    assert asyncio.run(Player(play, 0).run("table")).lines == []
