"""tdm: nodes that are lent only for some hours of the day (scheduling/CFG-13).

A node labelled ``volcano.sh/revocable-zone`` takes, while its zone's window (UTC) is open, tasks whose revocable zone
is ``*`` and nobody else. While the window is closed its preemptable tasks are evicted, of each job as many in every
period as its disruption budget allows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from events import names
from scheduling.config.arguments import duration, string
from scheduling.config.known import WINDOW
from scheduling.cycle.job import Job, Task
from scheduling.cycle.plugin import Plugin
from scheduling.cycle.plugins.conformance import critical
from scheduling.nodes.view import NodeView
from scheduling.reasons.kinds import Refused
from scheduling.status import TaskStatus

OUTSIDE: Final = "node(s) were outside the time window of their revocable zone"
NOT_REVOCABLE: Final = "node(s) were revocable, which the task does not allow"
_ZONE_ARGUMENT: Final = "tdm.revocable-zone."
_PERIOD_ARGUMENT, _PERIOD_MS = "tdm.evict.period", 60_000
_MIN_AVAILABLE, _MAX_UNAVAILABLE = "volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable"
_SCORE: Final = 100_000
_MINUTE_MS, _DAY_MS = 60_000, 24 * 60 * 60_000


class TdmPlugin(Plugin):
    """Filters and scores revocable nodes, and names who must leave them."""

    name = "tdm"
    by_class = False
    timeless = False

    def opened(self) -> None:
        self._period = duration(self.arguments, _PERIOD_ARGUMENT, _PERIOD_MS)
        moment = self.session.time_ms % _DAY_MS
        self._open = {
            key.removeprefix(_ZONE_ARGUMENT): _within(string(self.arguments, key, ""), moment)
            for key in self.arguments
            if key.startswith(_ZONE_ARGUMENT)
        }

    def _zone(self, view: NodeView) -> str:
        return view.node.labels.get(names.REVOCABLE_ZONE, "") if view.node else ""

    def check(self, task: Task, view: NodeView) -> Refused | None:
        zone = self._zone(view)
        if not zone:
            return None
        if not self._open.get(zone, False):
            return Refused(OUTSIDE, resolvable=False)
        return None if task.traits.revocable else Refused(NOT_REVOCABLE, resolvable=False)

    def scores(self, task: Task, views: Sequence[NodeView]) -> Mapping[str, int]:
        if not task.traits.revocable:
            return {}
        return {view.name: _SCORE for view in views if self._open.get(self._zone(view), False)}

    def victims(self) -> list[Task]:
        """Name the running preemptable tasks of closed zones, of each job what its budget allows, once a period."""
        closed = {name for name in self.session.names if not self._open.get(self._zone(self.session.views[name]), True)}
        if not closed:
            return []
        found = []
        for job in self.session.standing.in_key_order():
            if job.book.evicted_ms and self.session.time_ms - job.book.evicted_ms < self._period:
                continue
            there = [task for task in job.tasks if task.node in closed and _may_go(task)]
            found += there[::-1][: _budget(job)] if there else []
        return found


def _may_go(task: Task) -> bool:
    return task.status is TaskStatus.RUNNING and task.traits.preemptable and not critical(task)


def _within(window: str, moment: int) -> bool:
    """Tell whether a moment of the day (milliseconds) is inside ``HH:MM-HH:MM``; end ≤ start means the next day."""
    if not WINDOW.fullmatch(window.strip()):
        return False
    start, end = (_moment(text) for text in window.strip().split("-"))
    if end <= start:
        return moment >= start or moment <= end
    return start <= moment <= end


def _moment(text: str) -> int:
    hours, minutes = text.split(":")
    return (int(hours) * 60 + int(minutes)) * _MINUTE_MS


def _budget(job: Job) -> int:
    """Return how many tasks a job may lose now: by its budget, one where it has none."""
    running = job.count((TaskStatus.RUNNING,))
    written = job.group.annotations
    total = len(job.tasks)
    if _MAX_UNAVAILABLE in written:
        return max(_scaled(written[_MAX_UNAVAILABLE], total, 0) - (total - running), 0)
    if _MIN_AVAILABLE in written:
        return max(running - _scaled(written[_MIN_AVAILABLE], total, total), 0)
    return 1


def _scaled(text: str, total: int, unreadable: int) -> int:
    """Return a number of tasks, or a percentage of them rounded up."""
    digits = text.strip().removesuffix("%")
    if not (digits.isascii() and digits.isdigit() and len(digits) < 10):
        return unreadable
    return -(-total * int(digits) // 100) if text.strip().endswith("%") else int(digits)
