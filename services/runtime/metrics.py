"""Counters and histograms of the services, for Prometheus; what the state holds is in ``model_metrics``.

Names that Volcano's dashboards use are kept (scheduling section 8); ours stand beside them with the prefix
``gpuledger_``. A counter whose known name does not end in ``_total`` is a gauge that only rises, since the client
would rename it. Durations are never negative (ME-4).
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Sequence
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from adapters.log.port import Log
from events.codec import Message
from events.records import Batch
from services.runtime.log_times import Reached
from services.runtime.stage_timer import StageTimer
from services.runtime.times import Times

_MILLISECONDS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)


class Metrics:
    """The series of one process. A scheduler tells it of its decisions (it is a ``Scheduler``'s observer)."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        of = self.registry
        self.cycle_ms = Histogram(
            "volcano_e2e_scheduling_latency_milliseconds", "Time of one decision", buckets=_MILLISECONDS, registry=of
        )
        self.attempts = Counter("volcano_schedule_attempts_total", "Decisions by result", ["result"], registry=of)
        self.victims = Gauge("volcano_pod_preemption_victims", "Pods evicted by the last decision", registry=of)
        self.preemptions = Gauge("volcano_total_preemption_attempts", "Decisions that evicted", registry=of)
        self.transactions = Counter(
            "volcano_eviction_transactions_total", "Commits that evicted, by action", ["action"], registry=of
        )
        self.stuck = Gauge(
            "gpuledger_stuck_podgroups", "PodGroups that waited although they fit: must be 0", registry=of
        )
        self.placements = Counter("gpuledger_placements_total", "Pods placed by decisions", registry=of)
        self.records = Counter("gpuledger_log_records_total", "Records appended, by type", ["type"], registry=of)
        self.record_bytes = Counter("gpuledger_log_bytes_total", "Bytes appended, by type", ["type"], registry=of)
        self.times = Times(of)
        self.failures = Counter("gpuledger_service_failures_total", "Failed steps", ["service"], registry=of)

    def stages(self) -> StageTimer:
        """Return what times the stages of one decision."""
        return self.times.stages()

    def reached(self, reached: Reached, latency_ms: int) -> None:
        """A pod or a job got so far, so long after its creation."""
        self.times.reached(reached, latency_ms)

    def looked_again(self, stuck: int) -> None:
        """A settled state was decided once more from scratch: how many groups had waited although they fit."""
        self.stuck.set(stuck)

    def decided(self, batch: Batch | None, elapsed_ms: int) -> None:
        """One decision was made: what it holds, and how long it took."""
        self.cycle_ms.observe(max(elapsed_ms, 0))
        if batch is None:
            self.attempts.labels("unchanged").inc()
            return
        placed = sum(len(command.members) for command in batch.binds)
        self.placements.inc(placed)
        self.attempts.labels("scheduled" if placed else "unschedulable").inc()
        self.victims.set(len(batch.evictions))
        if batch.evictions:
            self.preemptions.inc()
        for action, groups in _transactions(batch).items():
            self.transactions.labels(action).inc(groups)

    def appended(self, messages: Sequence[Message]) -> None:
        """Messages were appended to the log."""
        for message in messages:
            headers = dict(message.headers)
            kind = headers.get("ce_type", b"").decode("ascii", "replace")
            self.records.labels(kind).inc()
            self.record_bytes.labels(kind).inc(len(message.value) + sum(map(len, headers.values())))


class MeteredLog:
    """A log that counts what is appended to it: with the type it tells how many records and bytes a pod costs."""

    def __init__(self, log: Log, metrics: Metrics) -> None:
        self._log, self._metrics = log, metrics

    async def append(self, messages: Sequence[Message]) -> int:
        position = await self._log.append(messages)
        self._metrics.appended(messages)
        return position

    async def read(self, position: int, limit: int = 1000) -> list[tuple[int, Message]]:
        return await self._log.read(position, limit)

    async def bounds(self) -> tuple[int, int]:
        return await self._log.bounds()

    async def wait(self, position: int, timeout_s: float) -> bool:
        return await self._log.wait(position, timeout_s)

    async def close(self) -> None:
        await self._log.close()


def _transactions(batch: Batch) -> Tally[str]:
    """Count the gangs that each action made room for."""
    pairs = {(item.reason, item.for_group) for item in batch.evictions}
    return Tally(reason for reason, _ in pairs)
