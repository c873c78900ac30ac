"""Worlds in which places are taken: configurations with preempt and reclaim, jobs with priorities."""

from __future__ import annotations

from typing import Any

from rules.cycle.build import World, gpu, group, pod, thing

from events.records import EvictCommand
from scheduling.config.model import PluginOption, SchedulerConfig

BY_TASK = ("enqueue", "allocate", "preempt", "reclaim", "backfill")
BY_GANG = ("enqueue", "allocate", "gangpreempt", "gangreclaim", "backfill")
CLASSES = {"low": 10, "mid": 100, "high": 1000}
Json = dict[str, Any]


def config(
    *actions: str,
    queues: str = "proportion",
    off: tuple[str, ...] = (),
    first: tuple[str, ...] = (),
    **arguments: Json,
) -> SchedulerConfig:
    """The usual tiers. ``off`` are plugins left out, ``first`` ones put before the first tier."""
    share = PluginOption("deviceshare", {"deviceshare.VGPUEnable": True, "deviceshare.SchedulePolicy": "binpack"})

    def tier(*names: str) -> tuple[PluginOption, ...]:
        options = (PluginOption(name, arguments.get(name, {})) for name in names if name not in off)
        return tuple(share if option.name == "deviceshare" else option for option in options)

    tiers = [
        tier("priority", "gang", "conformance"),
        tier("drf", "deviceshare", "predicates", queues, "nodeorder", "binpack"),
    ]
    if first:
        tiers.insert(0, tier(*first))
    found = {name: value for name, value in arguments.items() if name in (*BY_TASK, *BY_GANG)}
    return SchedulerConfig(actions or BY_TASK, tuple(tiers), found)


def world(*items: Any, settings: SchedulerConfig | None = None) -> World:
    """A world with the priority classes ``low``, ``mid`` and ``high``."""
    classes = [thing("PriorityClass", name, value=value) for name, value in CLASSES.items()]
    return World(classes, *items, config=settings or config())


def job(
    name: str,
    size: int,
    asked: Json | None = None,
    *,
    minimum: int = 1,
    klass: str = "low",
    queue: str = "default",
    age: int = 0,
    **fields: Any,
) -> list[Json]:
    """A PodGroup of a priority with pods ``<name>-w-<i>``; ``fields`` are the pods'."""
    found = [group(name, minimum, queue=queue, age=age, spec={"priorityClassName": klass})]
    return found + [pod(f"{name}-w-{i}", name, gpu(2000) if asked is None else asked, age=age, **fields)
                    for i in range(size)]  # fmt: skip


def evicted(place: World) -> list[str]:
    """Decide once, and return the names of those who make way, in order."""
    return [command.name for command in decided(place)]


def decided(place: World) -> list[EvictCommand]:
    """Decide once, and return the evictions."""
    batch = place.step()
    return list(batch.evictions) if batch else []


def there(place: World, *names: str) -> list[str]:
    """Return which of these pods are still there and have a node."""
    known = {entry.pod.name: entry for entry in place.model.pods.values()}
    return [name for name in names if name in known and known[name].node]
