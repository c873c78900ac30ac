"""A VolcanoJob as the controller reads it, with the defaults of scheduling/J-1 where an object lacks them.

Reading never fails: what has the wrong type is as if it were absent.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from events.canonical import Json
from events.reading import items, mapping, meta, spec, status, text, texts, whole

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_DURATION_LONGEST = 32  # characters
_UNIT_MS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000}

FINISHED = ("Completed", "Failed", "Terminated")


def duration_ms(value: Any) -> int:
    """Return a Go duration (``1h30m``) in milliseconds, 0 if it is none."""
    found = _DURATION.findall(value) if isinstance(value, str) and len(value) <= _DURATION_LONGEST else []
    if not found or "".join(number + unit for number, unit in found) != value:
        return 0
    return round(sum(float(number) * _UNIT_MS[unit] for number, unit in found))


def duration_text(seconds: int) -> str:
    """Return whole seconds as a Go duration: 90 is ``1m30s``."""
    hours, rest = divmod(max(seconds, 0), 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours}h{minutes}m{left}s"
    return f"{minutes}m{left}s" if minutes else f"{left}s"


@dataclass(frozen=True)
class Policy:
    """One lifecycle policy: what is done when one of the events, or the exit code, comes (J-14)."""

    action: str
    events: tuple[str, ...]
    exit_code: int | None
    timeout_ms: int


@dataclass(frozen=True)
class Partition:
    """How the replicas of a task are cut into groups."""

    size: int
    minimum: int
    topology: Json


@dataclass(frozen=True)
class Task:
    """One task of a job."""

    name: str
    replicas: int
    min_available: int
    template: Json
    policies: tuple[Policy, ...]
    depends_on: tuple[str, ...]
    depends_on_any: bool
    max_retry: int
    topology_policy: str
    partition: Partition | None

    @property
    def priority_class(self) -> str:
        return text(spec(self.template).get("priorityClassName"))


@dataclass(frozen=True)
class VolcanoJob:
    """A VolcanoJob: what is asked for, and its status as it stands."""

    item: Json
    name: str
    namespace: str
    uid: str
    tasks: tuple[Task, ...]
    min_available: int
    min_success: int | None
    max_retry: int
    queue: str
    scheduler: str
    priority_class: str
    plugins: Mapping[str, tuple[str, ...]]
    policies: tuple[Policy, ...]
    volumes: tuple[Json, ...]
    topology: Json
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    ttl_s: int | None
    now: Json = field(default_factory=dict)

    @property
    def phase(self) -> str:
        return text(mapping(self.now.get("state")).get("phase"))

    @property
    def version(self) -> int:
        return whole(self.now.get("version")) or 0

    @property
    def retries(self) -> int:
        return whole(self.now.get("retryCount")) or 0

    @property
    def replicas(self) -> int:
        return sum(task.replicas for task in self.tasks)

    @property
    def task_minima(self) -> int:
        return sum(task.min_available for task in self.tasks)

    @property
    def group_name(self) -> str:
        """The name of the job's PodGroup (J-4)."""
        return f"{self.name}-{self.uid}"

    @property
    def last_retry(self) -> bool:
        """Whether the next restart would be the last (J-13)."""
        return self.retries >= self.max_retry - 1

    @cached_property
    def sizes(self) -> dict[str, int]:
        """The replicas of the tasks by what the names of their pods begin with (J-6); they may be any number."""
        found: dict[str, int] = {}
        for task in self.tasks:
            prefix = pod_name(self.name, task.name, "")
            found[prefix] = max(task.replicas, found.get(prefix, 0))
        return found

    def wants(self, name: str) -> bool:
        """Tell whether a pod of this name is one of the job's replicas."""
        before, dash, index = name.rpartition("-")
        known = index.isascii() and index.isdigit() and len(index) < 20 and str(int(index)) == index
        return known and int(index) < self.sizes.get(before + dash, 0)

    def task(self, name: str) -> Task | None:
        return next((task for task in self.tasks if task.name == name), None)


def pod_name(job: str, task: str, index: int | str) -> str:
    """The name of a job's pod (J-6)."""
    return f"{job}-{task}-{index}"


def read(item: Json, scheduler: str) -> VolcanoJob:
    """Read a VolcanoJob. ``scheduler`` stands in where it names none."""
    about, wanted = meta(item), spec(item)
    tasks = tuple(_task(index, task) for index, task in enumerate(items(wanted.get("tasks"))))
    min_available = whole(wanted.get("minAvailable")) or sum(task.min_available for task in tasks)
    return VolcanoJob(
        item=item,
        name=text(about.get("name")),
        namespace=text(about.get("namespace")),
        uid=text(about.get("uid")),
        tasks=tasks,
        min_available=min_available,
        min_success=whole(wanted.get("minSuccess")),
        max_retry=whole(wanted.get("maxRetry")) or 3,
        queue=text(wanted.get("queue")) or "default",
        scheduler=text(wanted.get("schedulerName")) or scheduler,
        priority_class=text(wanted.get("priorityClassName")),
        plugins={name: _arguments(value) for name, value in sorted(mapping(wanted.get("plugins")).items())},
        policies=_policies(wanted.get("policies")),
        volumes=tuple(items(wanted.get("volumes"))),
        topology=mapping(wanted.get("networkTopology")),
        labels=texts(about.get("labels")),
        annotations=texts(about.get("annotations")),
        ttl_s=whole(wanted.get("ttlSecondsAfterFinished")),
        now=status(item),
    )


def _arguments(value: Any) -> tuple[str, ...]:
    return tuple(item for item in value if isinstance(item, str)) if isinstance(value, list) else ()


def _task(index: int, task: Json) -> Task:
    asked = whole(task.get("replicas"))
    replicas = 1 if asked is None else max(asked, 0)
    partition = _partition(task.get("partitionPolicy"))
    least = whole(task.get("minAvailable"))
    if least is None:
        least = partition.minimum * partition.size if partition is not None and partition.minimum else replicas
    depends = mapping(task.get("dependsOn"))
    return Task(
        name=text(task.get("name")) or f"default{index}",
        replicas=replicas,
        min_available=least,
        template=mapping(task.get("template")),
        policies=_policies(task.get("policies")),
        depends_on=_arguments(depends.get("name")),
        depends_on_any=depends.get("iteration") == "any",
        max_retry=whole(task.get("maxRetry")) or 3,
        topology_policy=text(task.get("topologyPolicy")),
        partition=partition,
    )


def _partition(value: Any) -> Partition | None:
    policy = mapping(value)
    size = whole(policy.get("partitionSize")) or 0
    if size <= 0:
        return None
    return Partition(size, whole(policy.get("minPartitions")) or 0, mapping(policy.get("networkTopology")))


def _policies(value: Any) -> tuple[Policy, ...]:
    found = []
    for policy in items(value):
        events = list(_arguments(policy.get("events")))
        if text(policy.get("event")):
            events.append(policy["event"])
        action, code = text(policy.get("action")), whole(policy.get("exitCode"))
        found.append(Policy(action, tuple(events), code, duration_ms(policy.get("timeout"))))
    return tuple(found)
