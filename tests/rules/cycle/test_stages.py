"""A cycle tells what it is doing, and decides the same whoever listens (scheduling section 8)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from rules.cycle.build import Json, World, bare, gpu, node

from scheduling import cycle
from scheduling.cycle.stages import Stage


class Listener:
    """Writes down what began inside of what."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, ...]] = []
        self._inside: list[str] = []

    @contextmanager
    def during(self, stage: Stage, name: str = "") -> Iterator[None]:
        self._inside.append(f"{stage} {name}".strip())
        self.heard.append(tuple(self._inside))
        yield
        self._inside.pop()


def heard(*items: object) -> Listener:
    """Run one cycle with a listener; the result must be the one that it has without."""
    world, listener = World(*items), Listener()
    assert cycle.run(world.model, world.time_ms, stages=listener) == world.run()
    assert not listener._inside
    return listener


def test_a_session_opens_with_its_plugins_and_then_come_the_actions() -> None:
    listener = heard(node("n1"))
    first, *rest = listener.heard
    assert first == ("open",)
    plugins = [inside[1] for inside in rest if inside[0] == "open"]
    assert "plugin gang" in plugins
    assert len(set(plugins)) == len(plugins)
    assert rest[len(plugins) :] == [("action enqueue",), ("action allocate",), ("action backfill",)]


@pytest.mark.parametrize(
    ("asked", "more"),
    [({"cpu": "1"}, {}), (gpu(1000), {}), ({"cpu": "1"}, {"spec": {"affinity": {"nodeAffinity": {}}}})],
)
def test_each_search_is_one_stage_and_scoring_belongs_to_it_or_follows_it(asked: Json, more: Json) -> None:
    """scheduling/AL-19, AL-23: by class in columns, by class one by one, and not by class."""
    listener = heard(node("n1"), node("n2"), bare("a", asked, **more))
    search = ("action allocate", "predicate")
    assert listener.heard.count(search) == 1
    scored = [inside for inside in listener.heard if inside[-1] == "scoring"]
    assert scored
    assert set(scored) <= {(*search, "scoring"), ("action allocate", "scoring")}


def test_who_fits_nowhere_was_searched_for_all_the_same() -> None:
    listener = heard(node("n1"), bare("a", {"cpu": "1"}, spec={"nodeSelector": {"disk": "none"}}))
    assert ("action allocate", "predicate") in listener.heard
