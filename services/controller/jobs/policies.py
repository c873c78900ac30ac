"""What happens to a job's pods, and what the job's policies make of it (scheduling/J-12, J-14).

A change of a pod, PodGroup or job becomes a ``Request``; ``decide`` finds the action for it: the task's policies go
before the job's, the first match wins, and without a match the job is only brought in line (``SyncJob``). A request
from an older version of the job, or from another job of that name, never does more than that.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from adapters.cluster.mirror import Change
from events import names
from events.canonical import Json
from events.kinds import POD, POD_GROUP, VOLCANO_JOB
from events.reading import (
    deleting,
    integer,
    items,
    mapping,
    name_of,
    namespace_of,
    phase_of,
    spec,
    status,
    text,
    uid_of,
    whole,
)
from services.controller.jobs.expand import JOB_NAME, JOB_VERSION, PARTITION
from services.controller.jobs.model import Policy, Task, VolcanoJob
from services.controller.jobs.roster import restarts_of
from services.controller.objects import Ref, controller_of, count_in, labels, notes_of
from services.controller.world import World

SYNC = "SyncJob"
TARGETED = ("RestartTask", "RestartPod", "RestartPartition")
ACTIONS = ("AbortJob", "RestartJob", *TARGETED, "TerminateJob", "CompleteJob", "ResumeJob")


@dataclass(frozen=True)
class Request:
    """Something happened: the event, where, and in which version of which job. ``action`` is set once it is decided."""

    event: str
    job_uid: str
    version: int | None = None
    task: str = ""
    pod: str = ""
    pod_uid: str = ""
    partition: str = ""
    exit_code: int = 0
    action: str = ""


def requests(world: World, change: Change, ours: Collection[str]) -> list[tuple[Ref, Request]]:
    """Return what a change asks of jobs. ``ours`` are the uids of pods that we deleted ourselves."""
    if change.kind == VOLCANO_JOB:
        return _of_job(change)
    owner = mapping(controller_of(change.object))
    if owner.get("kind") != VOLCANO_JOB.name or owner.get("apiVersion") != VOLCANO_JOB.api_version:
        return []
    ref = Ref(VOLCANO_JOB, namespace_of(change.object), text(owner.get("name")))
    uid = text(owner.get("uid"))
    if change.kind == POD_GROUP:
        return [(ref, Request("Unknown", uid))] if _became_unknown(change) else []
    if change.kind == POD:
        request = _of_pod(world, change, uid, ours)
        return [(ref, request)] if request is not None else []
    return []


def _of_job(change: Change) -> list[tuple[Ref, Request]]:
    old, new = change.old, change.new
    if old is None or new is None or spec(old) == spec(new):
        return []
    return [(Ref(VOLCANO_JOB, namespace_of(new), name_of(new)), Request("JobUpdated", uid_of(new)))]


def _became_unknown(change: Change) -> bool:
    was = text(status(change.old).get("phase")) if change.old is not None else ""
    return change.new is not None and was != "Unknown" and text(status(change.new).get("phase")) == "Unknown"


def _of_pod(world: World, change: Change, job_uid: str, ours: Collection[str]) -> Request | None:
    pod = change.object
    notes = notes_of(pod)
    request = Request(
        "OutOfSync",
        job_uid,
        version=count_in(notes.get(JOB_VERSION, "")),
        task=notes.get(names.TASK_SPEC, ""),
        pod=name_of(pod),
        pod_uid=uid_of(pod),
        partition=labels(pod).get(PARTITION, ""),
    )
    if change.new is None:
        return None if uid_of(pod) in ours else replace(request, event="PodEvicted")
    if deleting(pod) or JOB_NAME not in notes:
        return None
    return _of_phase(world, change, request)


def _of_phase(world: World, change: Change, request: Request) -> Request | None:
    pod = change.object
    now, was = phase_of(pod), phase_of(change.old) if change.old is not None else ""
    if now == "Failed" and was != "Failed":
        return replace(request, event="PodFailed", exit_code=_exit_code(pod))
    if now == "Succeeded" and was != "Succeeded":
        return replace(request, event="TaskCompleted") if _completed(world, pod, request) else None
    if now == "Pending" and was != "Pending":
        return replace(request, event="PodPending")
    if now in ("Pending", "Running") and restarts_of(pod) and _restarts_exhausted(world, pod, request):
        return replace(request, event="TaskFailed")
    return None


def _exit_code(pod: Json) -> int:
    """The exit code of the first container (J-14), 0 if it has none."""
    first = next(iter(items(status(pod).get("containerStatuses"))), None)
    return integer(mapping(mapping(mapping(first).get("state")).get("terminated")).get("exitCode"))


def _task_spec(world: World, request: Request) -> Json | None:
    tasks = items(spec(world.by_uid(request.job_uid)).get("tasks"))
    named = (text(task.get("name")) or f"default{index}" for index, task in enumerate(tasks))
    return next((task for task, name in zip(tasks, named, strict=True) if name == request.task), None)


def _completed(world: World, pod: Json, request: Request) -> bool:
    """Whether every replica of the pod's task has succeeded."""
    task = _task_spec(world, request)
    succeeded = world.roster(namespace_of(pod), request.job_uid).succeeded(request.task)
    return task is not None and succeeded >= integer(task.get("replicas"), 1)


def _restarts_exhausted(world: World, pod: Json, request: Request) -> bool:
    """Whether the containers of the task's live pods were restarted more often than the task's maxRetry."""
    task = _task_spec(world, request)
    if task is None:
        return False
    limit = whole(task.get("maxRetry")) or 3
    if limit < 0:
        return False
    return world.roster(namespace_of(pod), request.job_uid).restarts(request.task) > limit


@dataclass(frozen=True)
class Decision:
    """The action for a request, and how long it has to wait."""

    action: str
    timeout_ms: int = 0


def decide(job: VolcanoJob, request: Request | None) -> Decision:
    """Return the action that the job's policies name for a request (J-14)."""
    if request is None or request.job_uid != job.uid:
        return Decision(SYNC)
    if request.version is not None and request.version < job.version:
        return Decision(SYNC)
    if request.action:
        return Decision(request.action)
    task = job.task(request.task) if request.task else None
    for policy in (*_of_task(task), *job.policies):
        if _matches(policy, request):
            known = policy.action if policy.action in ACTIONS else SYNC
            return Decision(known, policy.timeout_ms if known != SYNC else 0)
    return Decision(SYNC)


def _of_task(task: Task | None) -> tuple[Policy, ...]:
    return task.policies if task is not None else ()


def _matches(policy: Policy, request: Request) -> bool:
    if policy.events and (request.event in policy.events or "*" in policy.events):
        # Waiting is not a failure: only a policy with a time limit looks at pods that are merely pending.
        return request.event != "PodPending" or policy.timeout_ms > 0
    return policy.exit_code is not None and policy.exit_code != 0 and policy.exit_code == request.exit_code


def still_holds(world: World, namespace: str, request: Request) -> bool:
    """Tell whether what a delayed request was about is still so (J-14)."""
    pod = world.get(POD, namespace, request.pod) if request.pod else None
    if request.event == "PodPending":
        return pod is not None and uid_of(pod) == request.pod_uid and phase_of(pod) == "Pending"
    if request.event == "PodFailed":
        return pod is not None and uid_of(pod) == request.pod_uid and phase_of(pod) == "Failed"
    if request.event == "PodEvicted":
        return pod is None or phase_of(pod) not in ("Running", "Succeeded")
    return True
