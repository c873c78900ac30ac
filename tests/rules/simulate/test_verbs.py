"""The steps (scenario format, *Steps*): what each verb does to the cluster and to the services."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.rules.simulate.playing import CARD, EVERYTHING, group, member, node, player, pod, text

ALL = {"invariants": EVERYTHING}


@pytest.fixture
def lines(tmp_path: Path) -> Any:
    """Return a function that plays steps with documents and gives the failure lines."""

    def play(steps: list[Any] | None, expect: list[Any], *documents: dict[str, Any]) -> list[str]:
        return player(tmp_path / "field.yaml", text(steps, [*expect, ALL], *documents))[1]

    return play


def bound(name: str = "one", **more: Any) -> dict[str, Any]:
    return {"pod": f"team-a/{name}", "phase": "bound", **more}


def pending(name: str = "one", **more: Any) -> dict[str, Any]:
    return {"pod": f"team-a/{name}", "phase": "pending", **more}


SETTLE = {"settle": True}


def test_without_steps_everything_is_added_and_settled(lines: Any) -> None:
    assert lines(None, [bound(gpu=[CARD], bindings=1)], node(), pod("one")) == []


def test_deciding_and_binding_happen_only_in_settle(lines: Any) -> None:
    steps = [{"add": [1, 2]}, {"assert": [pending(), {"objects": {"kind": "Pod", "equals": 1}}]}]
    assert lines(steps, [bound()], node(), pod("one")) == []


def test_names_instead_of_numbers_and_delete_by_name(lines: Any) -> None:
    steps = [
        {"add": ["Node/gpu-01", "Pod/team-a/one", "Pod/team-a/two"]}, SETTLE,
        {"assert": [bound(), pending("two", reasonContains="quota insufficient")]},
        {"delete": "Pod/team-a/one"}, SETTLE,
    ]  # fmt: skip
    expect = [bound("two", gpu=[CARD]), {"pod": "team-a/one", "phase": "absent"}]
    assert lines(steps, expect, node(), pod("one", 9000, uid="u-1"), pod("two", 9000, uid="u-2")) == []


def test_a_list_goes_in_as_one_document(lines: Any) -> None:
    both = {"apiVersion": "v1", "kind": "List", "items": [node(), pod("one")]}
    assert lines([{"add": [1]}], [bound()], both) == []


@pytest.mark.parametrize("result", ["conflict", "error", "timeout", "notfound"])
def test_a_binding_call_that_fails_is_made_again(lines: Any, result: str) -> None:
    steps = [{"bindResult": {"pod": "team-a/one", "result": result, "times": 3}}, {"add": [1, 2]}]
    assert lines(steps, [bound(bindings=1)], node(), pod("one")) == []


@pytest.mark.parametrize("result", ["conflict", "error", "timeout"])
def test_the_chosen_node_is_cordoned_when_it_refuses(lines: Any, result: str) -> None:
    """A node that was cordoned after the decision takes nothing new (scheduling/F-8): the next one is chosen."""
    fault = {"pod": "team-a/one", "result": result, "then": {"cordonChosenNode": True}}
    expect = [
        bound(node=["gpu-02"], bindings=1), {"object": "Node/gpu-01", "contains": {"spec": {"unschedulable": True}}},
    ]  # fmt: skip
    assert lines([{"bindResult": fault}, {"add": [1, 2, 3]}], expect, node(), node("gpu-02"), pod("one")) == []


def test_a_limited_settle_ends_after_its_rounds(lines: Any) -> None:
    steps = [
        {"bindResult": {"pod": "team-a/one", "result": "error", "times": 4}}, {"add": [1, 2]},
        {"settle": {"rounds": 4}}, {"assert": [pending(reasonContains="failed to bind to node gpu-01")]},
    ]  # fmt: skip
    assert lines(steps, [bound(bindings=1)], node(), pod("one")) == []


def test_a_paused_binder_holds_what_was_decided(lines: Any) -> None:
    steps = [{"pause": "binder"}, {"add": [1, 2]}, SETTLE, {"assert": [pending()]}, {"resume": "binder"}]
    assert lines(steps, [bound(bindings=1)], node(), pod("one")) == []


def test_a_paused_scheduler_decides_nothing(lines: Any) -> None:
    steps = [{"pause": "scheduler"}, {"add": [1, 2]}, SETTLE, {"assert": [pending()]}, {"resume": "scheduler"}]
    assert lines(steps, [bound(bindings=1)], node(), pod("one")) == []


@pytest.mark.parametrize("who", ["scheduler", "binder", "watcher", "controller", "all"])
def test_whoever_is_restarted_goes_on_from_the_log(lines: Any, who: str) -> None:
    steps = [{"add": [1, 2]}, SETTLE, {"restart": who}, SETTLE, {"add": [3]}, {"restart": who}]
    assert lines(steps, [bound(bindings=1), bound("two", bindings=1)], node(), pod("one"), pod("two")) == []


@pytest.mark.parametrize(
    ("who", "at"),
    [
        ("scheduler", "before-command"), ("scheduler", "after-command"), ("binder", "after-command"),
        ("binder", "before-bind"), ("binder", "after-bind"), ("binder", "after-outcome"),
    ],
)  # fmt: skip
def test_a_crash_at_any_point_has_no_second_effect(lines: Any, who: str, at: str) -> None:
    steps = [{"crash": {"who": who, "at": at}}, {"add": [1, 2, 3]}, SETTLE, {"restart": who}]
    expect = [
        bound("m-0", bindings=1),
        bound("m-1", bindings=1),
        {"podgroup": "team-a/m", "podgroupPhase": ["Running"]},
    ]
    documents = (
        node(),
        group("m", 2),
        {"apiVersion": "v1", "kind": "List", "items": [member("m-0", "m"), member("m-1", "m")]},
    )
    assert lines(steps, expect, *documents) == []


def test_a_crashed_service_stays_down_until_restart(lines: Any) -> None:
    steps = [{"crash": {"who": "scheduler", "at": "after-command"}}, {"add": [1, 2]}, SETTLE, {"add": [3]}, SETTLE]
    expect = [bound(bindings=1), pending("two")]
    assert lines(steps, expect, node(), pod("one"), pod("two")) == []


@pytest.mark.parametrize("led", [[SETTLE], []])
def test_a_replaced_scheduler_that_wakes_does_no_harm(lines: Any, led: list[Any]) -> None:
    steps = [
        {"add": [1, 2]}, *led, {"pause": "scheduler"}, {"failover": "scheduler"}, SETTLE, {"add": [3]},
        {"resume": "scheduler"}, SETTLE,
    ]  # fmt: skip
    assert lines(steps, [bound(bindings=1), bound("two", bindings=1)], node(), pod("one"), pod("two")) == []


def test_a_superseded_command_is_void(lines: Any) -> None:
    zombie = {"pod": "team-a/two", "node": "gpu-01", "uuids": [CARD], "mem": 9000}
    steps = [
        {"add": [1, 2]},
        SETTLE,
        {"failover": "scheduler"},
        {"add": [3]},
        SETTLE,
        {"zombieCommand": zombie},
        SETTLE,
    ]
    assert (
        lines(steps, [bound(bindings=1), pending("two", bindings=0)], node(), pod("one", 9000), pod("two", 9000)) == []
    )


def test_a_node_is_lost_with_its_pod(lines: Any) -> None:
    steps = [{"add": [1, 2, 4]}, SETTLE, {"nodeLost": {"ofPod": "team-a/one"}}, SETTLE, {"add": [3]}]
    expect = [
        {"pod": "team-a/one", "phase": "absent"}, {"object": "Node/gpu-01", "exists": False},
        bound("two", node=["gpu-02"]),
    ]  # fmt: skip
    assert lines(steps, expect, node(), pod("one"), pod("two"), node("gpu-02")) == []


@pytest.mark.parametrize("who", ["scheduler", "binder", "watcher"])
@pytest.mark.parametrize("uncommitted", [0, 1, 3, 1000])
def test_records_given_again_after_a_rebalance_change_nothing(lines: Any, who: str, uncommitted: int) -> None:
    steps = [{"add": [1, 2]}, SETTLE, {"rebalance": {"who": who, "uncommitted": uncommitted}}, SETTLE, {"add": [3]}]
    expect = [bound(bindings=1), bound("two", bindings=1), {"device": CARD, "usedMem": 8000, "usedSlots": 2}]
    assert lines(steps, expect, node(), pod("one"), pod("two")) == []


@pytest.mark.parametrize("keep", [0, 1, 4])
@pytest.mark.parametrize("who", [None, "scheduler", "binder", "watcher", "all"])
def test_a_cut_log_is_begun_anew_from_fresh_lists(lines: Any, keep: int, who: str | None) -> None:
    restart = [{"restart": who}] if who else []
    steps = [{"add": [1, 2]}, SETTLE, {"truncateLog": {"keepLast": keep}}, *restart, SETTLE, {"add": [3]}, SETTLE]
    expect = [bound(bindings=1), bound("two", bindings=1), {"device": CARD, "usedMem": 8000, "usedSlots": 2}]
    assert lines(steps, expect, node(), pod("one"), pod("two")) == []


def test_a_replay_decides_the_same_and_sends_nothing(lines: Any) -> None:
    steps = [
        {"add": [1, 2]},
        SETTLE,
        {"advance": "6m"},
        {"add": [3]},
        SETTLE,
        {"replay": {"clock": "2027-01-01T00:00:00Z"}},
    ]
    expect = [{"replay": {"decisionsEqual": True, "stateEqual": True, "commandsSent": 0}}]
    assert lines(steps, expect, node(), pod("one"), pod("two", 9000)) == []


def test_a_card_that_is_gone_before_the_binding_is_not_given(lines: Any) -> None:
    """The command stands, but the node does not register the card any more: it is decided anew."""
    other = node(memory=20000)
    register = other["metadata"]["annotations"]["volcano.sh/node-vgpu-register"]
    other["metadata"]["annotations"]["volcano.sh/node-vgpu-register"] = register.replace(CARD, "GPU-new")
    steps = [{"pause": "binder"}, {"add": [1, 2]}, SETTLE, {"modify": 3}, {"resume": "binder"}]
    assert lines(steps, [bound(gpu=["GPU-new"], bindings=1)], node(), pod("one"), other) == []


# --- the watch ---


def test_a_stale_event_changes_nothing(lines: Any) -> None:
    old, new = node(resourceVersion="5"), node(resourceVersion="50", labels={"zone": "b"})
    steps = [{"add": [1]}, {"modify": 2}, {"stale": 1}, {"add": [3]}]
    assert lines(steps, [bound()], old, new, pod("one", spec={"nodeSelector": {"zone": "b"}})) == []


def test_events_that_come_again_change_nothing(lines: Any) -> None:
    steps = [
        {"add": [1, 2]}, SETTLE, {"redeliver": {"add": 2}}, SETTLE, {"delete": 2}, {"redeliver": {"delete": 2}},
        {"redeliver": {"add": 2}}, SETTLE, {"assert": [{"objects": {"kind": "Pod", "equals": 0}}]}, {"add": [3]},
    ]  # fmt: skip
    assert lines(steps, [bound("two")], node(), pod("one", 9000), pod("two", 9000)) == []


@pytest.mark.parametrize("code", [410, 500, 429])
def test_a_watch_that_breaks_is_taken_up_again(lines: Any, code: int) -> None:
    steps = [{"add": [1]}, {"watchError": {"code": code, "kind": "Pod"}}, {"add": [2]}]
    assert lines(steps, [bound(), {"objects": {"kind": "Pod", "equals": 1}}], node(), pod("one")) == []


@pytest.mark.parametrize("error", [[{"watchError": {"code": 410, "kind": "Pod"}}], []])
def test_a_list_holds_exactly_these_objects(lines: Any, error: list[Any]) -> None:
    steps = [{"add": [1, 2]}, SETTLE, *error, {"relist": {"kind": "Pod", "objects": [3]}}]
    expect = [{"pod": "team-a/one", "phase": "absent"}, bound("two", gpu=[CARD])]
    assert lines(steps, expect, node(), pod("one", 9000), pod("two", 9000)) == []


def test_a_bookmark_is_no_object(lines: Any) -> None:
    steps = [{"add": [1]}, {"bookmark": {"kind": "Pod", "resourceVersion": "900"}}, {"add": [2]}]
    assert lines(steps, [bound(), {"objects": {"kind": "Pod", "equals": 1}}], node(), pod("one")) == []


# --- objects ---


def test_a_new_form_keeps_what_the_service_wrote(lines: Any) -> None:
    steps = [{"add": [1, 2]}, SETTLE, {"modify": 3}]
    expect = [
        bound(gpu=[CARD], node=["gpu-01"], bindings=1), {"annotation": "team", "pod": "team-a/one", "equals": "blue"},
        {"object": "Pod/team-a/one", "contains": {"status": {"phase": "Running"}}},
    ]  # fmt: skip
    assert lines(steps, expect, node(), pod("one", uid="u-1"), pod("one", annotations={"team": "blue"})) == []


def test_a_form_with_another_uid_is_another_pod(lines: Any) -> None:
    steps = [{"add": [1, 2]}, SETTLE, {"modify": 3}, {"assert": [pending()]}]
    expect = [bound(gpu=[CARD], bindings=1), {"device": CARD, "usedMem": 9000, "usedSlots": 1}]
    assert lines(steps, expect, node(), pod("one", 9000, uid="u-1"), pod("one", 9000, uid="u-2")) == []


def test_a_late_deletion_of_an_old_uid_is_only_an_event(lines: Any) -> None:
    steps = [{"add": [1, 2]}, SETTLE, {"modify": 3}, SETTLE, {"delete": 2}]
    assert lines(steps, [bound(gpu=[CARD])], node(), pod("one", uid="u-1"), pod("one", uid="u-2")) == []


def test_a_deletion_shows_exactly_the_document(lines: Any) -> None:
    steps = [{"add": [1, 2]}, SETTLE, {"delete": 2}, {"add": [3]}]
    expect = [{"pod": "team-a/one", "phase": "absent"}, bound("two"), {"device": CARD, "usedMem": 9000}]
    assert lines(steps, expect, node(), pod("one", 9000), pod("two", 9000)) == []


def test_a_merge_patch_takes_keys_away(lines: Any) -> None:
    merge = {"spec": {"unschedulable": None}, "metadata": {"labels": {"zone": "b"}}}
    cordoned = {**node(), "spec": {"unschedulable": True}}
    steps = [{"add": [1, 2]}, SETTLE, {"assert": [pending()]}, {"patch": {"object": "Node/gpu-01", "merge": merge}}]
    assert lines(steps, [bound(), {"object": "Node/gpu-01", "contains": {"spec": {}}}], cordoned, pod("one")) == []


def test_a_finished_pod_gives_its_card_back(lines: Any) -> None:
    finish = {"finish": {"pod": "team-a/one", "phase": "Succeeded"}}
    steps = [{"add": [1, 2]}, SETTLE, finish, SETTLE, {"add": [3]}]
    expect = [bound(), bound("two"), {"device": CARD, "usedMem": 9000, "usedSlots": 1}]
    assert lines(steps, expect, node(), pod("one", 9000), pod("two", 9000)) == []


def test_the_front_door_refuses_and_says_why(lines: Any) -> None:
    lost = group("lost", 1, queue="nowhere")
    steps = [{"apply": [1, 2]}]
    name = "PodGroup/team-a/lost"
    expect = [{"object": name, "exists": False, "refused": True, "reasonContains": "unable to find queue"}]
    assert lines(steps, expect, node(), lost) == []


def test_a_second_apply_merges(lines: Any) -> None:
    steps = [{"apply": [1, 2]}, SETTLE, {"apply": [3]}]
    labelled = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-01", "labels": {"zone": "b"}}}
    expect = [bound(), {"object": "Node/gpu-01", "contains": {"metadata": {"labels": {"zone": "b"}}}}]
    assert lines(steps, expect, node(), pod("one", spec={"nodeSelector": {"zone": "b"}}), labelled) == []
