"""The mirror of the cluster: lists, watches, own writes (scheduling/F-11a for those who act on the API)."""

from __future__ import annotations

import asyncio

import pytest

from adapters.clock import ManualClock
from adapters.cluster.mirror import Change, Mirror
from adapters.cluster.reflector import Upsert
from events.canonical import Json
from events.kinds import CONFIG_MAP, POD, QUEUE, Kind
from services.cluster.cluster import EmbeddedCluster
from services.cluster.direct import DirectApi
from services.cluster.store import derived_uid


class Desk:
    """A cluster with a mirror of config maps."""

    def __init__(self) -> None:
        self.clock = ManualClock(0)
        self.cluster = EmbeddedCluster(self.clock, derived_uid)
        self.api = self.cluster.direct("mirror")
        self.mirror = Mirror(self.api, (CONFIG_MAP,), self.clock)

    def put(self, name: str, text: str = "", uid: str = "") -> Json:
        about = {"name": name, "namespace": "default"} | ({"uid": uid} if uid else {})
        item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": {"text": text}}
        known = self.cluster.store.get(CONFIG_MAP, "default", name)
        return self.cluster.put(item) if known is None else self.cluster.replace(item)

    def remove(self, name: str) -> None:
        self.cluster.remove(CONFIG_MAP, "default", name)

    def poll(self) -> list[tuple[str, str, str]]:
        return [shown(change) for change in asyncio.run(self.mirror.poll())]


def shown(change: Change) -> tuple[str, str, str]:
    texts = [item["data"]["text"] if item is not None else "-" for item in (change.old, change.new)]
    return (change.key[1], texts[0], texts[1])


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_list_then_what_the_watch_tells(desk: Desk) -> None:
    desk.put("a", "1")
    assert not desk.mirror.ready
    assert desk.poll() == [("a", "-", "1")]
    assert desk.mirror.ready
    assert desk.poll() == []
    desk.put("b", "1")
    desk.put("a", "2")
    desk.remove("b")
    assert desk.poll() == [("b", "-", "1"), ("a", "1", "2"), ("b", "1", "-")]
    assert [item["metadata"]["name"] for item in desk.mirror.all(CONFIG_MAP)] == ["a"]


def test_another_uid_under_a_known_name_is_a_deletion_and_a_creation(desk: Desk) -> None:
    desk.put("a", "1", "first")
    desk.poll()
    desk.put("a", "2", "second")
    assert desk.poll() == [("a", "1", "-"), ("a", "-", "2")]


def test_an_event_that_comes_again_after_the_end_of_its_object_brings_nothing_back(desk: Desk) -> None:
    """scheduling/F-4a: within one run of list and watch an end is final."""
    desk.poll()
    again = desk.put("a", "1", "first")
    desk.remove("a")
    assert desk.poll() == [("a", "-", "1"), ("a", "1", "-")]
    shelf = desk.mirror._shelves[CONFIG_MAP]
    assert desk.mirror._take(CONFIG_MAP, shelf, Upsert(again)) == []
    desk.put("a", "2", "second")
    assert desk.poll() == [("a", "-", "2")]
    assert desk.mirror._take(CONFIG_MAP, shelf, Upsert(again)) == []


def test_an_answer_that_comes_after_the_end_of_its_object_brings_nothing_back(desk: Desk) -> None:
    """scheduling/F-4a: one of our own writes may be answered after the watch has told that its object is gone."""
    desk.poll()
    answer = desk.put("a", "1", "first")
    desk.remove("a")
    desk.poll()
    assert desk.mirror.learn(CONFIG_MAP, answer) == []
    assert desk.mirror.all(CONFIG_MAP) == []


def test_an_event_with_a_version_of_its_own_is_heard_whatever_came_before(desk: Desk) -> None:
    """Objects that a test brings with versions of their own go back and forth; an end is known by the uid alone."""
    desk.poll()
    shelf = desk.mirror._shelves[CONFIG_MAP]
    early = {"metadata": {"namespace": "ns", "name": "b", "uid": "9", "resourceVersion": "1"}}
    desk.put("a", "1")
    desk.poll()
    assert [change.key for change in desk.mirror._take(CONFIG_MAP, shelf, Upsert(early))] == [("ns", "b")]


def test_a_uid_that_is_no_text_stops_nothing(desk: Desk) -> None:
    desk.poll()
    shelf = desk.mirror._shelves[CONFIG_MAP]
    odd = {"metadata": {"namespace": "ns", "name": "b", "uid": [], "resourceVersion": "1"}}
    assert len(desk.mirror._take(CONFIG_MAP, shelf, Upsert(odd))) == 1
    assert desk.mirror.all(CONFIG_MAP) == [odd]


def test_versions_before_a_list_are_nothing_to_go_by(desk: Desk) -> None:
    """scheduling/F-4: a server that was restored tells versions a second time."""
    backup = desk.cluster.store.backup()
    for text in ("1", "2", "3"):
        desk.put("a", text)
    desk.poll()
    desk.cluster.api.restore(backup)
    assert desk.poll() == [("a", "3", "-")]
    desk.put("a", "4")
    assert desk.poll() == [("a", "-", "4")]


def test_own_writes_are_read_at_once_and_only_once(desk: Desk) -> None:
    desk.put("a", "1")
    desk.poll()
    answer = asyncio.run(desk.api.patch(CONFIG_MAP, "default", "a", {"data": {"text": "2"}}))
    assert [shown(change) for change in desk.mirror.learn(CONFIG_MAP, answer)] == [("a", "1", "2")]
    assert desk.poll() == []


def test_an_older_answer_changes_nothing(desk: Desk) -> None:
    first = desk.put("a", "1")
    desk.put("a", "2")
    desk.poll()
    assert desk.mirror.learn(CONFIG_MAP, first) == []


def test_an_accepted_deletion_counts_until_the_watch_tells_more(desk: Desk) -> None:
    item = desk.put("a", "1")
    desk.poll()
    uid = item["metadata"]["uid"]
    (change,) = desk.mirror.expect_end(CONFIG_MAP, "default", "a", uid)
    assert change.object["metadata"]["deletionTimestamp"]
    assert desk.mirror.expect_end(CONFIG_MAP, "default", "a", uid) == []
    assert desk.mirror.expect_end(CONFIG_MAP, "default", "a", "other") == []
    desk.remove("a")
    assert desk.poll() == [("a", "1", "-")]


def test_after_a_lost_watch_what_the_list_lacks_is_gone(desk: Desk) -> None:
    """scheduling/F-11a"""
    for name in ("a", "b"):
        desk.put(name, "1")
    desk.poll()
    fresh = Mirror(desk.api, (CONFIG_MAP,), desk.clock)
    asyncio.run(fresh.poll())
    for reflector in desk.mirror.reflectors:
        reflector.relist()
    desk.remove("a")
    desk.put("b", "2")
    assert sorted(desk.poll()) == [("a", "1", "-"), ("b", "1", "2")]


def test_a_kind_that_the_server_does_not_have_counts_as_empty(desk: Desk) -> None:
    unknown = Kind("Widget", "example.test", "v1", "widgets", True)
    mirror = Mirror(DirectApi(desk.cluster.api, "mirror"), (unknown, POD, QUEUE), desk.clock)
    changes = asyncio.run(mirror.poll())
    assert {change.kind for change in changes} == {QUEUE}
    assert mirror.ready
    assert "Widget" in mirror.failures
    assert mirror.all(unknown) == []
