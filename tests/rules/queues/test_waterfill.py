"""Water filling (scheduling/Q-12, Q-13) in exact fractions."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from scheduling.cycle.waterfill import Asking, fill, share


def asking(name: str, weight: int, request: dict[str, int], **more: dict[str, int]) -> Asking:
    return Asking(name, weight, request, more.get("limit", {}), more.get("guarantee", {}))


def cpu(found: dict[str, dict[str, Fraction]]) -> list[Fraction]:
    return [found[name]["cpu"] for name in sorted(found)]


def test_example_a() -> None:
    """scheduling/Q-13: cpu 8, weights 1 and 3, requests 6 and 2"""
    assert cpu(fill({"cpu": 8}, [asking("1", 1, {"cpu": 6}), asking("2", 3, {"cpu": 2})])) == [6, 2]


def test_example_b() -> None:
    """scheduling/Q-13: cpu 9, three queues of weight 1, requests 1, 9, 9"""
    queues = [asking(str(i), 1, {"cpu": request}) for i, request in enumerate((1, 9, 9))]
    assert cpu(fill({"cpu": 9}, queues)) == [1, 4, 4]


def test_example_c() -> None:
    """scheduling/Q-13, Q-14: the lab; deserved is capped by request and by capability"""
    total = {"n": 10, "m": 8192, "c": 100}
    limit = {"n": 2, "m": 4000, "c": 60}
    small = fill(total, [asking("q", 1, {"n": 2, "m": 2000, "c": 60}, limit=limit)])
    large = fill(total, [asking("q", 1, {"n": 2, "m": 6000, "c": 60}, limit=limit)])
    assert small["q"] == {"n": 2, "m": 2000, "c": 60}
    assert large["q"] == {"n": 2, "m": 4000, "c": 60}


def test_what_is_not_requested_is_not_deserved() -> None:
    """scheduling/Q-12"""
    assert fill({"cpu": 8, "gpu": 4}, [asking("q", 1, {"cpu": 9})])["q"] == {"cpu": 8, "gpu": 0}


def test_a_guarantee_is_the_floor() -> None:
    """scheduling/Q-12: raised to it even above the request"""
    queues = [asking("1", 1, {"cpu": 1}, guarantee={"cpu": 5}), asking("2", 1, {"cpu": 9})]
    assert cpu(fill({"cpu": 10}, queues)) == [5, 5]


def test_halving_for_ever_ends_with_all_given_out() -> None:
    """scheduling section 9 number 12: one queue wants none of a dimension but is not met in another"""
    queues = [asking("1", 1, {"cpu": 100}), asking("2", 1, {"cpu": 100, "gpu": 8})]
    found = fill({"cpu": 10, "gpu": 8}, queues)
    assert found["2"]["gpu"] == 8
    assert [found[name]["cpu"] for name in "12"] == [5, 5]


def test_extreme_weights() -> None:
    """scheduling section 9 number 12"""
    queues = [asking("1", 1, {"cpu": 10, "gpu": 4}), asking("2", 65535, {"cpu": 10**6})]
    found = fill({"cpu": 10**6, "gpu": 4}, queues)
    assert found["1"]["gpu"] == 4
    assert found["1"]["cpu"] + found["2"]["cpu"] <= 10**6


def test_no_queue_and_no_resource() -> None:
    """scheduling/Q-12"""
    assert fill({"cpu": 8}, []) == {}
    assert fill({}, [asking("q", 1, {"cpu": 8})]) == {"q": {}}


def test_shares() -> None:
    """scheduling/Q-13: 0/0 is 0, x/0 is 1"""
    assert share({"a": 0}, {"a": Fraction(0)}) == 0
    assert share({"a": 5}, {"a": Fraction(0)}) == 1
    assert share({"a": 1, "b": 3}, {"a": Fraction(4), "b": Fraction(4)}) == Fraction(3, 4)
    assert share({}, {}) == 0


NAMES = ("cpu", "gpu", "mem")
vectors = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 50))


@given(
    total=vectors,
    queues=st.lists(st.tuples(st.integers(1, 100), vectors, vectors), min_size=1, max_size=5),
)
def test_nobody_gets_more_than_asked_and_nothing_is_made(
    total: dict[str, int], queues: list[tuple[int, dict[str, int], dict[str, int]]]
) -> None:
    """scheduling/Q-12: within request and limit, within the total, and nothing wanted is left over"""
    asked = [asking(str(i), weight, request, limit=limit) for i, (weight, request, limit) in enumerate(queues)]
    found = fill(total, asked)
    for name in total:
        given_out = sum((found[queue.name][name] for queue in asked), Fraction(0))
        wanted = sum(queue.most(name) for queue in asked)
        assert all(0 <= found[queue.name][name] <= queue.most(name) for queue in asked)
        assert given_out == min(total[name], wanted)
