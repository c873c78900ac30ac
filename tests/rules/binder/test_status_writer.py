"""What the status writer writes, and when (scheduling/PG-2, PG-12 to PG-16, POD-1, POD-2, Q-6, EV-1, E-2 to E-8)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from support.service_world import World, refused, unknown

from events.canonical import Json
from events.kinds import EVENT, NODE, POD, POD_GROUP, QUEUE, Kind
from events.records import GroupBook, PodBook
from scheduling.objects import PodGroup
from scheduling.state.model import GroupEntry
from services.binder.recorder import HELD_MS, Recorder
from services.binder.status import DOUBTED, REPEAT_MS, StatusWriter
from services.binder.status_groups import GroupStatus, Wanted, status_of
from services.binder.status_pods import status_of as pod_status_of
from services.binder.written import Pace, Written
from services.runtime.kube_events import MESSAGE_MAX, Subject, event_about, shorten
from services.runtime.terms import STAND_BACK_MS

NOW = "2026-01-01T00:00:00Z"


def condition(item: Json, kind: str) -> Json:
    found = [entry for entry in item["status"]["conditions"] if entry["type"] == kind]
    assert len(found) == 1
    return found[0]


def wanted(phase: str = "Inqueue", **fields: object) -> Wanted:
    base = {"counts": (), "unschedulable": None, "reason": "", "message": "", "scheduled": False}
    return Wanted(phase=phase, **{**base, **fields})  # type: ignore[arg-type]  # a test's shorthand


async def test_a_podgroup_gets_phase_counters_and_condition_pg2_pg12() -> None:
    world = World()
    world.node("n1", cpu="1")
    world.single("fits")
    world.single("waits", cpu="8")
    await world.settle()
    group = world.get(POD_GROUP, "fits")
    assert group["status"]["phase"] == "Running"
    assert condition(group, "Scheduled")["reason"] == "tasks in gang are ready to be scheduled"
    waits = world.get(POD_GROUP, "waits")
    found = condition(waits, "Unschedulable")
    assert (found["status"], found["reason"]) == ("True", "NotEnoughResources")
    assert found["message"].startswith("1/1 tasks in gang unschedulable: pod group is not ready")
    assert found["transitionID"]
    await world.api.patch(POD, "team-a", "fits", {"status": {"phase": "Running"}}, "status")
    await world.settle()
    assert world.get(POD_GROUP, "fits")["status"]["running"] == 1


async def test_a_ready_group_puts_its_older_unschedulable_to_false_pg16() -> None:
    world = World()
    world.single("one")
    await world.settle()
    assert condition(world.get(POD_GROUP, "one"), "Unschedulable")["status"] == "True"
    world.node("n1")
    await world.settle()
    group = world.get(POD_GROUP, "one")
    assert condition(group, "Unschedulable")["status"] == "False"
    assert condition(group, "Scheduled")["status"] == "True"


def test_times_and_transition_ids_are_no_difference_pg15() -> None:
    """scheduling/PG-15."""
    item: Json = {"status": {"phase": "Inqueue"}}
    asked = wanted(unschedulable=True, reason="NotEnoughResources", message="text")
    first = status_of(item, asked, "1.1", NOW)
    assert set(first) == {"conditions"}
    again = status_of({"status": {"phase": "Inqueue", **first}}, asked, "9.9", "2027-01-01T00:00:00Z")
    assert again == {}


def test_conditions_of_other_types_are_kept_pg12() -> None:
    other = {"type": "Custom", "status": "True"}
    made = status_of({"status": {"conditions": [other]}}, wanted(scheduled=True), "1.1", NOW)
    assert made["conditions"][0] == other
    assert made["conditions"][1]["type"] == "Scheduled"


def test_a_group_that_was_never_judged_gets_no_condition() -> None:
    assert status_of({}, wanted("Pending"), "1.1", NOW) == {"phase": "Pending"}


async def test_a_waiting_pod_gets_condition_and_event_pod1_pod2() -> None:
    """scheduling/POD-1, POD-2, E-2."""
    world = World()
    world.node("n1", cpu="1")
    world.single("waits", cpu="8")
    await world.settle()
    found = condition(world.get(POD, "waits"), "PodScheduled")
    assert (found["status"], found["reason"]) == ("False", "Unschedulable")
    assert world.events("FailedScheduling") == [found["message"]]


async def test_nothing_is_written_twice_pod2() -> None:
    world = World()
    world.node("n1", cpu="1")
    world.single("waits", cpu="8")
    await world.settle()
    version, calls = world.store.version, len(world.api.calls)
    await world.settle()
    assert world.store.version == version
    assert len(world.api.calls) == calls
    world.binder = world.new_binder()
    await world.settle()
    counts = [item["count"] for item in world.store.items(EVENT)]
    assert set(counts) == {1}


def test_an_empty_nominated_node_never_overwrites_one_pod1() -> None:
    item: Json = {"status": {"nominatedNodeName": "n1"}}
    assert "nominatedNodeName" not in pod_status_of(item, PodBook(reason="Unschedulable", message="x"), NOW)
    book = PodBook(reason="Unschedulable", message="x", nominated_node="n2")
    assert pod_status_of(item, book, NOW)["nominatedNodeName"] == "n2"


def test_pace_texts_wait_codes_do_not_and_rest_holds_nothing_back_pod2() -> None:
    world = World()
    pace = Pace(world.clock, 10_000)
    written = Written()
    assert pace.due(written, "a", 1)
    pace.note(written, "a", 1)
    assert not pace.due(written, "a", 1)
    assert not pace.due(written, "b", 1)
    assert pace.held == 1
    assert pace.due(written, "b", 2)
    world.clock.time_ms += 10_000
    assert pace.due(written, "b", 1)
    world.clock.time_ms -= 5_000
    pace.begin(rest=True)
    assert pace.due(written, "b", 1)


def test_pace_bindings_come_first_but_not_for_ever_pod2() -> None:
    world = World()
    pace = Pace(world.clock, 10_000, settle_ms=500)
    patient, moving, urgent = Written(), Written(), Written()
    pace.begin(rest=False, pressed=True)
    assert pace.due(urgent, "a", 1)
    assert not pace.due(patient, "a", 1, patience=lambda: "patient")
    assert not pace.due(moving, "a", 1, patience=lambda: "moving")
    assert pace.held == 2
    world.clock.time_ms += 10_000
    assert pace.due(patient, "b", 2, patience=lambda: "patient")
    assert not pace.due(moving, "b", 2, patience=lambda: "moving")
    world.clock.time_ms += 20_000
    assert pace.due(moving, "b", 2, patience=lambda: "moving")
    pace.note(moving, "b", 2)
    pace.begin(rest=False)
    assert not pace.due(moving, "c", 3, patience=lambda: "patient"), "it is given a moment to become another"
    world.clock.time_ms += 500
    assert pace.due(moving, "c", 3, patience=lambda: "patient")
    assert not pace.due(moving, "b", 2, patience=lambda: "patient"), "it has become what was written"
    pace.begin(rest=True, pressed=True)
    assert pace.due(moving, "c", 3, patience=lambda: "moving")


async def test_of_a_pod_that_fits_only_the_last_status_is_written_and_nothing_read() -> None:
    world = World()
    world.node("n1")
    world.single("one")
    world.status = StatusWriter(world.api, world.binder.follower, world.clock, settle_ms=500)
    for _ in range(10):
        for service in (world.watcher, world.scheduler, world.binder, world.status):
            await service.step()
    assert [call for call in world.api.calls if call[0] in ("get", "patch") and call[1] == "one"] == []
    world.clock.time_ms += 500
    await world.status.step()
    assert [call for call in world.api.calls if call[0] in ("get", "patch") and call[1] == "one"] == [("patch", "one")]
    group = world.get(POD_GROUP, "one")
    assert group["status"]["phase"] == "Running"
    assert [entry["type"] for entry in group["status"]["conditions"]] == ["Scheduled"]


async def test_a_status_that_somebody_wrote_meanwhile_is_read_and_kept_pg12() -> None:
    """What was observed without a status is written without reading; a conflict tells that it has one by now."""
    world = World()
    world.node("n1")
    world.single("one")
    await world.decide()
    other = {"type": "Custom", "status": "True"}
    await world.api.patch(POD_GROUP, "team-a", "one", {"status": {"conditions": [other]}}, "status")
    await world.settle()
    assert [entry["type"] for entry in world.get(POD_GROUP, "one")["status"]["conditions"]] == ["Custom", "Scheduled"]
    assert ("get", "one") in world.api.calls


async def test_events_let_bindings_pass_for_some_seconds() -> None:
    world = World()
    busy = True
    recorder = Recorder(world.api, world.clock, pressed=lambda: busy)
    recorder.emit(Subject(POD, "team-a", "one", "u-1"), "Normal", "Scheduled", "first")
    assert not await recorder.flush()
    world.clock.time_ms += HELD_MS
    recorder.emit(Subject(POD, "team-a", "one", "u-1"), "Normal", "Scheduled", "second")
    assert await recorder.flush()
    assert [item["message"] for item in world.store.items(EVENT)] == ["first"]
    busy = False
    assert await recorder.flush()
    assert len(world.store.items(EVENT)) == 2


async def test_queue_status_shows_what_is_charged_q6() -> None:
    world = World()
    world.node("n1")
    world.single("one")
    await world.settle()
    assert world.get(QUEUE, "default")["status"]["allocated"] == {"cpu": "1", "memory": "0", "pods": "1"}
    world.store.remove(POD, "team-a", "one")
    await world.settle()
    assert world.get(QUEUE, "default")["status"]["allocated"] == {"cpu": "0", "memory": "0"}


class Sleepy:
    """An API server that is reached by a process which falls asleep before it writes the status of a queue."""

    def __init__(self, api: Any) -> None:
        self._api = api
        self.asleep, self.wake = asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._api, name)

    async def patch(self, kind: Kind, *what: Any) -> Json:
        if kind == QUEUE:
            self.asleep.set()
            await self.wake.wait()
        return await self._api.patch(kind, *what)


async def test_what_a_predecessor_writes_late_does_not_stay_q6() -> None:
    """scheduling/Q-6."""
    world = World()
    world.node("n1")
    world.single("one")
    for _ in range(5):
        for service in (world.watcher, world.scheduler, world.binder):
            await service.step()
    late = Sleepy(world.api)
    predecessor = asyncio.create_task(StatusWriter(late, world.binder.follower, world.clock).step())
    await late.asleep.wait()
    world.store.remove(POD, "team-a", "one")
    await world.settle()
    late.wake.set()
    await predecessor
    await world.settle()
    assert world.get(QUEUE, "default")["status"]["allocated"] == {"cpu": "0", "memory": "0"}


async def test_what_went_back_and_nobody_noticed_is_written_again_after_a_minute_pg2_q6() -> None:
    """scheduling/PG-2, Q-6: a restore of which the watcher had seen nothing yet. All objects have their turn."""
    world = World()
    world.node("n1")
    for index in range(DOUBTED + 1):
        world.single(f"one-{index:03d}", cpu="10m")
    await world.settle()
    names = ("one-000", f"one-{DOUBTED:03d}")
    allocated = world.get(QUEUE, "default")["status"]["allocated"]

    def shown() -> list[Any]:
        queue = world.get(QUEUE, "default")["status"].get("allocated") == allocated
        return [queue, *[world.get(POD_GROUP, name)["status"]["phase"] for name in names]]

    world.store.write(QUEUE, {**world.get(QUEUE, "default"), "status": {}})
    for name in names:
        world.store.write(POD_GROUP, {**world.get(POD_GROUP, name), "status": {"phase": "Pending"}})
    found = []
    for _ in range(3):
        await world.settle()
        found.append(shown())
        world.clock.time_ms += REPEAT_MS
    assert found == [[False, "Pending", "Pending"], [True, "Running", "Pending"], [True, "Running", "Running"]]


async def test_who_leads_again_takes_nothing_that_it_wrote_before_for_written_pg2() -> None:
    """scheduling/PG-2: what another binder wrote meanwhile is no longer what the state says."""
    world = World()
    for name in ("n1", "n2", "n3"):
        world.node(name, cpu="4")
    world.single("waits", cpu="8")
    await world.settle()
    text = condition(world.get(POD_GROUP, "waits"), "Unschedulable")["message"]
    first = world.binder, world.status
    world.binder = world.new_binder()
    world.store.remove(NODE, "", "n3")
    await world.settle()
    assert condition(world.get(POD_GROUP, "waits"), "Unschedulable")["message"] != text
    world.node("n3", cpu="4")
    await world.decide()
    world.binder, world.status = first
    await world.binder.step()
    world.clock.time_ms += STAND_BACK_MS
    await world.settle()
    assert world.binder.leading
    assert condition(world.get(POD_GROUP, "waits"), "Unschedulable")["message"] == text


async def test_a_refusal_of_the_configuration_is_told_on_its_configmap_cfg6() -> None:
    world = World()
    world.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-system"}})
    world.configure("actions: 'nonsense'\ntiers:\n- plugins:\n  - name: gang\n")
    await world.settle()
    assert any("nonsense" in message for message in world.events("ConfigRefused"))


async def test_failed_writes_are_tried_again() -> None:
    world = World()
    world.node("n1", cpu="1")
    world.single("waits", cpu="8")
    await world.decide()
    await world.binder.step()
    world.api.faults["patch"] = [refused(409), unknown(), refused(500)]
    await world.status.step()
    await world.settle()
    assert condition(world.get(POD, "waits"), "PodScheduled")["reason"] == "Unschedulable"
    assert world.get(POD_GROUP, "waits")["status"]["phase"] == "Inqueue"


async def test_what_ends_a_pass_does_not_end_its_writes_pg2() -> None:
    """scheduling/PG-2: credentials that cannot be read, say, end the step; nothing new comes, and yet it is written."""
    world = World()
    world.node("n1", cpu="1")
    world.single("waits", cpu="8")
    await world.decide()
    await world.binder.step()
    world.api.faults["patch"] = [OSError("no credentials")]
    with pytest.raises(OSError, match="no credentials"):
        await world.status.step()
    await world.status.step()
    assert condition(world.get(POD_GROUP, "waits"), "Unschedulable")["status"] == "True"
    assert condition(world.get(POD, "waits"), "PodScheduled")["reason"] == "Unschedulable"


# --- events ---------------------------------------------------------------------------------------------------------


async def test_the_same_event_is_one_object_that_counts() -> None:
    world = World()
    recorder = Recorder(world.api, world.clock)
    subject = Subject(POD, "team-a", "one", "u-1")
    for text in ("a", "a", "b"):
        recorder.emit(subject, "Warning", "FailedScheduling", text)
    assert await recorder.flush()
    assert sorted((item["message"], item["count"]) for item in world.store.items(EVENT)) == [("a", 2), ("b", 1)]
    recorder.emit(subject, "Warning", "FailedScheduling", "a", again=False)
    await recorder.flush()
    assert max(item["count"] for item in world.store.items(EVENT)) == 2


async def test_events_without_an_answer_are_sent_later_and_refused_ones_are_dropped() -> None:
    world = World()
    recorder = Recorder(world.api, world.clock)
    subject = Subject(POD, "team-a", "one", "u-1")
    recorder.emit(subject, "Normal", "Scheduled", "text")
    world.api.faults["create"] = [unknown()]
    assert not await recorder.flush()
    assert await recorder.flush()
    assert len(world.store.items(EVENT)) == 1
    recorder.emit(subject, "Normal", "Scheduled", "more")
    world.api.faults["create"] = [refused(403)]
    assert await recorder.flush()
    assert not await recorder.flush()


async def test_a_full_queue_drops_its_oldest_events_also_while_they_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("services.binder.recorder.QUEUE_MAX", 3)
    world = World()
    recorder = Recorder(world.api, world.clock, parallel=2)
    subject = Subject(POD, "team-a", "one", "u-1")

    async def unanswered(*_: Any) -> Json:
        if len(recorder._queue) < 2:
            recorder.emit(subject, "Normal", "Scheduled", f"came meanwhile {len(recorder._queue)}")
        raise unknown()

    for text in ("oldest", "older"):
        recorder.emit(subject, "Normal", "Scheduled", text)
    create = world.api.create
    world.api.create = unanswered  # type: ignore[method-assign]  # the API server is away
    assert not await recorder.flush()
    world.api.create = create  # type: ignore[method-assign]
    assert await recorder.flush()
    texts = [item["message"] for item in world.store.items(EVENT)]
    assert sorted(texts) == ["came meanwhile 0", "came meanwhile 1", "older"]


def test_event_names_are_names_and_event_texts_are_bounded() -> None:
    """The API server takes no name of more than 253 characters, and a pod's own may be as long as that."""
    event = event_about(Subject(POD, "team-a", "p" * 253, "u"), "Normal", "Why", "x", component="c", at_ms=0)
    assert len(event["metadata"]["name"]) == 253
    assert shorten("x" * 2000) == "x" * (MESSAGE_MAX - 3) + "..."
    assert len(shorten("ü" * 2000).encode()) <= MESSAGE_MAX
    assert shorten("a\ud800b") == "a?b"


async def test_an_event_is_repeated_after_five_minutes_while_it_holds_ev1() -> None:
    world = World()
    entry = GroupEntry(PodGroup(namespace="team-a", name="g", uid="u"), 0)
    entry.book = GroupBook(event_type="Warning", event_reason="Unschedulable", event_message="text")
    recorder = Recorder(world.api, world.clock)
    status = GroupStatus(world.api, recorder, Pace(world.clock, 10_000))
    for minutes, count in ((0, 1), (4, 1), (5, 2), (9, 2), (10, 3)):
        world.clock.time_ms = 1_767_225_600_000 + minutes * 60_000
        status._event(entry)
        await recorder.flush()
        (event,) = world.store.items(EVENT)
        assert event["count"] == count


async def test_a_waiting_group_says_so_again_although_nothing_is_new_ev1() -> None:
    """scheduling/EV-1, E-5."""
    world = World()
    world.node("n1", cpu="1")
    world.single("waits", cpu="8")
    await world.settle()
    world.clock.time_ms += 5 * 60_000
    await world.status.step()
    found = [item for item in world.store.items(EVENT) if item["reason"] == "Unschedulable"]
    assert [item["count"] for item in found] == [2]
