"""preempt: a starving job takes the places of others in its queue (scheduling/CFG-13, PG-11 to PG-11c)."""

from __future__ import annotations

from typing import Any

import pytest
from rules.cycle.build import World, gpu, node, pod, queue, thing
from rules.evictions.worlds import config, decided, evicted, job, there, world

from scheduling.decide import decide
from scheduling.status import TaskStatus

ONE_CARD = node("a", cards=1, memory=8000)


def full(*others: Any, low: int = 4, minimum: int = 1, **fields: Any) -> World:
    """A card with room for four, held by a low job."""
    place = world(ONE_CARD, job("low", low, minimum=minimum, **fields), *others)
    place.settle()
    return place


def test_the_last_of_the_lowest_job_goes() -> None:
    """scheduling/PG-11a"""
    place = full()
    place.see(job("high", 1, klass="high", age=9))
    assert evicted(place) == ["low-w-3"]
    place.effects()
    place.settle()
    assert place.on("high-w-0") == "a"
    assert there(place, "low-w-0", "low-w-1", "low-w-2") == ["low-w-0", "low-w-1", "low-w-2"]


def test_of_several_jobs_the_lowest_gives_way() -> None:
    """scheduling/PG-11a, 4.7"""
    place = world(ONE_CARD, job("mid", 2, klass="mid"), job("low", 2, age=1))
    place.settle()
    place.see(job("high", 1, klass="high", age=9))
    assert evicted(place) == ["low-w-1"]


@pytest.mark.parametrize(("minimum", "expected"), [(1, ["low-w-3", "low-w-2"]), (2, ["low-w-3", "low-w-2"]), (3, [])])
def test_a_gang_gives_only_what_is_above_its_minimum(minimum: int, expected: list[str]) -> None:
    """scheduling/PG-11a, PG-11b: drf in a later tier does not break it"""
    place = full(minimum=minimum)
    place.see(job("high", 1, gpu(4000), klass="high", age=9))
    assert evicted(place) == expected


def test_who_is_of_no_use_stays_and_counts_for_nothing() -> None:
    """scheduling/CFG-13, PG-11a: the two of one card go, not those between them in order"""
    place = world(node("a", cards=2, memory=8000))
    place.see(job("low", 0, minimum=2))
    for number, card in enumerate((0, 1, 0, 1)):
        only = {"volcano.sh/vgpu-use-gpuuuid": f"GPU-a-{card}"}
        place.see(pod(f"low-w-{number}", "low", gpu(4000), annotations=only))
    place.settle()
    place.see(job("high", 1, gpu(8000), klass="high", age=9))
    assert sorted(evicted(place)) == ["low-w-1", "low-w-3"]


def test_critical_pods_stay() -> None:
    """scheduling/CFG-14, PG-11b"""
    place = full(spec={"priorityClassName": "system-node-critical"})
    place.see(job("high", 1, klass="high", age=9))
    assert evicted(place) == []


def test_a_protected_pod_does_not_use_up_what_its_gang_can_spare() -> None:
    """scheduling/PG-11a: counted down with those who are taken"""
    place = world(ONE_CARD, job("low", 3, minimum=3))
    place.see(pod("low-w-3", "low", gpu(2000), spec={"priorityClassName": "system-node-critical"}))
    place.settle()
    place.see(job("high", 1, klass="high", age=9))
    assert evicted(place) == ["low-w-2"]


def test_pods_that_are_not_preemptable_stay() -> None:
    """scheduling/AS-11"""
    place = full(annotations={"volcano.sh/preemptable": "false"})
    place.see(job("high", 1, klass="high", age=9))
    assert evicted(place) == []


def test_a_pod_that_never_preempts_waits() -> None:
    """scheduling/CFG-13"""
    place = full()
    place.see(job("high", 1, klass="high", age=9, spec={"preemptionPolicy": "Never"}))
    assert evicted(place) == []


def test_a_lower_job_takes_nothing_from_a_higher() -> None:
    """scheduling/PG-11b"""
    place = full(klass="high")
    place.see(job("low2", 1, age=9))
    assert evicted(place) == []


@pytest.mark.parametrize(("own", "expected"), [(1, 1), (2, 0)])
def test_among_equals_the_larger_share_gives_way(own: int, expected: int) -> None:
    """scheduling/Q-25: 1 after placement against 3 after removal; 3 after placement against 3"""
    place = world(node("a", cards=1, memory=8000, cpu="8"))
    place.see(job("big", 8 - 2 * own, {"cpu": "1"}), job("small", 2 * own, {"cpu": "1"}, minimum=2 * own, age=1))
    place.settle()
    place.see(job("new", 1, {"cpu": "4"}, age=9))
    assert len(evicted(place)) == 0
    place.see(job("next", 1, {"cpu": str(2 * expected or 4)}, age=9))
    assert len(evicted(place)) == 2 * expected


def test_nobody_of_another_queue_goes() -> None:
    """scheduling/CFG-13"""
    place = world(
        ONE_CARD, queue("other"), job("low", 4, queue="other"), settings=config("enqueue", "allocate", "preempt")
    )
    place.settle()
    place.see(job("high", 1, klass="high", age=9))
    assert evicted(place) == []


def test_a_gang_comes_in_as_a_whole_or_evicts_nobody() -> None:
    """scheduling/CFG-13"""
    place = full()
    place.see(job("high", 2, gpu(3000), minimum=2, klass="high", age=9))
    assert evicted(place) == ["low-w-3", "low-w-2", "low-w-1"]
    place = full(minimum=2)
    place.see(job("high", 2, gpu(3000), minimum=2, klass="high", age=9))
    assert evicted(place) == []


def test_an_elastic_job_takes_no_more_than_its_minimum_needs() -> None:
    """scheduling/CFG-13, PG-11"""
    place = full()
    place.see(job("high", 3, klass="high", age=9))
    assert evicted(place) == ["low-w-3"]
    place.effects()
    place.settle()
    assert there(place, "high-w-0", "high-w-1", "high-w-2") == ["high-w-0"]


def test_who_does_not_fit_even_then_evicts_nobody() -> None:
    """scheduling/CFG-13"""
    place = full()
    place.see(job("high", 1, gpu(8001), klass="high", age=9))
    assert evicted(place) == []


def test_the_next_node_is_tried() -> None:
    """scheduling/CFG-13: node a would not do with all that may go there"""
    place = world(
        ONE_CARD, node("b", cards=1, memory=8000), job("fixed", 1, gpu(6000), spec={"nodeSelector": {"n": "a"}})
    )
    place.see({**ONE_CARD, "metadata": {**ONE_CARD["metadata"], "labels": {"n": "a"}}})
    place.settle()
    place.see(job("low", 5, age=1))
    place.settle()
    place.see(job("high", 1, gpu(4000), klass="high", age=9))
    commands = decided(place)
    assert {place.model.pods[command.uid].node for command in commands} == {"b"}
    assert len(commands) == 2


def test_what_is_free_already_costs_nobody() -> None:
    """scheduling/CFG-13: one member of the gang fits beside the others"""
    place = world(node("a", cards=1, memory=8000), node("b", cards=1, memory=2000), job("low", 4, gpu(2000)))
    place.see(node("b", cards=1, memory=2000))
    place.settle()
    place.see(job("high", 2, minimum=2, klass="high", age=9))
    assert evicted(place) == ["low-w-3"]


def test_what_terminates_anyway_is_waited_for() -> None:
    """scheduling/F-6, AL-9: nobody is evicted beside a pod that is going"""
    place = full()
    place.terminate("low-w-0")
    place.see(job("high", 1, klass="high", age=9))
    assert evicted(place) == []
    assert "once resource is released" in place.said("high-w-0").message


def port(number: int) -> dict[str, Any]:
    """Fields of a pod that holds a host port, on a node that has no cards."""
    return {"hostPort": number, "containerPort": number}


def test_a_host_port_is_room_too() -> None:
    """scheduling/CFG-13, AL-20: the filters accept the preemptor once the holder of its port is gone"""
    place = world(node("a", cards=0))
    low, high = job("low", 2, {"cpu": "1"}), job("high", 1, {"cpu": "1"}, klass="high", age=9)
    low[2]["spec"]["containers"][0]["ports"] = [port(80)]
    high[1]["spec"]["containers"][0]["ports"] = [port(80)]
    place.see(low)
    place.settle()
    place.see(high)
    assert evicted(place) == ["low-w-1"]
    place.effects()
    place.settle()
    assert place.on("high-w-0") == "a"


def test_a_port_that_is_still_held_is_not_bound() -> None:
    """scheduling/F-6: promised once the terminating pod is gone, bound then"""
    place = world(node("a", cards=0))
    old, new = job("old", 1, {"cpu": "1"}), job("new", 1, {"cpu": "1"}, age=9)
    old[1]["spec"]["containers"][0]["ports"] = new[1]["spec"]["containers"][0]["ports"] = [port(80)]
    place.see(old)
    place.settle()
    place.terminate("old-w-0")
    place.see(new)
    place.rest()
    assert place.on("new-w-0") == ""
    assert "once resource is released" in place.said("new-w-0").message
    place.delete("old-w-0")
    place.settle()
    assert place.on("new-w-0") == "a"


def test_the_number_of_pods_is_room_too() -> None:
    """scheduling/AL-20, CFG-13"""
    place = world(node("a", cards=0, pods="2"), job("low", 2, {"cpu": "1"}))
    place.settle()
    place.see(job("high", 1, {"cpu": "1"}, klass="high", age=9))
    assert evicted(place) == ["low-w-1"]


def test_best_effort_evicts_best_effort_only() -> None:
    """scheduling/CFG-13"""
    place = world(node("a", cards=0, pods="2"), job("low", 2, {"cpu": "1"}))
    place.settle()
    place.see(job("high", 1, {}, klass="high", age=9))
    assert evicted(place) == []
    place = world(node("a", cards=0, pods="2"), job("low", 2, {}))
    place.settle()
    place.see(job("high", 1, {}, klass="high", age=9))
    assert evicted(place) == ["low-w-1"]


def test_inside_a_job_the_higher_task_takes_the_place_of_the_lower() -> None:
    """scheduling/CFG-13: without gang; with it a starving job is below its minMember"""
    for off, expected in (((), []), (("gang",), ["low-w-1"])):
        place = world(node("a", cards=0, cpu="2"), job("low", 2, {"cpu": "1"}), settings=config(off=off))
        place.settle()
        place.see(pod("low-w-2", "low", {"cpu": "1"}, spec={"priority": 5}))
        assert evicted(place) == expected


def test_it_is_told_who_made_way_for_whom() -> None:
    """scheduling/CFG-13, Q-25: both sides' shares before and after"""
    place = full()
    place.see(job("high", 1, klass="high", age=9))
    (command,) = decided(place)
    assert (command.reason, command.for_group, command.rule) == (
        "preempt",
        "lab/high",
        "scheduling/PG-11a: lower priority",
    )
    assert command.victim_share == "1.0000 -> 0.7500"
    assert command.preemptor_share == "0.0000 -> 0.2500"


def test_the_place_is_kept_and_shown() -> None:
    """scheduling/PG-11c, POD-1, MSG-6"""
    place = full()
    place.see(job("high", 1, klass="high", age=9))
    place.step()
    said = place.said("high-w-0")
    assert said.nominated_node == "a"
    assert said.reason == "Unschedulable"
    assert said.message == (
        "Pod lab/high-w-0 can possibly be assigned to a, once resource is released and minAvailable is satisfied"
    )
    assert place.book("high").message == (
        "1/1 tasks in gang unschedulable: pod group is not ready, 1 Pipelined, 1 minAvailable"
    )
    assert [promise.node for promise in place.model.promises.values()] == ["a"]


def test_the_place_is_kept_from_a_higher_elastic_pod() -> None:
    """scheduling/PG-11c: whoever comes later and first in order does not take it"""
    place = full()
    place.see(job("mid", 1, klass="mid", age=9))
    place.step()
    place.see(thing("PriorityClass", "top", value=5000), job("top", 1, klass="top", age=10))
    place.effects()
    place.settle()
    assert there(place, "mid-w-0", "top-w-0") == ["mid-w-0", "top-w-0"]
    assert there(place, *(f"low-w-{i}" for i in range(4))) == ["low-w-0", "low-w-1"]


def test_a_promise_outlives_a_refused_binding() -> None:
    """scheduling/PG-11c, F-2"""
    place = full()
    place.see(job("high", 1, klass="high", age=9))
    place.step()
    place.effects()
    place.step()
    place.effects(refuse=("high-w-0",))
    place.see(job("thief", 1, klass="high", age=1))
    place.settle()
    assert place.on("high-w-0") == "a"


def test_a_promise_survives_where_a_gang_lost_another_place() -> None:
    """scheduling/PG-11c: the node of one of two is drained; only one more is evicted, for it"""
    place = world(node("a", cards=1, memory=2000), node("b", cards=1, memory=2000), node("c", cards=1, memory=2000))
    place.see(job("low", 3, minimum=0))
    place.settle()
    place.see(job("high", 2, minimum=2, klass="high", age=9))
    first = decided(place)
    gone = place.model.pods[first[0].uid].node
    place.see({**node(gone, cards=1, memory=2000), "spec": {"unschedulable": True}})
    second = decided(place)
    assert (len(first), len(second)) == (2, 1)
    place.effects()
    place.settle()
    assert there(place, "high-w-0", "high-w-1") == ["high-w-0", "high-w-1"]


def test_an_incomplete_gang_is_not_undone_while_room_is_made_for_it() -> None:
    """scheduling/F-2, CFG-13"""
    place = world(node("a", cards=2, memory=4000), job("low", 2), job("gang", 2, minimum=2, klass="high", age=2))
    place.step()
    place.effects(refuse=("gang-w-1",))
    place.see(job("more", 1, klass="high", age=1))
    place.settle()
    assert there(place, "gang-w-0", "gang-w-1") == ["gang-w-0", "gang-w-1"]


def test_a_victim_is_releasing_at_once() -> None:
    """scheduling/F-7"""
    place = full()
    place.see(job("high", 1, klass="high", age=9))
    (command,) = decided(place)
    assert place.model.pods[command.uid].status is TaskStatus.RELEASING


def test_a_promise_outlives_an_overtaken_binding() -> None:
    """scheduling/PG-11c, F-12: the pod changed between the decision and its place on the log"""
    place = full()
    place.see(job("high", 1, klass="high", age=9))
    place.step()
    place.effects()
    batch = decide(place.fold, place.time_ms, f"chain-{place._position}", 99)
    assert batch is not None
    assert batch.binds
    place.see(
        {**place._pod("high-w-0"), "metadata": {**place._pod("high-w-0")["metadata"], "labels": {"new": "label"}}}
    )
    assert "overtaken" in place._say("scheduler", batch)
    assert place.on("high-w-0") == ""
    assert list(place.model.promises) == ["uid-pod-high-w-0"]


def test_a_promise_ends_in_the_digest_too() -> None:
    """scheduling/PG-11c, F-12: a state that ends the same way is the same state"""
    place = full()
    place.see(job("high", 1, klass="high", age=9))
    place.step()
    before = place.fold.digest()
    place.delete("high-w-0")
    assert place.model.promises == {}
    assert place.fold.digest() != before
