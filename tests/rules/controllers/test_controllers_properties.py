"""Whatever happens to a job, the controllers come to rest, and what they say of it is so."""

from __future__ import annotations

import asyncio
from typing import Any

from control_room import ControlRoom, job
from hypothesis import given, settings
from hypothesis import strategies as st

from adapters.cluster.port import ApiUnknown
from events.canonical import Json
from events.kinds import EVENT, POD, POD_GROUP, VOLCANO_JOB, Kind
from services.cluster.direct import DirectApi
from services.controller.jobs.model import FINISHED
from services.controller.manager import ControllerManager

ACTIONS = ("RestartJob", "RestartTask", "RestartPod", "AbortJob", "TerminateJob", "CompleteJob")
EVENTS = ("PodFailed", "PodEvicted", "TaskCompleted", "JobUpdated", "Unknown")

policy = st.tuples(st.sampled_from(EVENTS), st.sampled_from(ACTIONS))
step = st.one_of(
    st.tuples(st.just("admit"), st.sampled_from(["Inqueue", "Running", "Unknown", "Pending"])),
    st.tuples(st.just("bind"), st.none()),
    st.tuples(st.just("finish"), st.tuples(st.integers(0, 3), st.sampled_from(["Succeeded", "Failed"]))),
    st.tuples(st.just("delete"), st.integers(0, 3)),
    st.tuples(st.just("scale"), st.integers(1, 4)),
    st.tuples(st.just("restart"), st.none()),
    st.tuples(st.just("die"), st.integers(0, 6)),
)


class Dying(DirectApi):
    """The embedded cluster for a client that dies after some writes: what comes later never arrives."""

    def __init__(self, room: ControlRoom, writes: int) -> None:
        super().__init__(room.cluster.api, "controller")
        self.left = writes

    def _live(self) -> None:
        if not self.left:
            raise ApiUnknown("dead")
        self.left -= 1

    async def create(self, kind: Kind, item: Json) -> Json:
        self._live()
        return await super().create(kind, item)

    async def patch(self, kind: Kind, namespace: str, name: str, merge: Json, subresource: str = "") -> Json:
        self._live()
        return await super().patch(kind, namespace, name, merge, subresource)

    async def delete(self, kind: Kind, namespace: str, name: str, **options: Any) -> None:
        self._live()
        await super().delete(kind, namespace, name, **options)


def play(room: ControlRoom, what: str, how: object) -> None:
    pods = room.names(POD)
    if what == "admit":
        for name in room.names(POD_GROUP):
            room.phase_of_group(name, str(how))
    elif what == "bind":
        room.bind_all()
    elif what == "finish" and isinstance(how, tuple) and how[0] < len(pods):
        room.patch(POD, pods[how[0]], {"status": {"phase": how[1]}}, "status")
    elif what == "delete" and isinstance(how, int) and how < len(pods):
        room.delete(POD, pods[how])
    elif what == "scale":
        tasks = room.job("j")["spec"]["tasks"]
        tasks[0] |= {"replicas": how, "minAvailable": 1}
        room.patch(VOLCANO_JOB, "j", {"spec": {"tasks": tasks, "minAvailable": 1}})
    elif what == "restart":
        room.restart()
    elif what == "die" and isinstance(how, int):
        room.patch(VOLCANO_JOB, "j", {"metadata": {"annotations": {"touched": str(room.cluster.store.version)}}})
        room.manager = ControllerManager(Dying(room, how), room.clock, grace_s=0)
        asyncio.run(room.manager.step())
        room.restart()


def check(room: ControlRoom) -> None:
    """The status is counted right, no pod is too many, a finished job has no PodGroup."""
    found = room.job("j")
    status, phase = found["status"], found["status"]["state"]["phase"]
    pods = room.cluster.store.items(POD)
    for key in ("pending", "running", "succeeded", "failed"):
        assert status[key] == sum(pod["status"]["phase"] == key.capitalize() for pod in pods), key
    assert phase in ("Pending", "Running", "Aborted", *FINISHED)
    allowed = {f"j-w-{index}" for index in range(found["spec"]["tasks"][0]["replicas"])}
    if phase in ("Pending", "Running"):
        assert set(room.names(POD)) <= allowed
        assert len(room.names(POD_GROUP)) == 1
    else:
        assert room.names(POD_GROUP) == []
        assert all(pod["status"]["phase"] in ("Succeeded", "Failed") for pod in pods)


@settings(max_examples=60)
@given(st.lists(policy, max_size=3, unique_by=lambda item: item[0]), st.lists(step, max_size=14))
def test_controllers_rest_and_tell_the_truth(policies: list[tuple[str, str]], steps: list[tuple[str, object]]) -> None:
    """scheduling/J-10 to J-16"""
    room = ControlRoom()
    written = ", ".join(f"{{event: {event}, action: {action}}}" for event, action in policies)
    room.apply(job(metadata="uid: u", spec=f"minAvailable: 1, policies: [{written}]"))
    room.settle()
    for what, how in steps:
        play(room, what, how)
        room.settle()
        check(room)
    events = len(room.cluster.store.items(EVENT))
    version = room.cluster.store.version
    room.settle()
    assert (events, version) == (len(room.cluster.store.items(EVENT)), room.cluster.store.version)
