"""Reasons summed up: pods in gangs, gangs in queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from scheduling.reasons.causes import Cause
from scheduling.reasons.kinds import GangDetail, Reason


@dataclass(frozen=True, slots=True)
class PodReason:
    """A waiting pod, and why it waits."""

    pod: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class GangReason:
    """A PodGroup that is not complete. ``lacking`` is u of MSG-1, ``tasks`` n; ``pods`` wait, in task order.

    ``held`` is why it was not let in, or is not looked at; there need not be any pod for it.
    """

    group: str
    queue: str
    lacking: int
    tasks: int
    detail: GangDetail
    held: Reason | None = None
    pods: tuple[PodReason, ...] = ()

    @property
    def cause(self) -> Cause:
        """What keeps the gang waiting: what holds it, else what it lacks, else what stands against it first."""
        first = self.held or self.detail.invalid or self.detail.origin
        return first.cause if first is not None else self.detail.cause


@dataclass(frozen=True, slots=True)
class QueueWaits:
    """A queue: how many PodGroups and how many pods wait in it, by cause."""

    queue: str
    groups: Mapping[str, int]
    pods: Mapping[str, int]


def summed(groups: Mapping[str, Counter[str]], pods: Mapping[str, Counter[str]]) -> list[QueueWaits]:
    """Return what waits by queue name and cause, both in order."""
    none: Counter[str] = Counter()
    return [
        QueueWaits(name, _sorted(groups.get(name, none)), _sorted(pods.get(name, none)))
        for name in sorted({*groups, *pods})
    ]


def _sorted(counts: Counter[str]) -> dict[str, int]:
    return dict(sorted(counts.items()))
