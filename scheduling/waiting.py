"""What waits in each queue, by cause: summed up from what was said of PodGroups and pods last. It decides nothing."""

from __future__ import annotations

from collections import Counter, defaultdict

from scheduling.reasons.tree import QueueWaits, summed
from scheduling.state.model import Model
from scheduling.status import TaskStatus


def queues(model: Model) -> list[QueueWaits]:
    """Return every queue in which PodGroups or pods wait, by name; pods whose PodGroup is missing are in no queue."""
    groups: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for entry in model.groups.values():
        if entry.book.cause:
            groups[entry.group.queue][entry.book.cause] += 1
    pods: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for pod in model.pods.values():
        if pod.book.cause and not pod.node and pod.status is TaskStatus.PENDING:
            group = model.groups.get(pod.pod.group_key)
            pods[group.group.queue if group else ""][pod.book.cause] += 1
    return summed(groups, pods)
