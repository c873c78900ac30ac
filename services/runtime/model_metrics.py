"""What the state holds, as gauges made at the moment of a scrape; and the times of its jobs, where they are kept.

They are read from the committed ledger and from nothing else: trial placements never show, and the series of a pod, a
card, a queue or a job vanish with it (devices/M-1, M-2, M-4, scheduling section 8, ME-2, ME-3).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from scheduling import waiting
from scheduling.devices.cards import Card
from scheduling.devices.claims import claim_of
from scheduling.state.fold import Fold
from scheduling.state.model import Model
from services.runtime import queue_metrics
from services.runtime.log_times import LogTimes

_PHASES: Final = ("Pending", "Inqueue", "Running", "Unknown", "Completed")
_CARD: Final = ["devID", "NodeName"]
_JOB: Final = ["job_name", "queue", "job_namespace"]
_POD: Final = [*_CARD, "podName", "podNamespace"]


class ModelCollector(Collector):
    """Collects from the state that ``model`` returns (the newest folded one), and the ``times`` of its jobs, if any.

    ``fold`` says besides what of the log was no record, or had no effect since it rests on another history.
    """

    def __init__(
        self, model: Callable[[], Model], times: LogTimes | None = None, fold: Callable[[], Fold] | None = None
    ) -> None:
        self._model, self._times, self._fold = model, times, fold
        self._counted: set[str] = set()
        self._completed: Counter[tuple[str, str]] = Counter()

    def collect(self) -> Iterable[Metric]:
        """Yield every family."""
        model = self._model()
        yield from _devices(model)
        yield from queue_metrics.families(model)
        yield from _groups(model)
        yield from _waiting(model)
        yield from _ledger(model)
        if self._fold is not None:
            yield from _log(self._fold())
        if self._times is not None:
            yield from _times(model, self._times)
        yield self._completions(model)

    def _completions(self, model: Model) -> GaugeMetricFamily:
        """Count the pods that ended Succeeded while they held a share, each once (M-4)."""
        for uid, entry in model.pods.items():
            if entry.pod.phase == "Succeeded" and uid not in self._counted:
                claim = claim_of(replace(entry.pod, phase="Running"), model.env)
                for uuid in {share.uuid for share in claim.shares} if claim else ():
                    self._completed[(uuid, entry.pod.node)] += 1
                self._counted.add(uid)
        self._counted &= model.pods.keys()
        family = GaugeMetricFamily("volcano_vgpu_tasks_completed", "Pods that ended well on a card", labels=_CARD)
        for labels, count in sorted(self._completed.items()):
            family.add_metric(labels, count)
        return family

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before a scrape."""
        return ()


def by_cluster(collectors: Mapping[str, Collector]) -> Collector:
    """Return one collector for the clusters of a process; several get a label ``cluster``, one stays as it is."""
    return next(iter(collectors.values())) if len(collectors) == 1 else _Clusters(collectors)


class _Clusters(Collector):
    """Collects for each cluster and joins families of one name, since a scrape may hold each only once."""

    def __init__(self, collectors: Mapping[str, Collector]) -> None:
        self._collectors = collectors

    def collect(self) -> Iterable[Metric]:
        joined: dict[str, Metric] = {}
        for cluster in sorted(self._collectors):
            for family in self._collectors[cluster].collect():
                own = joined.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                own.samples += [
                    sample._replace(labels={"cluster": cluster, **sample.labels}) for sample in family.samples
                ]
        return joined.values()

    def describe(self) -> Iterable[Metric]:
        """Nothing is known before a scrape."""
        return ()


def _devices(model: Model) -> Iterator[GaugeMetricFamily]:
    shared = GaugeMetricFamily("volcano_vgpu_device_shared_number", "Used shares", labels=_CARD)
    memory = GaugeMetricFamily("volcano_vgpu_device_allocated_memory", "Used memory in units", labels=_CARD)
    cores = GaugeMetricFamily("volcano_vgpu_device_allocated_cores", "Used cores in percent", labels=_CARD)
    limit = GaugeMetricFamily("volcano_vgpu_device_memory_limit", "Memory of the card in units", labels=_CARD)
    pod_memory = GaugeMetricFamily(
        "volcano_vgpu_device_memory_allocation_for_a_certain_pod", "Memory of a pod on a card", labels=_POD
    )
    pod_cores = GaugeMetricFamily(
        "volcano_vgpu_device_core_allocation_for_a_certain_pod", "Cores of a pod on a card", labels=_POD
    )
    utilization = GaugeMetricFamily("volcano_vgpu_utilization", "Allocated cores / 100", labels=_CARD)
    usage = GaugeMetricFamily("volcano_vgpu_memory_usage", "Allocated / total memory", labels=_CARD)
    for name in sorted(model.nodes):
        for card in model.nodes[name].devices.cards:
            labels = [card.uuid, name]
            shared.add_metric(labels, card.used_shares)
            memory.add_metric(labels, card.used_memory)
            cores.add_metric(labels, card.used_cores)
            limit.add_metric(labels, card.memory)
            utilization.add_metric(labels, card.used_cores / 100)
            usage.add_metric(labels, card.used_memory / card.memory if card.memory else 0)
            for key, (held_memory, held_cores) in _by_pod(card).items():
                namespace, _, pod = key.rpartition("/")
                pod_memory.add_metric([*labels, pod, namespace], held_memory)
                pod_cores.add_metric([*labels, pod, namespace], held_cores)
    yield from (shared, memory, cores, limit, pod_memory, pod_cores, utilization, usage)


def _by_pod(card: Card) -> dict[str, tuple[int, int]]:
    held: dict[str, tuple[int, int]] = {}
    for holder in card.holders:
        memory, cores = held.get(holder.key, (0, 0))
        held[holder.key] = (memory + card.booked(holder.share), cores + holder.share.cores)
    return held


def _times(model: Model, times: LogTimes) -> Iterator[GaugeMetricFamily]:
    """A job that was not placed yet has its start and no more. Jobs of one name are counted together."""
    start = GaugeMetricFamily("volcano_e2e_job_scheduling_start_time", "First decision, Unix seconds", labels=_JOB)
    last = GaugeMetricFamily("volcano_e2e_job_scheduling_last_time", "Latest placement, Unix seconds", labels=_JOB)
    took = GaugeMetricFamily(
        "volcano_e2e_job_scheduling_duration", "From creation to the latest placement, milliseconds", labels=_JOB
    )
    retries: Counter[str] = Counter()
    for key, job in times.jobs(model):
        group = model.groups[key].group
        labels = [group.name, group.queue, group.namespace]
        retries[group.name] += job.retries
        start.add_metric(labels, job.first_ms // 1000)
        if job.placed_ms:
            last.add_metric(labels, job.placed_ms // 1000)
        if job.placed_ms and group.created:
            took.add_metric(labels, max(job.placed_ms - group.created * 1000, 0))
    refused = GaugeMetricFamily(
        "volcano_job_retry_counts", "Decisions in which a gang was not ready", labels=["job_id"]
    )
    for name, count in retries.items():
        if count:
            refused.add_metric([name], count)
    yield from (start, last, took, refused)


def _groups(model: Model) -> Iterator[GaugeMetricFamily]:
    phases: dict[str, Counter[str]] = defaultdict(Counter)
    unready = 0
    for key in sorted(model.groups):
        entry = model.groups[key]
        phases[entry.group.queue][entry.book.phase] += 1
        unready += entry.book.unschedulable is True
    for phase in _PHASES:
        family = GaugeMetricFamily(
            f"volcano_queue_pod_group_{phase.lower()}_count", f"PodGroups {phase}", labels=["queue_name"]
        )
        for name in sorted(model.queues):
            family.add_metric([name], phases[name][phase])
        yield family
    yield GaugeMetricFamily("volcano_unschedule_job_count", "Gangs that are not ready", value=unready)


def _waiting(model: Model) -> Iterator[GaugeMetricFamily]:
    pods = GaugeMetricFamily("gpuledger_waiting_pods", "Pods that wait, by cause", labels=["queue", "reason"])
    groups = GaugeMetricFamily(
        "gpuledger_waiting_podgroups", "PodGroups that wait, by cause", labels=["queue", "reason"]
    )
    for queue in waiting.queues(model):
        for family, counts in ((pods, queue.pods), (groups, queue.groups)):
            for cause, count in counts.items():
                family.add_metric([queue.queue, cause], count)
    yield from (pods, groups)


def _log(fold: Fold) -> Iterator[GaugeMetricFamily]:
    """What an operator should ask about, each read anew from the log after a start."""
    yield GaugeMetricFamily("gpuledger_log_set_aside", "Messages on the log that are no records", value=fold.aside)
    yield GaugeMetricFamily("gpuledger_log_diverged", "Batches there that saw another history", value=fold.diverged)


def _ledger(model: Model) -> Iterator[GaugeMetricFamily]:
    yield GaugeMetricFamily("gpuledger_commands_pending", "Commands without an outcome", value=len(model.commands))
    yield GaugeMetricFamily("gpuledger_pods", "Pods known", value=len(model.pods))
    yield GaugeMetricFamily("gpuledger_nodes", "Nodes known", value=len(model.nodes))
    terms = GaugeMetricFamily("gpuledger_term", "Current term of a role", labels=["role"])
    for role in sorted(model.terms):
        terms.add_metric([role], model.terms[role].number)
    yield terms
