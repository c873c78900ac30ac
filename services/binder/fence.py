"""Before a bind command is given up, its pod is written once (design section 4, scheduling/F-2).

A Binding of that command may still be under way, from a request that got no answer or from a binder that was replaced
and does not know it. It carries the resourceVersion that it has read; the write moves that, so it fails. What is
written is what F-2 asks for anyway, the pod's condition; if that is there already, a mark that names the command; if
that is there too, from a try whose report was lost, the mark names the version as well, so that each try moves it.
"""

from __future__ import annotations

from adapters.clock import Clock, rfc3339
from adapters.cluster.port import ApiError, ClusterApi
from events import names
from events.canonical import Json
from events.kinds import POD
from services.binder.conditions import with_conditions

TRIES = 3


async def fence(api: ClusterApi, clock: Clock, item: Json, command: str, message: str) -> None:
    """Move the version of a pod as it was read. Raises ApiError (409: it has moved meanwhile), ApiUnknown."""
    meta = item["metadata"]
    namespace, name, version = meta.get("namespace", ""), meta["name"], meta.get("resourceVersion", "")
    guard = {"uid": meta.get("uid", ""), "resourceVersion": version}
    condition = {"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": message}
    conditions = with_conditions(item, [condition], rfc3339(clock.now_ms()))
    if conditions is not None:
        merge = {"metadata": guard, "status": {"conditions": conditions}}
        moved = await api.patch(POD, namespace, name, merge, "status")
    else:
        there = (meta.get("annotations") or {}).get(names.REFUSED)
        mark = command if there != command else f"{command}@{version}"
        marked = {**guard, "annotations": {names.REFUSED: mark}}
        moved = await api.patch(POD, namespace, name, {"metadata": marked})
    if moved["metadata"].get("resourceVersion", "") == version:
        raise ApiError(409, "Conflict", f"the version of pod {namespace}/{name} did not move")
