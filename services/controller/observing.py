"""What the controllers tell those who count (scheduling section 8): finished jobs, and how soon their pods came.

``ControllerMetrics`` is the observer for Prometheus, under the names that Volcano's dashboards know.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from prometheus_client import CollectorRegistry, Gauge, Histogram

from adapters.cluster.mirror import Change
from events.canonical import Json
from events.kinds import POD, VOLCANO_JOB
from events.reading import mapping, meta, name_of, spec, status, text
from scheduling.objects import seconds
from services.controller.objects import controller_of
from services.controller.world import World

_MILLISECONDS = (100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000, 300_000)


class Observer(Protocol):
    """Is told what happened."""

    def finished(self, job: str, queue: str, phase: str) -> None:
        """A VolcanoJob became Completed or Failed."""
        ...

    def gone(self, job: str, queue: str) -> None:
        """A VolcanoJob is there no more."""
        ...

    def pod_created(self, latency_ms: int) -> None:
        """A pod of a VolcanoJob was created, this long after the job."""
        ...


class Nobody:
    """Nobody counts."""

    def finished(self, job: str, queue: str, phase: str) -> None:
        return None

    def gone(self, job: str, queue: str) -> None:
        return None

    def pod_created(self, latency_ms: int) -> None:
        return None


class ControllerMetrics:
    """The observer that counts for Prometheus."""

    def __init__(self, registry: CollectorRegistry) -> None:
        labels = ["job_name", "queue_name"]
        self._completed = Gauge("volcano_job_completed_phase_count", "Jobs completed", labels, registry=registry)
        self._failed = Gauge("volcano_job_failed_phase_count", "Jobs failed", labels, registry=registry)
        self._latency = Histogram(
            "volcano_controller_job_to_pod_creation_latency_milliseconds",
            "Time from a job to each of its pods",
            buckets=_MILLISECONDS,
            registry=registry,
        )

    def finished(self, job: str, queue: str, phase: str) -> None:
        (self._completed if phase == "Completed" else self._failed).labels(job, queue).inc()

    def gone(self, job: str, queue: str) -> None:
        """The job's series go with it (ME-2); another of the same name and queue begins anew."""
        for gauge in (self._completed, self._failed):
            with suppress(KeyError):
                gauge.remove(job, queue)

    def pod_created(self, latency_ms: int) -> None:
        self._latency.observe(max(latency_ms, 0))


def observe(observer: Observer, world: World, change: Change, *, own: bool) -> None:
    """Tell the observer what a change means; ``own`` changes are the controllers' writes."""
    if change.kind == VOLCANO_JOB and change.old is not None and change.new is not None:
        was, now = (text(mapping(status(item).get("state")).get("phase")) for item in (change.old, change.new))
        if was != now and now in ("Completed", "Failed"):
            observer.finished(*_labels(change.new), now)
    elif change.kind == VOLCANO_JOB and change.old is not None and change.new is None:
        observer.gone(*_labels(change.old))
    elif own and change.kind == POD and change.old is None and change.new is not None:
        job = world.by_uid(text(mapping(controller_of(change.new)).get("uid")))
        if job is not None:
            times = [seconds(meta(item).get("creationTimestamp")) for item in (job, change.new)]
            observer.pod_created((times[1] - times[0]) * 1000)


def _labels(job: Json) -> tuple[str, str]:
    """Return a job's name and queue."""
    return name_of(job), text(spec(job).get("queue")) or "default"
