"""reclaim: a queue takes back what others hold beyond what they deserve (scheduling/CFG-13, PG-11a to PG-11c)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rules.cycle.build import MEMORY, NUMBER, World, gpu, node, pod, queue
from rules.evictions.worlds import config, decided, evicted, job, there, world

CARD = node("a", cards=1, memory=8000)


def shared(*others: Any, first: Any = None, second: Any = None, **fields: Any) -> World:
    """Two queues of weight 1; the job ``low`` of queue ``one`` holds all four places."""
    place = world(CARD, first or queue("one"), second or queue("two"), job("low", 4, queue="one", **fields), *others)
    place.settle()
    return place


def test_a_queue_takes_back_its_share() -> None:
    """scheduling/CFG-13, Q-12"""
    place = shared()
    place.see(job("back", 1, queue="two", age=9))
    assert evicted(place) == ["low-w-3"]
    place.effects()
    place.settle()
    assert place.on("back-w-0") == "a"


def test_it_is_told_whose_share_it_was() -> None:
    """scheduling/CFG-13, Q-13"""
    place = shared()
    place.see(job("back", 1, queue="two", age=9))
    (command,) = decided(place)
    assert (command.reason, command.for_group) == ("reclaim", "lab/back")
    assert command.rule == "scheduling/PG-11a: queue one above its deserved"
    assert command.victim_share == "1.3333 -> 1.0000"
    assert command.preemptor_share == "0.0000 -> 1.0000"


def test_a_gang_larger_than_its_queues_share_takes_nobody() -> None:
    """scheduling/CFG-13"""
    place = shared()
    place.see(job("back", 3, queue="two", minimum=3, age=9))
    assert evicted(place) == []
    place.see(job("small", 2, queue="two", minimum=2, age=10))
    assert evicted(place) == ["low-w-3", "low-w-2"]


def test_nobody_goes_from_a_queue_that_is_not_reclaimable() -> None:
    """scheduling/CFG-13, Q-1"""
    place = shared(first=queue("one", reclaimable=False))
    place.see(job("back", 1, queue="two", age=9))
    assert evicted(place) == []


def test_nobody_goes_from_a_queue_within_its_deserved() -> None:
    """scheduling/PG-11b: whatever gang and conformance say"""
    place = shared(first=queue("one", weight=3))
    place.see(job("back", 2, queue="two", age=9))
    place.settle()
    assert there(place, *(f"low-w-{i}" for i in range(4))) == ["low-w-0", "low-w-1", "low-w-2"]


def test_only_running_pods_go() -> None:
    """scheduling/CFG-13"""
    place = world(CARD, queue("one"), queue("two"), job("low", 4, queue="one"))
    place.step()
    place.effects()
    for number in range(4):
        place.pod_phase(f"low-w-{number}", "Pending")
    place.see(job("back", 1, queue="two", age=9))
    assert evicted(place) == []


def test_the_gang_of_the_victims_is_not_broken() -> None:
    """scheduling/PG-11b"""
    place = shared(minimum=4)
    place.see(job("back", 1, queue="two", age=9))
    assert evicted(place) == []


def test_who_is_of_no_use_does_not_count_as_taken() -> None:
    """scheduling/CFG-13: two cards, the queue holds one card too much; the pods of one card go, not one of each"""
    place = world(node("a", cards=2, memory=8000), queue("one"), queue("two"), job("low", 0, queue="one"))
    for number, card in enumerate((0, 1, 0, 1)):
        only = {"volcano.sh/vgpu-use-gpuuuid": f"GPU-a-{card}"}
        place.see(pod(f"low-w-{number}", "low", gpu(4000), annotations=only))
    place.settle()
    place.see(job("back", 1, gpu(8000), queue="two", age=9))
    assert sorted(evicted(place)) == ["low-w-1", "low-w-3"]


def test_a_victim_must_hold_what_its_queue_has_too_much_of() -> None:
    """scheduling/PG-11b: to lose a CPU pod would not bring the queue nearer to its deserved"""
    deserved = {MEMORY: "4000", NUMBER: "9", "cpu": "8"}
    place = world(
        node("a", cards=1, memory=8000, cpu="4"), queue("one", deserved=deserved), queue("two", deserved=deserved),
        job("cards", 3, gpu(2000), queue="one", minimum=3), job("cpus", 2, {"cpu": "2"}, queue="one"),
        settings=config(queues="capacity"),
    )  # fmt: skip
    place.settle()
    place.see(job("back", 1, {"cpu": "2"}, queue="two", age=9))
    assert evicted(place) == []


def test_the_place_is_kept_though_the_other_queue_comes_first() -> None:
    """scheduling/PG-11c"""
    deserved = {MEMORY: "4000"}
    place = world(
        CARD, queue("one", priority=9, deserved=deserved), queue("two", deserved=deserved),
        job("low", 4, queue="one"), settings=config(queues="capacity"),
    )  # fmt: skip
    place.settle()
    place.see(job("back", 1, queue="two", age=9))
    assert evicted(place) == ["low-w-3"]
    place.see(pod("low-w-4", "low", gpu(2000), age=20))
    place.effects()
    place.settle()
    assert there(place, "back-w-0", "low-w-4") == ["back-w-0"]


# --- capacity ---


def test_capacity_one_dimension_within_its_deserved_is_enough() -> None:
    """scheduling/CFG-13: the number is within, the memory is not"""
    one, two = {NUMBER: "2", MEMORY: "2000"}, {NUMBER: "4", MEMORY: "1000"}
    place = world(CARD, queue("one", deserved=one), queue("two", deserved=two), job("low", 4, queue="one"),
                  settings=config(queues="capacity"))  # fmt: skip
    place.settle()
    place.see(job("back", 1, queue="two", age=9))
    assert evicted(place) == ["low-w-3"]


def test_capacity_nothing_of_its_own_deserved_takes_nobody() -> None:
    """scheduling/CFG-13"""
    place = world(CARD, queue("one", deserved={MEMORY: "2000"}), queue("two"), job("low", 4, queue="one"),
                  settings=config(queues="capacity"))  # fmt: skip
    place.settle()
    place.see(job("back", 1, queue="two", age=9))
    assert evicted(place) == []


def test_capacity_two_queues_do_not_take_from_each_other_without_end() -> None:
    """scheduling/CFG-13: both are within in number and above in memory, in turn"""
    deserved = {NUMBER: "9", MEMORY: "4000"}
    place = world(CARD, queue("one", deserved=deserved), queue("two", deserved=deserved),
                  job("a", 2, gpu(2500), queue="one", minimum=0), job("b", 1, gpu(3000), queue="two", minimum=0),
                  settings=config(queues="capacity", off=("gang",)))  # fmt: skip
    place.settle()
    place.see(job("c", 1, gpu(2500), queue="two", minimum=0, age=9))
    names = []
    for index in range(12):
        gone = evicted(place)
        place.effects()
        for name in gone:
            place.see(pod(name, name.split("-")[0], gpu(2500), uid=f"again-{index}-{name}"))
        names += gone
    assert len(names) <= 2


def test_capacity_counts_the_guarantee_as_deserved() -> None:
    """scheduling/CFG-13: deserved is at least the guarantee"""
    place = world(CARD, queue("one", deserved={MEMORY: "2000"}), queue("two", guarantee={"resource": {MEMORY: "2000"}}),
                  job("low", 4, queue="one"), settings=config(queues="capacity"))  # fmt: skip
    place.settle()
    assert len(there(place, *(f"low-w-{i}" for i in range(4)))) == 3
    place.see(job("back", 1, queue="two", age=9))
    place.settle()
    assert place.on("back-w-0") == "a"


def hierarchy(**parent: Any) -> World:
    """A parent with two leaves, and one leaf beside it."""
    return world(
        CARD, queue("eng", **parent), queue("dev", parent="eng"), queue("test", parent="eng"), queue("sci"),
        settings=config("enqueue", "allocate", queues="capacity"),
    )  # fmt: skip


def by_hierarchy(place: World) -> World:
    """Switch the hierarchy on."""
    assert place.model.config is not None
    tiers = tuple(
        tuple(
            replace(option, switches={"enableHierarchy": True}) if option.name == "capacity" else option
            for option in tier
        )
        for tier in place.model.config.tiers
    )
    place.model.config = replace(place.model.config, tiers=tiers)
    return place


def test_capacity_a_parents_capability_limits_its_leaves_together() -> None:
    """scheduling/CFG-13: enqueue and allocate are checked on the leaf and every ancestor"""
    place = by_hierarchy(hierarchy(capability={MEMORY: "4000"}))
    place.see(job("a", 1, queue="dev"), job("b", 1, queue="test", age=1), job("c", 1, queue="dev", age=2))
    place.settle()
    assert there(place, "a-w-0", "b-w-0", "c-w-0") == ["a-w-0", "c-w-0"]
    assert place.said("b-w-0").message == "queue eng resource quota insufficient: insufficient volcano.sh/vgpu-memory"


def test_capacity_without_the_switch_parents_mean_nothing() -> None:
    """scheduling/CFG-3, CFG-13"""
    place = hierarchy(capability={MEMORY: "4000"})
    place.see(job("a", 1, queue="dev"), job("b", 1, queue="test", age=1), job("c", 1, queue="dev", age=2))
    place.settle()
    assert len(there(place, "a-w-0", "b-w-0", "c-w-0")) == 3


def test_capacity_a_sibling_keeps_its_guarantee() -> None:
    """scheduling/CFG-13, Q-9: real capability level by level"""
    place = by_hierarchy(hierarchy(capability={MEMORY: "6000"}, guarantee={"resource": {MEMORY: "4000"}}))
    place.see(queue("test", parent="eng", guarantee={"resource": {MEMORY: "4000"}}), job("a", 3, queue="dev"))
    place.settle()
    assert there(place, "a-w-0", "a-w-1", "a-w-2") == ["a-w-0"]
    place.see(job("s", 4, queue="sci", age=5))
    place.settle()
    assert len(there(place, *(f"s-w-{i}" for i in range(4)))) == 2


def test_capacity_over_committed_children_are_not_scheduled() -> None:
    """scheduling/CFG-13: others are not affected"""
    place = by_hierarchy(hierarchy(deserved={MEMORY: "4000"}))
    place.see(
        queue("dev", parent="eng", deserved={MEMORY: "3000"}), queue("test", parent="eng", deserved={MEMORY: "3000"})
    )
    place.see(job("a", 1, queue="dev"), job("s", 1, queue="sci", age=5))
    place.settle()
    assert there(place, "a-w-0", "s-w-0") == ["s-w-0"]
    assert "queue eng is over-committed" in place.said("a-w-0").message


def test_capacity_only_leaves_take_jobs() -> None:
    """scheduling/CFG-13, Q-4b"""
    place = by_hierarchy(hierarchy())
    place.see(job("a", 1, queue="eng"))
    place.rest()
    assert place.said("a-w-0").message == "queue eng has child queues, submit to one of them"


def test_capacity_a_circle_of_parents_stops_nobody() -> None:
    """scheduling/Q-5: such queues come from elsewhere; their chain ends where it closes"""
    place = by_hierarchy(hierarchy())
    place.see(queue("x", parent="y"), queue("y", parent="x"), queue("z", parent="y"), job("a", 1, queue="z"))
    place.see(job("s", 1, queue="sci", age=5))
    place.settle()
    assert there(place, "s-w-0", "a-w-0") == ["s-w-0", "a-w-0"]
