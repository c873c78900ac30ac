"""The reflector: complete lists, watches without gaps, and errors that are never taken for objects (F-11a)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from adapters.clock import ManualClock
from adapters.cluster.port import ApiError, ApiUnknown, Page, WatchEvent
from adapters.cluster.reflector import WATCH_S, Backoff, Bookmark, Gone, Listed, ListEnd, Reflector, Upsert
from events.canonical import Json
from events.kinds import NODE, Kind
from services.runtime.driving import WatchNews


def node(name: str, version: str = "1") -> Json:
    return {"kind": "Node", "metadata": {"name": name, "uid": name, "resourceVersion": version}}


class Stream:
    def __init__(self, batches: list[list[WatchEvent] | None]) -> None:
        self.batches = batches
        self.closed = False

    async def next(self, wait: bool) -> Sequence[WatchEvent] | None:
        return self.batches.pop(0) if self.batches else []

    async def close(self) -> None:
        self.closed = True


class Script:
    """An API whose lists and watches are written down: what each call returns or raises, in order."""

    def __init__(self, lists: list[Any], watches: list[Any]) -> None:
        self.lists, self.watches = lists, watches
        self.asked: list[tuple[str, str]] = []
        #: What is answered to who asks for the version alone, once; by itself it is that of the watch.
        self.heads: list[str | Exception] = []

    async def list(self, kind: Kind, *, limit: int = 500, token: str = "", **_: Any) -> Page:
        if limit == 1:
            head = self.heads.pop(0) if self.heads else self.asked[-1][1]
            if isinstance(head, Exception):
                raise head
            return Page([], head, "")
        self.asked.append(("list", token))
        answer = self.lists.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, Page)
        return answer

    async def watch(self, kind: Kind, version: str, *, timeout_s: int = 300) -> Stream:
        self.asked.append(("watch", version))
        answer = self.watches.pop(0) if self.watches else []
        if isinstance(answer, Exception):
            raise answer
        return Stream(answer)


def reflector(lists: list[Any], watches: list[Any], jitter: bool = False) -> tuple[Reflector, Script, ManualClock]:
    script, clock = Script(lists, watches), ManualClock(1_000_000)
    made = Reflector(script, NODE, clock, (lambda: 1.0) if jitter else None)  # type: ignore[arg-type]  # two verbs only
    return made, script, clock


EXPIRED = ApiError(410, "Expired", "too old")


async def test_pages_then_the_end_then_the_watch_from_there() -> None:
    made, script, _ = reflector([Page([node("a")], "7", "next"), Page([node("b")], "7", "")], [])
    deltas = await made.poll()
    assert deltas == [Listed([node("a")]), Listed([node("b")]), ListEnd("7")]
    assert script.asked == [("list", ""), ("list", "next"), ("watch", "7")]


async def test_half_a_list_is_none() -> None:
    made, script, _ = reflector([Page([node("a")], "7", "next"), ApiUnknown("gone"), Page([node("b")], "8", "")], [])
    assert await made.poll() == []
    assert await made.poll() == [Listed([node("b")]), ListEnd("8")]
    assert script.asked[2] == ("list", "")


async def test_events_bookmarks_and_deletions() -> None:
    events = [WatchEvent("ADDED", node("a", "8")), WatchEvent("BOOKMARK", node("", "9")),
              WatchEvent("DELETED", node("a", "10"))]  # fmt: skip
    made, _, _ = reflector([Page([], "7", "")], [[events]])
    assert (await made.poll())[1:] == [ListEnd("7"), Upsert(node("a", "8")), Bookmark("9"), Gone(node("a", "10"))]


async def test_a_watch_whose_time_is_over_goes_on_from_the_last_version() -> None:
    made, script, clock = reflector([Page([], "7", "")], [[[WatchEvent("ADDED", node("a", "8"))], None], []])
    await made.poll()
    clock.time_ms += WATCH_S * 1000
    await made.poll()
    assert script.asked == [("list", ""), ("watch", "7"), ("watch", "8")]


@pytest.mark.parametrize("lasted_s", [0, 60, WATCH_S - 1, WATCH_S + 60, -3600])
async def test_a_watch_that_ends_at_another_time_may_hide_another_server(lasted_s: int) -> None:
    """scheduling/F-11a: a restored server takes a watch from a version to come and is silent until it has passed it."""
    events = [WatchEvent("ADDED", node("a", "90"))]
    made, script, clock = reflector([Page([], "7", ""), Page([node("a", "60")], "60", "")], [[events, None], []])
    assert (await made.poll())[-1] == Upsert(node("a", "90"))
    clock.time_ms += lasted_s * 1000
    assert await made.poll() == [Listed([node("a", "60")]), ListEnd("60", went_back=True)]
    assert script.asked[-2:] == [("list", ""), ("watch", "60")]


async def test_a_server_that_was_restored_between_list_and_watch_is_found() -> None:
    made, script, _ = reflector([Page([], "90", ""), Page([], "60", "")], [])
    script.heads = ["60"]
    assert await made.poll() == [Listed([]), ListEnd("90"), Listed([]), ListEnd("60", went_back=True)]
    assert script.asked[-1] == ("watch", "60")


@pytest.mark.parametrize("fault", [ApiUnknown("down"), ApiError(429, "TooManyRequests", "later")])
async def test_a_watch_is_not_read_before_the_version_is_known(fault: Exception) -> None:
    made, script, _ = reflector(
        [Page([], "90", ""), Page([], "91", "")], [[[WatchEvent("ADDED", node("a", "95"))]]] * 2
    )
    script.heads = [fault]
    assert await made.poll() == [Listed([]), ListEnd("90")]
    assert Upsert(node("a", "95")) in await made.poll()


async def test_versions_that_went_on_did_not_go_back() -> None:
    made, _, _ = reflector([Page([], "7", ""), Page([], "7", ""), Page([], "8", "")], [[[], None], [None], []])
    deltas = [delta for _ in range(3) for delta in await made.poll()]
    assert [delta for delta in deltas if isinstance(delta, ListEnd)] == [ListEnd("7"), ListEnd("7"), ListEnd("8")]


async def test_a_watch_that_cannot_be_opened_again_lists_anew() -> None:
    lists = [Page([], "7", ""), Page([], "5", "")]
    made, script, clock = reflector(lists, [[[], None], ApiUnknown("down"), []])
    await made.poll()
    clock.time_ms += WATCH_S * 1000
    assert [delta for _ in range(2) for delta in await made.poll()] == [Listed([]), ListEnd("5", went_back=True)]
    assert script.asked == [("list", ""), ("watch", "7"), ("watch", "7"), ("list", ""), ("watch", "5")]


async def test_a_late_event_does_not_move_the_version_back() -> None:
    events = [WatchEvent("ADDED", node("a", "20")), WatchEvent("MODIFIED", node("b", "3"))]
    made, script, clock = reflector([Page([], "7", "")], [[events, None], []])
    await made.poll()
    clock.time_ms += WATCH_S * 1000
    await made.poll()
    assert script.asked[-1] == ("watch", "20")


async def test_410_as_an_answer_and_as_an_event_lists_again() -> None:
    status = {"kind": "Status", "code": 410, "reason": "Expired", "metadata": {}}
    made, script, _ = reflector(
        [Page([node("a")], "7", ""), Page([node("b")], "9", ""), Page([], "11", "")],
        [[[WatchEvent("ERROR", status)]], EXPIRED, []],
    )
    await made.poll()
    while ("watch", "11") not in script.asked:
        await made.poll()
    assert [verb for verb, _ in script.asked].count("list") == 3


async def test_a_status_or_a_nameless_thing_is_never_an_object() -> None:
    status = {"kind": "Status", "apiVersion": "v1", "metadata": {"name": "x"}, "code": 500}
    events = [WatchEvent("ADDED", status), WatchEvent("MODIFIED", {"kind": "Node", "metadata": {}}),
              WatchEvent("UNKNOWN", node("a"))]  # fmt: skip
    made, _, _ = reflector([Page([], "7", "")], [[events]])
    assert await made.poll() == [Listed([]), ListEnd("7")]


async def test_back_off_never_waits_and_grows() -> None:
    made, script, clock = reflector([ApiUnknown("down")] * 3 + [Page([], "7", "")], [], jitter=True)
    for delay in (500, 1_000, 2_000):
        assert await made.poll() == []
        calls = len(script.asked)
        assert await made.poll() == []
        assert len(script.asked) == calls
        clock.time_ms += delay
    assert await made.poll() == [Listed([]), ListEnd("7")]


async def test_a_row_of_watches_that_break_at_once_is_listed_with_growing_pauses() -> None:
    """Events between do not make it harmless: each break costs a list."""
    events = [WatchEvent("ADDED", node("a", "8"))]
    made, script, clock = reflector([Page([], "7", "")] * 9, [[events, None] for _ in range(9)], jitter=True)
    while not made.idle_ms:
        await made.poll()
    assert [verb for verb, _ in script.asked].count("list") == 2
    clock.time_ms += made.idle_ms
    while not made.idle_ms:
        await made.poll()
    assert made.idle_ms == 1_000
    assert [verb for verb, _ in script.asked].count("list") == 3


async def test_a_version_that_the_server_does_not_know_lists_anew() -> None:
    future = ApiError(504, "Timeout", "Too large resource version")
    made, script, _ = reflector([Page([], "7", "")] * 2, [future] * 4 + [[]])
    for _ in range(8):
        await made.poll()
    assert [verb for verb, _ in script.asked].count("list") == 2


async def test_relist_begins_with_a_list() -> None:
    made, _, _ = reflector([Page([], "7", ""), Page([], "8", "")], [])
    await made.poll()
    made.relist()
    assert await made.poll() == [Listed([]), ListEnd("8")]


class Quiet:
    """A watch on which nothing happens until it is closed."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    async def next(self, wait: bool) -> Sequence[WatchEvent] | None:
        if wait:
            await self.closed.wait()
        return None if self.closed.is_set() else []

    async def close(self) -> None:
        self.closed.set()


async def test_relist_waits_for_no_event_of_a_quiet_kind() -> None:
    """scheduling/F-11a, F-4: a new term, or a Binding that nobody confirms, asks for a list now, not at the next event.

    And the end of the old watch, which comes late, is not taken for that of the new one.
    """
    made, script, _ = reflector([Page([], "7", ""), Page([], "8", "")], [])
    streams = [Quiet(), Quiet()]
    script.watch = lambda *_, **__: asyncio.sleep(0, streams[len(script.lists) == 0])  # type: ignore[method-assign]
    await made.poll()
    waiting = asyncio.create_task(made.fetch())
    await asyncio.sleep(0)
    assert await made.poll() == [], "somebody waits for the watch"
    made.relist()
    assert await made.poll() == [Listed([]), ListEnd("8")]
    assert streams[0].closed.is_set()
    await waiting
    assert await made.poll() == []
    assert not streams[1].closed.is_set()


def opened(script: Script, stream: Quiet) -> Quiet:
    """Let a script's watches be this one."""
    script.watch = lambda *_, **__: asyncio.sleep(0, stream)  # type: ignore[method-assign]
    return stream


async def waits_on(waiting: asyncio.Task[None]) -> bool:
    """Tell whether somebody still waits when everything that can go on has gone on."""
    for _ in range(10):
        await asyncio.sleep(0)
    return not waiting.done()


async def test_a_kind_that_backs_off_is_no_news() -> None:
    """A service that waits for several kinds is not woken again and again for one that cannot be listed any more."""
    away = ApiError(403, "Forbidden", "no rights any more")
    broken, first, clock = reflector([Page([], "7", ""), *[away] * 9], [], jitter=True)
    quiet, second, _ = reflector([Page([], "7", "")], [])
    ends, stays = opened(first, Quiet()), opened(second, Quiet())
    news = WatchNews(lambda: [broken, quiet])
    await broken.poll()
    await quiet.poll()
    waiting = asyncio.create_task(news(60))
    assert await waits_on(waiting)
    await ends.close()
    await waiting
    while broken.idle_ms < 30_000:
        clock.time_ms += broken.idle_ms
        assert await broken.poll() == []
    waiting = asyncio.create_task(news(60))
    assert await waits_on(waiting)
    await stays.close()
    await waiting
    await news.close()


async def test_who_watches_nothing_is_not_woken_for_nothing() -> None:
    """So it is with a watcher that another one leads before: it looks now and then whether it may lead."""
    standby, script, _ = reflector([], [])
    waiting = asyncio.create_task(WatchNews(lambda: [standby])(60))
    assert await waits_on(waiting)
    assert script.asked == []
    waiting.cancel()


def test_back_off_is_capped() -> None:
    clock = ManualClock(0)
    backoff = Backoff(clock, lambda: 1.0)
    for _ in range(100):
        backoff.failed()
    assert backoff.remaining_ms == 30_000
    backoff.succeeded()
    assert backoff.remaining_ms == 0
