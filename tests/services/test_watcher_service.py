"""The watcher: what it appends, and what it must not (scheduling/F-4a, F-11, F-11a, F-11b, devices/A-16a)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest
from support.service_world import World, refused, unknown

from adapters.cluster import reflector
from adapters.log.port import LogError, TooLarge
from events.codec import Message, size_of
from events.kinds import CONFIG_MAP, NODE, POD
from events.projection import DEFAULT_SCOPE
from events.records import Deleted, Genesis, ListChunk, ListEnd, Observed, Opened, Outcome, Record
from scheduling.state.model import Term
from services.watcher.memory import Memory
from services.watcher.view import View
from services.watcher.watcher import Watcher


def observed(world: World, records: list[Observed], name: str) -> list[Observed]:
    return [body for body in records if body.object["metadata"]["name"] == name]


async def test_a_term_begins_with_a_complete_list_of_every_kind_f11() -> None:
    world = World()
    world.node("n1")
    assert await world.watcher.step()
    assert not await world.watcher.step()
    assert (await world.fold()).ready
    assert len({body.kind for body in await world.bodies(ListEnd)}) == 11


async def test_a_restart_appends_only_what_changed() -> None:
    world = World()
    world.node("n1")
    world.node("n2")
    await world.watcher.step()
    before = len(await world.bodies(Observed))
    world.node("n2", cpu="8")
    world.watcher = world.new_watcher()
    await world.watcher.step()
    after = await world.bodies(Observed)
    assert [body.object["metadata"]["name"] for body in after[before:]] == ["n2"]
    assert not after[-1].listed


async def test_what_disappeared_while_nobody_watched_is_deleted_and_nobody_saw_it_f11a() -> None:
    world = World()
    world.node("n1")
    await world.watcher.step()
    world.store.remove(NODE, "", "n1")
    world.watcher = world.new_watcher()
    await world.watcher.step()
    (gone,) = await world.bodies(Deleted)
    assert (gone.name, gone.seen) == ("n1", False)
    assert "n1" not in (await world.fold()).model.nodes


async def test_a_seen_deletion_says_so() -> None:
    world = World()
    world.node("n1")
    await world.watcher.step()
    world.store.remove(NODE, "", "n1")
    await world.watcher.step()
    (gone,) = await world.bodies(Deleted)
    assert (gone.name, gone.seen) == ("n1", True)


async def test_heartbeats_statuses_and_echoes_append_nothing() -> None:
    world = World()
    world.node("n1")
    world.single("one")
    await world.watcher.step()
    before = len(await world.records())
    await world.api.patch(NODE, "", "n1", {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, "status")
    await world.api.patch(POD, "team-a", "one", {"metadata": {"annotations": {"example.test/x": "secret"}}})
    await world.watcher.step()
    assert len(await world.records()) == before


async def test_foreign_pods_appear_once_they_are_assigned_as2() -> None:
    world = World()
    world.pod("other", schedulerName="default-scheduler")
    await world.watcher.step()
    assert not observed(world, await world.bodies(Observed), "other")
    await world.api._api.bind("team-a", "other", {"metadata": {"name": "other"}, "target": {"name": "n1"}})
    await world.watcher.step()
    assert len(observed(world, await world.bodies(Observed), "other")) == 1


async def test_only_the_configuration_maps_are_observed() -> None:
    world = World()
    for namespace, name in (("kube-system", "volcano-vgpu-device-config"), ("team-a", "secret-things")):
        world.put(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"namespace": namespace, "name": name},
                "data": {"device-config.yaml" if namespace == "kube-system" else "password": "x", "other": "y"},
            }
        )
    await world.watcher.step()
    (only,) = [body for body in await world.bodies(Observed) if body.kind == CONFIG_MAP.name]
    assert only.object["data"] == {"device-config.yaml": "x"}


@pytest.mark.parametrize("code", [410, 500])
async def test_a_broken_watch_is_taken_up_again_and_a_status_is_no_object_f11a(code: int) -> None:
    world = World()
    world.node("n1")
    await world.watcher.step()
    world.store.break_watch(NODE, code)
    world.node("n2")
    await world.watcher.step()
    model = (await world.fold()).model
    assert sorted(model.nodes) == ["n1", "n2"]


async def test_a_bookmark_is_no_object_f11a() -> None:
    world = World()
    world.node("n1")
    await world.watcher.step()
    before = len(await world.records())
    world.store.bookmark(NODE, "5000")
    world.store.bookmark(POD, "5000")
    await world.watcher.step()
    assert len(await world.records()) == before


async def test_a_late_or_repeated_event_changes_nothing_f4a() -> None:
    world = World()
    old = world.node("n1", cpu="2")
    world.node("n1", cpu="8")
    await world.watcher.step()
    before = len(await world.records())
    world.store.emit(NODE, "MODIFIED", old)
    world.store.emit(NODE, "ADDED", world.get(NODE, "n1"))
    await world.watcher.step()
    assert len(await world.records()) == before


async def test_after_its_deletion_other_events_of_a_uid_are_ignored_f4a() -> None:
    world = World()
    old = world.node("n1")
    await world.watcher.step()
    world.store.remove(NODE, "", "n1")
    world.store.emit(NODE, "MODIFIED", {**old, "metadata": {**old["metadata"], "resourceVersion": "99999"}})
    await world.watcher.step()
    assert "n1" not in (await world.fold()).model.nodes


async def test_another_uid_under_a_name_is_a_new_object_and_a_late_deletion_of_the_old_one_nothing_a16a() -> None:
    world = World()
    old = world.node("n1", uid="u-1")
    await world.watcher.step()
    world.node("n1", uid="u-2", cpu="9")
    world.store.emit(NODE, "DELETED", old)
    await world.watcher.step()
    node = (await world.fold()).model.nodes["n1"].node
    assert node is not None
    assert node.uid == "u-2"


async def test_a_list_with_lower_versions_wins_f4() -> None:
    world = World()
    world.node("n1", resourceVersion="900")
    await world.watcher.step()
    world.node("n1", resourceVersion="40", uid=world.get(NODE, "n1")["metadata"]["uid"])
    world.store.break_watch(NODE, 410)
    await world.watcher.step()
    world.node("n1", cpu="16", resourceVersion="950")
    await world.watcher.step()
    node = (await world.fold()).model.nodes["n1"].node
    assert node is not None
    assert node.allocatable is not None
    assert node.allocatable["cpu"] == "16"


async def test_a_bind_lost_by_a_restored_store_is_seen_by_the_next_list_f4() -> None:
    world = World()
    world.node("n1")
    pending = world.single("one")
    await world.decide()
    await world.binder.step()
    world.put(pending)
    world.watcher = world.new_watcher()
    await world.watcher.step()
    entry = next(iter((await world.fold()).model.pods.values()))
    assert entry.placement is None
    await world.settle()
    assert world.get(POD, "one")["spec"]["nodeName"] == "n1"


async def test_two_watchers_do_no_harm_the_superseded_one_stands_back() -> None:
    world = World()
    old = world.watcher
    await old.step()
    world.watcher = world.new_watcher()
    await world.watcher.step()
    world.node("n1")
    await old.step()
    await world.watcher.step()
    await old.step()
    assert not old.leading
    assert world.watcher.leading
    assert len(observed(world, await world.bodies(Observed), "n1")) == 1
    assert len(await world.bodies(Opened)) == 2


async def test_a_cut_log_begins_anew_with_another_incarnation_f11b() -> None:
    world = World()
    world.node("n1")
    world.single("one")
    await world.settle()
    live = world.scheduler
    world.log.truncate(4)
    await world.settle()
    (genesis,) = await world.bodies(Genesis)
    world.scheduler = world.new_scheduler()
    await world.scheduler.fold()
    rebuilt = world.scheduler.follower
    assert rebuilt.state.model.incarnation == genesis.incarnation
    assert rebuilt.state.ready
    assert rebuilt.state.digest() == live.follower.state.digest()
    assert rebuilt.chain == live.follower.chain
    world.single("two")
    await world.settle()
    assert world.get(POD, "two")["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize("fault", ["refused", "vanished", "answer lost"])
async def test_a_failed_append_loses_nothing(fault: str) -> None:
    world = World()
    world.node("n1")
    await world.watcher.step()
    world.node("n1", cpu="16")
    world.store.remove(POD, "team-a", "none")
    world.log.faults["watcher"] = [fault]
    await world.watcher.step()
    await world.watcher.step()
    node = (await world.fold()).model.nodes["n1"].node
    assert node is not None
    assert node.allocatable is not None
    assert node.allocatable["cpu"] == "16"


async def test_a_list_of_more_than_a_log_takes_at_once_is_appended_in_parts() -> None:
    """What Kafka takes in one append is bounded in bytes, and everybody who makes pods says how large they are."""
    world = World()
    for number in range(9):
        world.pod(f"p{number}", metadata={"labels": {"large": "x" * 1_000}})
    appended, append = [], world.log.append

    async def narrow(messages: Sequence[Message]) -> int:
        if sum(map(size_of, messages)) > 5_000:
            raise TooLarge("more than this log takes at once")
        appended.append(len(messages))
        return await append(messages)

    world.log.append = narrow  # type: ignore[method-assign]  # as a broker with a small limit
    await world.watcher.step()
    assert len((await world.fold()).model.pods) == 9
    assert (await world.fold()).ready
    assert len(appended) > 2, "in parts"


async def test_a_list_that_fails_is_taken_again_and_until_then_nothing_is_whole() -> None:
    world = World()
    world.watch_api.faults["list"] = [None, unknown(), refused(403)]
    await world.watcher.step()
    assert not (await world.fold()).ready
    await world.watcher.step()
    assert (await world.fold()).ready


async def test_unreadable_bytes_on_the_log_make_it_list_again() -> None:
    world = World()
    world.node("n1")
    await world.watcher.step()
    before = len(await world.bodies(ListEnd))
    await world.log.append([Message((("ce_type", b"nonsense"),), b"\xff\xfe")])
    await world.watcher.step()
    assert len(await world.bodies(ListEnd)) == 2 * before
    assert len(observed(world, await world.bodies(Observed), "n1")) == 2
    assert not await world.watcher.step()


Result = Literal["applied", "refused", "gone", "lost"]


def _reported(verb: Literal["bind", "evict"], result: Result) -> Record:
    body = Outcome(command="c", verb=verb, namespace="d", name="p", uid="u", result=result, time_ms=0)
    return Record("c/i/b1.1", "binder", 1, 1, "", 0, body)


def _applied(uid: str, number: int) -> Record:
    body = Outcome(command="c", verb="bind", namespace="d", name="p", uid=uid, result="applied", version="9", time_ms=0)
    return Record(f"c/i/b1.{number}", "binder", 1, number, "", 0, body)


@pytest.mark.parametrize("read_before_the_list", [True, False])
def test_a_list_wins_over_a_binding_only_if_it_was_asked_for_after_it_f4(read_before_the_list: bool) -> None:
    """scheduling/F-4: an answer that was on its way while a Binding was reported is older than the Binding."""
    memory, view = _remembering(_seen("2", 0)), View(POD, DEFAULT_SCOPE)
    item = {
        "apiVersion": "v1", "kind": "Pod", "spec": {"schedulerName": "gpuledger", "containers": []},
        "metadata": {"namespace": "d", "name": "p", "uid": "u", "resourceVersion": "3"},
    }  # fmt: skip
    if read_before_the_list:
        memory.apply(5, _applied("u", 1), "")
    view.take(reflector.Listed([item]), memory, 1, 1)
    ((_, body), *_) = view.take(reflector.ListEnd("3"), memory, 1, 1)
    assert isinstance(body, Observed)
    assert body.listed is read_before_the_list


def _seen(
    version: str, number: int, *, node: str = "", ending: bool = False, listed: bool = False, uid: str = "u"
) -> Record:
    meta = {"namespace": "d", "name": "p", "uid": uid} | (
        {"deletionTimestamp": "2026-01-01T00:00:00Z"} if ending else {}
    )
    item = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"nodeName": node} if node else {}}
    body = Observed(api_version="v1", kind="Pod", object=item, version=version, listed=listed)
    return Record(f"c/i/w1.{number}", "watcher", 1, number, "", 0, body)


def _remembering(*records: Record) -> Memory:
    memory = Memory()
    memory.model.terms |= {"watcher": Term(1, "w", 0), "binder": Term(1, "b", 0)}
    for position, record in enumerate(records):
        memory.apply(position, record, "")
    return memory


def test_a_reported_binding_is_awaited_until_the_pod_shows_it_or_that_it_is_lost_f4() -> None:
    """An observation that is older than the Binding says nothing of it, in the fold and here."""
    before = _seen("3", 0)
    assert _remembering(before, _applied("u", 1), _seen("8", 1)).awaits("d/p", "u")
    assert _remembering(before, _applied("u", 1), _seen("8", 1)).awaited() == {"u"}
    assert not _remembering(before, _applied("u", 1), _seen("9", 1, node="n1")).awaits("d/p", "u")
    assert not _remembering(before, _applied("u", 1), _seen("10", 1)).awaits("d/p", "u")
    assert not _remembering(before, _applied("u", 1), _seen("3", 1, listed=True)).awaits("d/p", "u")
    assert not _remembering(before, _seen("9", 1, node="n1"), _applied("u", 1)).awaits("d/p", "u"), (
        "seen before the report"
    )


def test_a_reported_eviction_is_awaited_until_the_pod_is_ending_f4() -> None:
    evicted = _reported("evict", "applied")
    running = _seen("3", 0, node="n1")
    assert _remembering(running, evicted, _seen("8", 1, node="n1")).awaits("d/p", "u")
    assert not _remembering(running, evicted, _seen("9", 1, node="n1", ending=True)).awaits("d/p", "u")
    assert not _remembering(running, _seen("9", 1, node="n1", ending=True), evicted).awaits("d/p", "u")
    assert not _remembering(running, evicted, _seen("3", 1, node="n1", listed=True)).awaits("d/p", "u")


@pytest.mark.parametrize("result", ["gone", "lost"])
def test_a_pod_that_the_binder_lost_is_awaited_until_a_list_says_what_it_is_f4(result: Result) -> None:
    """A restore may bring it back as the log has it, so that nothing but a list tells (seed 80000170)."""
    before = _seen("3", 0)
    lost = _reported("bind", result)
    assert _remembering(before, lost).awaited() == {"u"}
    assert not _remembering(before, lost, _seen("9", 1, node="n1")).awaits("d/p", "u")
    assert not _remembering(before, lost, _seen("3", 1, listed=True)).awaits("d/p", "u")
    assert not _remembering(before, _seen("9", 1, node="n1"), lost).awaits("d/p", "u"), "seen before the report"
    assert not _remembering(lost).awaits("d/p", "u"), "its end was on the log before the report"
    assert not _remembering(before, _reported("bind", "refused")).awaits("d/p", "u")


def test_an_eviction_of_a_pod_that_was_gone_is_awaited_like_any_other_f4() -> None:
    running = _seen("3", 0, node="n1")
    assert _remembering(running, _reported("evict", "gone")).awaited() == {"u"}
    assert not _remembering(running, _reported("evict", "gone"), _seen("3", 1, node="n1", listed=True)).awaits(
        "d/p", "u"
    )


def test_an_outcome_that_counts_for_nobody_is_not_awaited() -> None:
    """A repeated record, and one of a superseded binder, say nothing of what came since (seed 80000170)."""
    before, newer_one = _seen("3", 0), _applied("u", 2)
    repeated = _remembering(before, newer_one, _reported("bind", "gone"))
    assert repeated.awaits("d/p", "u")
    repeated.apply(9, _seen("12", 1), "")
    assert not repeated.awaits("d/p", "u"), "the Binding was awaited, not the pod's end"
    assert not _remembering(before, replace(_reported("bind", "gone"), term=0)).awaits("d/p", "u")


def test_a_pod_whose_name_another_one_has_is_not_awaited() -> None:
    memory = _remembering(_seen("3", 0), _reported("bind", "gone"), _seen("9", 1, uid="v"))
    assert not memory.awaited()
    assert not memory._reports


def test_an_end_that_was_appended_and_is_void_does_not_hide_what_is_awaited_f4() -> None:
    """What is not on the log has told nobody anything: the state holds on to the Binding."""
    memory = _remembering(_seen("3", 0))
    memory.expect_end(POD, "d/p", "u")
    memory.apply(5, _applied("u", 1), "")
    memory.distrust_unconfirmed()
    assert memory.awaits("d/p", "u")
    gone = Deleted(api_version="v1", kind="Pod", namespace="d", name="p", uid="u")
    memory.apply(6, Record("c/i/w1.1", "watcher", 1, 1, "", 0, gone), "")
    assert not memory._reports


def _list(number: int, uids: list[str], count: int) -> tuple[Record, Record]:
    kind = {"api_version": "v1", "kind": "Pod", "list_id": 4}
    bodies = (
        ListChunk.model_validate({**kind, "uids": uids}),
        ListEnd.model_validate({**kind, "version": "9", "count": count, "digest": ""}),
    )
    first, second = (Record(f"c/i/w1.{n}", "watcher", 1, n, "", 0, body) for n, body in enumerate(bodies, number))
    return first, second


def test_a_watcher_forgets_what_another_ones_complete_list_lacks_f11a() -> None:
    """The log has no deletion of it; it may come back under its uid if the API server is restored."""
    assert set(_remembering(_seen("3", 0), *_list(1, ["u"], 1)).of(POD)) == {"d/p"}
    assert set(_remembering(_seen("3", 0), *_list(1, ["other"], 1)).of(POD)) == set()
    assert set(_remembering(_seen("3", 0), *_list(1, ["other"], 2)).of(POD)) == {"d/p"}, "an incomplete list"


async def test_a_first_beginning_that_comes_late_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first append got no answer and is made again; when it arrives after all, the log has begun already."""
    world, sent = World(), list[Message]()
    names = iter(("one", "two", "three"))
    watcher = Watcher(world.api, world.log, world.clock, "c", "w", incarnation=lambda: next(names))
    append = world.log.append

    async def unanswered(messages: Sequence[Message]) -> int:
        sent.extend(messages)
        monkeypatch.undo()
        raise LogError("no answer")

    monkeypatch.setattr(world.log, "append", unanswered)
    await watcher.step()
    await watcher.step()
    before = await world.fold()
    assert before.ready
    await append(sent)
    assert (await world.fold()).model.terms == before.model.terms


async def test_what_a_superseded_watcher_appended_is_told_again_when_it_leads_again() -> None:
    """Its records were void; it must not take them for what the log says."""
    world = World()
    world.node("n1")
    await world.watcher.step()
    old, poll = world.watcher, world.watcher.reflectors[-3].poll
    assert old.reflectors[-3].kind == NODE

    async def overtaken(wait: bool = False) -> list[reflector.Delta]:
        """Another watcher takes over while this one has read what is new and not appended it yet."""
        found = await poll(wait)
        await world.new_watcher().step()
        return found

    world.node("n2")
    old.reflectors[-3].poll = overtaken  # type: ignore[method-assign]
    await old.step()
    old.reflectors[-3].poll = poll  # type: ignore[method-assign]
    world.store.remove(NODE, "", "n1")
    for _ in range(3):
        world.clock.time_ms += 3_600_000
        await old.step()
    assert list((await world.fold()).model.nodes) == ["n2"]


def test_a_version_that_an_earlier_term_recorded_is_no_answer_to_a_report_f4() -> None:
    """Versions of different terms are never compared (F-4a): the server may have been restored in between."""
    memory = _remembering(_seen("10", 0))
    memory.model.terms["watcher"] = Term(2, "w", 0)
    memory.apply(1, _applied("u", 1), "")
    assert memory.awaits("d/p", "u")
    assert not _remembering(_seen("10", 0), _applied("u", 1)).awaits("d/p", "u"), "it is of this term"
