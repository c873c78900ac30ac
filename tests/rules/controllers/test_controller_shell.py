"""The shell of the controllers: deletion by owner, conflicts, restarts, bad content, lists that come anew."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from control_room import NS, ControlRoom, job, pod
from prometheus_client import CollectorRegistry

from adapters.cluster.port import ApiError, ApiUnknown, Page
from events.canonical import Json
from events.kinds import CONFIG_MAP, EVENT, POD, POD_GROUP, VOLCANO_JOB, Kind
from services.cluster.direct import DirectApi
from services.controller.manager import ControllerManager
from services.controller.observing import ControllerMetrics
from services.controller.routes import Switches


class Flaky(DirectApi):
    """The embedded cluster, where the first calls of one verb go wrong."""

    def __init__(self, room: ControlRoom, verb: str, error: Exception, times: int, kind: Kind = POD) -> None:
        super().__init__(room.cluster.api, "controller")
        self.verb, self.error, self.left, self.kind = verb, error, times, kind

    def _may_fail(self, verb: str, kind: Kind) -> None:
        if verb == self.verb and kind == self.kind and self.left:
            self.left -= 1
            raise self.error

    async def list(self, kind: Kind, **more: Any) -> Page:
        self._may_fail("list", kind)
        return await super().list(kind, **more)

    async def create(self, kind: Kind, item: Json) -> Json:
        self._may_fail("create", kind)
        return await super().create(kind, item)

    async def patch(self, kind: Kind, namespace: str, name: str, merge: Json, subresource: str = "") -> Json:
        self._may_fail("patch", kind)
        return await super().patch(kind, namespace, name, merge, subresource)

    async def delete(self, kind: Kind, namespace: str, name: str, **options: Any) -> None:
        self._may_fail("delete", kind)
        await super().delete(kind, namespace, name, **options)


def with_flaky(verb: str, error: Exception, times: int, kind: Kind = POD) -> ControlRoom:
    room = ControlRoom()
    api = Flaky(room, verb, error, times, kind)
    room.manager = ControllerManager(api, room.clock, grace_s=0)
    return room


def test_what_an_object_owns_goes_with_it() -> None:
    room = ControlRoom()
    room.apply(pod("p"))
    room.put(
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c, namespace: {NS}, "
        f"ownerReferences: [{{apiVersion: v1, kind: Pod, name: p, uid: {room.one(POD, 'p')['metadata']['uid']}}}]}}\n"
    )
    room.settle()
    room.delete(POD, "p")
    room.settle()
    assert room.get(CONFIG_MAP, "c") is None
    assert room.names(POD_GROUP) == []


def test_what_has_another_owner_stays() -> None:
    room = ControlRoom()
    for name in ("one", "two"):
        room.put(pod(name, metadata=f"uid: {name}"))
    owners = ", ".join(f"{{apiVersion: v1, kind: Pod, name: {name}, uid: {name}}}" for name in ("one", "two"))
    room.put(f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c, namespace: {NS}, ownerReferences: [{owners}]}}\n")
    room.settle()
    room.delete(POD, "one")
    room.settle()
    assert room.get(CONFIG_MAP, "c") is not None
    room.delete(POD, "two")
    room.settle()
    assert room.get(CONFIG_MAP, "c") is None


def test_an_owner_of_the_same_name_and_another_uid_is_not_the_owner() -> None:
    room = ControlRoom()
    room.put(pod("p", metadata="uid: first"))
    room.settle()
    assert room.names(POD_GROUP) == ["podgroup-first"]
    room.cluster.replace(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": NS, "uid": "second"},
            "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "none"}]},
        }
    )
    room.settle()
    assert room.names(POD_GROUP) == ["podgroup-second"]


def test_nothing_is_deleted_where_somebody_else_collects() -> None:
    room = ControlRoom(Switches(garbage=False))
    room.apply(pod("p"))
    room.settle()
    room.delete(POD, "p")
    room.settle()
    assert len(room.names(POD_GROUP)) == 1


def test_a_conflict_is_tried_again() -> None:
    for kind, verb in ((POD, "create"), (POD_GROUP, "create"), (VOLCANO_JOB, "patch")):
        room = with_flaky(verb, ApiError(409, "Conflict", "modified"), 3, kind)
        room.run_job(job(metadata="uid: u"))
        assert room.phase("j") == "Running"


def test_no_answer_is_tried_again() -> None:
    room = with_flaky("create", ApiUnknown("broken pipe"), 2)
    room.run_job(job(metadata="uid: u"))
    assert room.names(POD) == ["j-w-0", "j-w-1"]


@pytest.mark.parametrize("error", [ApiUnknown("etcd of the events is away"), ApiError(403, "Forbidden", "no rights")])
def test_an_event_that_cannot_be_written_stops_nothing_e10(error: Exception) -> None:
    """scheduling/E-10, J-14: the action is told before it is carried out; what was not told is told the next time."""
    room = with_flaky("create", error, 1_000, EVENT)
    flaky = room.manager._executor._api
    assert isinstance(flaky, Flaky)
    room.run_job(job(metadata="uid: u", spec="policies: [{event: PodFailed, action: AbortJob}]"))
    room.finish("j-w-0", "Failed")
    room.settle()
    assert room.phase("j") == "Aborted"
    assert flaky.left < 1_000, "it was tried"
    assert room.events("ExecuteAction") == []


def test_an_endless_conflict_waits_for_its_turn() -> None:
    room = with_flaky("create", ApiError(409, "Conflict", "modified"), 1000)
    room.apply(job(metadata="uid: u"))
    room.settle()
    room.admit_groups()
    assert room.names(POD) == []
    assert room.manager.next_due_ms() is not None


def test_a_restart_changes_nothing() -> None:
    room = ControlRoom()
    room.run_job(job(metadata="uid: u", spec="plugins: {svc: [], env: []}"))
    room.apply(pod("p"))
    room.settle()
    before = room.cluster.store.version
    room.restart()
    room.settle()
    assert room.cluster.store.version == before


def test_a_restart_in_the_middle_loses_nothing() -> None:
    """Kill the controllers after each step; a new instance goes on."""
    room = ControlRoom()
    room.apply(job(metadata="uid: u", spec="policies: [{event: PodFailed, action: RestartJob}]"))
    for _ in range(3):
        room.restart()
        asyncio.run(room.manager.step())
    room.settle()
    room.admit_groups()
    room.bind_all()
    assert room.phase("j") == "Running"


def test_bad_content_stops_nobody_else() -> None:
    room = ControlRoom(admission=False)
    room.put(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: bad, namespace: lab}\n"
        "spec: {tasks: {}, minAvailable: many, plugins: [], policies: 3, volumes: x}\n"
    )
    room.run_job(job(metadata="uid: u"))
    assert room.phase("j") == "Running"
    assert room.phase("bad") == "Pending"


def test_the_same_story_gives_the_same_bytes() -> None:
    def story() -> list[Json]:
        room = ControlRoom()
        room.run_job(job(spec="plugins: {ssh: [], svc: []}"))
        room.apply(pod("p"))
        room.settle()
        return [item for kind in room.cluster.store.kinds() for item in room.cluster.store.items(kind)]

    assert story() == story()


def test_what_is_counted() -> None:
    """scheduling section 8, ME-2: finished jobs by queue as long as they are there, and how soon pods come after one"""
    registry = CollectorRegistry()
    room = ControlRoom()
    observer = ControllerMetrics(registry)
    room.manager = ControllerManager(room.cluster.direct("controller"), room.clock, grace_s=0, observer=observer)
    room.run_job(job(metadata="uid: u"))
    for name in ("j-w-0", "j-w-1"):
        room.finish(name, "Succeeded")
    labels = {"job_name": "j", "queue_name": "default"}
    assert registry.get_sample_value("volcano_job_completed_phase_count", labels) == 1
    assert registry.get_sample_value("volcano_controller_job_to_pod_creation_latency_milliseconds_count") == 2
    room.delete(VOLCANO_JOB, "j")
    room.settle()
    assert registry.get_sample_value("volcano_job_completed_phase_count", labels) is None


def restored_pod() -> tuple[ControlRoom, Flaky, str]:
    """A pod and its PodGroup went, and a restore brings both back; pods can be made to be listed later than those."""
    room = ControlRoom()
    flaky = Flaky(room, "list", ApiUnknown("later"), 0)
    room.manager = ControllerManager(flaky, room.clock, grace_s=0)
    room.apply(pod("p"))
    room.settle()
    (group,) = room.names(POD_GROUP)
    saved = room.cluster.store.backup()
    room.delete(POD, "p")
    room.settle()
    assert room.names(POD_GROUP) == []
    room.cluster.api.restore(saved)
    return room, flaky, group


def test_what_comes_back_with_its_owner_stays_though_the_owners_end_was_seen() -> None:
    """The API server is restored to an older state, and PodGroups are listed before pods."""
    room, flaky, group = restored_pod()
    flaky.left = 3
    room.settle()
    assert flaky.left == 0, "pods could not be listed at first"
    assert room.names(POD_GROUP) == [group]


def test_what_came_back_goes_with_its_owner_though_nobody_heard_that_it_was_back() -> None:
    """The pod that a restore brought back goes again before pods are listed: no list and no watch ever tells of it."""
    room, flaky, group = restored_pod()
    flaky.left = 1_000
    room.settle()
    assert room.names(POD_GROUP) == [group], "its pod is there"
    room.delete(POD, "p")
    flaky.left = 0
    room.settle()
    room.clock.time_ms = room.manager.next_due_ms() or room.clock.time_ms
    room.settle()
    assert room.names(POD_GROUP) == []


def test_what_outlived_its_owner_while_no_controller_ran_goes() -> None:
    """The end of a pod that nobody saw: its PodGroup goes once a controller is there again."""
    room = ControlRoom()
    room.apply(pod("p"))
    room.settle()
    assert len(room.names(POD_GROUP)) == 1
    room.delete(POD, "p")
    room.restart()
    room.settle()
    assert room.names(POD_GROUP) == []
