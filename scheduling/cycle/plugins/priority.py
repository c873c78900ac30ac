"""priority: higher jobs and tasks first; lower jobs give way (scheduling section 4.7, PG-11, PG-11a)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduling.cycle.job import Job, Task
from scheduling.cycle.plugin import Plugin


class PriorityPlugin(Plugin):
    """Orders by priority, and knows whose is lower."""

    name = "priority"

    def job_key(self, job: Job) -> Any:
        return -job.priority

    def task_key(self, task: Task) -> Any:
        return -task.traits.priority

    def starving(self, job: Job) -> bool:
        return job.ready + job.pipelined < len(job.tasks)

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        """Name the tasks of lower jobs, inside one job the lower tasks (PG-11a)."""
        return [task for task in candidates if self._lower(task, preemptor)]

    def spares(self, preemptor: Task, candidate: Task) -> bool:
        """A job of higher priority gives way to nobody below it (PG-11b)."""
        return candidate.job.priority > preemptor.job.priority

    @staticmethod
    def _lower(task: Task, preemptor: Task) -> bool:
        if task.job is preemptor.job:
            return task.traits.priority < preemptor.traits.priority
        return task.job.priority < preemptor.job.priority
