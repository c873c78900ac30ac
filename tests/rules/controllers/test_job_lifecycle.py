"""Phases, policies and status of VolcanoJobs (scheduling/J-3, J-10 to J-16, E-9 to E-12)."""

from __future__ import annotations

import pytest
from control_room import NS, TEMPLATE, ControlRoom, job

from events.kinds import POD, POD_GROUP, VOLCANO_JOB
from services.controller.routes import Switches

UID = "uid: job-uid"
GROUP = "j-job-uid"


@pytest.fixture
def room() -> ControlRoom:
    return ControlRoom()


def policy(text: str) -> str:
    return f"policies: [{{{text}}}]"


def uids(room: ControlRoom) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in room.cluster.store.items(POD)}


def test_pending_until_enough_pods_run(room: ControlRoom) -> None:
    """scheduling/J-10, J-16"""
    room.apply(job(metadata=UID))
    room.settle()
    room.admit_groups()
    status = room.job("j")["status"]
    assert (status["state"]["phase"], status["pending"], status["running"]) == ("Pending", 2, 0)
    room.bind("j-w-0")
    room.settle()
    assert room.phase("j") == "Pending"
    room.bind("j-w-1")
    room.settle()
    status = room.job("j")["status"]
    assert (status["state"]["phase"], status["pending"], status["running"]) == ("Running", 0, 2)
    assert status["minAvailable"] == 2
    assert status["taskStatusCount"] == {"w": {"phase": {"Running": 2}}}
    assert [item["status"] for item in status["conditions"]] == ["Pending", "Running"]


def test_running_becomes_pending_when_too_many_wait(room: ControlRoom) -> None:
    """scheduling/J-10"""
    room.run_job(job(metadata=UID))
    room.delete(POD, "j-w-0")
    room.settle()
    status = room.job("j")["status"]
    assert (status["state"]["phase"], status["pending"], status["running"]) == ("Pending", 1, 1)
    assert [item["status"] for item in status["conditions"]] == ["Running", "Pending"]


def test_an_elastic_job_goes_on_when_a_pod_beyond_its_minimum_goes(room: ControlRoom) -> None:
    """scheduling/J-10"""
    room.run_job(job(metadata=UID, spec="minAvailable: 1"))
    room.delete(POD, "j-w-0")
    room.settle()
    status = room.job("j")["status"]
    assert (status["state"]["phase"], status["pending"], status["running"]) == ("Running", 1, 1)


def test_completed_when_all_succeeded(room: ControlRoom) -> None:
    """scheduling/J-11, J-13, J-16: finished pods stay, the PodGroup goes"""
    room.run_job(job(metadata=UID))
    room.finish("j-w-0", "Succeeded")
    assert room.phase("j") == "Running"
    room.clock.time_ms += 90_000
    room.finish("j-w-1", "Succeeded")
    status = room.job("j")["status"]
    assert (status["state"]["phase"], status["succeeded"]) == ("Completed", 2)
    assert status["runningDuration"] == "1m30s"
    assert room.names(POD) == ["j-w-0", "j-w-1"]
    assert room.names(POD_GROUP) == []


def test_failed_when_all_ended_and_too_few_succeeded(room: ControlRoom) -> None:
    """scheduling/J-11, J-15"""
    room.run_job(job(metadata=UID))
    room.finish("j-w-0", "Failed")
    assert room.phase("j") == "Running"
    room.finish("j-w-1", "Succeeded")
    assert room.phase("j") == "Failed"


def test_failed_when_one_task_misses_its_own_minimum(room: ControlRoom) -> None:
    """scheduling/J-11"""
    tasks = (
        f"{{name: m, replicas: 1, template: {TEMPLATE}}}, "
        f"{{name: w, replicas: 2, minAvailable: 1, template: {TEMPLATE}}}"
    )
    room.run_job(job(metadata=UID, spec="minAvailable: 2", tasks=tasks))
    room.finish("j-m-0", "Failed")
    room.finish("j-w-0", "Succeeded")
    room.finish("j-w-1", "Succeeded")
    assert room.phase("j") == "Failed"


def test_completed_at_min_success(room: ControlRoom) -> None:
    """scheduling/J-11, J-13: live pods of a finished job are deleted"""
    room.run_job(job(metadata=UID, spec="minSuccess: 1"))
    room.finish("j-w-1", "Succeeded")
    assert room.phase("j") == "Completed"
    assert room.names(POD) == ["j-w-1"]


def test_zero_replicas_keep_the_phase(room: ControlRoom) -> None:
    """scheduling/J-11"""
    room.run_job(job(metadata=UID, spec="minAvailable: 1"))
    spec = room.job("j")["spec"]
    spec["tasks"][0] |= {"replicas": 0, "minAvailable": 0}
    room.patch(VOLCANO_JOB, "j", {"spec": {"minAvailable": 0, "tasks": spec["tasks"]}})
    room.settle()
    assert room.names(POD) == []
    assert room.phase("j") == "Running"


def test_replicas_follow_the_spec(room: ControlRoom) -> None:
    """scheduling/J-3, J-4: surplus pods go, missing ones come, the PodGroup is kept in line"""
    room.run_job(job(metadata=UID, spec="minAvailable: 1"))
    tasks = room.job("j")["spec"]["tasks"]
    tasks[0] |= {"replicas": 3}
    room.patch(VOLCANO_JOB, "j", {"spec": {"minAvailable": 3, "tasks": tasks}})
    room.settle()
    assert room.names(POD) == ["j-w-0", "j-w-1", "j-w-2"]
    group = room.one(POD_GROUP, GROUP)["spec"]
    assert (group["minMember"], group["minResources"]["pods"]) == (3, "3")
    tasks[0] |= {"replicas": 1, "minAvailable": 1}
    room.patch(VOLCANO_JOB, "j", {"spec": {"minAvailable": 1, "tasks": tasks}})
    room.settle()
    assert room.names(POD) == ["j-w-0"]
    assert room.phase("j") == "Running"
    assert room.one(POD_GROUP, GROUP)["spec"]["minTaskMember"] == {"w": 1}


def test_the_group_follows_what_of_a_job_may_change(room: ControlRoom) -> None:
    """scheduling/J-3, J-4: also what the job no longer asks for; what others wrote on the group stays"""
    room.apply("apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 5\n")
    about = UID + ", annotations: {a: b, kubectl.kubernetes.io/last-applied-configuration: text}"
    room.run_job(job(metadata=about, spec="priorityClassName: high"))
    group = room.one(POD_GROUP, GROUP)
    assert (group["spec"]["priorityClassName"], group["metadata"]["annotations"]) == ("high", {"a": "b"})
    room.patch(POD_GROUP, GROUP, {"metadata": {"annotations": {"mine": "stays"}}})
    room.patch(VOLCANO_JOB, "j", {"spec": {"priorityClassName": None}, "metadata": {"annotations": {"a": "c"}}})
    room.settle()
    group = room.one(POD_GROUP, GROUP)
    assert "priorityClassName" not in group["spec"]
    assert group["metadata"]["annotations"] == {"a": "c", "mine": "stays"}
    version = room.cluster.store.version
    room.restart()
    room.settle()
    assert room.cluster.store.version == version


def test_restart_job_on_failure(room: ControlRoom) -> None:
    """scheduling/J-12, J-13: everything goes, version and retry count rise, the group is admitted anew"""
    room.run_job(job(metadata=UID, spec=policy("event: PodFailed, action: RestartJob")))
    before = uids(room)
    room.finish("j-w-0", "Failed")
    status = room.job("j")["status"]
    assert (status["state"]["phase"], status["retryCount"], status["version"]) == ("Pending", 1, 1)
    assert room.names(POD) == []
    assert "phase" not in room.one(POD_GROUP, GROUP).get("status", {})
    room.admit_groups()
    room.bind_all()
    assert room.phase("j") == "Running"
    assert not set(before.values()) & set(uids(room).values())
    assert room.one(POD, "j-w-0")["metadata"]["annotations"]["volcano.sh/job-version"] == "1"
    assert "Start to execute action RestartJob " in room.events("ExecuteAction")


def test_restarts_end_in_failure_and_the_last_keeps_finished_pods(room: ControlRoom) -> None:
    """scheduling/J-12, J-13"""
    room.run_job(job(metadata=UID, spec="maxRetry: 2, " + policy("event: PodFailed, action: RestartJob")))
    room.finish("j-w-0", "Failed")
    room.admit_groups()
    room.bind_all()
    room.finish("j-w-1", "Failed")
    status = room.job("j")["status"]
    assert (status["state"]["phase"], status["retryCount"]) == ("Failed", 2)
    assert room.names(POD) == ["j-w-1"]
    assert room.names(POD_GROUP) == []


@pytest.mark.parametrize(
    ("action", "phase"),
    [("AbortJob", "Aborted"), ("TerminateJob", "Terminated"), ("CompleteJob", "Completed")],
)
def test_actions_that_end_a_job(room: ControlRoom, action: str, phase: str) -> None:
    """scheduling/J-12, J-13: live pods go, finished ones stay"""
    room.run_job(job(metadata=UID, spec=policy(f"event: PodFailed, action: {action}")))
    room.finish("j-w-0", "Failed")
    assert room.phase("j") == phase
    assert room.names(POD) == ["j-w-0"]
    assert room.names(POD_GROUP) == []


def test_an_aborted_job_resumes(room: ControlRoom) -> None:
    """scheduling/J-12: ResumeJob from Aborted leads through Restarting"""
    text = "policies: [{event: PodEvicted, action: AbortJob}, {event: JobUpdated, action: ResumeJob}]"
    room.run_job(job(metadata=UID, spec=f"minAvailable: 1, {text}"))
    room.delete(POD, "j-w-0")
    room.settle()
    assert room.phase("j") == "Aborted"
    tasks = room.job("j")["spec"]["tasks"]
    tasks[0] |= {"replicas": 3}
    room.patch(VOLCANO_JOB, "j", {"spec": {"tasks": tasks}})
    room.settle()
    status = room.job("j")["status"]
    assert (status["state"]["phase"], status["retryCount"]) == ("Pending", 1)
    assert room.names(POD_GROUP) == [GROUP]


@pytest.mark.parametrize(
    ("action", "gone"),
    [("RestartTask", {"j-w-0", "j-w-1"}), ("RestartPod", {"j-w-0"})],
)
def test_targeted_restarts_keep_the_group(room: ControlRoom, action: str, gone: set[str]) -> None:
    """scheduling/J-12"""
    tasks = f"{{name: m, replicas: 1, template: {TEMPLATE}}}, {{name: w, replicas: 2, template: {TEMPLATE}}}"
    room.run_job(job(metadata=UID, spec=policy(f"event: PodFailed, action: {action}"), tasks=tasks))
    group, before = room.one(POD_GROUP, GROUP), uids(room)
    room.finish("j-w-0", "Failed")
    after = uids(room)
    assert {name for name in before if before[name] != after[name]} == gone
    assert room.one(POD_GROUP, GROUP)["metadata"]["uid"] == group["metadata"]["uid"]
    status = room.job("j")["status"]
    assert (status["state"]["phase"], status["retryCount"], status["version"]) == ("Pending", 1, 0)


def test_restart_partition(room: ControlRoom) -> None:
    """scheduling/J-12: only the pods of the failed one's partition"""
    parts = "partitionPolicy: {totalPartitions: 2, partitionSize: 2}"
    tasks = f"{{name: w, replicas: 4, {parts}, template: {TEMPLATE}}}"
    room.run_job(job(metadata=UID, spec=policy("event: PodFailed, action: RestartPartition"), tasks=tasks))
    before = uids(room)
    room.finish("j-w-3", "Failed")
    after = uids(room)
    assert {name for name in before if before[name] != after[name]} == {"j-w-2", "j-w-3"}


def test_task_policies_go_before_job_policies(room: ControlRoom) -> None:
    """scheduling/J-14"""
    tasks = (
        "{name: w, replicas: 1, policies: [{event: PodFailed, action: CompleteJob}], template: "
        f"{TEMPLATE}}}, {{name: m, replicas: 1, template: {TEMPLATE}}}"
    )
    room.run_job(job(metadata=UID, spec=policy("event: '*', action: AbortJob"), tasks=tasks))
    room.finish("j-w-0", "Failed")
    assert room.phase("j") == "Completed"


@pytest.mark.parametrize(("code", "phase"), [(7, "Terminated"), (8, "Running")])
def test_exit_code_of_the_first_container(room: ControlRoom, code: int, phase: str) -> None:
    """scheduling/J-14"""
    room.run_job(job(metadata=UID, spec=policy("exitCode: 7, action: TerminateJob")))
    room.finish("j-w-0", "Failed", exit_code=code)
    assert room.phase("j") == phase


def test_task_completed(room: ControlRoom) -> None:
    """scheduling/J-14: when every replica of the task has succeeded"""
    room.run_job(job(metadata=UID, spec=policy("event: TaskCompleted, action: CompleteJob")))
    room.finish("j-w-0", "Succeeded")
    assert room.phase("j") == "Running"
    room.finish("j-w-1", "Succeeded")
    assert "Start to execute action CompleteJob " in room.events("ExecuteAction")


def test_task_failed_after_too_many_container_restarts(room: ControlRoom) -> None:
    """scheduling/J-14"""
    room.run_job(job(metadata=UID, spec=policy("event: TaskFailed, action: AbortJob")))
    for count, phase in ((3, "Running"), (4, "Aborted")):
        statuses = [{"name": "c", "restartCount": count, "ready": True}]
        room.patch(POD, "j-w-0", {"status": {"containerStatuses": statuses}}, "status")
        room.settle()
        assert room.phase("j") == phase


def test_unknown_group(room: ControlRoom) -> None:
    """scheduling/J-14: event Unknown"""
    room.run_job(job(metadata=UID, spec=policy("event: Unknown, action: RestartJob")))
    room.phase_of_group(GROUP, "Unknown")
    room.settle()
    assert room.job("j")["status"]["retryCount"] == 1


def test_own_deletions_are_no_evictions(room: ControlRoom) -> None:
    """scheduling/J-14"""
    room.run_job(job(metadata=UID, spec="minAvailable: 1, " + policy("event: PodEvicted, action: AbortJob")))
    tasks = room.job("j")["spec"]["tasks"]
    tasks[0] |= {"replicas": 1, "minAvailable": 1}
    room.patch(VOLCANO_JOB, "j", {"spec": {"tasks": tasks}})
    room.settle()
    assert room.names(POD) == ["j-w-0"]
    assert room.phase("j") == "Running"
    room.delete(POD, "j-w-0")
    room.settle()
    assert room.phase("j") == "Aborted"


def test_two_failures_at_once_restart_once(room: ControlRoom) -> None:
    """scheduling/J-14: a request from an older version only syncs"""
    room.run_job(job(metadata=UID, spec=policy("event: PodFailed, action: RestartJob")))
    for name in ("j-w-0", "j-w-1"):
        room.patch(POD, name, {"status": {"phase": "Failed"}}, "status")
    room.settle()
    assert room.job("j")["status"]["retryCount"] == 1


def test_a_delayed_action_waits_and_is_dropped_when_the_pod_moves_on(room: ControlRoom) -> None:
    """scheduling/J-14, E-10: PodPending with timeout"""
    text = job(metadata=UID, spec=policy("event: PodPending, action: AbortJob, timeout: 10m"))
    room.apply(text)
    room.settle()
    room.admit_groups()
    assert "Execute action AbortJob after 10m0s" in room.events("ExecuteAction")
    assert room.manager.next_due_ms() == room.clock.now_ms() + 600_000
    room.bind_all()
    room.clock.time_ms += 600_000
    room.settle()
    assert room.phase("j") == "Running"


def test_a_delayed_action_comes_when_its_time_has_come(room: ControlRoom) -> None:
    """scheduling/J-14; a restart of the controller does not begin the time anew"""
    room.apply(job(metadata=UID, spec=policy("event: PodPending, action: AbortJob, timeout: 10m")))
    room.settle()
    room.admit_groups()
    room.clock.time_ms += 300_000
    room.settle()
    room.restart()
    room.settle()
    assert room.phase("j") == "Pending"
    room.clock.time_ms += 300_000
    room.settle()
    assert room.phase("j") == "Aborted"
    assert room.names(POD) == []


def test_another_action_cancels_a_delayed_one(room: ControlRoom) -> None:
    """scheduling/J-14"""
    text = "policies: [{event: PodFailed, action: AbortJob, timeout: 1m}, {event: PodEvicted, action: RestartJob}]"
    room.run_job(job(metadata=UID, spec=text))
    room.finish("j-w-0", "Failed")
    room.delete(POD, "j-w-1")
    room.settle()
    assert room.job("j")["status"]["retryCount"] == 1
    assert room.manager.next_due_ms() is None


def test_a_failure_that_nobody_saw_is_found_after_a_restart(room: ControlRoom) -> None:
    room.run_job(job(metadata=UID, spec=policy("event: PodFailed, action: TerminateJob")))
    room.patch(POD, "j-w-0", {"status": {"phase": "Failed"}}, "status")
    room.restart()
    room.settle()
    assert room.phase("j") == "Terminated"


def test_a_waiting_group_is_told_once(room: ControlRoom) -> None:
    """scheduling/E-9"""
    room.apply(job(metadata=UID))
    room.settle()
    condition = {
        "type": "Unschedulable",
        "status": "True",
        "message": "no room",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    for _ in range(2):
        room.patch(POD_GROUP, GROUP, {"status": {"conditions": [condition], "running": _}}, "status")
        room.settle()
    assert room.events("PodGroupPending") == [f"PodGroup {NS}:j unschedulable, reason: no room"]


def test_a_scheduled_group_is_not_told(room: ControlRoom) -> None:
    """scheduling/E-9: the newest True condition counts"""
    room.apply(job(metadata=UID))
    room.settle()
    conditions = [
        {"type": "Unschedulable", "status": "True", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"},
        {"type": "Scheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:09Z"},
    ]
    room.patch(POD_GROUP, GROUP, {"status": {"conditions": conditions}}, "status")
    room.settle()
    assert room.events("PodGroupPending") == []


def test_refused_pods_are_told_and_tried_again(room: ControlRoom) -> None:
    """scheduling/E-12"""
    room.put(
        f"apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: q, namespace: {NS}}}\nspec: {{hard: {{pods: '1'}}}}\n"
    )
    room.apply(job(metadata=UID))
    room.settle()
    room.admit_groups()
    assert room.names(POD) == ["j-w-0"]
    assert "exceeded quota" in room.events("FailedCreate")[0]
    assert room.job("j")["status"]["pending"] == 1


def test_a_job_that_is_refused_again_and_again_is_told_so_once(room: ControlRoom) -> None:
    """scheduling/E-10: and it is tried on all the same"""
    room.put(
        f"apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: q, namespace: {NS}}}\nspec: {{hard: {{pods: '1'}}}}\n"
    )
    room.apply(job(metadata=UID))
    room.settle()
    room.admit_groups()
    text = "Job failed on action SyncJob for retry limit reached"
    for _ in range(12):
        room.clock.time_ms += 300_000
        room.settle()
    assert text not in room.events("ExecuteAction")
    for _ in range(8):
        room.clock.time_ms += 300_000
        room.settle()
    assert room.events("ExecuteAction").count(text) == 1
    assert room.manager.next_due_ms() is not None


def test_a_finished_job_goes_after_its_time(room: ControlRoom) -> None:
    room.run_job(job(metadata=UID, spec="ttlSecondsAfterFinished: 60"))
    room.finish("j-w-0", "Succeeded")
    room.finish("j-w-1", "Succeeded")
    assert room.manager.next_due_ms() == room.clock.now_ms() + 60_000
    room.clock.time_ms += 60_000
    room.settle()
    assert room.names(VOLCANO_JOB) == room.names(POD) == []


def test_a_deleted_job_takes_pods_and_group_along(room: ControlRoom) -> None:
    room.run_job(job(metadata=UID))
    room.delete(VOLCANO_JOB, "j")
    room.settle()
    assert room.names(POD) == room.names(POD_GROUP) == []


def test_a_job_made_anew_is_another_job(room: ControlRoom) -> None:
    """scheduling/J-14: requests of another uid only sync"""
    room.run_job(job(spec=policy("event: PodEvicted, action: AbortJob")))
    room.delete(VOLCANO_JOB, "j")
    room.apply(job(spec=policy("event: PodEvicted, action: AbortJob")))
    room.settle()
    assert room.phase("j") == "Pending"


def test_a_switched_off_controller_does_nothing() -> None:
    room = ControlRoom(Switches(jobs=False))
    room.apply(job(metadata=UID))
    room.settle()
    assert "status" not in room.job("j")
    assert room.names(POD_GROUP) == []
