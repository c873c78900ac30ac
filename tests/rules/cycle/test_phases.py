"""Phases and conditions of PodGroups (scheduling/PG-6 to PG-8, PG-12 to PG-17)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rules.cycle.build import Json, World, bare, created, gang, gpu, group, node, pod, queue

from scheduling.config.parse import default_config

TOO_MUCH = gpu(90000)
WAITS: Json = {}
RUNS: Json = {"spec": {"nodeName": "a"}, "status": {"phase": "Running"}}
BOUND: Json = {"spec": {"nodeName": "a"}}
DONE: Json = {"spec": {"nodeName": "a"}, "status": {"phase": "Succeeded"}}
FAILED: Json = {"spec": {"nodeName": "a"}, "status": {"phase": "Failed"}}
ENDING: Json = {**RUNS, "deletionTimestamp": created(0)}
ENDING_UNPLACED: Json = {"deletionTimestamp": created(0)}


def world(phase: str, *members: Json, minimum: int = 2) -> World:
    """A group in this phase with these members; those that wait ask for more than there is."""
    pods = [pod(f"p-{i}", "g", {} if member.get("spec") else TOO_MUCH, **member) for i, member in enumerate(members)]
    return World(node(), group("g", minimum, status={"phase": phase}), pods)


@pytest.mark.parametrize(
    ("members", "before", "after"),
    [
        ([], "Inqueue", "Inqueue"),
        ([BOUND, BOUND], "Inqueue", "Running"),
        ([RUNS, WAITS], "Running", "Unknown"),
        ([RUNS, WAITS], "Unknown", "Unknown"),
        ([RUNS, ENDING], "Running", "Running"),
        ([ENDING], "Running", "Pending"),
        ([ENDING_UNPLACED, WAITS], "Pending", "Inqueue"),
        ([DONE, DONE], "Running", "Completed"),
        ([DONE, FAILED], "Running", "Completed"),
        ([DONE, RUNS], "Running", "Running"),
        ([DONE], "Running", "Pending"),
        ([], "Running", "Pending"),
    ],
)
def test_the_phase_at_the_end_of_a_cycle(members: list[Json], before: str, after: str) -> None:
    """scheduling/PG-6; a Pending group of the table is admitted first here (PG-4)"""
    assert world(before, *members).run().groups["lab/g"].phase == after


def test_a_gang_on_its_way_stays_inqueue() -> None:
    """scheduling/PG-6: Binding is not enough"""
    the = World(node(), gang("g", 2, gpu()))
    the.step()
    assert the.book("g").phase == "Inqueue"
    assert the.run().groups["lab/g"] == the.book("g")


def test_a_group_without_tasks_is_not_completed() -> None:
    """scheduling/PG-7"""
    assert world("Pending", minimum=0).run().groups["lab/g"].phase == "Inqueue"
    assert world("Inqueue", WAITS, minimum=0).run().groups["lab/g"].phase == "Inqueue"


def test_completed_lasts_until_there_is_something_to_do() -> None:
    """scheduling/PG-7a"""
    the = world("Running", DONE, minimum=1)
    the.settle()
    assert the.book("g").phase == "Completed"
    the.delete("p-0")
    the.settle()
    assert the.book("g").phase == "Completed"
    the.see(pod("p-9", "g", gpu(1000)))
    the.settle()
    assert (the.book("g").phase, the.on("p-9")) == ("Running", "a")


def test_a_task_that_is_not_done_ends_completed() -> None:
    """scheduling/PG-7a: a group with enough finished tasks and one that waits is Running, in every cycle"""
    the = world("Completed", DONE, WAITS, minimum=1)
    the.rest()
    assert the.book("g").phase == "Running"


def test_unknown_is_left_when_the_replacement_is_placed() -> None:
    """scheduling/PG-8, F-9"""
    the = world("Running", RUNS, WAITS)
    the.rest()
    assert the.book("g").phase == "Unknown"
    the.delete("p-1")
    the.see(pod("p-2", "g", gpu(1000)))
    the.settle()
    assert the.book("g").phase == "Running"
    assert the.on("p-0") == "a"


# --- conditions ---


def test_an_unschedulable_condition_is_taken_back() -> None:
    """scheduling/PG-12, PG-16"""
    the = World(node(), bare("first", gpu(6000)), gang("g", 1, gpu(6000), age=5))
    the.settle()
    book = the.book("g")
    assert (book.unschedulable, book.reason, book.scheduled) == (True, "NotEnoughResources", False)
    the.delete("first")
    the.settle()
    book = the.book("g")
    assert (book.unschedulable, book.scheduled, book.message) == (False, True, "")


def test_scheduled_stays_when_a_member_is_lost() -> None:
    """scheduling/PG-12: other types are kept"""
    the = world("Running", RUNS, RUNS)
    the.rest()
    the.delete("p-1")
    the.see(pod("p-2", "g", TOO_MUCH))
    the.rest()
    book = the.book("g")
    assert (book.phase, book.unschedulable, book.scheduled) == ("Unknown", True, True)


def test_ready_by_count_alone_is_scheduled() -> None:
    """scheduling/PG-14: the roles do not count for the condition"""
    spec = {"minTaskMember": {"master": 1, "worker": 1}}
    members = [pod(f"p-{i}", "g", {}, annotations={"volcano.sh/task-spec": "worker"}, **RUNS) for i in range(2)]
    the = World(node(), group("g", 2, spec=spec), members)
    assert the.run().groups["lab/g"].scheduled is True


def test_nothing_is_said_of_a_group_without_tasks() -> None:
    """scheduling/PG-12, EV-1"""
    the = world("Pending")
    the.settle()
    book = the.book("g")
    assert (book.phase, book.unschedulable, book.scheduled, book.event_message) == ("Inqueue", None, False, "")


def test_a_topology_is_left_out_with_a_warning() -> None:
    """scheduling/PG-17"""
    the = World(node(), group("g", spec={"networkTopology": {"mode": "hard"}}), pod("p", "g", gpu()))
    batch = the.step()
    assert batch is not None
    assert batch.groups[0].book.event_reason == "NetworkTopologyIgnored"
    assert the.on("p") == "a"
    the.effects()
    the.settle()
    assert the.book("g").event_message == "pod group is ready"


def test_without_gang_there_is_no_condition() -> None:
    """scheduling/PG-12, PG-6: the phase rule goes on, the event too"""
    config = default_config()
    tiers = tuple(tuple(option for option in tier if option.name != "gang") for tier in config.tiers)
    the = World(node(), gang("g", 2, gpu(6000)), config=replace(config, tiers=tiers))
    the.settle()
    book = the.book("g")
    assert (book.phase, book.unschedulable, book.scheduled) == ("Inqueue", None, False)
    assert book.event_message.startswith("1/2 tasks in gang unschedulable: pod group is not ready, 1 Pending")


# --- what stays outside ---


def test_a_missing_queue_is_named_until_it_comes() -> None:
    """scheduling/PG-3a"""
    the = World(node(), group("g", queue="lost"), pod("p", "g", gpu()), bare("fine", gpu()))
    the.settle()
    book = the.book("g")
    assert (book.unschedulable, book.reason, book.message) == (True, "QueueNotFound", "queue lost does not exist")
    assert the.said("p").reason == "Unschedulable"
    assert the.said("p").message == "PodGroup lab/g: queue lost does not exist"
    assert the.on("fine") == "a"
    the.see(queue("lost"))
    the.settle()
    assert the.on("p") == "a"


def test_a_queue_that_comes_ends_the_complaint_of_an_empty_group() -> None:
    """scheduling/PG-3a"""
    the = World(group("g", queue="lost"))
    the.settle()
    the.see(queue("lost"))
    the.settle()
    assert (the.book("g").unschedulable, the.book("g").reason) == (False, "")


def test_a_missing_group_is_named_until_it_comes() -> None:
    """scheduling/PG-3b, AS-1"""
    the = World(node(), pod("p", "g", gpu()), group("g", namespace="other"))
    the.settle()
    assert the.said("p").message == "PodGroup lab/g does not exist"
    the.see(group("g"))
    the.settle()
    assert the.on("p") == "a"


def test_gated_pods_are_left_alone() -> None:
    """scheduling/AS-12"""
    gates = [{"name": "example.test/wait"}]
    the = World(node(), group("g"), pod("p", "g", gpu(), spec={"schedulingGates": gates}))
    the.settle()
    assert (the.on("p"), the.said("p").reason, the.said("p").message) == ("", "", "")


def test_pods_of_other_schedulers_are_not_ours() -> None:
    """scheduling/AS-2"""
    the = World(node(), group("g"), pod("p", "g", gpu(), spec={"schedulerName": "default-scheduler"}))
    the.settle()
    assert the.on("p") == ""
    assert the.said("p").message == ""
