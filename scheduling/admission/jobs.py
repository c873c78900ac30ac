"""Admission of VolcanoJobs: defaults on create, what is refused, what an update may change (scheduling/J-1 to J-3)."""

from __future__ import annotations

import copy
import re
from typing import Any

from events import names
from events.canonical import Json
from events.kinds import QUEUE, VOLCANO_JOB
from events.reading import items, mapping, name_of, spec, text, whole
from scheduling.admission.lookup import (
    DEFAULT,
    ROOT,
    Lister,
    children_of,
    denied,
    missing,
    queue_named,
    section,
    state_of,
    topology_problem,
)
from scheduling.admission.policies import problem_of_policies

PLUGINS = ("env", "svc", "ssh")
_MAX_RETRY = 3
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_NAME_MAX = 63  # a pod's name is its hostname


def admit(verb: str, new: Json | None, old: Json | None, lister: Lister) -> None:
    """Complete and judge a VolcanoJob. Raises Denied."""
    if new is None or verb not in ("create", "update"):
        return
    if verb == "create":
        complete(new, None)
        problem = _problem(new, lister)
    else:
        complete(new, old)
        problem = _problem_of_update(new, old or {})
    if problem:
        raise denied(VOLCANO_JOB, problem)


# Defaults.


def complete(job: Json, old: Json | None) -> None:
    """Fill in the defaults (J-1), in place; on an update a task keeps what was filled in before."""
    wanted = section(job, "spec")
    before = {_task_name(index, task): task for index, task in enumerate(items(spec(old).get("tasks")))}
    tasks = items(wanted.get("tasks"))
    for index, task in enumerate(tasks):
        _complete_task(index, task, before)
    if not wanted.get("queue"):
        wanted["queue"] = DEFAULT
    if not wanted.get("schedulerName"):
        wanted["schedulerName"] = text(spec(old).get("schedulerName")) or names.SCHEDULER_NAMES[0]
    if not wanted.get("maxRetry"):
        wanted["maxRetry"] = _MAX_RETRY
    if not wanted.get("minAvailable"):
        wanted["minAvailable"] = sum(whole(task.get("minAvailable")) or 0 for task in tasks)


def _task_name(index: int, task: Json) -> str:
    return text(task.get("name")) or f"default{index}"


def _complete_task(index: int, task: Json, before: dict[str, Json]) -> None:
    name = task["name"] = task.get("name") or f"default{index}"
    if task.get("replicas") is None:
        task["replicas"] = 1
    if task.get("minAvailable") is None:
        task["minAvailable"] = _task_minimum(task, mapping(before.get(name)) if isinstance(name, str) else {})
    if not task.get("maxRetry"):
        task["maxRetry"] = _MAX_RETRY
    content = mapping(mapping(task.get("template")).get("spec"))
    if content.get("hostNetwork") is True and not content.get("dnsPolicy"):
        content["dnsPolicy"] = "ClusterFirstWithHostNet"


def _task_minimum(task: Json, old: Json) -> Any:
    policy = mapping(task.get("partitionPolicy"))
    parts, size = whole(policy.get("minPartitions")), whole(policy.get("partitionSize"))
    if parts and size:
        return parts * size
    known, replicas = whole(old.get("minAvailable")), whole(task.get("replicas"))
    if known is not None and replicas is not None and old.get("replicas") != replicas:
        return min(known, replicas)
    return known if known is not None else task.get("replicas")


# Create.


def _problem(job: Json, lister: Lister) -> str:
    """What is wrong with a new job, empty if nothing; all findings in one text (J-2)."""
    wanted = spec(job)
    for field in ("minAvailable", "maxRetry", "ttlSecondsAfterFinished"):
        value = wanted.get(field)
        if value is not None and (whole(value) is None or value < 0):
            return f"'{field}' cannot be less than zero."
    tasks = items(wanted.get("tasks"))
    if not tasks:
        return "No task specified in job spec"
    found = _problem_of_tasks(job, tasks)
    if sum(whole(task.get("replicas")) or 0 for task in tasks) < (whole(wanted.get("minAvailable")) or 0):
        found += " job 'minAvailable' should not be greater than total replicas in tasks;"
    found += _problem_of_policies(wanted.get("policies"))
    for plugin in sorted(mapping(wanted.get("plugins"))):
        if plugin not in PLUGINS:
            found += f" unable to find job plugin: {plugin};"
    found += _problem_of_volumes(wanted.get("volumes"))
    found += _problem_of_queue(text(wanted.get("queue")) or DEFAULT, lister)
    topologies = [wanted, *(mapping(task.get("partitionPolicy")) for task in tasks)]
    found += "".join(f" {x};" for x in (topology_problem(part.get("networkTopology")) for part in topologies) if x)
    if not _is_acyclic(tasks):
        found += " job has dependencies between tasks, but doesn't form a directed acyclic graph(DAG);"
    return found


def _problem_of_tasks(job: Json, tasks: list[Json]) -> str:
    found, seen = "", set()
    for index, task in enumerate(tasks):
        name = _task_name(index, task)
        found += _problem_of_counts(job, name, task)
        if not _LABEL.fullmatch(name):
            found += f" task name {name} must be a lower case RFC 1123 label;"
        if name in seen:
            return found + f" duplicated task name {name};"
        seen.add(name)
        found += _problem_of_policies(task.get("policies"))
        longest = f"{name_of(job)}-{name}-{max((whole(task.get('replicas')) or 0) - 1, 0)}"
        if len(longest) > _NAME_MAX:
            found += f" create pod with name {longest} validate failed: must be no more than {_NAME_MAX} characters;"
        if not items(spec(mapping(task.get("template"))).get("containers")):
            found += f" spec.task[{index}].template.spec.containers: Required value;"
    return found


def _problem_of_counts(job: Json, name: str, task: Json) -> str:
    where = f"in task: {name}, job: {name_of(job)}"
    replicas, minimum = whole(task.get("replicas")), whole(task.get("minAvailable"))
    if replicas is None or replicas < 0:
        return f" 'replicas' < 0 {where};"
    if minimum is None or minimum < 0:
        return f" 'minAvailable' < 0 {where};"
    found = f" 'minAvailable' is greater than 'replicas' {where};" if minimum > replicas else ""
    policy = mapping(task.get("partitionPolicy"))
    if policy:
        parts, size = whole(policy.get("totalPartitions")) or 0, whole(policy.get("partitionSize")) or 0
        if parts <= 0 or size <= 0 or parts * size != replicas:
            found += f" 'totalPartitions' * 'partitionSize' must be equal to 'replicas' {where};"
        if (whole(policy.get("minPartitions")) or 0) > parts:
            found += f" 'minPartitions' must not be greater than 'totalPartitions' {where};"
    return found


def _problem_of_policies(policies: Any) -> str:
    problem = problem_of_policies(policies)
    return f" {problem};" if problem else ""


def _problem_of_volumes(volumes: Any) -> str:
    seen: set[str] = set()
    for volume in items(volumes):
        path = text(volume.get("mountPath"))
        if not path:
            return " mountPath is required;"
        if path in seen:
            return f" duplicated mountPath: {path};"
        seen.add(path)
        if not volume.get("volumeClaim") and not volume.get("volumeClaimName"):
            return " either VolumeClaim or VolumeClaimName must be specified;"
        if volume.get("volumeClaim") and volume.get("volumeClaimName"):
            return " conflict: If you want to use an existing PVC, just specify VolumeClaimName;"
    return ""


def _problem_of_queue(name: str, lister: Lister) -> str:
    queue = queue_named(lister, name)
    if queue is None:
        return f" unable to find job queue: {missing(QUEUE, name)};"
    if name == ROOT:
        return " can not submit job to root queue;"
    state = state_of(queue)
    if state != "Open":
        return f" can only submit job to queue with state `Open`, queue `{name}` status is `{state}`;"
    children = len(children_of(lister, name))
    if children:
        return f" can only submit job to leaf queue, queue `{name}` has {children} child queues;"
    return ""


def _is_acyclic(tasks: list[Json]) -> bool:
    """Whether ``dependsOn`` names only tasks that are there, and no task in a circle."""
    needs = {_task_name(index, task): _needed(task) for index, task in enumerate(tasks)}
    if any(name not in needs for wanted in needs.values() for name in wanted):
        return False
    while needs:
        free = [name for name, wanted in needs.items() if not any(other in needs for other in wanted)]
        if not free:
            return False
        for name in free:
            del needs[name]
    return True


def _needed(task: Json) -> list[str]:
    named = mapping(task.get("dependsOn")).get("name")
    return [name for name in named if isinstance(name, str)] if isinstance(named, list) else []


# Update.


def _problem_of_update(new: Json, old: Json) -> str:
    """What is wrong with a changed job, empty if nothing (J-3)."""
    if spec(new) == spec(old):
        return ""
    tasks = items(spec(new).get("tasks"))
    for index, task in enumerate(tasks):
        name, replicas = _task_name(index, task), whole(task.get("replicas"))
        minimum = whole(task.get("minAvailable"))
        if replicas is None or replicas < 0:
            return f"'replicas' must be >= 0 in task: {name}"
        if minimum is None or minimum < 0:
            return f"'minAvailable' must be >= 0 in task: {name}"
        if minimum > replicas:
            return f"'minAvailable' must be <= 'replicas' in task: {name};"
    least = whole(spec(new).get("minAvailable"))
    if least is None or least < 0:
        return "job 'minAvailable' must be >= 0"
    if least > sum(whole(task.get("replicas")) or 0 for task in tasks):
        return "job 'minAvailable' must not be greater than total replicas"
    if len(tasks) != len(items(spec(old).get("tasks"))):
        return "job updates may not add or remove tasks"
    if _fixed(new) != _fixed(old):
        return "job updates may not change fields other than `minAvailable`, `tasks[*].replicas under spec`"
    return ""


def _fixed(job: Json) -> Json:
    """The part of a spec that stays as it was created."""
    completed = copy.deepcopy(job)
    complete(completed, None)
    content = spec(completed)
    for key in ("minAvailable", "priorityClassName"):
        content.pop(key, None)
    for task in items(content.get("tasks")):
        task.pop("replicas", None)
        task.pop("minAvailable", None)
    return content
