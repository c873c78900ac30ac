"""How the answers of plugins are combined (scheduling/CFG section 1.3), with plugins made for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from rules.cycle.build import World, gang, gpu, node

from scheduling.config.model import PluginOption, SchedulerConfig
from scheduling.cycle import snapshot
from scheduling.cycle.job import Job, Task
from scheduling.cycle.memo import Memo
from scheduling.cycle.plugin import Plugin, Refused, Vote
from scheduling.cycle.session import Session


def plugin(name: str, **answers: Callable[..., Any]) -> type[Plugin]:
    return type(name, (Plugin,), {"name": name, **answers})


def session(*tiers: Sequence[type[Plugin]], off: dict[str, str] | None = None, world: World | None = None) -> Session:
    """A session with these plugins; ``off`` names a switch that is off, by plugin."""
    switched = off or {}
    config = SchedulerConfig(
        actions=(),
        tiers=tuple(
            tuple(
                PluginOption(item.name, switches={switched[item.name]: False} if item.name in switched else {})
                for item in tier
            )
            for tier in tiers
        ),
    )
    world = world or World(node(), gang("g", 2, gpu()))
    memo = Memo()
    made = Session(world.model, config, snapshot.take(world.model, config, memo), world.time_ms, memo)
    made.open({item.name: item for tier in tiers for item in tier})
    return made


def job(of: Session) -> Job:
    return next(iter(of.jobs.values()))


def says(value: Any) -> Callable[..., Any]:
    return lambda *_: value


YES, NO, ABSTAIN = says(Vote.YES), says(Vote.NO), says(Vote.ABSTAIN)


@pytest.mark.parametrize(
    ("tiers", "answer"),
    [
        ([], True),
        ([[ABSTAIN]], True),
        ([[YES, NO]], False),
        ([[NO, YES]], False),
        ([[YES], [NO]], True),
        ([[ABSTAIN], [NO]], False),
        ([[ABSTAIN], [YES], [NO]], True),
    ],
)
def test_votes(tiers: list[list[Callable[..., Vote]]], answer: bool) -> None:
    """enqueueable and pipelined: a no at once, a yes for the tier, nobody: yes"""
    made = [
        [plugin(f"p{i}{k}", enqueueable=vote, pipelined=vote) for k, vote in enumerate(tier)]
        for i, tier in enumerate(tiers)
    ]
    of = session(*made)
    assert of.enqueueable(job(of)) is answer
    assert of.pipelined(job(of)) is answer


def test_all_must_be_ready_and_one_overuses() -> None:
    """ready, allocatable, preemptive: all; overused: one"""
    of = session(
        [plugin("a", ready=says(True), overused=says(False), allocatable=says("")), plugin("b")],
        [plugin("c", ready=says(False), overused=says(True), allocatable=says("full"))],
    )
    assert of.ready(job(of)) is False
    assert of.overused(job(of).queue) is True
    assert of.allocatable(job(of).tasks[0]) == "full"


def test_a_switch_that_is_off_silences_one_answer() -> None:
    """CFG-2, CFG-3"""
    item = plugin("a", ready=says(False), overused=says(True))
    of = session([item], off={"a": "enableJobReady"})
    assert of.ready(job(of)) is True
    assert of.overused(job(of).queue) is True


def test_starving_by_the_first_tier_that_answers() -> None:
    """starving: all of that tier; nobody: no"""
    assert session([plugin("a")]).starving(job(session([plugin("a")]))) is False
    of = session([plugin("a")], [plugin("b", starving=says(True)), plugin("c", starving=says(False))])
    assert of.starving(job(of)) is False
    of = session([plugin("a", starving=says(True))], [plugin("c", starving=says(False))])
    assert of.starving(job(of)) is True


def test_the_first_error_is_the_reason_of_the_node() -> None:
    """predicates in tier order"""
    of = session([plugin("a", check=says(None))], [plugin("b", check=says(Refused("b"))), plugin("c", check=says(1))])
    found = of.check(job(of).tasks[0], of.views["a"])
    assert found == Refused("b")


def test_scores_are_summed() -> None:
    """node score: sum of all"""
    of = session([plugin("a", scores=says({"a": 5}))], [plugin("b", scores=says({"a": 7}))])
    assert of.scores(job(of).tasks[0], [of.views["a"]]) == {"a": 12}


def test_the_first_failure_makes_a_job_invalid_whatever_is_switched_off() -> None:
    """job valid: no switch"""
    of = session([plugin("a", valid=says("")), plugin("b", valid=says("no"))], off={"b": "enableJobReady"})
    assert of.invalid(job(of)) == "no"


def test_victims_are_those_that_a_tier_agrees_on() -> None:
    """inside a tier the intersection; the first tier with an answer decides; a veto is final (PG-11b)"""

    def names(*numbers: int) -> Callable[..., list[Task]]:
        return lambda self, _, tasks: [task for task in tasks if int(task.name[-1]) in numbers]

    def world() -> World:
        return World(node(), gang("g", 4, gpu(), age=1))

    of = session(
        [plugin("a", preemptable=names(0, 1)), plugin("b", preemptable=names(1, 2))],
        [plugin("c", preemptable=names(3))],
        world=world(),
    )
    tasks = job(of).tasks
    assert [task.name for task in of.preemptable(tasks[0], tasks)] == ["g-worker-1"]
    of = session([plugin("a", preemptable=names())], [plugin("c", preemptable=names(3))], world=world())
    tasks = job(of).tasks
    assert [task.name for task in of.preemptable(tasks[0], tasks)] == ["g-worker-3"]
    veto = plugin("v", spares=lambda self, _, task: task.name == "g-worker-3")
    of = session([plugin("a", preemptable=names(2, 3))], [veto], world=world())
    tasks = job(of).tasks
    assert [task.name for task in of.preemptable(tasks[0], tasks)] == ["g-worker-2"]
    counting = plugin("n", preemptable=lambda self, _, found: list(found)[:1], counts_down=True)
    of = session([plugin("a", preemptable=names(2, 3))], [counting], world=world())
    tasks = job(of).tasks
    assert [task.name for task in of.preemptable(tasks[0], tasks)] == ["g-worker-2"]
