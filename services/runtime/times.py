"""The histograms of times that Volcano's dashboards know, in milliseconds (scheduling section 8).

A plugin works when a session opens and when it is asked, and has nothing to do when one closes; so there is no series
``OnSessionClose``.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import CollectorRegistry, Histogram

from scheduling.cycle.stages import Stage
from services.runtime.log_times import Reached
from services.runtime.stage_timer import StageTimer

_NS_PER_MS: Final = 1_000_000


def spread(first: float, last: float, count: int) -> tuple[float, ...]:
    """Return so many bounds of buckets from the first to the last, each the same factor above the one before."""
    factor = (last / first) ** (1 / (count - 1))
    return (*(float(f"{first * factor**step:.3g}") for step in range(count - 1)), float(last))


class Times:
    """What takes how long: decisions and their stages, and what is done for a pod."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"volcano_{name}", text, labels, buckets=buckets, registry=registry)

        self._open = histogram("open_session_duration_milliseconds", "Opening a session", spread(1, 5_000, 20))
        self._plugin = histogram(
            "plugin_scheduling_latency_milliseconds",
            "Opening a plugin",
            spread(0.1, 100, 15),
            "plugin",
            "OnSession",
        )
        self._action = histogram(
            "action_scheduling_latency_milliseconds", "Time of an action", spread(1, 2_000, 20), "action"
        )
        self._stage = histogram(
            "scheduling_stage_duration_milliseconds", "A task's stage of scheduling", spread(0.1, 500, 20), "stage"
        )
        self._task = histogram(
            "task_scheduling_latency_milliseconds",
            "From a pod's creation to a stage",
            spread(50, 60_000, 30),
            "stage",
        )
        self._job = histogram(
            "e2e_job_scheduling_latency_milliseconds",
            "From a PodGroup's creation to its latest placement",
            spread(100, 120_000, 30),
        )
        self._searched = {"predicate": self._stage.labels("Predicate"), "scoring": self._stage.labels("Scoring")}

    def stages(self) -> StageTimer:
        """Return what times the stages of one decision."""
        return StageTimer(self._took)

    def _took(self, stage: Stage, name: str, took_ns: int) -> None:
        took_ms = took_ns / _NS_PER_MS
        if stage == "open":
            self._open.observe(took_ms)
        elif stage == "plugin":
            self._plugin.labels(name, "OnSessionOpen").observe(took_ms)
        elif stage == "action":
            self._action.labels(name).observe(took_ms)
        else:
            self._searched[stage].observe(took_ms)

    def reached(self, reached: Reached, latency_ms: int) -> None:
        """A pod or a job got so far, so long after its creation."""
        if reached == "job":
            self._job.observe(latency_ms)
        else:
            self._task.labels(reached).observe(latency_ms)

    def prebound(self, took_ms: int, latency_ms: int | None) -> None:
        """All that comes before a Binding is done; ``latency_ms`` is since the pod's creation, None: not known."""
        self._stage.labels("PreBind").observe(max(took_ms, 0))
        if latency_ms is not None:
            self._task.labels("PreBound").observe(max(latency_ms, 0))

    def bound(self, took_ms: int) -> None:
        """A Binding was applied."""
        self._stage.labels("Bind").observe(max(took_ms, 0))
