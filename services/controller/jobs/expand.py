"""What a VolcanoJob becomes: its PodGroup and its pods (scheduling/J-4, J-6, J-7, J-9)."""

from __future__ import annotations

import copy

from events import names
from events.canonical import Json
from events.kinds import POD, POD_GROUP, PRIORITY_CLASS, VOLCANO_JOB
from events.reading import integer, mapping, meta, spec, texts
from services.controller import usage
from services.controller.jobs.model import Task, VolcanoJob, pod_name
from services.controller.objects import owner_reference
from services.controller.world import World

JOB_NAME = "volcano.sh/job-name"
JOB_VERSION = "volcano.sh/job-version"
TASK_INDEX = "volcano.sh/task-index"
PARTITION = "volcano.sh/partition-id"
NAMESPACE_LABEL = "volcano.sh/job-namespace"
_QUEUE = "volcano.sh/queue-name"
_FROM_JOB = (
    names.PREEMPTABLE,
    "volcano.sh/cooldown-time",
    names.REVOCABLE_ZONE,
    "volcano.sh/jdb-min-available",
    "volcano.sh/jdb-max-unavailable",
)
#: What the spec of a PodGroup has only if its job asks for it.
GROUP_OPTIONS = ("priorityClassName", "networkTopology", "subGroupPolicy")
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"  # kubectl's, about the job itself
_LABELS_FROM_JOB = (names.PREEMPTABLE, "volcano.sh/cooldown-time")


def group_spec(world: World, job: VolcanoJob) -> Json:
    """Return the spec of the job's PodGroup (J-4)."""
    content: Json = {
        "minMember": job.min_available,
        "minTaskMember": {task.name: task.min_available for task in job.tasks},
        "queue": job.queue,
        "minResources": min_resources(world, job),
    }
    if job.priority_class:
        content["priorityClassName"] = job.priority_class
    if job.topology:
        content["networkTopology"] = copy.deepcopy(job.topology)
    parts = [_sub_group(task) for task in job.tasks if task.partition is not None]
    if parts:
        content["subGroupPolicy"] = parts
    return content


def _sub_group(task: Task) -> Json:
    assert task.partition is not None
    policy: Json = {
        "name": task.name,
        "subGroupSize": task.partition.size,
        "minSubGroups": task.partition.minimum,
        "labelSelector": {"matchLabels": {names.TASK_SPEC: task.name}},
        "matchLabelKeys": [PARTITION],
    }
    if task.partition.topology:
        policy["networkTopology"] = copy.deepcopy(task.partition.topology)
    return policy


def group(world: World, job: VolcanoJob) -> Json:
    """Return the job's PodGroup as it is created."""
    about: Json = {
        "name": job.group_name,
        "namespace": job.namespace,
        "ownerReferences": [owner_reference(VOLCANO_JOB, job.item)],
    }
    notes = {key: value for key, value in job.annotations.items() if key != _APPLIED}
    if notes:
        about["annotations"] = notes
    if job.labels:
        about["labels"] = dict(job.labels)
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": POD_GROUP.name,
        "metadata": about,
        "spec": group_spec(world, job),
        "status": {"phase": "Pending"},
    }


def min_resources(world: World, job: VolcanoJob) -> dict[str, str]:
    """Return minResources (J-9): each pod counts as its template is stored."""
    roles = [
        usage.Role(
            priority=priority_value(world, task.priority_class),
            replicas=task.replicas,
            minimum=task.min_available,
            usage=usage.of_pod(spec(task.template)),
        )
        for task in job.tasks
    ]
    return usage.written(usage.of_job(roles, job.min_available))


def priority_value(world: World, name: str) -> int:
    """The value of a priority class, 0 where there is none."""
    return integer(mapping(world.get(PRIORITY_CLASS, "", name)).get("value")) if name else 0


def pod(job: VolcanoJob, task: Task, index: int) -> Json:
    """Return one pod of the job, before its plugins (J-6, J-7)."""
    template = copy.deepcopy(task.template)
    name = pod_name(job.name, task.name, index)
    content = spec(template)
    if not content.get("schedulerName"):
        content["schedulerName"] = job.scheduler
    if not content.get("priorityClassName") and job.priority_class:
        content["priorityClassName"] = job.priority_class
    return {
        "apiVersion": POD.api_version,
        "kind": POD.name,
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "annotations": texts(meta(template).get("annotations")) | _annotations(job, task, index),
            "labels": texts(meta(template).get("labels")) | _labels(job, task, index),
            "ownerReferences": [owner_reference(VOLCANO_JOB, job.item)],
        },
        "spec": content,
    }


def _annotations(job: VolcanoJob, task: Task, index: int) -> dict[str, str]:
    notes = {
        TASK_INDEX: str(index),
        names.TASK_SPEC: task.name,
        names.GROUP_NAME: job.group_name,
        JOB_NAME: job.name,
        _QUEUE: job.queue,
        JOB_VERSION: str(job.version),
        "volcano.sh/template-uid": f"{job.name}-{task.name}",
        "volcano.sh/job-retry-count": str(job.retries),
    }
    notes |= {key: job.annotations[key] for key in _FROM_JOB if key in job.annotations}
    if task.topology_policy:
        notes["volcano.sh/numa-topology-policy"] = task.topology_policy
    return notes


def _labels(job: VolcanoJob, task: Task, index: int) -> dict[str, str]:
    marks = {
        TASK_INDEX: str(index),
        JOB_NAME: job.name,
        names.TASK_SPEC: task.name,
        NAMESPACE_LABEL: job.namespace,
        _QUEUE: job.queue,
    }
    if task.partition is not None:
        marks[PARTITION] = str(index // task.partition.size)
    return marks | {key: job.labels[key] for key in _LABELS_FROM_JOB if key in job.labels}
