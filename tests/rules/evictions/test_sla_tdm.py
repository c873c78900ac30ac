"""sla and tdm: what depends on the clock (scheduling/CFG-13)."""

from __future__ import annotations

from typing import Any

from rules.cycle.build import START_MS, World, gpu, group, node, pod, queue
from rules.evictions.worlds import config, evicted, job, there, world

MINUTE = 60_000
CARD = node("a", cards=1, memory=8000)


# --- sla ---


def overbooked(first: tuple[str, ...], limit: str = "", **annotations: str) -> World:
    """A queue whose capability refuses a job at enqueue, and sla before or behind the queue's plugin."""
    place = world(CARD, queue("small", capability={"volcano.sh/vgpu-memory": "1000"}),
                  settings=config(first=first, sla={"sla-waiting-time": limit} if limit else {}))  # fmt: skip
    spec = {"minResources": {"volcano.sh/vgpu-memory": "2000"}}
    place.see(group("late", 1, queue="small", spec=spec, annotations=annotations))
    place.see(pod("late-w-0", "late", gpu(2000)))
    return place


def test_sla_lets_in_who_has_waited_too_long() -> None:
    """scheduling/CFG-13: by the argument; exactly at the limit not yet"""
    place = overbooked(("sla",), "5m")
    place.rest()
    assert place.book("late").phase == "Pending"
    place.time_ms += 5 * MINUTE
    place.rest()
    assert place.book("late").phase == "Pending"
    place.time_ms += 1
    place.rest()
    assert place.book("late").phase == "Inqueue"


def test_sla_the_annotation_goes_before_the_argument_and_the_newer_before_the_older() -> None:
    """scheduling/CFG-13"""
    for notes, waits in (
        ({"volcano.sh/sla-waiting-time": "1m"}, 1),
        ({"sla-waiting-time": "2m"}, 2),
        ({"volcano.sh/sla-waiting-time": "1m", "sla-waiting-time": "2m"}, 1),
    ):
        place = overbooked(("sla",), "5m", **notes)
        place.time_ms += waits * MINUTE
        place.rest()
        assert place.book("late").phase == "Pending"
        place.time_ms += 1000
        place.rest()
        assert place.book("late").phase == "Inqueue"


def test_sla_what_is_no_duration_is_no_limit() -> None:
    """scheduling/CFG-13, CFG-11"""
    for text in ("soon", "0", "-5m", ""):
        place = overbooked(("sla",), "", **{"volcano.sh/sla-waiting-time": text})
        place.time_ms += 10 * MINUTE
        place.rest()
        assert place.book("late").phase == "Pending"


def test_sla_orders_by_when_the_time_is_up_and_those_without_last() -> None:
    """scheduling/CFG-13"""
    place = world(CARD, settings=config(first=("sla",)))
    for index, limit in enumerate(("", "30m", "10m")):
        notes = {"volcano.sh/sla-waiting-time": limit} if limit else {}
        place.see(group(f"j{index}", 1, age=index, annotations=notes), pod(f"j{index}-w-0", f"j{index}", gpu(4000)))
    place.settle()
    assert there(place, "j0-w-0", "j1-w-0", "j2-w-0") == ["j1-w-0", "j2-w-0"]


def test_sla_makes_no_gang_whole_for_an_eviction() -> None:
    """scheduling/CFG-13: nobody goes for half a gang, however long it has waited"""
    place = world(CARD, job("low", 4, minimum=3), settings=config(first=("sla",), sla={"sla-waiting-time": "1m"}))
    place.settle()
    place.see(job("high", 2, minimum=2, klass="high", age=9))
    place.time_ms += 10 * MINUTE
    assert evicted(place) == []


# --- tdm ---

ZONE = {"volcano.sh/revocable-zone": "night"}
LENT = node("lent", cards=1, memory=8000, labels=ZONE)
WINDOW = {"tdm.revocable-zone.night": "01:00-06:30"}
WILLING = {"annotations": {"volcano.sh/revocable-zone": "*"}}


def later(place: World, minutes: int) -> None:
    """Let time pass; the clock has ticked in between, so that it is no jump."""
    place.time_ms += minutes * MINUTE
    place.model.time_ms = place.time_ms


def at(clock: str, *items: Any, window: dict[str, Any] | None = None) -> World:
    """A world at a time of the day (UTC); the cluster starts at midnight."""
    assert START_MS % (24 * 60 * MINUTE) == 0
    place = world(*items, settings=config(first=("tdm",), tdm=WINDOW if window is None else window))
    hours, minutes = clock.split(":")
    later(place, int(hours) * 60 + int(minutes))
    return place


def test_tdm_the_node_is_used_inside_the_window_only() -> None:
    """scheduling/CFG-13: both ends belong to it"""
    for clock, inside in (("00:59", False), ("01:00", True), ("06:30", True), ("06:31", False)):
        place = at(clock, LENT, job("night", 1, **WILLING))
        place.settle()
        assert there(place, "night-w-0") == (["night-w-0"] if inside else [])


def test_tdm_a_window_may_end_on_the_next_day() -> None:
    """scheduling/CFG-13: end ≤ start"""
    for window, clock, inside in (
        ("22:00-06:00", "23:00", True), ("22:00-06:00", "03:00", True), ("22:00-06:00", "12:00", False),
        ("08:00-08:00", "03:00", True),
    ):  # fmt: skip
        place = at(clock, LENT, job("night", 1, **WILLING), window={"tdm.revocable-zone.night": window})
        place.settle()
        assert bool(there(place, "night-w-0")) == inside


def test_tdm_a_zone_without_window_is_never_open() -> None:
    """scheduling/CFG-13"""
    place = at("03:00", LENT, job("night", 1, **WILLING), window={})
    place.settle()
    assert there(place, "night-w-0") == []


def test_tdm_only_tasks_with_the_zone_are_placed_there() -> None:
    """scheduling/CFG-13, AS-11: a true preemptable annotation implies it; any other value than * does not"""
    for notes, willing in (
        ({}, False), ({"volcano.sh/revocable-zone": "*"}, True), ({"volcano.sh/revocable-zone": "night"}, False),
        ({"volcano.sh/preemptable": "true"}, True), ({"volcano.sh/preemptable": "false"}, False),
    ):  # fmt: skip
        place = at("03:00", LENT, job("night", 1, annotations=notes))
        place.settle()
        assert bool(there(place, "night-w-0")) == willing


def test_tdm_such_a_node_comes_first_for_such_a_task() -> None:
    """scheduling/CFG-13: score 100"""
    place = at("03:00", node("a", cards=1, memory=8000), LENT, job("night", 1, **WILLING), job("day", 1, age=1))
    place.settle()
    assert place.nodes_of("night-w-0", "day-w-0") == ["lent", "a"]


def lent_out(size: int = 4, minimum: int = 1, **annotations: str) -> World:
    place = at("06:00", LENT)
    place.see(group("night", minimum, annotations=annotations))
    place.see(*(pod(f"night-w-{i}", "night", gpu(2000), **WILLING) for i in range(size)))
    place.settle()
    assert len(there(place, *(f"night-w-{i}" for i in range(size)))) == size
    return place


def test_tdm_outside_the_window_one_pod_goes_each_period() -> None:
    """scheduling/CFG-13: default 1m; across batches the time of the last is part of the state"""
    place = lent_out()
    assert evicted(place) == []
    later(place, 31)
    assert evicted(place) == ["night-w-3"]
    place.effects()
    place.settle()
    place.time_ms += MINUTE - 1
    assert evicted(place) == []
    place.time_ms += 1
    assert evicted(place) == ["night-w-2"]


def test_tdm_the_disruption_budget_is_kept() -> None:
    """scheduling/CFG-13, AS-6"""
    for notes, expected in (
        ({"volcano.sh/jdb-min-available": "1"}, 3), ({"volcano.sh/jdb-min-available": "50%"}, 2),
        ({"volcano.sh/jdb-max-unavailable": "2"}, 2), ({"volcano.sh/jdb-max-unavailable": "25%"}, 1),
        ({"volcano.sh/jdb-min-available": "many"}, 0), ({"volcano.sh/jdb-max-unavailable": "many"}, 0),
    ):  # fmt: skip
        place = lent_out(4, **notes)
        later(place, 31)
        assert len(evicted(place)) == expected


def test_tdm_pods_that_are_not_preemptable_stay() -> None:
    """scheduling/CFG-13"""
    place = at("06:00", LENT)
    both = {"volcano.sh/revocable-zone": "*", "volcano.sh/preemptable": "false"}
    place.see(job("night", 2, annotations=both))
    place.settle()
    later(place, 31)
    assert evicted(place) == []
