"""What the kills print of takeovers: which ones count, and how each is split."""

from __future__ import annotations

import pytest
from system.takeovers import Lead, Takeover, spread, takeovers

APART = [(0.0, 1.0)]


def rounded(item: Takeover) -> tuple[float, float, bool]:
    return round(item.noticed_s, 1), round(item.led_s, 1), item.waited


def test_a_takeover_is_split_where_the_group_notices() -> None:
    leads = [Lead(100.0, 50.0), Lead(203.4, 150.0), Lead(305.0, 301.0)]
    found = list(takeovers([200.0, 300.0], [202.9, 303.0], leads, APART))
    assert [rounded(item) for item in found] == [(2.9, 0.5, True), (3.0, 2.0, False)]


@pytest.mark.parametrize(
    ("deaths", "disturbed"),
    [([200.0, 203.2], []), ([200.0], [(190.5, 191.0)]), ([200.0], [(212.0, 213.0)]), ([400.0], [])],
    ids=["another one died before anybody led", "a part had been away", "a part went away", "nobody led"],
)
def test_one_that_had_something_else_for_a_neighbour_does_not_count(
    deaths: list[float], disturbed: list[tuple[float, float]]
) -> None:
    assert list(takeovers(deaths, [203.0], [Lead(203.5, 150.0)], disturbed)) == []


def test_a_spread_names_median_nine_tenths_and_longest() -> None:
    assert spread(float(number) for number in range(11)) == "5.0 s (median), 9.0 s (p90), 10.0 s (longest)"
    assert spread([]) == "none"
