"""A job of many pods: a look at it costs what changed, and others have their turn in between (scheduling/J-5, J-10)."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from control_room import NS, ControlRoom, job, pod
from hypothesis import given
from hypothesis import strategies as st

from adapters.cluster.mirror import Change
from events import names
from events.canonical import Json
from events.kinds import POD, VOLCANO_JOB, Kind
from services.cluster.direct import DirectApi
from services.controller import manager
from services.controller.actions import Patch
from services.controller.jobs import expand, plugins
from services.controller.jobs.model import Task, VolcanoJob, pod_name, read
from services.controller.jobs.roster import Roster
from services.controller.manager import ControllerManager
from services.controller.world import World

TASKS = "{name: w, replicas: 250, template: {spec: {containers: [{name: c, image: none}]}}}"
GROUP = "j-job-uid"


@pytest.fixture
def looked_through(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Is told the size of a roster whenever somebody goes through all pods of a job."""
    found: list[int] = []
    whole = Roster.pods.fget
    assert whole is not None

    def noted(self: Roster) -> list[Json]:
        found.append(len(self))
        return list(whole(self))

    monkeypatch.setattr(Roster, "pods", property(noted))
    return found


def test_a_look_at_a_complete_job_goes_through_no_pods(looked_through: list[int]) -> None:
    """scheduling/J-10: 250 pods that are bound and end one by one are not 250 times 250 pods to count"""
    room = ControlRoom()
    room.apply(job(metadata="uid: job-uid", tasks=TASKS))
    room.settle()
    room.admit_groups()
    made = len(looked_through)
    assert len(room.names(POD)) == 250
    assert made < 10
    for name in room.names(POD):
        room.bind(name)
        room.settle()
    for name in room.names(POD):
        room.finish(name, "Succeeded")
    assert room.phase("j") == "Completed"
    assert len(looked_through) == made


def test_a_kill_goes_through_the_pods_once_for_each_part(looked_through: list[int]) -> None:
    """scheduling/J-12, J-13: not once for each pod that goes"""
    room = ControlRoom()
    room.run_job(job(metadata="uid: job-uid", tasks=TASKS, spec="policies: [{event: PodFailed, action: AbortJob}]"))
    before = len(looked_through)
    room.finish("j-w-0", "Failed")
    assert (room.phase("j"), room.names(POD)) == ("Aborted", ["j-w-0"])
    assert len(looked_through) - before == 3


class Interrupted(DirectApi):
    """The embedded cluster, where a user creates a pod right after the job's first one was made."""

    def __init__(self, room: ControlRoom) -> None:
        super().__init__(room.cluster.api, "controller")
        self.room, self.made = room, list[str]()

    async def create(self, kind: Kind, item: Json) -> Json:
        if kind == POD and not self.made:
            self.room.apply(pod("late"))
        self.made.append(f"{kind.name} {item['metadata'].get('name')}")
        return await super().create(kind, item)


def test_a_pod_that_comes_meanwhile_gets_its_group_in_between() -> None:
    """scheduling/AS-3, J-5: not after the 250th pod of the job"""
    room = ControlRoom()
    room.apply(job(metadata="uid: job-uid", tasks=TASKS))
    room.settle()
    api = Interrupted(room)
    room.manager = ControllerManager(api, room.clock, grace_s=0)
    room.admit_groups()
    late = room.one(POD, "late")["metadata"]["uid"]
    assert api.made.index(f"PodGroup podgroup-{late}") <= 100
    assert len([name for name in api.made if name.startswith("Pod j-w-")]) == 250


def test_pods_that_are_refused_do_not_stand_in_the_way_of_others() -> None:
    """scheduling/J-5, E-12: more of them than are made at once"""
    room = ControlRoom()
    bad = "{name: bad, replicas: 150, template: {spec: {containers: [{name: NO, image: none}]}}}"
    good = "{name: good, replicas: 2, template: {spec: {containers: [{name: c, image: none}]}}}"
    room.put(job(metadata="uid: job-uid", tasks=f"{bad}, {good}"))
    room.settle()
    room.admit_groups()
    assert room.names(POD) == ["j-good-0", "j-good-1"]
    assert room.events("FailedCreate")


def test_a_job_of_any_number_of_replicas_costs_what_is_made_in_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sizes are bounded: neither pods nor the names of hosts are thought of a billion at a time."""
    made: list[int] = []
    whole_pod = expand.pod

    def counted(job: VolcanoJob, task: Task, index: int) -> Json:
        made.append(index)
        return whole_pod(job, task, index)

    monkeypatch.setattr(expand, "pod", counted)
    monkeypatch.setattr(manager, "_ROUNDS_MAX", 10)
    room = ControlRoom()
    many = "{name: w, replicas: 200000, template: {spec: {containers: [{name: c, image: none}]}}}"
    room.apply(job(metadata="uid: job-uid", tasks=many, spec="minAvailable: 1"))
    room.settle()
    room.phase_of_group(GROUP, "Inqueue")
    with pytest.raises(AssertionError, match="do not come to rest"):
        room.settle(turns=1)
    assert 0 < len(room.names(POD)) <= 10 * 100
    assert len(made) <= 10 * 101


def test_more_hosts_than_a_config_map_takes_are_refused_by_name() -> None:
    room = ControlRoom()
    many = "{name: w, replicas: 200000, template: {spec: {containers: [{name: c, image: none}]}}}"
    room.apply(job(metadata="uid: job-uid", tasks=many, spec="minAvailable: 1, plugins: {svc: []}"))
    room.settle()
    assert room.names(POD) == []
    assert 'ConfigMap "j-svc" is invalid' in room.events("PluginError")[0]
    (hosts,) = plugins.renewed(read(room.job("j"), "s"))
    assert isinstance(hosts, Patch)
    assert hosts.merge["data"]["VC_W_HOSTS"].count(",") < 100_000, "no more than it takes to be refused"


@given(st.integers(0, 30), st.integers(0, 30), st.text("0123456789-jwx٣", max_size=6))
def test_a_pod_is_wanted_if_it_has_the_name_of_a_replica(first: int, second: int, end: str) -> None:
    """scheduling/J-3, J-6"""
    tasks = f"[{{name: w, replicas: {first}}}, {{name: w-1, replicas: {second}}}]"
    found = read(yaml.safe_load(job(tasks=tasks[1:-1])), "s")
    names_wanted = {pod_name("j", task.name, index) for task in found.tasks for index in range(task.replicas)}
    for name in (*names_wanted, f"j-w-{end}", f"j-{end}", end, "j-w-30", "j-w-1-30", "j-w-007"):
        assert found.wants(name) == (name in names_wanted)


PHASES = st.sampled_from(["Pending", "Running", "Succeeded", "Failed", "Lost"])
STEPS = st.lists(
    st.tuples(st.integers(0, 4), st.sampled_from(["a", "b"]), PHASES, st.booleans(), st.integers(0, 2), st.booleans())
)


@given(STEPS)
def test_what_is_kept_count_of_is_what_is_there(steps: list[tuple[int, str, str, bool, int, bool]]) -> None:
    """scheduling/J-10 to J-12: after any changes, as if counted anew"""
    world = World()
    there: dict[str, Json] = {}
    owner = {"apiVersion": VOLCANO_JOB.api_version, "kind": "Job", "name": "j", "uid": "u", "controller": True}
    for number, task, phase, leaving, restarts, gone in steps:
        name = f"p{number}"
        if gone:
            if there.pop(name, None) is not None:
                world.apply(Change(POD, world.get(POD, NS, name), None))
            continue
        about: Json = {"name": name, "namespace": NS, "uid": name, "ownerReferences": [owner]}
        about["annotations"] = {names.TASK_SPEC: task}
        if leaving:
            about["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        status = {"phase": phase, "containerStatuses": [{"restartCount": restarts}]}
        there[name] = {"metadata": about, "status": status}
        world.put(POD, there[name])
    roster = world.roster(NS, "u")
    counts = roster.counts()
    staying = [item for item in there.values() if "deletionTimestamp" not in item["metadata"]]

    def number_of(**wanted: Any) -> int:
        return sum(
            item["status"]["phase"] == wanted.get("phase", item["status"]["phase"])
            and item["metadata"]["annotations"][names.TASK_SPEC] == wanted.get("task", "a")
            for item in staying
        )

    assert roster.pods == [there[name] for name in sorted(there)]
    assert counts.terminating == len(there) - len(staying)
    assert counts.unknown == sum(item["status"]["phase"] == "Lost" for item in staying)
    for task in ("a", "b"):
        for phase in ("Pending", "Running", "Succeeded", "Failed"):
            assert counts.tasks.get(task, {}).get(phase, 0) == number_of(task=task, phase=phase)
        assert roster.succeeded(task) == number_of(task=task, phase="Succeeded")
        assert roster.restarts(task) == sum(
            item["status"]["containerStatuses"][0]["restartCount"]
            for item in staying
            if item["status"]["phase"] in ("Pending", "Running")
            and item["metadata"]["annotations"][names.TASK_SPEC] == task
        )
    for retain in (True, False):
        ended = ("Succeeded", "Failed") if retain else ()
        expected = [item for item in staying if item["status"]["phase"] not in ended]
        assert sorted(roster.to_kill(retain=retain), key=str) == sorted(expected, key=str)
        killed = expected[:1]
        assert roster.counts(killed).terminating == counts.terminating + len(killed)
