"""Ten thousand pods of one job are ten thousand requests for it; one look answers those that only bring it in line."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from events.kinds import VOLCANO_JOB
from services.controller.jobs.policies import Request
from services.controller.jobs.reconcile import worth_a_look
from services.controller.objects import Ref
from services.controller.world import World

JOB = Ref(VOLCANO_JOB, "default", "j")
PENDING = Request("PodPending", "u-j", version=0, task="t")
FAILED = Request("PodFailed", "u-j", version=0, task="t", exit_code=1)


def world(**spec: Any) -> World:
    made = World()
    item = {
        "apiVersion": VOLCANO_JOB.api_version,
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default", "uid": "u-j"},
        "spec": {"tasks": [{"name": "t", "replicas": 3}], **spec},
        "status": {"state": {"phase": "Running"}},
    }
    made.put(VOLCANO_JOB, item)
    return made


def pods(count: int) -> list[Request]:
    return [replace(PENDING, pod=f"j-t-{index}", pod_uid=f"u-{index}") for index in range(count)]


def test_of_requests_that_only_sync_the_last_stays() -> None:
    waiting = pods(10_000)
    assert worth_a_look(world(), JOB, waiting, "volcano") == waiting[-1:]


def test_what_a_policy_answers_stays_in_its_place() -> None:
    """scheduling/J-14: the action comes after what was before it and before what came after it."""
    before, after = pods(3), pods(2)
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    found = worth_a_look(world(policies=policies), JOB, [*before, FAILED, *after], "volcano")
    assert found == [before[-1], FAILED, after[-1]]


def test_a_policy_with_a_time_limit_sees_every_pod() -> None:
    """scheduling/J-14: PodPending with a time-out counts for each pod by itself."""
    waiting = pods(3)
    policies = [{"event": "PodPending", "action": "RestartJob", "timeout": "10s"}]
    assert worth_a_look(world(policies=policies), JOB, waiting, "volcano") == waiting


def test_a_job_that_is_gone_keeps_its_requests() -> None:
    waiting = pods(2)
    assert worth_a_look(World(), JOB, waiting, "volcano") == waiting
