"""Placing tasks (scheduling/AL-5 to AL-13, AL-17 to AL-23, section 4.7)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rules.cycle.build import MEMORY, Json, World, bare, gang, gpu, group, node, pod, queue, thing

from scheduling.config.model import PluginOption, SchedulerConfig
from scheduling.config.parse import default_config


def without(*plugins: str) -> SchedulerConfig:
    """The default configuration without these plugins."""
    config = default_config()
    tiers = tuple(tuple(option for option in tier if option.name not in plugins) for tier in config.tiers)
    return replace(config, tiers=tiers)


def binds(world: World) -> list[list[str]]:
    """The members of each command of the next decision."""
    batch = world.step()
    return [[member.name for member in command.members] for command in batch.binds] if batch else []


def test_a_gang_is_placed_as_a_block_and_the_rest_one_by_one() -> None:
    """scheduling/AL-6"""
    world = World(node(), gang("g", 4, gpu(), 2), bare("single", gpu(), age=30))
    assert binds(world) == [["g-worker-0", "g-worker-1"], ["single"], ["g-worker-2"], ["g-worker-3"]]


def test_a_failed_job_leaves_its_place_to_others_in_the_same_cycle() -> None:
    """scheduling/AL-9, AL-13: the failed gang is undone and reserves nothing"""
    world = World(node(cards=2, memory=4000), gang("g", 3, gpu(3000)), bare("small", gpu(3000), age=5))
    assert binds(world) == [["small"]]
    assert world.book("g").phase == "Inqueue"


def test_tasks_after_the_failure_of_a_whole_gang_are_not_tried() -> None:
    """scheduling/AL-8, MSG-7: worked example"""
    world = World(node(cards=2, memory=4000), gang("g", 2, gpu(5000, None)))
    world.settle()
    assert world.book("g").message.startswith(
        "2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; "
        "Pending: 2 Unschedulable. Origin reason is g-worker-0: 0/1 nodes are unavailable: "
        "1 hami-vgpuDeviceSharing error."
    )
    assert world.said("g-worker-1").message.startswith("pod group is not ready, 2 Pending, 2 minAvailable; ")


def test_a_role_that_failed_is_skipped_for_the_rest_of_the_cycle() -> None:
    """scheduling/AL-7: with its own text; tasks without role are tried each"""
    world = World(node(cards=2, memory=4000), gang("g", 3, gpu(5000, None), 1))
    world.settle()
    assert world.said("g-worker-0").message.startswith("0/1 nodes are unavailable: 1 hami-vgpuDeviceSharing error.")
    text = "Task g-worker-1 with role spec worker has already predicated failed, skip"
    assert world.said("g-worker-1").message == text
    plain = World(node(cards=2, memory=4000), group("g"), [pod(f"p-{i}", "g", gpu(5000, None)) for i in range(2)])
    plain.settle()
    assert plain.said("p-1").message.startswith("0/1 nodes are unavailable: 1 hami-vgpuDeviceSharing error.")


def test_a_pod_that_may_never_run_fails_nobody_else_of_its_role() -> None:
    """devices/R-9a, scheduling/AL-7"""
    world = World(node(), gang("g", 2, gpu(1000), 1))
    bad = world.objects["Pod", "uid-pod-g-worker-0"]
    asked = gpu(1000, 101)
    bad["spec"]["containers"][0]["resources"] = {"limits": asked, "requests": asked}
    world.see(bad)
    world.settle()
    assert world.nodes_of("g-worker-0", "g-worker-1") == ["", "a"]
    assert world.said("g-worker-0").message == "invalid volcano.sh/vgpu-cores 101 in container c0"


def test_a_gang_with_roles_goes_on_while_the_failed_role_has_its_minimum() -> None:
    """scheduling/AL-8, PG-10: two of the big role fit, the small one is placed nevertheless"""
    spec = {"minTaskMember": {"big": 1, "small": 1}}

    def member(name: str, role: str, memory: int) -> Json:
        return pod(name, "g", gpu(memory, None), annotations={"volcano.sh/task-spec": role})

    pods = [member("j-big-0", "big", 3000), member("j-big-1", "big", 3000), member("j-small-2", "small", 500)]
    world = World(node(memory=4000), group("g", 2, spec=spec), pods)
    world.settle()
    assert world.nodes_of("j-big-0", "j-big-1", "j-small-2") == ["a", "", "a"]


def test_a_role_below_its_minimum_stops_the_gang() -> None:
    """scheduling/AL-8, PG-10"""
    spec = {"minTaskMember": {"big": 2, "small": 1}}
    roles = [("j-big-0", "big"), ("j-big-1", "big"), ("j-small-2", "small"), ("j-small-3", "small")]
    pods = [
        pod(name, "g", gpu(3000 if role == "big" else 500, None), annotations={"volcano.sh/task-spec": role})
        for name, role in roles
    ]
    world = World(node(memory=5000), group("g", 3, spec=spec), pods)
    world.settle()
    assert world.nodes_of(*(name for name, _ in roles)) == ["", "", "", ""]


def test_minima_of_roles_above_min_member_do_not_count() -> None:
    """scheduling/PG-10, AL-8"""
    spec = {"minTaskMember": {"big": 2, "small": 1}}
    pods = [
        pod("j-big-0", "g", gpu(9000, None), annotations={"volcano.sh/task-spec": "big"}),
        pod("j-small-1", "g", gpu(500, None), annotations={"volcano.sh/task-spec": "small"}),
        pod("j-small-2", "g", gpu(500, None), annotations={"volcano.sh/task-spec": "small"}),
    ]
    world = World(node(cards=2, memory=5000), group("g", 2, spec=spec), pods)
    world.settle()
    assert world.nodes_of("j-big-0", "j-small-1", "j-small-2") == ["", "a", "a"]


def test_a_gang_without_its_roles_is_invalid() -> None:
    """scheduling/PG-9: (a); nothing is tried"""
    spec = {"minTaskMember": {"master": 1, "worker": 1}}
    pods = [pod(f"p-{i}", "g", gpu(), annotations={"volcano.sh/task-spec": "worker"}) for i in range(2)]
    world = World(node(), group("g", 2, spec=spec), pods)
    world.settle()
    assert world.nodes_of("p-0", "p-1") == ["", ""]
    assert world.book("g").message == (
        "2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable"
    )
    assert world.said("p-0").message == "pod group is not ready, 2 Pending, 2 minAvailable; Pending: 2 Unschedulable"


@pytest.mark.parametrize(("size", "placed"), [(2, True), (3, False)])
def test_sub_groups_must_be_complete(size: int, placed: bool) -> None:
    """scheduling/PG-9 (b), PG-10"""
    policy = [{"name": "s", "subGroupSize": size, "minSubGroups": 2, "matchLabelKeys": ["rack"]}]
    pods = [pod(f"p-{i}", "g", gpu(), labels={"rack": str(i % 2)}) for i in range(4)]
    world = World(node(), group("g", 4, spec={"subGroupPolicy": policy}), pods)
    world.settle()
    assert [bool(name) for name in world.nodes_of("p-0", "p-1", "p-2", "p-3")] == [placed] * 4


def test_without_gang_tasks_are_bound_one_by_one() -> None:
    """scheduling/PG-10"""
    world = World(node(), gang("g", 3, gpu(3000)), config=without("gang"))
    assert binds(world) == [["g-worker-0"], ["g-worker-1"]]


def test_the_switch_job_ready_does_the_same() -> None:
    """scheduling/PG-10, CFG-2"""
    config = default_config()
    tiers = tuple(
        tuple(
            PluginOption("gang", switches={"enableJobReady": False}) if option.name == "gang" else option
            for option in tier
        )
        for tier in config.tiers
    )
    world = World(node(), gang("g", 3, gpu(3000)), config=replace(config, tiers=tiers))
    assert binds(world) == [["g-worker-0"], ["g-worker-1"]]


# --- orders (section 4.7) ---


def test_jobs_by_priority_then_share_then_age_then_name() -> None:
    """scheduling section 4.7, O-1"""
    world = World(
        node(),
        thing("PriorityClass", "high", value=10),
        gang("c", 1, gpu(), age=3),
        gang("b", 1, gpu(), age=3),
        gang("a", 1, gpu(), age=4),
        gang("high", 1, gpu(), age=9, spec={"priorityClassName": "high"}),
    )
    assert binds(world) == [["high-worker-0"], ["b-worker-0"], ["c-worker-0"], ["a-worker-0"]]


def test_a_gang_that_is_not_ready_goes_before_a_ready_one() -> None:
    """scheduling section 4.7: gang before drf"""
    world = World(node(), gang("old", 2, gpu(), 1), gang("young", 1, gpu(), age=9))
    assert binds(world) == [["old-worker-0"], ["young-worker-0"], ["old-worker-1"]]


def test_shares_move_with_every_placement() -> None:
    """scheduling/O-1, Q-25: two elastic jobs take turns"""
    world = World(node(), gang("a", 3, gpu(), 0), gang("b", 3, gpu(), 0))
    flat = [name for command in binds(world) for name in command]
    assert flat == ["a-worker-0", "b-worker-0", "a-worker-1", "b-worker-1", "a-worker-2", "b-worker-2"]


def test_tasks_by_priority_then_number_then_age_then_uid() -> None:
    """scheduling section 4.7"""
    pods = [
        pod("j-w-10", "g", gpu(100), age=1),
        pod("j-w-9", "g", gpu(100), age=2),
        pod("high", "g", gpu(100), age=9, spec={"priority": 5}),
        pod("urgent", "g", gpu(100), age=9, annotations={"volcano.sh/task-priority": "7"}),
    ]
    world = World(node(), group("g", 4), pods)
    assert binds(world) == [["urgent", "high", "j-w-9", "j-w-10"]]


def test_names_without_two_numbers_go_by_age_then_uid() -> None:
    """scheduling section 4.7: at least three parts, numeric and different"""
    pods = [pod("w-1", "g", gpu(100), age=2), pod("w-2", "g", gpu(100), age=1), pod("w-0", "g", gpu(100), age=2)]
    world = World(node(), group("g", 3), pods)
    assert binds(world) == [["w-2", "w-0", "w-1"]]


def test_queues_by_priority_then_share() -> None:
    """scheduling section 4.7: of the queues the higher, else the one with the lower share"""
    world = World(node(pods="1"), queue("low"), queue("high", priority=1, age=9))
    world.see(gang("a", 1, gpu(2000), queue="low"), gang("b", 1, gpu(2000), queue="high", age=20))
    world.settle()
    assert world.nodes_of("a-worker-0", "b-worker-0") == ["", "a"]


# --- nodes ---


def test_the_lowest_name_of_equal_nodes() -> None:
    """scheduling/AL-23, devices/F-14"""
    world = World(node("c"), node("b"), bare("p", gpu()))
    world.settle()
    assert world.on("p") == "b"


def test_idle_room_goes_before_room_that_will_be() -> None:
    """scheduling/AL-22: the node where a pod ends is not taken while another is idle"""
    world = World(node("a"), bare("old", gpu(6000)))
    world.settle()
    world.terminate("old")
    world.see(node("b"), bare("new", gpu(6000), age=9))
    world.settle()
    assert world.on("new") == "b"


def test_what_terminates_is_promised_but_not_bound() -> None:
    """scheduling/AL-9, AL-10, F-6, MSG-6, POD-1, devices/A-16"""
    world = World(node(), bare("old", gpu(6000)))
    world.settle()
    world.terminate("old")
    world.see(gang("new", 1, gpu(6000), age=9))
    world.settle()
    assert world.on("new-worker-0") == ""
    assert world.said("new-worker-0").reason == "Unschedulable"
    assert world.said("new-worker-0").message == (
        "Pod lab/new-worker-0 can possibly be assigned to a, once resource is released and minAvailable is satisfied"
    )
    assert world.said("new-worker-0").nominated_node == ""
    assert world.book("new").message == (
        "1/1 tasks in gang unschedulable: pod group is not ready, 1 Pipelined, 1 minAvailable"
    )
    assert world.model.promises == {}
    world.delete("old")
    world.settle()
    assert world.on("new-worker-0") == "a"


def test_a_promise_blocks_others_for_the_cycle() -> None:
    """scheduling/AL-9: what is promised is not given to the next, on the card too"""
    world = World(node(), bare("old", gpu(6000)))
    world.settle()
    world.terminate("old")
    world.see(gang("first", 1, gpu(6000), age=5), gang("second", 1, gpu(6000), age=6))
    world.settle()
    assert "can possibly be assigned to a, once resource is released" in world.said("first-worker-0").message
    assert "once resource is released" not in world.said("second-worker-0").message


def test_cards_that_terminate_do_not_count_for_now() -> None:
    """devices/A-16: scalars are idle on the node, the card is not"""
    world = World(node(cards=2, memory=4000), bare("old-0", gpu(3000)), bare("old-1", gpu(3000)))
    world.settle()
    world.terminate("old-0")
    world.see(bare("new", gpu(2000), age=9))
    world.settle()
    assert world.on("new") == ""
    world.delete("old-0")
    world.settle()
    assert world.on("new") == "a"


def test_a_nominated_node_that_fits_is_the_only_one_tried() -> None:
    """scheduling/AL-7"""
    nominated = {"status": {"phase": "Pending", "nominatedNodeName": "b"}}
    world = World(node("a"), node("b"), group("g"), pod("p", "g", gpu(), **nominated))
    world.settle()
    assert world.on("p") == "b"
    full = World(node("a"), node("b", memory=500), group("g"), pod("p", "g", gpu(), **nominated))
    full.settle()
    assert full.on("p") == "a"


def test_nodes_that_only_pods_name_are_no_nodes() -> None:
    """scheduling/AL-1"""
    foreign = pod("f", "", gpu(), spec={"schedulerName": "other", "nodeName": "ghost"}, status={"phase": "Running"})
    world = World(foreign, gang("g", 1, gpu()))
    world.settle()
    assert world.said("g-worker-0").message == "0/0 nodes are unavailable"


def test_where_sampling_is_asked_for_the_search_goes_round() -> None:
    """scheduling/AL-17, AL-18: the place is part of the state, and moves only with placements"""
    arguments = {"allocate": {"minimum-feasible-nodes": 1, "percentage-nodes-to-find": 1}}
    config = replace(default_config(), action_arguments=arguments)
    world = World([node(f"n{i}", cards=0) for i in range(5)], config=config)
    world.see([bare(f"p{i}", {"cpu": "1"}, age=i) for i in range(3)])
    world.settle()
    assert world.nodes_of("p0", "p1", "p2") == ["n0", "n1", "n2"]
    assert world.model.search_start == 3
    world.see(gang("big", 2, {"cpu": "20"}), gang("wide", 5, {"cpu": "40"}))
    world.settle()
    assert world.model.search_start == 0
    assert world.nodes_of("big-worker-0", "big-worker-1") == ["n3", "n4"]


def test_a_failing_predicate_on_every_node_is_told_by_reason() -> None:
    """scheduling/MSG-5, POD-4"""
    world = World(node("a"), node("b", cards=0), node("c", cards=0, spec={"unschedulable": True}))
    world.see(gang("g", 1, {"cpu": "31"}), gang("h", 1, {"cpu": "31"}), gang("i", 1, {"cpu": "31"}, age=9))
    world.settle()
    assert world.said("i-worker-0").message == (
        "0/3 nodes are unavailable: 1 node(s) were unschedulable, 2 Insufficient cpu."
    )


def test_details_of_filters_name_at_most_five_nodes() -> None:
    """devices/F-6"""
    world = World([node(f"n{i}", memory=4000) for i in range(7)], gang("g", 1, gpu(4001, None)))
    world.settle()
    assert world.said("g-worker-0").message.startswith("0/7 nodes are unavailable: 7 Insufficient")
    wide = World([node(f"n{i}", cards=2, memory=4000) for i in range(7)], gang("g", 1, gpu(4001, None)))
    wide.settle()
    text = wide.said("g-worker-0").message
    detail = "not enough gpu fitted on this node"
    shown = "; ".join(f"n{i}: {detail}" for i in range(5))
    assert text == f"0/7 nodes are unavailable: 7 hami-vgpuDeviceSharing error. Details: {shown}"


def test_the_hard_limit_looks_at_what_is_really_held() -> None:
    """scheduling/Q-17a: a whole-card pod passes Q-17 with 0 and is stopped on the node"""
    world = World(node(), queue("q", capability={MEMORY: "4000"}), gang("g", 1, gpu(None), queue="q"))
    world.settle()
    text = "queue q resource quota insufficient: insufficient volcano.sh/vgpu-memory"
    assert (world.on("g-worker-0"), world.said("g-worker-0").message) == ("", text)
    world.see(node("b", memory=3000))
    world.settle()
    assert world.on("g-worker-0") == "b"


def test_one_pass_may_be_bounded() -> None:
    """What had no turn is not spoken of, and comes in the next pass."""
    from scheduling import cycle

    world = World(node(), [bare(f"p{i}", gpu(), age=i) for i in range(5)])
    result = cycle.run(world.model, world.time_ms, None, 2)
    assert [placed.uid for gang_ in result.gangs for placed in gang_.placed] == ["uid-pod-p0", "uid-pod-p1"]
    assert sorted(result.groups) == ["lab/podgroup-uid-pod-p0", "lab/podgroup-uid-pod-p1"]
    assert result.pods == {}
