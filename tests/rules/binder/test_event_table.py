"""The table of events, as they stand on the API server: object, type, reason and text (scheduling section 2.7)."""

from __future__ import annotations

from support.service_world import World

from events.canonical import Json
from events.kinds import EVENT, POD_GROUP

CONFIG = """
actions: "enqueue, allocate, preempt, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
- plugins:
  - name: drf
  - name: predicates
  - name: proportion
  - name: nodeorder
"""
Row = tuple[str, str, str, str]


def events(world: World, kind: str, name: str = "") -> list[Row]:
    """Object, type, reason and text of the events on objects of a kind."""
    found = [event for event in world.store.items(EVENT) if event["involvedObject"]["kind"] == kind]
    rows = [(item["involvedObject"]["name"], item["type"], item["reason"], item["message"]) for item in found]
    return sorted(row for row in rows if not name or row[0] == name)


def urgent(name: str) -> Json:
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": "PodGroup",
        "metadata": {"namespace": "team-a", "name": name},
        "spec": {"minMember": 1, "queue": "default", "priorityClassName": "high"},
    }


async def test_a_pod_that_is_placed_and_its_group() -> None:
    """scheduling/E-1, E-6"""
    world = World()
    world.node("n1")
    world.single("one")
    await world.settle()
    assert events(world, "Pod") == [("one", "Normal", "Scheduled", "Successfully assigned team-a/one to n1")]
    assert events(world, "PodGroup") == [("one", "Normal", "Scheduled", "pod group is ready")]


async def test_a_group_that_is_not_ready_tells_how_many_wait() -> None:
    """scheduling/E-2, E-5: the first number is that of the waiting pods"""
    world = World()
    world.node("n1", cpu="3")
    world.group("g", members=2)
    for name in ("g-0", "g-1"):
        world.pod(name, "g", cpu="2")
    await world.settle()
    detail = "pod group is not ready, 2 Pending, 2 minAvailable; Pending: 1 Schedulable, 1 Unschedulable"
    ((_, kind, reason, text),) = events(world, "PodGroup")
    assert (kind, reason) == ("Warning", "Unschedulable")
    assert text.startswith(f"2/2 tasks in gang unschedulable: {detail}")
    first, second = events(world, "Pod")
    schedulable = "Pod team-a/g-0 can possibly be assigned to n1, once minAvailable is satisfied"
    assert first == ("g-0", "Warning", "FailedScheduling", schedulable)
    assert second[:3] == ("g-1", "Warning", "FailedScheduling")


async def test_a_pod_that_makes_room_and_its_group() -> None:
    """scheduling/E-3, E-4: the pod is told in words, the group by the bare reason"""
    world = World()
    world.configure(CONFIG)
    world.put({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9})
    world.node("n1", cpu="2")
    world.group("low")
    for name in ("low-w-0", "low-w-1"):
        world.pod(name, "low")
    await world.settle()
    world.put(urgent("high"))
    world.pod("high")
    await world.settle()
    text = "Pod is evicted, because of preempt"
    assert [row for row in events(world, "Pod") if row[2] == "Evict"] == [("low-w-1", "Warning", "Evict", text)]
    assert [row for row in events(world, "PodGroup") if row[2] == "Evict"] == [("low", "Normal", "Evict", "preempt")]
