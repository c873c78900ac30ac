"""Conditions that the controllers write on pods."""

from __future__ import annotations

from events.canonical import Json
from events.kinds import POD
from events.reading import items, meta, status, text, uid_of
from services.controller.actions import Action, Emit, Patch
from services.controller.objects import ref_of


def pod_unschedulable(pod: Json, message: str) -> list[Action]:
    """Set PodScheduled=False, ``Unschedulable`` with this message, and record the event, unless it stands already.

    A pod's conditions are one list to a merge patch, so the patch counts only for the version it was made from.
    """
    wanted = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    now = items(status(pod).get("conditions"))
    if any(wanted.items() <= condition.items() for condition in now):
        return []
    rest = [condition for condition in now if condition.get("type") != "PodScheduled"]
    version = text(meta(pod).get("resourceVersion"))
    ref = ref_of(POD, pod)
    return [
        Patch(ref, {"status": {"conditions": [*rest, wanted]}}, subresource="status", uid=uid_of(pod), version=version),
        Emit(ref, uid_of(pod), "Warning", "FailedScheduling", message),
    ]
