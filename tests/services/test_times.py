"""How long decisions, their stages, jobs and tasks take (scheduling section 8)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from support.service_world import START_MS, World

from adapters.cluster.port import ApiError
from adapters.log.follower import Follower
from events.codec import Message
from events.kinds import POD, POD_GROUP
from scheduling.cycle.stages import Stage
from scheduling.state.fold import Fold
from services.binder.binder import Binder
from services.controller.observing import ControllerMetrics
from services.runtime.metrics import Metrics
from services.runtime.model_metrics import ModelCollector
from services.runtime.stage_timer import StageTimer
from services.runtime.times import spread
from services.scheduler.scheduler import Scheduler

GUIDE = Path(__file__).parents[2] / "docs/guides/operating.md"
TASK = "volcano_task_scheduling_latency_milliseconds"
STAGE = "volcano_scheduling_stage_duration_milliseconds"
JOB = {"job_name": "one", "queue": "default", "job_namespace": "team-a"}


def metered(world: World | None = None) -> tuple[World, Metrics]:
    """A world whose scheduler and binder are counted."""
    world, metrics = world or World(), Metrics()
    world.scheduler = Scheduler(world.log, world.clock, "c1", world._name("s"), observer=metrics)
    follower: Follower[Fold] = Follower(world.log, Fold())
    world.binder = Binder(
        world.api, world.log, follower, world.clock, "c1", world._name("b"), observer=metrics.times
    )  # fmt: skip
    scheduler = world.scheduler
    metrics.registry.register(
        ModelCollector(lambda: scheduler.model, scheduler.times, lambda: scheduler.follower.state)
    )
    return world, metrics


def value(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    return registry.get_sample_value(name, labels)


# --- stages ---------------------------------------------------------------------------------------------------------


def ticking(*times_ns: int) -> Iterator[int]:
    return iter(times_ns)


def test_scoring_within_a_search_is_counted_once_and_not_for_the_search() -> None:
    """scheduling section 8: stages Predicate and Scoring."""
    told: list[tuple[Stage, str, int]] = []
    times = ticking(0, 10, 15, 20, 28, 100, 200, 230)
    timer = StageTimer(lambda *what: told.append(what), lambda: next(times))
    with timer.during("predicate"):
        for _ in range(2):
            with timer.during("scoring"):
                pass
    with timer.during("scoring"):
        pass
    assert told == [("predicate", "", 87), ("scoring", "", 13), ("scoring", "", 30)]


def test_a_stage_that_fails_has_ended() -> None:
    told: list[tuple[Stage, str, int]] = []
    times = ticking(0, 10, 15, 20)
    timer = StageTimer(lambda *what: told.append(what), lambda: next(times))
    with pytest.raises(RuntimeError), timer.during("action", "allocate"), timer.during("scoring"):
        raise RuntimeError
    assert told == [("scoring", "", 5), ("action", "allocate", 20)]


def test_buckets_grow_by_one_factor_from_the_first_to_the_last() -> None:
    found = spread(0.1, 500, 20)
    assert (found[0], found[-1], len(found)) == (0.1, 500.0, 20)
    steps = [later / earlier for earlier, later in pairwise(found)]
    assert max(steps) / min(steps) == pytest.approx(1, rel=0.02)


async def test_each_decision_times_its_session_plugins_and_actions() -> None:
    """scheduling section 8: one observation for each decision, and for each of its searches."""
    world, metrics = metered()
    world.node("n1")
    world.single("one")
    await world.settle()
    of = metrics.registry
    decisions = value(of, "volcano_e2e_scheduling_latency_milliseconds_count")
    assert decisions
    assert value(of, "volcano_open_session_duration_milliseconds_count") == decisions
    for action in ("enqueue", "allocate", "backfill"):
        assert value(of, "volcano_action_scheduling_latency_milliseconds_count", action=action) == decisions
    for plugin in ("gang", "drf", "predicates", "proportion", "nodeorder"):
        labels = {"plugin": plugin, "OnSession": "OnSessionOpen"}
        assert value(of, "volcano_plugin_scheduling_latency_milliseconds_count", **labels) == decisions
    for stage in ("Predicate", "Scoring", "PreBind", "Bind"):
        assert value(of, f"{STAGE}_count", stage=stage) == 1, stage


# --- by the log -----------------------------------------------------------------------------------------------------


async def test_a_task_is_followed_from_its_creation_to_its_binding() -> None:
    """scheduling section 8: Watched, Assumed, PreBound, Bound, each since the pod's creation."""
    world, metrics = metered()
    world.node("n1")
    await world.settle()
    world.single("one")
    world.clock.time_ms += 1_000
    await world.watcher.step()
    world.clock.time_ms += 1_000
    while not (await world.fold()).model.commands:
        await world.decide()
    world.clock.time_ms += 1_000
    await world.settle()
    found = {stage: value(metrics.registry, f"{TASK}_sum", stage=stage) for stage in
             ("Watched", "Assumed", "PreBound", "Bound")}  # fmt: skip
    assert found == {"Watched": 1_000, "Assumed": 2_000, "PreBound": 3_000, "Bound": 3_000}
    await world.settle()
    assert all(value(metrics.registry, f"{TASK}_count", stage=stage) == 1 for stage in found)


async def test_a_binding_that_is_asked_for_again_lasts_from_its_first_try() -> None:
    """scheduling section 8: PreBind and Bind, one observation for each Binding."""
    world, metrics = metered()
    world.node("n1")
    world.single("one")
    await world.decide()
    world.api.faults["bind"] = [ApiError(429, "TooManyRequests", "later")]
    await world.binder.step()
    world.clock.time_ms += 60_000
    await world.settle()
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"
    assert value(metrics.registry, f"{STAGE}_sum", stage="Bind") == 60_000
    assert value(metrics.registry, f"{STAGE}_count", stage="PreBind") == 1


async def test_a_jobs_times_stand_as_long_as_its_podgroup() -> None:
    """scheduling section 8, ME-2: creation to latest placement; all series are removed with the job."""
    world, metrics = metered()
    world.node("n1")
    world.single("one")
    world.clock.time_ms += 5_000
    await world.settle()
    placed_s = (START_MS + 5_000) / 1000
    of, name = metrics.registry, "volcano_e2e_job_scheduling"
    assert value(of, f"{name}_duration", **JOB) == 5_000
    assert value(of, f"{name}_start_time", **JOB) == value(of, f"{name}_last_time", **JOB) == placed_s
    assert value(of, f"{name}_latency_milliseconds_sum") == 5_000
    world.pod("more", "one")
    world.clock.time_ms += 4_000
    await world.settle()
    assert value(of, f"{name}_duration", **JOB) == 9_000
    assert value(of, f"{name}_start_time", **JOB) == placed_s
    assert value(of, f"{name}_last_time", **JOB) == placed_s + 4
    assert value(of, f"{name}_latency_milliseconds_count") == 2
    for pod in ("one", "more"):
        world.store.remove(POD, "team-a", pod)
    world.store.remove(POD_GROUP, "team-a", "one")
    await world.settle()
    for series in ("duration", "start_time", "last_time"):
        assert value(of, f"{name}_{series}", **JOB) is None


async def test_a_job_that_waits_has_a_start_and_no_placement() -> None:
    """scheduling section 8."""
    world, metrics = metered()
    world.node("n1")
    world.single("one", cpu="1000")
    await world.settle()
    of, name = metrics.registry, "volcano_e2e_job_scheduling"
    assert value(of, f"{name}_start_time", **JOB) == START_MS / 1000
    assert value(of, f"{name}_last_time", **JOB) is None
    assert value(of, f"{name}_duration", **JOB) is None
    assert value(of, f"{name}_latency_milliseconds_count") == 0


async def test_who_reads_an_old_log_knows_its_jobs_and_counts_nothing_again() -> None:
    """A scheduler that takes over has the gauges of the jobs; what happened before is in no histogram of its own."""
    world, _ = metered()
    world.node("n1")
    world.single("one")
    world.clock.time_ms += 5_000
    await world.settle()
    world, metrics = metered(world)
    await world.settle()
    assert value(metrics.registry, "volcano_e2e_job_scheduling_duration", **JOB) == 5_000
    assert value(metrics.registry, "volcano_e2e_job_scheduling_latency_milliseconds_count") == 0
    assert all(value(metrics.registry, f"{TASK}_count", stage=stage) is None for stage in ("Watched", "Assumed"))


async def test_times_are_never_negative() -> None:
    """scheduling/ME-4: a clock that was set back after the creation."""
    world, metrics = metered()
    world.node("n1")
    await world.settle()
    world.single("one")
    world.clock.time_ms -= 60_000
    await world.settle()
    for stage in ("Watched", "Assumed", "PreBound", "Bound"):
        assert value(metrics.registry, f"{TASK}_sum", stage=stage) == 0
    assert value(metrics.registry, "volcano_e2e_job_scheduling_duration", **JOB) == 0


# --- refusals -------------------------------------------------------------------------------------------------------


def elsewhere(world: World, name: str) -> None:
    """The same job once more, in a namespace of its own."""
    world.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-b"}, "spec": {}})
    for kind in (POD_GROUP, POD):
        item = world.get(kind, name)
        fields = {key: item[key] for key in ("apiVersion", "kind", "spec")}
        meta = {"namespace": "team-b", "name": name, "annotations": item["metadata"].get("annotations", {})}
        world.put({**fields, "metadata": meta})


async def test_refusals_of_a_job_are_counted_as_long_as_it_is_there() -> None:
    """scheduling section 8, ME-2: job_retry_counts, which the job's name alone tells apart."""
    world, metrics = metered()
    world.node("n1")
    world.single("one", cpu="1000")
    elsewhere(world, "one")
    await world.settle()
    of = metrics.registry
    assert value(of, "volcano_job_retry_counts", job_id="one") == 2
    assert value(of, "volcano_unschedule_task_count", job_id="one") == 2
    text = generate_latest(of).decode()
    for name in ("job_retry_counts", "unschedule_task_count"):
        assert text.count(f'volcano_{name}{{job_id="one"}}') == 1, "one label set has one sample"
    for namespace in ("team-a", "team-b"):
        world.store.remove(POD, namespace, "one")
        world.store.remove(POD_GROUP, namespace, "one")
    await world.settle()
    assert value(of, "volcano_job_retry_counts", job_id="one") is None
    assert value(of, "volcano_unschedule_task_count", job_id="one") is None


# --- the log --------------------------------------------------------------------------------------------------------


async def test_what_is_no_record_is_counted_and_holds_up_nobody() -> None:
    world, metrics = metered()
    world.node("n1")
    await world.settle()
    await world.log.append([Message((("ce_type", b"somebody.else.v1"),), b"{}"), Message((), b"\x00")])
    world.single("one")
    await world.settle()
    assert value(metrics.registry, "gpuledger_log_set_aside") == 2
    assert value(metrics.registry, "gpuledger_log_diverged") == 0
    assert [entry.node for entry in world.scheduler.model.pods.values()] == ["n1"]


# --- the guide ------------------------------------------------------------------------------------------------------


async def test_the_guide_lists_what_there_is_and_nothing_else() -> None:
    """scheduling section 8: every series is in docs/guides/operating.md, and what the guide lists is there."""
    world, metrics = metered()
    ControllerMetrics(metrics.registry)
    world.node("n1")
    world.single("one")
    await world.settle()
    there = {family.name + "_total" * (family.type == "counter") for family in metrics.registry.collect()}
    with_capacity = {f"volcano_queue_{name}_{unit}" for name in ("capacity", "real_capacity")
                     for unit in ("milli_cpu", "memory_bytes", "scalar_resources")}  # fmt: skip
    assert listed() == there | with_capacity


def listed() -> set[str]:
    """Return the names in the guide's section on metrics; in a table they stand without what its head begins with."""
    section = GUIDE.read_text().partition("\n## Metrics\n")[2].partition("\n## ")[0].partition("\nLeft out")[0]
    found: set[str] = set()
    prefix = ""
    for line in section.splitlines():
        cells = line.split("|")
        if len(cells) > 1 and (head := re.search(r"`(\w+)\.\.\.`", cells[1])):
            prefix = head[1]
        elif len(cells) > 1:
            found |= {prefix + name for text in re.findall(r"`([^`]+)`", cells[1]) for name in spelled_out(text)}
        else:
            found |= set(re.findall(r"`((?:volcano|gpuledger)_\w+\w)`", line))
    return found - {"volcano_"}


def spelled_out(text: str) -> list[str]:
    """Return the names that one with braces stands for."""
    parts = [part.split(",") for part in re.split(r"[{}]", text)]
    return ["".join(chosen) for chosen in product(*parts)]
