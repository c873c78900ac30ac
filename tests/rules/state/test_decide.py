"""A decision as a batch: numbers, times and ids that the binder needs, and nothing that is not new."""

from __future__ import annotations

from typing import Any

import pytest
from history import START_MS, History, node, pod

from events.names import GROUP_NAME
from scheduling.decide import decide
from scheduling.state.decisions import decision_prefix
from scheduling.status import ALLOC, DONE, READY, SCHED, VALID, TaskStatus


def group(name: str, min_member: int) -> dict[str, object]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"namespace": "ns", "name": name, "uid": f"group-{name}"},
        "spec": {"minMember": min_member, "queue": "default"},
        "status": {"phase": "Inqueue"},
    }


@pytest.fixture
def history() -> History:
    found = History()
    found.listed()
    queue = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "default", "uid": "queue-1"},
        "spec": {"weight": 1},
        "status": {"state": "Open"},
    }
    found.see(queue)
    found.see(node())
    found.see(group("two", 2))
    for index in range(2):
        found.see(pod(f"p-{index}", f"pod-{index}", **{GROUP_NAME: "two"}))
    return found


def decided(history: History, number: int = 0, time_ms: int = START_MS) -> Any:
    sequence, _ = history.fold.mark()
    return decide(history.fold, time_ms, f"chain-{sequence}", number)


def test_a_gang_is_one_command_and_its_times_rise_strictly(history: History) -> None:
    """devices/A-8: previous + 1 within one second, from the batch's time."""
    batch = decided(history)
    assert len(batch.binds) == 1
    times = [member.vgpu_time for member in batch.binds[0].members]
    assert times == [START_MS // 1000, START_MS // 1000 + 1]


def test_times_rise_above_those_of_pods_already_there(history: History) -> None:
    """devices/A-8: a pod on the node was bound in the future of our clock."""
    there = {"volcano.sh/vgpu-ids-new": "GPU-a,NVIDIA,10,0:", "volcano.sh/vgpu-time": str(START_MS // 1000 + 50)}
    history.see(pod("there", "pod-9", "n1", 10, **there))
    assert [member.vgpu_time for member in decided(history).binds[0].members] == [
        START_MS // 1000 + 51,
        START_MS // 1000 + 52,
    ]


def test_a_served_pods_sentinel_does_not_count_as_a_time(history: History) -> None:
    """devices/A-8, C-13."""
    there = {"volcano.sh/vgpu-ids-new": "GPU-a,NVIDIA,10,0:", "volcano.sh/vgpu-time": "18446744073709551615"}
    history.see(pod("there", "pod-9", "n1", 10, **there))
    assert decided(history).binds[0].members[0].vgpu_time == START_MS // 1000


def test_each_member_has_an_id_of_its_own(history: History) -> None:
    """devices/A-9a: cluster, incarnation, term, batch, number."""
    batch = decided(history)
    history.say("scheduler", batch)
    ids = sorted(entry.placement_id for entry in history.fold.model.pods.values())
    assert ids == ["c/i/1.0/0", "c/i/1.0/1"]
    assert decision_prefix(history.fold.model, 1, 0) == "c/i/1.0"


def test_a_placed_pod_is_binding_until_it_is_seen_bound(history: History) -> None:
    """scheduling/T-2, T-3."""
    history.say("scheduler", decided(history))
    statuses = {entry.status for entry in history.fold.model.pods.values()}
    assert statuses == {TaskStatus.BINDING}
    assert TaskStatus.BINDING in ALLOC
    assert TaskStatus.BINDING not in SCHED


def test_the_sets_of_statuses() -> None:
    """scheduling/T-3: Failed is neither READY nor VALID; Releasing and Unknown are in none."""
    assert ALLOC | {TaskStatus.SUCCEEDED} == READY
    assert READY | {TaskStatus.PIPELINED, TaskStatus.PENDING} == VALID
    assert TaskStatus.FAILED not in READY | VALID
    for status in (TaskStatus.RELEASING, TaskStatus.UNKNOWN):
        assert status not in ALLOC | SCHED | DONE | READY | VALID


def test_a_decision_that_finds_nothing_new_is_none(history: History) -> None:
    """design section 3: it appends nothing and changes nothing."""
    number = 0
    while (batch := decided(history, number)) is not None:
        assert history.say("scheduler", batch) == "applied"
        number += 1
        assert number < 5
    before = history.fold.digest()
    assert decided(history, number) is None
    assert history.fold.digest() == before


def test_equal_state_gives_equal_bytes(history: History) -> None:
    first = decided(history)
    again = history.again()
    sequence, _ = again.mark()
    assert decide(again, START_MS, f"chain-{sequence}", 0) == first


def test_a_deleted_podgroup_leaves_its_placed_pods_counted(history: History) -> None:
    """scheduling/F-10."""
    history.say("scheduler", decided(history))
    history.lose(group("two", 2))
    assert "ns/two" not in history.fold.model.groups
    assert len(history.fold.model.nodes["n1"].tasks) == 2


def test_a_quickly_recreated_podgroup_survives_the_late_deletion_of_the_old_one(history: History) -> None:
    """scheduling/F-10."""
    fresh = group("two", 2)
    fresh["metadata"] = {"namespace": "ns", "name": "two", "uid": "group-new"}
    history.see(fresh, "5")
    history.lose(group("two", 2))
    assert history.fold.model.groups["ns/two"].group.uid == "group-new"
