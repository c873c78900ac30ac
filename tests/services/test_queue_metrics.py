"""Series of queues and jobs (scheduling section 8)."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest
from test_runtime import metered_world

from events.kinds import POD, QUEUE
from services.runtime.metrics import Metrics

MEMORY = 'resource="volcano.sh/vgpu-memory"'


def shown(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()


async def test_what_a_queue_has_asks_and_may_have() -> None:
    """scheduling/ME-1: capacity and real capacity come from the capacity plugin only."""
    _, metrics = await metered_world()
    text = shown(metrics)
    assert f'volcano_queue_allocated_scalar_resources{{queue_name="default",{MEMORY}}} 1e+06' in text
    for name in ("request", "deserved"):
        assert f'volcano_queue_{name}_milli_cpu{{queue_name="default"}}' in text
    assert 'volcano_queue_share{queue_name="default"}' in text
    assert 'volcano_queue_overused{queue_name="default"} 0.0' in text
    assert 'volcano_job_share{job_id="one",job_ns="team-a"}' in text
    assert "volcano_queue_capacity" not in text
    assert "volcano_queue_real_capacity" not in text


async def test_a_scalar_that_disappears_is_zero() -> None:
    """scheduling/ME-2, ME-3: not left at its old value."""
    world, metrics = await metered_world()
    world.store.remove(POD, "team-a", "one")
    await world.settle()
    assert f'volcano_queue_allocated_scalar_resources{{queue_name="default",{MEMORY}}} 0.0' in shown(metrics)


async def test_a_queue_without_podgroups_has_zeros() -> None:
    """scheduling/ME-3."""
    world, metrics = await metered_world()
    world.store.put(QUEUE, {"metadata": {"name": "idle"}, "spec": {"weight": 1}, "status": {"state": "Open"}})
    await world.settle()
    text = shown(metrics)
    for name in ("allocated", "request", "inqueue"):
        assert f'volcano_queue_{name}_milli_cpu{{queue_name="idle"}} 0.0' in text


async def test_what_waits_is_counted_by_queue_and_cause() -> None:
    """scheduling/POD-1, Q-24: pods and PodGroups; who is placed is counted no more."""
    world, metrics = await metered_world()
    for name in ("pods", "podgroups"):
        assert f'gpuledger_waiting_{name}{{queue="default",reason="queue-limit"}} 1.0' in shown(metrics)
    world.store.remove(POD, "team-a", "waits")
    await world.settle()
    assert 'queue="default",reason=' not in shown(metrics)


@pytest.mark.parametrize("elapsed_ms", [-5, 0])
def test_durations_are_never_negative(elapsed_ms: int) -> None:
    """scheduling/ME-4."""
    metrics = Metrics()
    metrics.decided(None, elapsed_ms)
    assert "volcano_e2e_scheduling_latency_milliseconds_sum 0.0" in shown(metrics)
