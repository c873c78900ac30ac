"""The phases of a VolcanoJob as one table (scheduling/J-10 to J-13): what an action does in a phase, and what follows.

Pending, Running            actions kill and move on; without one the job is brought in line, and its pods decide
Restarting                  waits until enough of the killed pods are gone: then Pending, or Failed after maxRetry
Aborting, Terminating,      wait until no pod lives: then Aborted, Terminated, Completed
Completing
Aborted                     stays, until ResumeJob
Completed, Failed,          are over; what is left (live pods, the PodGroup) is cleaned up
Terminated
"""

from __future__ import annotations

from dataclasses import dataclass

from events import names
from events.canonical import Json
from events.reading import name_of
from services.controller.jobs.expand import JOB_VERSION, PARTITION
from services.controller.jobs.model import FINISHED, VolcanoJob
from services.controller.jobs.policies import TARGETED, Request
from services.controller.jobs.roster import Counts, Roster
from services.controller.objects import count_in, labels, notes_of

#: Where an action leads from Pending and Running.
_LEADS = {
    "AbortJob": "Aborting",
    "TerminateJob": "Terminating",
    "CompleteJob": "Completing",
    "RestartJob": "Restarting",
    **dict.fromkeys(TARGETED, "Restarting"),
}
_ENDS = {"Aborting": "Aborted", "Terminating": "Terminated", "Completing": "Completed"}


@dataclass(frozen=True)
class Kill:
    """Pods to delete, and whether it is a whole-job kill (then the PodGroup goes too, and the version rises)."""

    pods: tuple[Json, ...]
    whole: bool


@dataclass(frozen=True)
class Plan:
    """What is to be done. ``kill`` None: bring the job in line. ``phase`` empty: it follows from the counts after."""

    kill: Kill | None
    phase: str = ""
    retried: bool = False


def plan(job: VolcanoJob, roster: Roster, action: str, request: Request | None) -> Plan:
    """Return what an action means in the job's phase (J-12)."""
    phase = job.phase or "Pending"
    if phase in ("Pending", "Running"):
        return _act(job, roster, action, request)
    if phase in ("Aborting", "Aborted") and action == "ResumeJob":
        return Plan(Kill(tuple(roster.to_kill(retain=True)), whole=True), "Restarting", retried=True)
    if phase == "Restarting":
        left = roster.to_kill(retain=job.retries >= job.max_retry)
        return Plan(Kill(tuple(pod for pod in left if _version(pod) < job.version), whole=False))
    if phase in _ENDS or phase == "Aborted" or phase in FINISHED:
        return Plan(Kill(tuple(roster.to_kill(retain=True)), whole=True))
    return Plan(None)


def _act(job: VolcanoJob, roster: Roster, action: str, request: Request | None) -> Plan:
    if action not in _LEADS:
        return Plan(None)
    if action in TARGETED:
        left = roster.to_kill(retain=False) if request is not None else ()
        targets = tuple(pod for pod in left if request is not None and _is_target(pod, action, request))
        return Plan(Kill(targets, whole=False), "Restarting", retried=True)
    retain = action != "RestartJob" or job.last_retry
    return Plan(Kill(tuple(roster.to_kill(retain=retain)), whole=True), _LEADS[action], retried=action == "RestartJob")


def _is_target(pod: Json, action: str, request: Request) -> bool:
    if notes_of(pod).get(names.TASK_SPEC, "") != request.task:
        return False
    if action == "RestartPod":
        return name_of(pod) == request.pod
    return action == "RestartTask" or labels(pod).get(PARTITION, "") == request.partition


def _version(pod: Json) -> int:
    return count_in(notes_of(pod).get(JOB_VERSION, "")) or 0


def after(job: VolcanoJob, counts: Counts) -> str:
    """Return the phase that follows from the counts (J-10 to J-12)."""
    phase = job.phase or "Pending"
    if phase == "Pending":
        begun = counts.running + counts.succeeded + counts.failed
        return "Running" if job.replicas and begun >= job.min_available else phase
    if phase == "Running":
        return _running(job, counts)
    if phase == "Restarting":
        if job.retries >= job.max_retry:
            return "Failed"
        return "Pending" if job.replicas - counts.terminating >= job.min_available else phase
    if phase in _ENDS:
        return phase if counts.alive else _ENDS[phase]
    return phase


def _running(job: VolcanoJob, counts: Counts) -> str:
    if job.replicas == 0:
        return "Running"
    if job.min_success is not None and counts.succeeded >= job.min_success:
        return "Completed"
    if counts.succeeded + counts.failed == job.replicas:
        return _ended(job, counts)
    return "Pending" if counts.pending > job.replicas - job.min_available else "Running"


def _ended(job: VolcanoJob, counts: Counts) -> str:
    """All replicas have ended (J-11)."""
    if job.min_available >= job.task_minima:
        short = [task for task in job.tasks if counts.successes(task.name) < task.min_available]
        if short:
            return "Failed"
    if job.min_success is not None:
        return "Failed"  # it was not reached, or the job would be Completed already
    return "Completed" if counts.succeeded >= job.min_available else "Failed"
