"""Command objects, as vcctl makes them: carried out once, and told of (scheduling/E-11, E-13, J-12, Q-3)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from control_room import NS, ControlRoom, job, pod, queue

from adapters.cluster.port import ApiError, ApiUnknown
from events.canonical import Json
from events.kinds import COMMAND, EVENT, POD, POD_GROUP, QUEUE, VOLCANO_JOB, Kind
from services.cluster.direct import DirectApi
from services.controller.manager import ControllerManager
from services.controller.routes import Switches

UID = "uid: job-uid"
EXECUTED = "Start to execute command {}, and clean it up to make sure executed not more than once."


@pytest.fixture
def room() -> ControlRoom:
    return ControlRoom()


def command(action: str, kind: Kind, name: str, uid: str, *, called: str = "c", namespace: str = NS) -> str:
    about = f"{{apiVersion: {kind.api_version}, kind: {kind.name}, name: {name}, uid: {uid}, controller: true}}"
    return (
        f"apiVersion: bus.volcano.sh/v1alpha1\nkind: Command\nmetadata: {{name: {called}, namespace: {namespace}, "
        f"ownerReferences: [{about}]}}\naction: {action}\ntarget: {about}\n"
    )


def issue(room: ControlRoom, action: str, kind: Kind = VOLCANO_JOB, name: str = "j", **where: str) -> None:
    uid = room.one(kind, name)["metadata"]["uid"]
    room.apply(command(action, kind, name, uid, **where))
    room.settle()


def state(room: ControlRoom, name: str) -> str:
    return str(room.queue(name)["status"]["state"])


def told(room: ControlRoom, reason: str) -> list[tuple[str, str, int]]:
    """Type, text and count of the events of a reason."""
    found = [event for event in room.cluster.store.items(EVENT) if event["reason"] == reason]
    return [(event["type"], event["message"], event["count"]) for event in found]


@pytest.mark.parametrize(
    ("action", "phase", "pods"),
    [
        ("AbortJob", "Aborted", []),
        ("TerminateJob", "Terminated", []),
        ("CompleteJob", "Completed", []),
        ("RestartJob", "Pending", []),
        ("SyncJob", "Running", ["j-w-0", "j-w-1"]),
    ],
)
def test_a_command_for_a_job(room: ControlRoom, action: str, phase: str, pods: list[str]) -> None:
    """scheduling/E-11, J-12"""
    room.run_job(job(metadata=UID))
    issue(room, action)
    assert (room.phase("j"), room.names(POD)) == (phase, pods)
    assert room.names(COMMAND) == []
    assert told(room, "CommandIssued") == [("Normal", EXECUTED.format(action), 1)]


def test_suspend_and_resume(room: ControlRoom) -> None:
    """scheduling/E-11, J-12: what vcctl job suspend and resume ask for"""
    room.run_job(job(metadata=UID))
    issue(room, "AbortJob")
    room.settle()
    assert room.names(POD_GROUP) == []
    issue(room, "ResumeJob")
    room.admit_groups()
    room.bind_all()
    status = room.job("j")["status"]
    assert (status["state"]["phase"], status["retryCount"], status["version"]) == ("Running", 1, 2)


def test_a_command_is_carried_out_once_each_time_it_is_given(room: ControlRoom) -> None:
    """scheduling/E-11: two commands are two restarts, and no look at the job repeats one"""
    room.run_job(job(metadata=UID, spec="maxRetry: 9"))
    for count in (1, 2):
        issue(room, "RestartJob")
        room.admit_groups()
        room.bind_all()
        room.restart()
        room.settle()
        assert (room.phase("j"), room.job("j")["status"]["retryCount"]) == ("Running", count)
    assert told(room, "CommandIssued") == [("Normal", EXECUTED.format("RestartJob"), 2)]


def test_commands_are_taken_in_the_order_in_which_they_came(room: ControlRoom) -> None:
    """scheduling/E-11: whatever their names"""
    room.apply(queue("q"))
    room.settle()
    uid = room.queue("q")["metadata"]["uid"]
    room.apply(command("CloseQueue", QUEUE, "q", uid, called="z") + "---\n" + command("OpenQueue", QUEUE, "q", uid))
    room.settle()
    assert state(room, "q") == "Open"
    assert told(room, "CloseQueue") == [("Normal", "Close queue succeed", 1)]


def test_a_command_before_the_first_look_at_its_job(room: ControlRoom) -> None:
    """scheduling/E-11: the job is aborted before it has made anything"""
    (found,) = room.apply(job(metadata=UID))
    room.apply(command("AbortJob", VOLCANO_JOB, "j", found["metadata"]["uid"]))
    room.settle()
    assert (room.phase("j"), room.names(POD_GROUP), room.names(COMMAND)) == ("Aborted", [], [])


def test_a_command_that_came_before_its_job_waits_for_it(room: ControlRoom) -> None:
    """scheduling/E-11"""
    room.put(command("AbortJob", VOLCANO_JOB, "j", "job-uid"))
    room.settle()
    assert room.names(COMMAND) == ["c"]
    room.apply(job(metadata=UID))
    room.settle()
    assert (room.phase("j"), room.names(COMMAND)) == ("Aborted", [])


def test_a_command_for_an_earlier_job_of_that_name_does_nothing(room: ControlRoom) -> None:
    """scheduling/E-11, J-14"""
    room.run_job(job(metadata=UID))
    room.apply(command("AbortJob", VOLCANO_JOB, "j", "earlier"))
    room.settle()
    assert (room.phase("j"), room.names(COMMAND), told(room, "CommandIssued")) == ("Running", [], [])


@pytest.mark.parametrize("action", ["RestartTask", "Nonsense", "CloseQueue"])
def test_an_action_that_a_job_does_not_know_is_told_and_changes_nothing(room: ControlRoom, action: str) -> None:
    """scheduling/E-11: nobody waits for something that will not come"""
    room.run_job(job(metadata=UID))
    issue(room, action)
    assert (room.phase("j"), room.names(COMMAND)) == ("Running", [])
    ((kind, message, _),) = told(room, "CommandIssued")
    assert kind == "Warning"
    assert message.startswith(f'Command lab/c: action "{action}" is none of AbortJob, RestartJob, ')


def test_a_command_that_a_user_takes_back_is_not_carried_out(room: ControlRoom) -> None:
    """scheduling/E-11: only what we cleared away ourselves"""
    room.run_job(job(metadata=UID))
    room.apply(command("AbortJob", VOLCANO_JOB, "j", "job-uid"))
    room.delete(COMMAND, "c")
    room.settle()
    assert room.phase("j") == "Running"


def test_commands_for_others_are_left_alone() -> None:
    """Volcano's own controllers take the commands for what is theirs."""
    room = ControlRoom(Switches(jobs=False))
    room.apply(job(metadata=UID))
    issue(room, "AbortJob")
    assert room.names(COMMAND) == ["c"]


# Queues.


def test_close_and_open_a_queue(room: ControlRoom) -> None:
    """scheduling/E-13, Q-3: what vcctl queue operate asks for"""
    room.apply(queue("q"))
    room.apply(pod("p", metadata="annotations: {scheduling.volcano.sh/queue-name: q}"))
    room.settle()
    issue(room, "CloseQueue", QUEUE, "q", namespace="default")
    assert state(room, "q") == "Closing"
    assert told(room, "CloseQueue") == [("Normal", "Close queue succeed", 1)]
    issue(room, "OpenQueue", QUEUE, "q", namespace="default")
    assert (state(room, "q"), room.names(COMMAND)) == ("Open", [])


def test_a_child_that_is_closed_by_command_stays_closed_when_its_parent_opens(room: ControlRoom) -> None:
    """scheduling/Q-3: it was closed with its parent, and is closed on its own account now"""
    room.apply(queue("up") + "---\n" + queue("a", "parent: up") + "---\n" + queue("b", "parent: up"))
    room.settle()
    issue(room, "CloseQueue", QUEUE, "up")
    issue(room, "CloseQueue", QUEUE, "a")
    issue(room, "OpenQueue", QUEUE, "up")
    assert [state(room, name) for name in ("up", "a", "b")] == ["Open", "Closed", "Open"]


def test_a_queue_cannot_be_opened_below_a_closed_one(room: ControlRoom) -> None:
    """scheduling/E-13, Q-3"""
    room.apply(queue("up") + "---\n" + queue("a", "parent: up"))
    room.settle()
    issue(room, "CloseQueue", QUEUE, "up")
    issue(room, "OpenQueue", QUEUE, "a")
    assert state(room, "a") == "Closed"
    why = "OpenQueue queue failed for its parent queue up is Closed, open that first"
    assert told(room, "OpenQueue") == [("Warning", why, 1)]


def test_root_cannot_be_closed(room: ControlRoom) -> None:
    """scheduling/E-13, Q-2"""
    room.settle()
    issue(room, "CloseQueue", QUEUE, "root")
    assert state(room, "root") == "Open"
    assert told(room, "CloseQueue") == [("Warning", "CloseQueue queue failed for queue root cannot be closed", 1)]


# Bad days.


class Troubled(DirectApi):
    """The embedded cluster, where the first ``times`` requests of one verb for one kind go wrong, done or not."""

    def __init__(self, room: ControlRoom, verb: str, kind: Kind, error: Exception, times: int, *, done: bool) -> None:
        super().__init__(room.cluster.api, "controller")
        self.verb, self.kind, self.error, self.left, self.done = verb, kind, error, times, done

    def _fails(self, verb: str, kind: Kind) -> bool:
        if (verb, kind) != (self.verb, self.kind) or not self.left:
            return False
        self.left -= 1
        return True

    async def patch(self, kind: Kind, namespace: str, name: str, merge: Json, subresource: str = "") -> Json:
        if self._fails(f"patch {subresource}", kind):
            raise self.error
        return await super().patch(kind, namespace, name, merge, subresource)

    async def delete(self, kind: Kind, namespace: str, name: str, **options: Any) -> None:
        if not self._fails("delete", kind):
            return await super().delete(kind, namespace, name, **options)
        if self.done:
            await super().delete(kind, namespace, name, **options)
        raise self.error


def trouble(
    room: ControlRoom, verb: str, kind: Kind, error: Exception, times: int = 1, *, done: bool = False
) -> Troubled:
    api = Troubled(room, verb, kind, error, times, done=done)
    room.manager = ControllerManager(api, room.clock, grace_s=0)
    room.settle()
    return api


def wait(room: ControlRoom, ms: int = 300_000) -> None:
    room.clock.time_ms += ms
    room.settle()


@pytest.mark.parametrize("done", [True, False])
def test_a_lost_answer_to_the_deletion_is_one_execution(room: ControlRoom, done: bool) -> None:
    """scheduling/E-11: whether the request had arrived or not"""
    room.run_job(job(metadata=UID, spec="maxRetry: 9"))
    trouble(room, "delete", COMMAND, ApiUnknown("broken pipe"), done=done)
    issue(room, "RestartJob")
    assert room.job("j")["status"]["retryCount"] == 1
    assert told(room, "CommandIssued") == [("Normal", EXECUTED.format("RestartJob"), 1)]


def test_a_command_that_cannot_be_cleared_away_is_not_carried_out(room: ControlRoom) -> None:
    """scheduling/E-11: or it would be carried out again and again"""
    room.run_job(job(metadata=UID))
    trouble(room, "delete", COMMAND, ApiError(403, "Forbidden", "no"), times=2)
    issue(room, "AbortJob")
    assert (room.phase("j"), room.names(COMMAND)) == ("Running", ["c"])
    wait(room)
    assert room.phase("j") == "Running"
    wait(room)
    assert (room.phase("j"), room.names(COMMAND)) == ("Aborted", [])


def test_a_restart_between_command_and_execution_never_doubles_it(room: ControlRoom) -> None:
    """scheduling/E-11: not more than once, wherever the controller is killed"""
    for steps in range(5):
        room = ControlRoom()
        room.run_job(job(metadata=UID, spec="maxRetry: 9"))
        room.apply(command("RestartJob", VOLCANO_JOB, "j", "job-uid"))
        for _ in range(steps):
            asyncio.run(room.manager.step())
        room.restart()
        room.settle()
        assert room.job("j")["status"]["retryCount"] <= 1
        assert room.names(COMMAND) == []


def test_a_job_whose_status_cannot_be_written_is_aborted_later(room: ControlRoom) -> None:
    """scheduling/E-10, E-12: the command is not forgotten, and after fifteen refusals it is told"""
    room.run_job(job(metadata=UID))
    api = trouble(room, "patch status", VOLCANO_JOB, ApiError(500, "InternalError", "no"), times=1000)
    issue(room, "AbortJob")
    assert told(room, "JobStatusError") == [("Warning", "Failed to update job status: no", 1)]
    for _ in range(15):
        wait(room)
    assert ("Normal", "Job failed on action AbortJob for retry limit reached", 1) in told(room, "ExecuteAction")
    assert room.phase("j") == "Running"
    api.left = 0
    wait(room)
    assert room.phase("j") == "Aborted"


def test_a_queue_that_cannot_be_closed(room: ControlRoom) -> None:
    """scheduling/E-13: the refusal, then after fifteen the failure of the action; tried on, and closed in the end"""
    room.apply(queue("q"))
    room.settle()
    trouble(room, "patch status", QUEUE, ApiError(500, "InternalError", "no"), times=16)
    issue(room, "CloseQueue", QUEUE, "q")
    assert told(room, "CloseQueue") == [("Warning", "Close queue failed for no", 1)]
    for _ in range(14):
        wait(room)
    assert ("Warning", "CloseQueue queue failed for no", 1) in told(room, "CloseQueue")
    assert state(room, "q") == "Open"
    wait(room)
    wait(room)
    assert state(room, "q") == "Closed"
    assert [message for kind, message, _ in told(room, "CloseQueue") if kind == "Normal"] == ["Close queue succeed"]


def test_a_queue_that_cannot_be_opened(room: ControlRoom) -> None:
    """scheduling/E-13"""
    room.apply(queue("q"))
    room.settle()
    issue(room, "CloseQueue", QUEUE, "q")
    trouble(room, "patch status", QUEUE, ApiError(500, "InternalError", "no"), times=15)
    issue(room, "OpenQueue", QUEUE, "q")
    assert told(room, "OpenQueue") == [("Warning", "Update queue status from Closed to Open failed for no", 1)]
    for _ in range(14):
        wait(room)
    assert ("Warning", "OpenQueue queue failed for no", 1) in told(room, "OpenQueue")
    wait(room)
    assert state(room, "q") == "Open"
