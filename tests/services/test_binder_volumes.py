"""Claims that wait for their first consumer: told the node, waited for, and given up (scheduling/F-3)."""

from __future__ import annotations

from support.service_world import World

from events.kinds import PERSISTENT_VOLUME_CLAIM, POD
from events.records import Outcome
from services.binder.volumes import SELECTED_NODE


def claimed_world() -> World:
    world = World()
    world.node("n1")
    world.put(
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "fast"},
            "provisioner": "example.test/disk",
            "volumeBindingMode": "WaitForFirstConsumer",
        }
    )
    world.put(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"namespace": "team-a", "name": "data"},
            "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"]},
        }
    )
    world.single("one", volumes=[{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}])
    return world


async def test_a_claim_that_waits_for_its_consumer_is_told_the_node_and_waited_for() -> None:
    """scheduling/F-3."""
    world = claimed_world()
    await world.settle()
    claim = world.get(PERSISTENT_VOLUME_CLAIM, "data")
    assert claim["metadata"]["annotations"][SELECTED_NODE] == "n1"
    assert not world.get(POD, "one")["spec"].get("nodeName")
    assert list(world.binder.waiting.values()) == ["persistentvolumeclaim data is not bound yet"]
    world.put({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {}})
    await world.api.patch(PERSISTENT_VOLUME_CLAIM, "team-a", "data", {"spec": {"volumeName": "pv"}})
    await world.settle()
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"


async def test_a_claim_that_went_after_the_decision_is_refused_in_the_words_of_f3() -> None:
    """It may never come back, and the place is not held for it."""
    world = claimed_world()
    await world.decide()
    claim = world.get(PERSISTENT_VOLUME_CLAIM, "data")
    world.store.remove(PERSISTENT_VOLUME_CLAIM, "team-a", "data")
    await world.binder.step()
    (outcome,) = await world.bodies(Outcome)
    assert (outcome.result, outcome.prebind) == ("refused", True)
    assert outcome.message == 'persistentvolumeclaim "data" not found'
    await world.settle()
    told = 'execute preBind for pod team-a/one failed: persistentvolumeclaim "data" not found, resync the task'
    assert told in world.events("FailedScheduling")
    world.put({**claim, "metadata": {"namespace": "team-a", "name": "data"}, "spec": {"volumeName": "pv"}})
    world.put({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": {}})
    await world.settle()
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"


async def test_a_claim_that_is_never_bound_is_refused_in_the_words_of_f3() -> None:
    world = claimed_world()
    await world.settle()
    world.clock.time_ms += 11 * 60_000
    await world.binder.step()
    (outcome,) = await world.bodies(Outcome)
    assert outcome.result == "refused"
    text = (
        "execute preBind for pod team-a/one failed: timed out waiting for persistentvolumeclaim data to be bound, "
        "resync the task"
    )
    assert outcome.prebind
    assert world.events("FailedScheduling")[-1] == text
    conditions = world.get(POD, "one")["status"]["conditions"]
    assert [item["message"] for item in conditions if item["reason"] == "SchedulerError"] == [text]
    await world.scheduler.fold()
    (entry,) = world.scheduler.model.pods.values()
    assert (entry.book.reason, entry.book.message, entry.book.cause) == ("SchedulerError", text, "bind-failed")
    notes = world.get(PERSISTENT_VOLUME_CLAIM, "data")["metadata"].get("annotations", {})
    assert SELECTED_NODE not in notes
