"""Every text of the cycle in one place (scheduling section 2.5, POD-1, PG-3a, PG-3b, Q-4a, Q-4b, Q-24, E-5 to E-8).

The grammar is that of MSG-1 to MSG-7; entries of a histogram are sorted as strings, count included (MSG-3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from scheduling.cycle.job import FitErrors, Job, Task
from scheduling.objects import Queue
from scheduling.status import ALLOC, TaskStatus

READY, NOT_READY = "pod group is ready", "pod group is not ready"
NOT_ENOUGH_RESOURCES = "NotEnoughResources"
TASKS_READY = "tasks in gang are ready to be scheduled"
QUEUE_NOT_FOUND = "QueueNotFound"
UNSCHEDULABLE, SCHEDULABLE = "Unschedulable", "Schedulable"
ALL_UNAVAILABLE = "all nodes are unavailable"
NOT_FOUND_NODE = "node info not found"
POD_NUMBER = "node(s) pod number exceeded"
_DETAILS_MAX = 5


def histogram(counts: Mapping[str, int]) -> str:
    """Return ``<count> <word>, ...`` sorted as strings (MSG-3)."""
    return ", ".join(sorted(f"{count} {word}" for word, count in counts.items() if count or word == "minAvailable"))


# --- nodes and queues ---


def fit_summary(errors: FitErrors, details: bool = True) -> str:
    """Return M-3, with what the filters say of at most five nodes behind it (devices/F-6)."""
    if errors.text:
        return errors.text
    text = f"0/{errors.nodes} nodes are unavailable"
    if errors.counts:
        text += f": {histogram(errors.counts)}."
    if details and errors.details:
        shown = errors.details[:_DETAILS_MAX]
        text += " Details: " + "; ".join(f"{node}: {detail}" for node, detail in shown)
    return text


def role_skipped(task: Task) -> str:
    """Return the text of a task whose role has failed before in this job and cycle (AL-7)."""
    return f"Task {task.name} with role spec {task.role} has already predicated failed, skip"


def insufficient(names: Iterable[str]) -> str:
    """Return E-7."""
    return "queue resource quota insufficient: " + ", ".join(f"insufficient {name}" for name in names)


def queue_insufficient(queue: str, names: Iterable[str]) -> str:
    """Return the text of Q-24."""
    return f"queue {queue} resource quota insufficient: " + ", ".join(f"insufficient {name}" for name in names)


def overused(names: Iterable[str]) -> str:
    """Return E-8."""
    return "resource in cluster is overused: " + ", ".join(f"overused {name}" for name in names)


def not_open(queue: Queue) -> str:
    """Return the text of Q-4a."""
    return f"queue {queue.name} is not open (state {queue.state})"


def has_children(queue: str) -> str:
    """Return the text of Q-4b."""
    return f"queue {queue} has child queues, submit to one of them"


ROOT_TAKES_NONE = "queue root takes no jobs"


def queue_missing(queue: str) -> str:
    """Return the condition message of PG-3a."""
    return f"queue {queue} does not exist"


def queue_missing_for(group: str, queue: str) -> str:
    """Return the pod message of PG-3a."""
    return f"PodGroup {group}: {queue_missing(queue)}"


def group_missing(group: str) -> str:
    """Return the pod message of PG-3b."""
    return f"PodGroup {group} does not exist"


def no_configuration(errors: Iterable[str]) -> str:
    """Return the pod message of CFG-6a."""
    return f"no valid scheduler configuration: {'; '.join(errors)}"


def reservation_released(timeout: str) -> str:
    """Return the event of PG-4a."""
    return f"no task within {timeout}, reservation released"


TOPOLOGY_IGNORED = "NetworkTopologyIgnored"
TOPOLOGY_TEXT = "networkTopology is not supported, the PodGroup is scheduled without it"


# --- jobs ---


def unready(job: Job) -> int:
    """Return u of MSG-1: what the gang still lacks, tasks that had a place in a trial left out; never below 0."""
    tried = sum(_schedulable(task) for task in job.tasks)
    return max(job.minimum - job.ready - tried, 0)


def _schedulable(task: Task) -> bool:
    return task.status is TaskStatus.PENDING and task.trial is not None and task.trial[0] in ALLOC


def _ready_word(job: Job) -> str:
    return READY if job.filled else NOT_READY


def job_detail(job: Job) -> str:
    """Return M-2."""
    statuses = {status.value: count for status, count in job.counts.items() if count}
    text = f"{_ready_word(job)}, {histogram({**statuses, 'minAvailable': job.minimum})}"
    if job.pending:
        able = sum(_schedulable(task) for task in job.tasks)
        text += "; Pending: " + histogram({SCHEDULABLE: able, UNSCHEDULABLE: job.pending - able})
    return text + _origin(job)


def _origin(job: Job) -> str:
    """Return why, of the first task in task order that nodes refused (MSG-4), else of the queue (Q-24, Q-24a)."""
    waiting = [task for task in job.tasks if task.status is TaskStatus.PENDING]
    for task in waiting:
        if task.errors is not None:
            return f". Origin reason is {task.name}: {fit_summary(task.errors)}"
    texts = (task.traits.refused or task.refusal or job.refusal for task in waiting)
    text = next((found for found in texts if found), "")
    return f". Origin reason is: {text}" if text else ""


def condition(job: Job, detail: str) -> str:
    """Return M-1; ``detail`` is M-2."""
    return f"{unready(job)}/{len(job.tasks)} tasks in gang unschedulable: {detail}"


def event(job: Job, detail: str) -> str:
    """Return E-5: its first number is the count of Pending tasks; ``detail`` is M-2."""
    return f"{job.pending}/{len(job.tasks)} tasks in gang unschedulable: {detail}"


# --- pods ---


def pod_reason(task: Task, detail_of: Callable[[Job], str]) -> tuple[str, str]:
    """Return reason and message of a waiting pod's condition (POD-1). ``detail_of`` gives M-2 of its job."""
    pod = f"Pod {task.pod.namespace}/{task.name}"
    if task.traits.refused:
        return UNSCHEDULABLE, task.traits.refused
    if task.trial is not None:
        status, node = task.trial
        if status is TaskStatus.PIPELINED:
            text = f"{pod} can possibly be assigned to {node}, once resource is released and minAvailable is satisfied"
            return UNSCHEDULABLE, text
        return SCHEDULABLE, f"{pod} can possibly be assigned to {node}, once minAvailable is satisfied"
    if task.errors is not None:
        return UNSCHEDULABLE, fit_summary(task.errors)
    return UNSCHEDULABLE, task.refusal or task.job.refusal or detail_of(task.job) or ALL_UNAVAILABLE
