"""The fold: what counts, what is void, and that folding again gives the same state."""

from __future__ import annotations

from typing import Any

import pytest
from history import START_MS, History, bind, node, pod

from events.records import Ticked
from scheduling.state.fold import JUMP_MS, Fold
from scheduling.status import TaskStatus

COMMAND = "c/i/1.0/0"


def used(fold: Fold, name: str = "n1") -> int:
    return sum(card.used_memory for card in fold.model.nodes[name].devices.cards)


@pytest.fixture
def history() -> History:
    found = History()
    found.listed()
    found.see(node())
    found.see(pod())
    return found


def equal_again(history: History) -> None:
    assert history.again().digest() == history.fold.digest()


def test_a_term_counts_only_if_it_follows_the_current_one(history: History) -> None:
    assert history.open("scheduler", previous=0).startswith("void")
    assert history.fold.model.terms["scheduler"].number == 1
    assert history.open("scheduler", previous=1) == "applied"
    assert history.fold.model.terms["scheduler"].number == 2


def test_records_of_a_superseded_term_are_void(history: History) -> None:
    """scheduling/F-12a: what a deposed writer appends has no effect, however late it wakes."""
    history.open("scheduler")
    assert history.say("scheduler", Ticked(time_ms=START_MS + 1000), term=1, number=5).startswith("void: superseded")
    history.open("watcher")
    history.terms["watcher"] = 1
    assert history.see(pod("late", "pod-9")).startswith("void: superseded")
    assert "pod-9" not in history.fold.model.pods


def test_a_role_writes_only_its_own_records(history: History) -> None:
    assert "does not write" in history.say("binder", Ticked(time_ms=START_MS))


def test_a_repeated_record_changes_nothing(history: History) -> None:
    before = history.fold.digest()
    record, _ = history.records[-1]
    assert history.fold.apply(99, record, "x") == "void: repeated"
    assert history.fold.digest() == before


def test_nothing_counts_before_a_genesis() -> None:
    """scheduling/F-11b: a log whose beginning is gone is no state."""
    history = History()
    fold = Fold()
    for position, (record, chain) in enumerate(history.records[1:]):
        assert fold.apply(position, record, chain).startswith("void")
    assert not fold.anchored
    assert fold.sequence == 0


def test_an_older_version_of_a_known_uid_is_ignored(history: History) -> None:
    """scheduling/F-4a."""
    history.see(pod(marker="new"), "7")
    assert history.see(pod(marker="old"), "5").startswith("void")
    assert history.see(pod(marker="same"), "7").startswith("void")
    assert history.fold.model.pods["pod-1"].pod.annotations["marker"] == "new"


def test_versions_are_compared_within_one_watcher_term_only(history: History) -> None:
    """scheduling/F-4a: a restored API server goes back in its versions."""
    history.see(pod(marker="new"), "700")
    history.open("watcher")
    assert history.see(pod(marker="restored"), "3") == "applied"


def test_after_a_deletion_other_events_of_the_uid_are_ignored_but_a_list_wins(history: History) -> None:
    """scheduling/F-4a, design section 3: tombstones bind within a term, a list always wins."""
    history.lose(pod())
    assert history.see(pod(), "9").startswith("void")
    assert history.see(pod(), "9", listed=True) == "applied"
    assert "pod-1" in history.fold.model.pods


def test_a_late_deletion_of_an_old_uid_changes_nothing(history: History) -> None:
    """devices/A-16a."""
    history.see(pod(uid="pod-2"), "4")
    assert set(history.fold.model.pods) == {"pod-2"}
    assert history.lose(pod(uid="pod-1")).startswith("void")
    assert set(history.fold.model.pods) == {"pod-2"}


def test_what_a_list_lacks_is_deleted(history: History) -> None:
    """scheduling/F-11a."""
    assert history.list_of("Pod", []) == "applied"
    assert not history.fold.model.pods
    equal_again(history)


def test_an_incomplete_list_deletes_nothing(history: History) -> None:
    history.say("watcher", history.records[-1][0].body)
    from events.records import ListEnd

    end = ListEnd(api_version="v1", kind="Pod", list_id=3, version="1", count=2, digest="")
    assert history.say("watcher", end).startswith("void")
    assert "pod-1" in history.fold.model.pods


def test_every_kind_is_listed_before_the_state_is_whole() -> None:
    """scheduling/F-11."""
    history = History()
    assert not history.fold.ready
    history.listed()
    assert history.fold.ready
    history.open("watcher")
    assert not history.fold.ready


def test_a_placement_counts_from_the_decision_on(history: History) -> None:
    """devices/A-17: not from the watch's echo."""
    assert history.batch(binds=[bind()]) == "applied"
    entry = history.fold.model.pods["pod-1"]
    assert entry.status is TaskStatus.BINDING
    assert used(history.fold) == 4000
    assert list(history.fold.model.commands) == [COMMAND]
    equal_again(history)


@pytest.mark.parametrize("change", ["pod", "node", "gone"])
def test_a_command_whose_objects_changed_after_the_base_is_overtaken(history: History, change: str) -> None:
    """scheduling/F-12."""
    base, state = history.fold.mark()
    if change == "pod":
        history.see(pod(marker="x"), "2")
    elif change == "node":
        history.see({**node(), "spec": {"unschedulable": True}}, "2")
    else:
        history.lose(pod())
    assert "overtaken" in history.batch(base=base, state=state, binds=[bind()])
    assert not history.fold.model.commands
    assert used(history.fold) == 0


def test_a_gang_is_overtaken_as_a_whole(history: History) -> None:
    """design section 4: any member overtaken voids the whole command."""
    history.see(pod("q", "pod-2"))
    base, state = history.fold.mark()
    history.see(pod("q", "pod-2", marker="x"), "2")
    command = bind()
    both = command.model_copy(update={"members": [*command.members, *bind("pod-2", name="q", n=1).members]})
    assert "overtaken" in history.batch(base=base, state=state, binds=[both])
    assert history.fold.model.pods["pod-1"].status is TaskStatus.PENDING


def test_a_node_lock_overtakes_nothing(history: History) -> None:
    base, state = history.fold.mark()
    history.see(node(hamivgpu="2026-01-01T00:00:00Z"), "2")
    assert history.batch(base=base, state=state, binds=[bind()]) == "applied"


def test_a_batch_is_applied_once_and_only_on_the_state_it_saw(history: History) -> None:
    base, state = history.fold.mark()
    assert history.batch(binds=[bind()]) == "applied"
    assert history.batch(base=base, state=state) == "void: repeated"
    assert "diverged" in history.batch(1, state="0" * 64)
    assert history.fold.diverged == 1


def test_an_applied_binding_is_confirmed_by_the_observation(history: History) -> None:
    """scheduling/F-1, F-4: events older than the binding do not take it back."""
    history.batch(binds=[bind()])
    assert history.outcome(COMMAND, "applied", version="20") == "applied"
    history.see(pod(marker="older"), "15")
    assert history.fold.model.pods["pod-1"].status is TaskStatus.BINDING
    bound = pod(node="n1", **{"volcano.sh/vgpu-ids-new": "GPU-a,NVIDIA,4000,0:"})
    history.see(bound, "20")
    assert history.fold.model.pods["pod-1"].status is TaskStatus.BOUND
    assert used(history.fold) == 4000
    equal_again(history)


def test_a_list_without_the_binding_takes_it_back(history: History) -> None:
    """scheduling/F-4: a bind can be lost when the API server's store is restored."""
    history.batch(binds=[bind()])
    history.outcome(COMMAND, "applied", version="20")
    history.see(pod(), "3", listed=True)
    assert history.fold.model.pods["pod-1"].status is TaskStatus.PENDING
    assert used(history.fold) == 0


def bound_by(command: str, phase: str = "Running") -> dict[str, Any]:
    notes = {"volcano.sh/vgpu-ids-new": "GPU-a,NVIDIA,4000,0:", "gpuledger.dev/decision": command}
    return {**pod(node="n1", **notes), "status": {"phase": phase}}


def test_a_binding_undone_before_its_report_holds_its_place_until_the_report(history: History) -> None:
    """scheduling/F-4, F-12: the command still stands, so the pod is not decided on a second time."""
    history.batch(binds=[bind()])
    history.see(bound_by(COMMAND), "20")
    history.open("watcher")
    history.see(pod(), "3")
    entry = history.fold.model.pods["pod-1"]
    assert (entry.status, used(history.fold)) == (TaskStatus.BINDING, 4000)
    assert "overtaken" in history.batch(1, binds=[bind()])
    assert list(history.fold.model.commands) == [COMMAND]
    equal_again(history)
    history.outcome(COMMAND, "applied", version="3")
    assert (entry.status, used(history.fold)) == (TaskStatus.BINDING, 4000)
    assert not history.fold.model.commands
    equal_again(history)


@pytest.mark.parametrize("seen", [bound_by(COMMAND, "Succeeded"), bound_by("somebody else's")])
@pytest.mark.parametrize("result", ["refused", "applied"])
def test_a_command_whose_place_was_free_meanwhile_is_waited_for_when_its_binding_is_undone(
    history: History, seen: dict[str, Any], result: str
) -> None:
    """scheduling/F-4: its cards may be another's, so the binder gives it up; one who slept may have bound it yet."""
    history.batch(binds=[bind()])
    history.see(seen, "20")
    history.open("watcher")
    for version in ("3", "4"):
        history.see(pod(marker=version), version)
        assert history.fold.model.pods["pod-1"].status is TaskStatus.UNKNOWN
        assert used(history.fold) == 0
    equal_again(history)
    history.outcome(COMMAND, result, version="4")
    after = TaskStatus.PENDING if result == "refused" else TaskStatus.BINDING
    assert history.fold.model.pods["pod-1"].status is after
    assert used(history.fold) == (0 if result == "refused" else 4000)
    equal_again(history)


def ending(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "metadata": {**item["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def evicted(history: History) -> None:
    """A running pod that was told to make way."""
    history.see({**pod(node="n1"), "status": {"phase": "Running"}}, "5")
    evict = {"n": 0, "namespace": "ns", "name": "p", "uid": "pod-1", "reason": "preempt"}
    assert history.batch(evictions=[evict]) == "applied"
    assert history.fold.model.pods["pod-1"].status is TaskStatus.RELEASING


@pytest.mark.parametrize("seen_ending", [True, False])
def test_an_eviction_is_lost_if_the_server_goes_back_to_before_it(history: History, seen_ending: bool) -> None:
    """scheduling/F-4: what an API server that was restored does not know any more has not happened."""
    evicted(history)
    history.outcome(COMMAND, "applied")
    running = {**pod(node="n1"), "status": {"phase": "Running"}}
    if seen_ending:
        history.see(ending(running), "6")
        history.open("watcher")
    history.see(running, "5", listed=not seen_ending)
    assert history.fold.model.pods["pod-1"].status is TaskStatus.RUNNING
    equal_again(history)


def test_an_eviction_on_its_way_is_not_lost_by_a_list(history: History) -> None:
    """The binder asks again until it has an answer."""
    evicted(history)
    history.see({**pod(node="n1"), "status": {"phase": "Running"}}, "5", listed=True)
    assert history.fold.model.pods["pod-1"].status is TaskStatus.RELEASING


def test_a_refused_binding_leaves_nothing_and_says_why(history: History) -> None:
    """scheduling/F-2, devices/A-15."""
    history.batch(binds=[bind()])
    history.outcome(COMMAND, "refused", message="node n1 is gone")
    entry = history.fold.model.pods["pod-1"]
    assert (entry.status, entry.bind_failures) == (TaskStatus.PENDING, 1)
    assert entry.book.reason == "SchedulerError"
    assert entry.book.message == "failed to bind to node n1: node n1 is gone"
    assert used(history.fold) == 0
    equal_again(history)


def test_a_second_outcome_of_a_command_is_void(history: History) -> None:
    history.batch(binds=[bind()])
    history.outcome(COMMAND, "applied", version="20")
    assert history.outcome(COMMAND, "refused").startswith("void")
    assert history.fold.model.pods["pod-1"].status is TaskStatus.BINDING


def test_a_pod_bound_by_somebody_else_is_not_tried_before_it_is_seen(history: History) -> None:
    history.batch(binds=[bind()])
    history.outcome(COMMAND, "lost")
    assert history.fold.model.pods["pod-1"].status is TaskStatus.UNKNOWN
    history.see(pod(node="n7"), "30")
    assert history.fold.model.pods["pod-1"].status is TaskStatus.BOUND


def test_a_deleted_pod_takes_its_command_and_claim_along(history: History) -> None:
    """scheduling/F-5."""
    history.batch(binds=[bind()])
    history.lose(pod())
    assert not history.fold.model.commands
    assert used(history.fold) == 0
    assert history.outcome(COMMAND, "applied").startswith("void")


def test_a_terminating_pod_still_holds_and_an_ended_one_does_not(history: History) -> None:
    """devices/A-16, scheduling/F-6."""
    record = {"volcano.sh/vgpu-ids-new": "GPU-a,NVIDIA,4000,0:"}
    item: dict[str, Any] = pod(node="n1", **record)
    history.see(item, "2")
    item = {**item, "metadata": {**item["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    history.see(item, "3")
    assert used(history.fold) == 4000
    history.see({**item, "status": {"phase": "Succeeded"}}, "4")
    assert used(history.fold) == 0


def test_pods_and_nodes_in_any_order_give_the_same_books() -> None:
    """devices/N-23a, A-14."""
    bound = pod(node="n1", **{"volcano.sh/vgpu-ids-new": "GPU-a,NVIDIA,4000,0:"})
    first, second = History(), History()
    first.see(node())
    first.see(bound)
    second.see(bound)
    second.see(node())
    assert used(first.fold) == used(second.fold) == 4000
    second.lose(node())
    second.see(node(uid="node-2"), "8")
    assert used(second.fold) == 4000


def test_time_never_goes_back_and_a_jump_needs_two_ticks(history: History) -> None:
    """design section 3."""
    jump = START_MS + JUMP_MS + 1
    assert history.say("scheduler", Ticked(time_ms=jump)).startswith("void")
    assert history.fold.model.time_ms == START_MS
    assert history.say("scheduler", Ticked(time_ms=jump)) == "applied"
    assert history.fold.model.time_ms == jump
    history.say("scheduler", Ticked(time_ms=START_MS))
    assert history.fold.model.time_ms == jump


def test_a_record_that_cannot_be_read_moves_the_place_and_nothing_else(history: History) -> None:
    before = history.fold.digest()
    history.fold.set_aside(50, "broken", "chain")
    assert history.fold.digest() == before
    assert history.fold.aside == 1


def test_a_message_that_utf8_cannot_hold_stops_nobody(history: History) -> None:
    """scheduling/F-2: the API server's words are taken as they come, a lone surrogate too."""
    history.batch(binds=[bind()])
    assert history.outcome(COMMAND, "refused", message="no: \udc80") == "applied"
    assert history.fold.model.pods["pod-1"].book.message.endswith("\udc80")
    equal_again(history)
