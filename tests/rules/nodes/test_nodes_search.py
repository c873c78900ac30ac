"""scheduling/AL-17, AL-18: how many nodes are looked at, and from where."""

from __future__ import annotations

import pytest

from scheduling.nodes.search import Search


@pytest.mark.parametrize(("nodes", "enough"), [(10, 10), (100, 100), (200, 100), (1000, 420), (6000, 300)])
def test_adaptive_number(nodes: int, enough: int) -> None:
    """scheduling/AL-17: the numbers of the rule, percentage 0."""
    assert Search.of({"percentage-nodes-to-find": 0}).enough(nodes) == enough


def test_configured_percentage() -> None:
    """scheduling/AL-17: 1000 nodes at 40 % are 400, at 100 % all."""
    assert Search.of({"percentage-nodes-to-find": 40}).enough(1000) == 400
    assert Search.of({"percentage-nodes-to-find": 100}).enough(1000) == 1000
    assert Search.of({"minimum-feasible-nodes": 500}).enough(1000) == 500
    assert Search.of({"minimum-percentage-nodes-to-find": 10}).enough(6000) == 600


def test_every_node_is_looked_at_unless_configured() -> None:
    """scheduling/AL-17: without an option there is no sampling, and the start does not move."""
    found, start = Search.of({}).feasible(range(6000), 17, lambda node: node % 2 == 0)
    assert (len(found), found[0], start) == (3000, 0, 17)


def test_search_goes_round() -> None:
    """scheduling/AL-18: it begins after the last search's end and stops at enough nodes."""
    search = Search.of({"minimum-feasible-nodes": 2, "percentage-nodes-to-find": 1})
    found, start = search.feasible(range(10), 8, lambda node: node != 9)
    assert (found, start) == ([8, 0], 1)
    found, start = search.feasible(range(10), start, lambda node: node != 9)
    assert (found, start) == ([1, 2], 3)
    assert search.feasible(range(10), 3, lambda _: False) == ([], 3)
    assert search.feasible([], 3, lambda _: True) == ([], 0)
