"""conformance: what the cluster itself needs is never evicted (scheduling/CFG-14)."""

from __future__ import annotations

from collections.abc import Sequence

from scheduling.cycle.job import Task
from scheduling.cycle.plugin import Plugin

_NAMESPACE = "kube-system"
_CLASSES = ("system-cluster-critical", "system-node-critical")


class ConformancePlugin(Plugin):
    """Protects critical pods, as victims only."""

    name = "conformance"

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        return [task for task in candidates if not critical(task)]

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        return [task for task in candidates if not critical(task)]

    def spares(self, preemptor: Task, candidate: Task) -> bool:
        return critical(candidate)

    def keeps(self, reclaimer: Task, candidate: Task) -> bool:
        return critical(candidate)


def critical(task: Task) -> bool:
    """Tell whether a task is protected by CFG-14."""
    return task.pod.namespace == _NAMESPACE or task.pod.priority_class in _CLASSES
