"""Admission of PodGroups: the queue must be there and open (scheduling/AS-13, PG-1)."""

from __future__ import annotations

from events import names
from events.canonical import Json
from events.kinds import POD_GROUP, QUEUE
from events.reading import items, meta, spec, text, whole
from scheduling.admission.lookup import (
    DEFAULT,
    Lister,
    denied,
    missing,
    namespace_queue,
    queue_named,
    section,
    state_of,
    topology_problem,
)


def admit(verb: str, new: Json | None, old: Json | None, lister: Lister) -> None:
    """Complete and judge a PodGroup. Raises Denied."""
    if new is None or verb not in ("create", "update"):
        return
    wanted = section(new, "spec")
    queue = text(wanted.get("queue")) or DEFAULT
    if verb == "create" and queue == DEFAULT:
        queue = namespace_queue(lister, text(meta(new).get("namespace")), names.QUEUE_NAME) or queue
    wanted["queue"] = queue
    _shape(new)
    if verb == "create":
        _queue(queue, lister)


def _shape(group: Json) -> None:
    minimum = spec(group).get("minMember")
    if minimum is not None and (whole(minimum) is None or minimum < 0):
        raise denied(POD_GROUP, f"spec.minMember: Invalid value: {minimum!r}: must be greater than or equal to 0")
    parts = [spec(group), *items(spec(group).get("subGroupPolicy"))]
    for part in parts:
        problem = topology_problem(part.get("networkTopology"))
        if problem:
            raise denied(POD_GROUP, problem)


def _queue(name: str, lister: Lister) -> None:
    queue = queue_named(lister, name)
    if queue is None:
        raise denied(POD_GROUP, f"unable to find queue: {missing(QUEUE, name)}")
    state = state_of(queue)
    if state != "Open":
        raise denied(
            POD_GROUP, f"can only submit PodGroup to queue with state `Open`, queue `{name}` status is `{state}`."
        )
