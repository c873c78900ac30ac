"""The node lock: taken right before a Binding, waited for, released when it came to nothing (devices/A-19 to A-21)."""

from __future__ import annotations

from typing import Any

import pytest
from support.service_world import CARD, LIMITS, START_MS, World, refused, unknown

from events.kinds import NODE, POD
from events.records import Observed, Outcome

CONFIG = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: drf
  - name: deviceshare
    arguments:
      deviceshare.{mode}: true
      deviceshare.NodeLockEnable: true
  - name: predicates
  - name: proportion
"""


def locking_world(mode: str = "VGPUEnable", lock: str | None = None, key: str = "hamivgpu", **node: Any) -> World:
    world = World()
    world.configure(CONFIG.format(mode=mode))
    notes = {} if lock is None else {key: lock}
    world.node("n1", register=CARD, annotations=notes, **node)
    return world


def lock_of(world: World, key: str = "hamivgpu") -> str | None:
    value = world.get(NODE, "n1")["metadata"].get("annotations", {}).get(key)
    return value if isinstance(value, str) else None


def bound(world: World, name: str) -> bool:
    return bool(world.get(POD, name)["spec"].get("nodeName"))


async def test_the_lock_is_set_with_the_time_right_before_the_binding_a19() -> None:
    world = locking_world()
    world.single("one", limits=LIMITS)
    await world.settle()
    assert bound(world, "one")
    assert lock_of(world) == "2026-01-01T00:00:00Z"


async def test_a_held_lock_waits_and_the_decision_does_not_fail_a20() -> None:
    world = locking_world(lock="2025-12-31T23:56:00Z")
    world.single("one", limits=LIMITS)
    await world.settle()
    assert not bound(world, "one")
    assert not await world.bodies(Outcome)
    (why,) = world.binder.waiting.values()
    assert why == "node n1 locked for one hamivgpu lockname node n1 has been locked within 5 minutes"
    world.clock.time_ms = START_MS + 61_000
    await world.settle()
    assert bound(world, "one")
    assert lock_of(world) == "2026-01-01T00:01:01Z"


@pytest.mark.parametrize(
    ("lock", "held"),
    [
        ("2025-12-31T23:55:00Z", True),
        ("2025-12-31T23:54:59Z", False),
        ("2026-01-01T09:00:00Z", True),
        ("2026-01-01T00:59:00+01:00", True),
        ("2026-01-01T00:30:00+01:00", False),
    ],
)
async def test_five_minutes_and_times_in_the_future_a19(lock: str, held: bool) -> None:
    world = locking_world(lock=lock)
    world.single("one", limits=LIMITS)
    await world.settle()
    assert bound(world, "one") is not held


async def test_an_unreadable_value_is_held_for_five_minutes_since_first_seen_a20() -> None:
    world = locking_world(lock="not a time")
    world.single("one", limits=LIMITS)
    await world.settle()
    world.clock.time_ms += 5 * 60_000
    await world.settle()
    assert not bound(world, "one")
    world.clock.time_ms += 1
    await world.settle()
    assert bound(world, "one")


async def test_an_unreadable_value_that_comes_again_is_held_for_five_minutes_anew_a20() -> None:
    world = locking_world(lock="not a time")
    world.single("one", limits=LIMITS)
    await world.settle()
    assert not bound(world, "one")
    await world.api.patch(NODE, "", "n1", {"metadata": {"annotations": {"hamivgpu": None}}})
    await world.settle()
    assert bound(world, "one")
    world.clock.time_ms += 60 * 60_000
    await world.api.patch(NODE, "", "n1", {"metadata": {"annotations": {"hamivgpu": "not a time"}}})
    world.single("two", limits=LIMITS)
    await world.settle()
    assert not bound(world, "two"), "somebody took the lock just now"


async def test_the_lock_of_a_pod_that_is_deleted_under_way_is_removed_a20() -> None:
    """scheduling/F-5: the log tells of the deletion before the Binding, which got no answer, is tried again."""
    world = locking_world()
    world.single("one", limits=LIMITS)
    await world.decide()
    world.api.faults["bind"] = [unknown()]
    await world.binder.step()
    assert lock_of(world)
    world.store.remove(POD, "team-a", "one")
    await world.watcher.step()
    world.api.faults["get"] = [unknown()]
    await world.binder.step()
    assert lock_of(world), "the node could not be read"
    await world.binder.step()
    assert not lock_of(world)
    world.single("two", limits=LIMITS)
    await world.settle()
    assert bound(world, "two")


async def test_the_lock_of_a_pod_that_is_seen_bound_is_its_node_agents_a21() -> None:
    world = locking_world()
    world.single("one", limits=LIMITS)
    await world.decide()
    world.api.after["bind"] = [unknown()]
    await world.binder.step()
    await world.watcher.step()
    await world.settle()
    assert bound(world, "one")
    assert lock_of(world)


async def test_gang_members_on_one_node_bind_one_after_another_a20() -> None:
    world = locking_world()
    world.group("gang", 2)
    for name in ("gang-0", "gang-1"):
        world.pod(name, "gang", limits=LIMITS)
    await world.settle()
    assert [bound(world, name) for name in ("gang-0", "gang-1")] == [True, False]
    await world.api.patch(NODE, "", "n1", {"metadata": {"annotations": {"hamivgpu": None}}})
    await world.settle()
    assert bound(world, "gang-1")


async def test_another_node_and_pods_without_devices_are_not_held_up() -> None:
    world = locking_world(lock="2025-12-31T23:59:00Z")
    world.node("n2")
    world.single("gpu", limits=LIMITS)
    await world.settle()
    world.single("cpu", nodeSelector={})
    await world.settle()
    assert bound(world, "cpu") or world.get(POD, "cpu")["spec"].get("nodeName") != "n2"
    assert not bound(world, "gpu")


async def test_a_bind_that_fails_removes_the_lock_that_it_set_a20() -> None:
    world = locking_world()
    world.single("one", limits=LIMITS)
    await world.decide()
    world.api.faults["bind"] = [refused(422)]
    await world.binder.step()
    assert [outcome.result for outcome in await world.bodies(Outcome)] == ["refused"]
    assert lock_of(world) is None


async def test_a_race_is_read_again_and_judged_again_a20() -> None:
    world = locking_world()
    world.single("one", limits=LIMITS)
    await world.decide()
    world.api.faults["patch"] = [refused(409)] * 4
    await world.binder.step()
    assert bound(world, "one")


async def test_five_lost_races_wait_for_the_next_step_a19() -> None:
    world = locking_world()
    world.single("one", limits=LIMITS)
    await world.decide()
    world.api.faults["patch"] = [refused(409)] * 5
    await world.binder.step()
    (why,) = world.binder.waiting.values()
    assert why.endswith("setNodeLock exceeds retry count 5")
    await world.settle()
    assert bound(world, "one")


async def test_legacy_memory_sharing_has_a_lock_of_its_own_g10() -> None:
    world = locking_world(mode="GPUSharingEnable", lock="2025-12-31T23:59:00Z", key="gpu")
    node = world.get(NODE, "n1")
    extra = {"volcano.sh/gpu-memory": "16000", "volcano.sh/gpu-number": "2"}
    node["status"]["capacity"].update(extra)
    node["status"]["allocatable"].update(extra)
    world.put(node)
    world.single("one", limits={"volcano.sh/gpu-memory": "1000"})
    await world.settle()
    assert not bound(world, "one")
    (why,) = world.binder.waiting.values()
    assert why == "node n1 locked for lockname gpushare node n1 has been locked within 5 minutes"
    world.clock.time_ms += 10 * 60_000
    await world.settle()
    assert bound(world, "one")
    assert lock_of(world, "gpu") == "2026-01-01T00:10:00Z"


async def died_between_lock_and_binding() -> World:
    """A binder took the lock, its Binding was never sent, and it is gone."""
    world = locking_world()
    world.single("one", limits=LIMITS)
    await world.decide()
    world.api.faults["bind"] = [unknown()] * 9
    await world.binder.step()
    world.api.faults["bind"] = []
    assert lock_of(world) == "2026-01-01T00:00:00Z"
    world.binder = world.new_binder()
    return world


async def test_a_lock_of_who_died_before_the_binding_is_taken_over_at_once_a20() -> None:
    """The mark names the command, and the log says that it still waits."""
    world = await died_between_lock_and_binding()
    await world.settle()
    assert bound(world, "one")
    assert world.clock.time_ms == START_MS, "nobody waited"
    assert lock_of(world) == "2026-01-01T00:00:00Z", "from here on it is the node agent's"


async def test_a_lock_of_who_died_is_removed_if_the_binding_comes_to_nothing_a20() -> None:
    world = await died_between_lock_and_binding()
    world.store.remove(POD, "team-a", "one")
    for _ in range(3):
        await world.binder.step()
    assert [body.result for body in await world.bodies(Outcome)] == ["gone"]
    assert lock_of(world) is None
    assert "gpuledger.dev/lock-hamivgpu" not in world.get(NODE, "n1")["metadata"]["annotations"]


async def test_a_lock_that_was_taken_anew_since_is_left_alone_a20() -> None:
    """The mark speaks of another time: the lock is somebody else's, and lasts its five minutes."""
    world = await died_between_lock_and_binding()
    await world.api.patch(NODE, "", "n1", {"metadata": {"annotations": {"hamivgpu": "2026-01-01T00:00:01Z"}}})
    await world.settle()
    assert not bound(world, "one")
    world.store.remove(POD, "team-a", "one")
    await world.settle()
    assert lock_of(world) == "2026-01-01T00:00:01Z"


async def test_the_mark_of_a_lock_is_no_observation() -> None:
    world = await died_between_lock_and_binding()
    before = len(await world.bodies(Observed))
    await world.watcher.step()
    assert len(await world.bodies(Observed)) == before
