"""Volcano's series of queues and jobs, made from the state at each scrape (scheduling section 8).

Every queue has a value for every scalar that any queue or node knows, so one that disappears is 0 and not at its old
value (ME-2); series of a queue or job that is gone are gone with it. A queue without PodGroups has zeros (ME-3).
Capacity and real capacity come with the capacity plugin only (ME-1).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from fractions import Fraction

from prometheus_client.core import GaugeMetricFamily

from scheduling.cycle.measures import Measures, QueueMeasures, measure
from scheduling.cycle.queue_status import allocated
from scheduling.resources import CPU, MEMORY, PODS
from scheduling.state.model import Model

Amounts = Mapping[str, int] | Mapping[str, Fraction]

_QUEUE = ["queue_name"]
_ALWAYS = ("allocated", "request", "deserved", "inqueue")
_WITH_CAPACITY = ("capacity", "real_capacity")


def families(model: Model) -> Iterator[GaugeMetricFamily]:
    """Yield the families of all queues and jobs."""
    found = measure(model)
    held = allocated(model)
    scalars = _scalars(model, found, held)
    names: tuple[str, ...] = _ALWAYS
    if model.config is not None and model.config.plugin("capacity") is not None:
        names = (*_ALWAYS, *_WITH_CAPACITY)
    for name in names:
        yield from _amounts(
            name, {queue: _of(found.queues[queue], name, held.get(queue)) for queue in found.queues}, scalars
        )
    yield from _plain(model, found)
    yield from _jobs(model, found)


def _of(queue: QueueMeasures, name: str, held: Mapping[str, int] | None) -> Amounts:
    """What is allocated is what the queue's status shows (Q-7); the rest is as the plugin reckons."""
    if name == "allocated":
        return held or {}
    amounts: Amounts = getattr(queue, name)
    return amounts


def _scalars(model: Model, found: Measures, held: Mapping[str, Mapping[str, int]]) -> list[str]:
    names = {name for view in model.nodes.values() for name in view.room}
    names |= {name for amounts in held.values() for name in amounts}
    for queue in found.queues.values():
        names |= {*queue.request, *queue.deserved, *queue.inqueue, *queue.capacity}
    return sorted(names - {CPU, MEMORY, PODS})


def _amounts(name: str, queues: Mapping[str, Amounts], scalars: list[str]) -> Iterator[GaugeMetricFamily]:
    cpu = GaugeMetricFamily(f"volcano_queue_{name}_milli_cpu", f"{name} CPU in thousandths", labels=_QUEUE)
    memory = GaugeMetricFamily(f"volcano_queue_{name}_memory_bytes", f"{name} memory in bytes", labels=_QUEUE)
    rest = GaugeMetricFamily(
        f"volcano_queue_{name}_scalar_resources", f"{name} scalars in thousandths", labels=[*_QUEUE, "resource"]
    )
    for queue, amounts in queues.items():
        cpu.add_metric([queue], float(amounts.get(CPU, 0)))
        memory.add_metric([queue], float(amounts.get(MEMORY, 0)))
        for scalar in scalars:
            rest.add_metric([queue, scalar], float(amounts.get(scalar, 0)))
    yield from (cpu, memory, rest)


def _plain(model: Model, found: Measures) -> Iterator[GaugeMetricFamily]:
    share = GaugeMetricFamily("volcano_queue_share", "Allocated of deserved, the greatest dimension", labels=_QUEUE)
    weight = GaugeMetricFamily("volcano_queue_weight", "Weight", labels=_QUEUE)
    overused = GaugeMetricFamily("volcano_queue_overused", "1 if it is overused", labels=_QUEUE)
    for name, queue in found.queues.items():
        share.add_metric([name], float(queue.share))
        weight.add_metric([name], model.queues[name].weight)
        overused.add_metric([name], int(queue.overused))
    yield from (share, weight, overused)


def _jobs(model: Model, found: Measures) -> Iterator[GaugeMetricFamily]:
    """``job_id`` is the name alone, so jobs of one name in several namespaces are one series: their sum."""
    lacking = GaugeMetricFamily("volcano_unschedule_task_count", "Tasks that a gang lacks", labels=["job_id"])
    share = GaugeMetricFamily("volcano_job_share", "Dominant share", labels=["job_ns", "job_id"])
    tasks: Counter[str] = Counter()
    for key, job in sorted(found.jobs.items()):
        namespace, _, name = key.rpartition("/")
        tasks[name] += job.unscheduled
        share.add_metric([namespace, name], float(job.share))
    for name, count in tasks.items():
        lacking.add_metric([name], count)
    yield from (lacking, share)
