"""gang: all that a PodGroup needs, or nothing (scheduling/PG-9 to PG-11a).

The counting lives in ``Job``; here is what the counts mean. Sub-groups are the pods of a policy that share the values
of its ``matchLabelKeys``; one is complete with ``subGroupSize`` members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from scheduling.config.arguments import boolean
from scheduling.cycle.job import Job, Task
from scheduling.cycle.plugin import Plugin, Vote
from scheduling.nodes.selectors import Invalid as InvalidSelector
from scheduling.nodes.selectors import label_selector
from scheduling.reasons.kinds import Invalid, TooFewOfRole, TooFewSubGroups, TooFewTasks
from scheduling.status import READY, VALID, TaskStatus

#: Arguments: pods of a blocked gang are Unschedulable to whoever looks for such (scheduling section 9 row 16); of equal
#: priority, gangs that run below their minimum go first (row 7).
REPORT_UNSCHEDULABLE, RUNNING_FIRST = "gang.reportUnschedulable", "gang.runningFirst"
_ON_NODES = (TaskStatus.BOUND, TaskStatus.RUNNING)
_PIPELINED = READY | {TaskStatus.PIPELINED}


class GangPlugin(Plugin):
    """Holds a job back until enough of it is placed."""

    name = "gang"
    counts_down = True

    def opened(self) -> None:
        self._running_first = boolean(self.arguments, RUNNING_FIRST, False)

    def job_key(self, job: Job) -> Any:
        """Jobs that are not ready come first (section 4.7), on demand those before all that have members on nodes."""
        if not self._running_first:
            return job.filled
        return job.filled, not (job.ready < job.minimum and job.count(_ON_NODES) > 0)

    def valid(self, job: Job) -> Invalid | None:
        """PG-9."""
        if not self._roles(job, VALID, best_effort=False):
            return TooFewOfRole()
        if not _sub_groups(job, lambda task: task.status in VALID):
            return TooFewSubGroups()
        return TooFewTasks(job.valid, job.minimum) if job.valid < job.minimum else None

    def ready(self, job: Job) -> bool:
        """PG-10."""
        return job.filled and self._roles(job, READY) and _sub_groups(job, _counts_as_ready)

    def pipelined(self, job: Job) -> Vote:
        """PG-11: as ready, but promised tasks count too."""
        enough = job.ready + job.pipelined + job.pending_best_effort >= job.minimum
        ok = enough and self._roles(job, _PIPELINED) and _sub_groups(job, _counts_as_pipelined)
        return Vote.YES if ok else Vote.NO

    def starving(self, job: Job) -> bool:
        return job.ready + job.pipelined < job.minimum

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        return self._spare(candidates)

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        return self._spare(candidates)

    @staticmethod
    def _spare(candidates: Sequence[Task]) -> list[Task]:
        """Name a task only while its job has more READY tasks than minMember, counted down in the given order."""
        left: dict[str, int] = {}
        named = []
        for task in candidates:
            have = left.setdefault(task.job.key, task.job.ready)
            if have > task.job.minimum:
                left[task.job.key] = have - 1
                named.append(task)
        return named

    @staticmethod
    def _roles(job: Job, statuses: Iterable[TaskStatus], best_effort: bool = True) -> bool:
        """Tell whether each role has its own minimum; they count only as PG-10 says."""
        if not job.by_role:
            return True
        return all(
            job.role_count(role, statuses) + (job.best_effort.get(role, 0) if best_effort else 0) >= least
            for role, least in job.group.min_task_member.items()
            if least > 0
        )


def _counts_as_ready(task: Task) -> bool:
    return task.status in READY or (task.status is TaskStatus.PENDING and task.traits.best_effort)


def _counts_as_pipelined(task: Task) -> bool:
    return task.status is TaskStatus.PIPELINED or _counts_as_ready(task)


def _policies(job: Job) -> Iterator[dict[str, Any]]:
    found = job.group.spec.get("subGroupPolicy")
    for policy in found if isinstance(found, list) else ():
        if isinstance(policy, dict) and _whole(policy.get("minSubGroups"), 0) > 0:
            yield policy


def _whole(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default


def _sub_groups(job: Job, counts: Callable[[Task], bool]) -> bool:
    """Tell whether every sub-group policy has its ``minSubGroups`` complete groups (PG-9, PG-10)."""
    return all(_complete(job, policy, counts) >= _whole(policy.get("minSubGroups"), 0) for policy in _policies(job))


def _complete(job: Job, policy: dict[str, Any], counts: Callable[[Task], bool]) -> int:
    keys = policy.get("matchLabelKeys")
    keys = [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []
    size = max(_whole(policy.get("subGroupSize"), 1), 1)
    found: dict[tuple[str, ...], int] = {}
    for task in job.tasks:
        if counts(task) and _selected(task, policy) and all(key in task.pod.labels for key in keys):
            values = tuple(task.pod.labels[key] for key in keys)
            found[values] = found.get(values, 0) + 1
    return sum(members >= size for members in found.values())


def _selected(task: Task, policy: dict[str, Any]) -> bool:
    selector = policy.get("labelSelector")
    if selector is None:
        return True
    try:
        return label_selector(selector, "subGroupPolicy.labelSelector").matches(task.pod.labels)
    except InvalidSelector:
        return False
