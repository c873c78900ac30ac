"""One typed tree of reasons, from card to queue (scheduling/POD-1, MSG-4, Q-24; devices/F-2)."""

from __future__ import annotations

from typing import Any

import pytest
from rules.cycle.build import MEMORY, World, bare, gang, gpu, group, node, pod, queue, thing, tiers

from scheduling.config.model import SchedulerConfig
from scheduling.reasons.causes import Cause
from scheduling.reasons.kinds import FitsForGang, NoNode, QueueShort, RequestRefused, TooFewTasks
from scheduling.waiting import queues
from scheduling.why import queue as why_in_queue
from scheduling.why import why


def test_from_the_gang_down_to_its_pods() -> None:
    """scheduling/POD-1, MSG-1: the first two tasks have a place, the third finds none; the texts say the same"""
    world = World(node("a", cards=2), node("b", cards=0), gang("g", 3, gpu(6000)))
    world.settle()
    found = why(world.model, "lab/g", world.time_ms)
    assert found is not None
    assert (found.group, found.queue, found.lacking, found.tasks) == ("lab/g", "default", 1, 3)
    assert [item.pod for item in found.pods] == ["lab/g-worker-0", "lab/g-worker-1", "lab/g-worker-2"]
    assert [type(item.reason) for item in found.pods] == [FitsForGang, FitsForGang, QueueShort]
    assert found.detail.origin == found.pods[2].reason == QueueShort("default", (MEMORY,))
    assert found.cause is Cause.QUEUE


def test_nodes_and_cards_of_a_pod_without_a_place() -> None:
    """devices/F-2: the answer of every node, and the audit word of every card of it"""
    world = World(node("a", cards=2), node("b", cards=0), *(bare(f"f{i}", gpu(4000)) for i in range(3)))
    world.settle()
    world.see(bare("p", gpu(4300), age=5))
    world.settle()
    found = why(world.model, "lab/podgroup-uid-pod-p", world.time_ms)
    assert found is not None
    (item,) = found.pods
    assert isinstance(item.reason, NoNode)
    answers = item.reason.answers
    assert sorted(answers) == ["a", "b"]
    assert len(answers) == item.reason.nodes
    assert answers["b"].reason == "Insufficient volcano.sh/vgpu-cores"
    assert [card.gpu for card in answers["a"].cards] == ["GPU-a-0", "GPU-a-1"]
    assert all(card.word for card in answers["a"].cards)
    assert found.detail.origin is item.reason
    assert found.cause is Cause.NODES


def test_cards_say_why_where_the_sums_of_a_node_came_first() -> None:
    """devices/F-2, scheduling/AL-19: the word of the node is that of the sums, its cards are told besides"""
    world = World(node("a", cards=1), node("b", cards=1, memory=4000), bare("f", gpu(4000, 60)))
    world.settle()
    world.see(bare("p", gpu(5000, 10), age=5))
    world.settle()
    found = why(world.model, "lab/podgroup-uid-pod-p", world.time_ms)
    assert found is not None
    (item,) = found.pods
    assert isinstance(item.reason, NoNode)
    answer = item.reason.answers["b"]
    assert answer.reason == "Insufficient volcano.sh/vgpu-memory"
    assert [(card.gpu, bool(card.word)) for card in answer.cards] == [("GPU-b-0", True)]


def test_only_who_is_asked_about_has_all_answers() -> None:
    """Design section 5: the answers of all nodes are kept for one group, not for every one that waits"""
    world = World(node("a"), bare("f", gpu(8000, 10)), bare("p", gpu(8000, 10), age=5), bare("q", gpu(8000, 10), age=6))
    world.settle()
    found = why_in_queue(world.model, "default", world.time_ms)
    assert [item.group for item in found] == ["lab/podgroup-uid-pod-p", "lab/podgroup-uid-pod-q"]
    assert not any(pod.reason.answers for item in found for pod in item.pods if isinstance(pod.reason, NoNode))


def test_a_group_that_runs_has_no_reason() -> None:
    """scheduling/POD-1"""
    world = World(node(), bare("p", gpu()))
    world.settle()
    assert why(world.model, "lab/podgroup-uid-pod-p", world.time_ms) is None
    assert queues(world.model) == []


def test_queues_sum_up_what_their_groups_and_pods_wait_for() -> None:
    """scheduling/Q-24: per queue and cause, from what was recorded"""
    world = World(
        node(), queue("small", capability={MEMORY: "1000"}), gang("g", 2, gpu(6000)),
        gang("s", 1, gpu(2000), queue="small"), pod("stray", "nowhere", gpu()),
    )  # fmt: skip
    world.settle()
    found = {item.queue: (dict(item.groups), dict(item.pods)) for item in queues(world.model)}
    assert found == {
        "": ({}, {Cause.MISSING: 1}),
        "default": ({Cause.QUEUE: 1}, {Cause.GANG: 1, Cause.QUEUE: 1}),
        "small": ({Cause.QUEUE: 1}, {Cause.QUEUE: 1}),
    }


def test_a_group_that_is_not_let_in_waits_though_it_has_no_pod() -> None:
    """scheduling/Q-23, E-7: a vcjob that is refused at enqueue has no pods, and is counted all the same"""
    least = {MEMORY: "2000"}
    world = World(
        node(), queue("small", capability={MEMORY: "1000"}), group("g", 2, queue="small", spec={"minResources": least})
    )
    world.settle()
    assert world.book("g").cause == Cause.QUEUE
    assert [(item.queue, dict(item.groups), dict(item.pods)) for item in queues(world.model)] == [
        ("small", {Cause.QUEUE: 1}, {})
    ]
    found = why(world.model, "lab/g", world.time_ms)
    assert found is not None
    assert found.held == QueueShort("small", (MEMORY,))


@pytest.mark.parametrize(
    ("items", "name", "cause"),
    [
        ([gang("g", 1, gpu(), queue="none")], "g-worker-0", Cause.MISSING),
        ([pod("p", "none", gpu())], "p", Cause.MISSING),
        ([queue("q", state="Closing"), gang("g", 1, gpu(), queue="q")], "g-worker-0", Cause.CLOSED),
        ([queue("q"), queue("below", parent="q"), gang("g", 1, gpu(), queue="q")], "g-worker-0", Cause.CLOSED),
        ([gang("g", 1, gpu(), queue="root")], "g-worker-0", Cause.CLOSED),
        ([gang("g", 1, gpu(number=2))], "g-worker-0", Cause.NODES),
        ([gang("g", 1, {"cpu": "64"})], "g-worker-0", Cause.QUEUE),
        ([gang("g", 1, gpu(cores=200))], "g-worker-0", Cause.REQUEST),
        ([gang("g", 2, gpu(6000))], "g-worker-0", Cause.GANG),
        ([group("g", 3), pod("p", "g", gpu())], "p", Cause.MEMBERS),
        ([group("g"), pod("p", "g", gpu(), spec={"schedulingGates": [{"name": "x"}]})], "p", Cause.GATED),
        ([gang("g", 1, {"cpu": "1"})], "g-worker-0", ""),
    ],
)  # fmt: skip
def test_every_kind_of_reason_has_its_cause_on_the_log(items: list[Any], name: str, cause: str) -> None:
    """scheduling/POD-1, PG-3a, PG-3b, PG-9, Q-4a, Q-4b, Q-24, AS-12; devices/R-9a"""
    world = World(node(), *items)
    world.settle()
    assert world.said(name).cause == cause


def test_the_cause_of_no_configuration() -> None:
    """scheduling/CFG-6a"""
    bad = {"volcano-scheduler.conf": "actions: allocat"}
    world = World(node(), thing("ConfigMap", "volcano-scheduler-configmap", "volcano-system", data=bad))
    world.see(bare("p", gpu()))
    world.settle()
    assert world.said("p").cause == Cause.CONFIGURATION
    assert why(world.model, "lab/podgroup-uid-pod-p", world.time_ms) is None
    assert why_in_queue(world.model, "default", world.time_ms) == []


def test_the_cause_of_a_place_that_is_still_taken() -> None:
    """scheduling/POD-1, F-6: promised what a terminating pod leaves"""
    world = World(node(cpu="1"), bare("old", {"cpu": "1"}))
    world.settle()
    world.terminate("old")
    world.see(bare("p", {"cpu": "1"}, age=5))
    world.rest()
    assert world.said("p").cause == Cause.LEAVING
    assert world.said("p").message.endswith("once resource is released and minAvailable is satisfied")


def test_the_cause_of_a_refused_binding() -> None:
    """scheduling/F-2, POD-3"""
    world = World(node(), bare("p", gpu()))
    world.step()
    world.step()
    world.effects(refuse=("p",))
    said = world.said("p")
    assert (said.reason, said.message, said.cause) == ("SchedulerError", "failed to bind to node a: no", Cause.BINDING)


def test_what_is_told_is_what_is_counted() -> None:
    """scheduling/MSG-6, PG-9: fewer pods than the minimum"""
    world = World(node(), group("g", 3), pod("p0", "g", gpu()), pod("p1", "g", gpu()))
    world.settle()
    found = why(world.model, "lab/g", world.time_ms)
    assert found is not None
    assert found.detail.invalid == TooFewTasks(2, 3)
    assert found.cause is Cause.MEMBERS
    assert world.book("g").cause == Cause.MEMBERS


def test_a_request_that_can_never_be_had() -> None:
    """devices/R-9a"""
    world = World(node(), gang("g", 1, gpu(cores=200)))
    world.settle()
    found = why(world.model, "lab/g", world.time_ms)
    assert found is not None
    (item,) = found.pods
    assert isinstance(item.reason, RequestRefused)
    assert item.reason.words == world.said("g-worker-0").message


def test_the_cluster_may_be_promised_too_much() -> None:
    """scheduling/E-8"""
    config = SchedulerConfig(("enqueue", "allocate"), tiers("gang", "overcommit", "predicates"))
    least = {"cpu": "64"}
    world = World(node(), group("g", 1, spec={"minResources": least}), config=config)
    world.settle()
    assert world.book("g").cause == Cause.CLUSTER
