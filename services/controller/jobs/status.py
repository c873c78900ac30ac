"""The status of a VolcanoJob (scheduling/J-16): counted from its pods, phases with their times."""

from __future__ import annotations

import copy

from adapters.clock import rfc3339
from events.canonical import Json
from events.reading import items, mapping, meta
from scheduling.objects import seconds
from services.controller.jobs.model import FINISHED, VolcanoJob, duration_text
from services.controller.jobs.roster import Counts


def build(job: VolcanoJob, counts: Counts, phase: str, now_ms: int, *, retries: int, version: int) -> Json:
    """Return the status that should stand."""
    result: Json = {
        "minAvailable": job.min_available,
        "pending": counts.pending,
        "running": counts.running,
        "succeeded": counts.succeeded,
        "failed": counts.failed,
        "terminating": counts.terminating,
        "unknown": counts.unknown,
        "version": version,
        "retryCount": retries,
        "taskStatusCount": {task: {"phase": phases} for task, phases in counts.tasks.items()},
    }
    if phase != job.phase:
        result |= _entered(job, phase, now_ms)
    return result


def _entered(job: VolcanoJob, phase: str, now_ms: int) -> Json:
    """The parts that change when a phase is entered; its condition becomes the newest, at the end."""
    time = rfc3339(now_ms)
    others = [item for item in items(job.now.get("conditions")) if item.get("status") != phase]
    result: Json = {
        "state": {"phase": phase, "lastTransitionTime": time},
        "conditions": [*others, {"status": phase, "lastTransitionTime": time}],
    }
    if phase in FINISHED or phase == "Aborted":
        created = seconds(meta(job.item).get("creationTimestamp"))
        result["runningDuration"] = duration_text(now_ms // 1000 - created if created else 0)
    return result


def difference(now: Json, wanted: Json) -> Json:
    """Return the merge patch from ``now`` to ``wanted`` for the keys that ``wanted`` has."""
    patch: Json = {}
    for key, value in wanted.items():
        if now.get(key) == value:
            continue
        patch[key] = _merge(mapping(now.get(key)), value) if isinstance(value, dict) else copy.deepcopy(value)
    return patch


def _merge(now: Json, wanted: Json) -> Json:
    """A merge patch of a mapping that is owned as a whole: what is not wanted goes."""
    patch: Json = {key: None for key in now if key not in wanted}
    for key, value in wanted.items():
        if now.get(key) != value:
            patch[key] = _merge(mapping(now.get(key)), value) if isinstance(value, dict) else copy.deepcopy(value)
    return patch
