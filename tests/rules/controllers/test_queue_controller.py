"""Queues: what always exists, states, hierarchy, counters (scheduling/Q-2, Q-3, Q-8, E-13)."""

from __future__ import annotations

import pytest
from control_room import ControlRoom, job, pod, queue

from events.kinds import POD, POD_GROUP, QUEUE
from services.controller import queues
from services.controller.actions import Patch
from services.controller.objects import Ref
from services.controller.routes import Switches
from services.controller.world import World

MARK = "volcano.sh/closed-by-parent"


@pytest.fixture
def room() -> ControlRoom:
    return ControlRoom()


def state(room: ControlRoom, name: str) -> str:
    return str(room.queue(name)["status"]["state"])


def close(room: ControlRoom, name: str, to: str = "Closed") -> None:
    room.patch(QUEUE, name, {"status": {"state": to}}, "status")
    room.settle()


def test_root_and_default_are_made_where_they_are_missing(room: ControlRoom) -> None:
    """scheduling/Q-2"""
    for name in ("root", "default"):
        room.cluster.remove(QUEUE, "", name)
    room.settle()
    assert room.queue("root")["spec"]["reclaimable"] is False
    spec = room.queue("default")["spec"]
    assert (spec["weight"], spec["reclaimable"], spec["parent"]) == (1, True, "root")
    assert state(room, "root") == state(room, "default") == "Open"


def test_a_queue_without_parent_gets_root() -> None:
    """scheduling/Q-2"""
    world = World()
    world.put(QUEUE, {"metadata": {"name": "q", "uid": "u"}, "spec": {}})
    patches = [action.merge for action in queues.reconcile(world, Ref(QUEUE, "", "q")) if isinstance(action, Patch)]
    assert {"spec": {"parent": "root"}} in patches


def test_an_empty_queue_closes_at_once(room: ControlRoom) -> None:
    """scheduling/Q-3, E-13"""
    room.apply(queue("q"))
    room.settle()
    close(room, "q", "Closing")
    assert state(room, "q") == "Closed"
    assert room.events("CloseQueue") == ["Close queue succeed"]
    close(room, "q", "Open")
    assert state(room, "q") == "Open"


def test_a_queue_with_groups_closes_when_the_last_goes(room: ControlRoom) -> None:
    """scheduling/Q-3"""
    room.apply(queue("q"))
    room.apply(pod("p", metadata="annotations: {scheduling.volcano.sh/queue-name: q}"))
    room.settle()
    close(room, "q")
    assert state(room, "q") == "Closing"
    room.delete(POD, "p")
    room.settle()
    assert room.names(POD_GROUP) == []
    assert state(room, "q") == "Closed"


def test_closing_a_parent_closes_its_children_and_opening_opens_the_marked_ones(room: ControlRoom) -> None:
    """scheduling/Q-3"""
    room.apply(queue("up") + "---\n" + queue("a", "parent: up") + "---\n" + queue("b", "parent: up"))
    room.apply(queue("c", "parent: a"))
    room.settle()
    close(room, "b")
    close(room, "up")
    assert [state(room, name) for name in ("up", "a", "b", "c")] == ["Closed"] * 4
    marks = [(room.queue(name)["metadata"].get("annotations") or {}).get(MARK) for name in ("up", "a", "b", "c")]
    assert marks == [None, "true", None, "true"]
    close(room, "up", "Open")
    assert [state(room, name) for name in ("up", "a", "b", "c")] == ["Open", "Open", "Closed", "Open"]
    assert MARK not in (room.queue("a")["metadata"].get("annotations") or {})


def test_a_child_cannot_be_open_under_a_closed_parent() -> None:
    """scheduling/Q-3: also one that came by another way"""
    room = ControlRoom(admission=False)
    room.apply(queue("up"))
    room.settle()
    close(room, "up")
    room.put(queue("a", "parent: up"))
    room.settle()
    assert state(room, "a") == "Closed"


def test_root_stays_open() -> None:
    """scheduling/Q-2"""
    room = ControlRoom(admission=False)
    room.settle()
    close(room, "root")
    assert state(room, "root") == "Open"


def test_an_unknown_state_is_unknown_until_somebody_sets_one() -> None:
    """scheduling/Q-1, Q-3"""
    room = ControlRoom(admission=False)
    room.apply(queue("q"))
    room.settle()
    close(room, "q", "Ajar")
    assert state(room, "q") == "Unknown"
    close(room, "q", "Open")
    assert state(room, "q") == "Open"


def test_counters(room: ControlRoom) -> None:
    """scheduling/Q-8"""
    room.apply(queue("q"))
    for name in ("one", "two", "three", "four"):
        room.apply(job(name, metadata=f"uid: {name}", spec="queue: q"))
    room.settle()
    for name, phase in (("two", "Inqueue"), ("three", "Running"), ("four", "Unknown")):
        room.phase_of_group(f"{name}-{name}", phase)
    room.settle()
    status = room.queue("q")["status"]
    assert [status[key] for key in ("pending", "inqueue", "running", "unknown", "completed")] == [1, 1, 1, 1, 0]
    assert room.queue("default")["status"]["pending"] == 0


def test_what_the_scheduler_writes_stays(room: ControlRoom) -> None:
    """scheduling/Q-6: status.allocated is the scheduler's"""
    room.apply(queue("q"))
    room.settle()
    room.patch(QUEUE, "q", {"status": {"allocated": {"cpu": "2"}}}, "status")
    close(room, "q")
    assert room.queue("q")["status"]["allocated"] == {"cpu": "2"}


def test_switched_off() -> None:
    room = ControlRoom(Switches(queues=False))
    room.apply(queue("q"))
    room.settle()
    assert "status" not in room.queue("q")
