"""The Queue controller: the two queues that always exist, states, hierarchy, counters (scheduling/Q-2, Q-3, Q-8).

A queue is closed by its status' ``state``: users write Open or Closed, and the machine makes of it what holds.

    Open, or empty        Open, unless the parent is not open: then it is closed with the parent, and marked
    Closed or Closing     Closed if no PodGroup is in it, else Closing; marked ones reopen when the parent is open
    anything else         Unknown

A command (E-11) does the same as such a write, except where nothing can follow from it: that it says.

``status.allocated`` is the scheduler's; nothing here touches it.
"""

from __future__ import annotations

from events.canonical import Json
from events.kinds import QUEUE
from events.reading import deleting, meta, name_of, spec, status, text, uid_of
from services.controller.actions import Action, Create, Emit, Patch
from services.controller.objects import Ref, notes_of, ref_of
from services.controller.world import World, parent_of

CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"
ROOT, DEFAULT = "root", "default"
OPEN, CLOSE, SYNC = "OpenQueue", "CloseQueue", "SyncQueue"
_ASKS_FOR = {OPEN: "Open", CLOSE: "Closed"}
_PHASES = ("Pending", "Inqueue", "Running", "Unknown", "Completed")


def initial(world: World) -> list[Action]:
    """Create ``root`` and ``default`` where they are missing (Q-2)."""
    wanted = (
        (ROOT, {"weight": 1, "reclaimable": False}),
        (DEFAULT, {"weight": 1, "reclaimable": True, "parent": ROOT}),
    )
    return [Create(QUEUE, _queue(name, content)) for name, content in wanted if world.get(QUEUE, "", name) is None]


def _queue(name: str, content: Json) -> Json:
    return {"apiVersion": QUEUE.api_version, "kind": QUEUE.name, "metadata": {"name": name}, "spec": content}


def reconcile(world: World, ref: Ref, action: str = SYNC) -> list[Action]:
    """Bring one queue in line, after a command (``OPEN``, ``CLOSE``) or without one."""
    queue = world.at(ref)
    if queue is None:
        return initial(world) if ref.name in (ROOT, DEFAULT) else []
    if deleting(queue):
        return []
    why_not = _cannot(world, queue, action)
    if why_not:
        return [failure(queue, action, why_not)]
    asked = _as_asked(queue, action)
    merge = _metadata(world, queue, asked)
    described = [Patch(ref, merge, uid=uid_of(queue))] if merge else []
    wanted = {"state": next_state(world, asked), **counters(world, ref.name)}
    changed = {key: value for key, value in wanted.items() if status(queue).get(key) != value}
    actions: list[Action] = [*_status(queue, changed)] if changed else []
    # A mark goes last, so that a failure between the two leaves a queue that is still known as closed by its parent.
    return [*actions, *described] if wanted["state"] == "Open" else [*described, *actions]


def failure(queue: Json, action: str, why: str) -> Emit:
    """Tell that an action on a queue came to nothing (E-13)."""
    return Emit(ref_of(QUEUE, queue), uid_of(queue), "Warning", action, f"{action} queue failed for {why}")


def _cannot(world: World, queue: Json, action: str) -> str:
    """Why a command cannot be followed, empty if it can (Q-2, Q-3)."""
    if action == CLOSE and name_of(queue) == ROOT:
        return "queue root cannot be closed"
    if action == OPEN and state_of(queue) != "Open" and _parent_is_closed(world, queue):
        parent = parent_of(queue)
        return f"its parent queue {parent} is {state_of(world.get(QUEUE, '', parent) or {})}, open that first"
    return ""


def _as_asked(queue: Json, action: str) -> Json:
    """The queue as a user would have written it who asks for that: closed on its own account, not with its parent."""
    if action not in _ASKS_FOR:
        return queue
    notes = {key: value for key, value in notes_of(queue).items() if key != CLOSED_BY_PARENT}
    wanted = {**status(queue), "state": _ASKS_FOR[action]}
    return {**queue, "metadata": {**meta(queue), "annotations": notes}, "status": wanted}


def _status(queue: Json, changed: Json) -> list[Action]:
    """Write the status, and tell of a queue that was closed (E-13)."""
    ref, now, then = ref_of(QUEUE, queue), state_of(queue), changed.get("state")

    def refused(why: str) -> list[Action]:
        if then is None or then == now:
            return []
        if then == "Open":
            text = f"Update queue status from {now} to {then} failed for {why}"
            return [Emit(ref, uid_of(queue), "Warning", "OpenQueue", text)]
        return [Emit(ref, uid_of(queue), "Warning", "CloseQueue", f"Close queue failed for {why}")]

    patch = Patch(ref, {"status": changed}, subresource="status", uid=uid_of(queue), refused=refused, must=True)
    if then == "Closed" or (then == "Closing" and now == "Open"):
        return [patch, Emit(ref, uid_of(queue), "Normal", "CloseQueue", "Close queue succeed")]
    return [patch]


def state_of(queue: Json) -> str:
    """The state as it is written; empty counts as Open (Q-1)."""
    return text(status(queue).get("state")) or "Open"


def counters(world: World, name: str) -> dict[str, int]:
    """How many PodGroups of the queue are in each phase (Q-8)."""
    count = dict.fromkeys((phase.lower() for phase in _PHASES), 0)
    for phase, number in world.group_phases(name).items():
        if phase.lower() in count:
            count[phase.lower()] += number
    return count


def next_state(world: World, queue: Json) -> str:
    """The state that follows from what is asked for, the parent, and the PodGroups (Q-3)."""
    now = state_of(queue)
    if name_of(queue) == ROOT:
        return "Open"
    closed_parent = _parent_is_closed(world, queue)
    marked = notes_of(queue).get(CLOSED_BY_PARENT) == "true"
    if now == "Open":
        return _closed(world, queue) if closed_parent else "Open"
    if now in ("Closed", "Closing"):
        return "Open" if marked and not closed_parent else _closed(world, queue)
    return "Unknown"


def _closed(world: World, queue: Json) -> str:
    return "Closing" if world.group_phases(name_of(queue)) else "Closed"


def _parent_is_closed(world: World, queue: Json) -> bool:
    parent = world.get(QUEUE, "", parent_of(queue))
    return parent is not None and name_of(parent) != ROOT and state_of(parent) in ("Closed", "Closing")


def _metadata(world: World, queue: Json, asked: Json) -> Json:
    """The default parent, and the mark of a queue that is closed with its parent."""
    merge: Json = {}
    if name_of(queue) != ROOT and not text(spec(queue).get("parent")):
        merge["spec"] = {"parent": ROOT}
    closed_parent = _parent_is_closed(world, queue)
    marked = notes_of(queue).get(CLOSED_BY_PARENT) == "true"
    if closed_parent and state_of(asked) == "Open" and not marked:
        merge["metadata"] = {"annotations": {CLOSED_BY_PARENT: "true"}}
    elif marked and (not closed_parent or asked is not queue) and state_of(asked) != "Unknown":
        merge["metadata"] = {"annotations": {CLOSED_BY_PARENT: None}}
    return merge


def touched_by(world: World, name: str) -> list[Ref]:
    """The queues to look at when this one changed: itself and its children."""
    return [Ref(QUEUE, "", name), *(ref_of(QUEUE, child) for child in world.children(name))]
