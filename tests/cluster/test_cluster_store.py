"""The store: versions, uids, histories, raw writes, faults, and what survives on disk."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.kube_objects import config, maps
from support.kube_wire import Kube

from adapters.clock import ManualClock, rfc3339
from events.kinds import CONFIG_MAP, EVENT, NAMESPACE, NODE, POD, QUEUE
from services.cluster.api import EmbeddedApi
from services.cluster.cluster import EmbeddedCluster
from services.cluster.expiry import expire_events
from services.cluster.http import PortInUse, port_of
from services.cluster.persistence import SqliteBacking
from services.cluster.routes import Request
from services.cluster.store import Store, derived_uid, random_uid
from services.cluster.watches import Watch

START_MS = 1_767_225_600_000


def store(history_max: int = 20_000) -> Store:
    return Store(ManualClock(START_MS), derived_uid, history_max=history_max)


def item(name: str, **meta: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default", **meta}}


def everything(_: Any) -> bool:
    return True


def watch(held: Store, version: int | None = None, client: str = "") -> Watch:
    return Watch(held, CONFIG_MAP, "", "", everything, version, client)


def lines(watching: Watch) -> list[tuple[str, str]]:
    return [(type_, found["metadata"].get("name", "")) for type_, found in watching.take()]


def test_versions_count_up_by_one_and_past_what_came_along() -> None:
    held = store()
    assert held.put(CONFIG_MAP, item("a"))["metadata"]["resourceVersion"] == "1"
    assert held.put(CONFIG_MAP, item("b", resourceVersion="500"))["metadata"]["resourceVersion"] == "500"
    assert held.put(CONFIG_MAP, item("c"))["metadata"]["resourceVersion"] == "501"
    assert held.put(CONFIG_MAP, item("d", resourceVersion="7"))["metadata"]["resourceVersion"] == "7"
    assert held.put(CONFIG_MAP, item("e", resourceVersion="odd"))["metadata"]["resourceVersion"] == "odd"
    assert held.put(CONFIG_MAP, item("f"))["metadata"]["resourceVersion"] == "504"


def test_uids_follow_kind_namespace_name_and_count() -> None:
    first, second = store(), store()
    one = first.put(CONFIG_MAP, item("a"))["metadata"]["uid"]
    assert second.put(CONFIG_MAP, item("a"))["metadata"]["uid"] == one
    first.remove(CONFIG_MAP, "default", "a")
    again = first.put(CONFIG_MAP, item("a"))["metadata"]["uid"]
    assert again != one
    assert uuid.UUID(one).version == 5
    assert first.put(CONFIG_MAP, item("b"))["metadata"]["uid"] not in (one, again)
    assert uuid.UUID(random_uid("Pod", "a", "b", 1)).version == 4


def test_put_keeps_what_a_server_would_own() -> None:
    given_ = item("a", uid="u", creationTimestamp="2020-01-01T00:00:00Z", deletionTimestamp="2021-01-01T00:00:00Z")
    meta = store().put(CONFIG_MAP, given_)["metadata"]
    assert (meta["uid"], meta["creationTimestamp"]) == ("u", "2020-01-01T00:00:00Z")
    assert meta["deletionTimestamp"] == "2021-01-01T00:00:00Z"
    assert store().put(CONFIG_MAP, item("a"))["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"


def test_replace_keeps_the_identity_unless_another_is_given() -> None:
    held = store()
    old = held.put(CONFIG_MAP, item("a"))["metadata"]
    same = held.replace(CONFIG_MAP, item("a"))["metadata"]
    assert (same["uid"], same["creationTimestamp"]) == (old["uid"], old["creationTimestamp"])
    assert held.replace(CONFIG_MAP, item("a", uid="other"))["metadata"]["uid"] == "other"
    assert [entry.type for entry in held.history(CONFIG_MAP).entries] == ["ADDED", "MODIFIED", "MODIFIED"]


def test_items_are_ordered_and_by_namespace() -> None:
    held = store()
    for namespace, name in (("b", "x"), ("a", "z"), ("a", "y"), ("ab", "w")):
        held.put(CONFIG_MAP, item(name, namespace=namespace))
    assert [found["metadata"]["name"] for found in held.items(CONFIG_MAP)] == ["y", "z", "w", "x"]
    assert [found["metadata"]["name"] for found in held.items(CONFIG_MAP, "a")] == ["y", "z"]
    assert held.items(CONFIG_MAP, "none") == []


def test_a_watch_sees_each_event_once_in_order() -> None:
    held = store()
    held.put(CONFIG_MAP, item("a"))
    watching = watch(held, held.version)
    held.put(CONFIG_MAP, item("b"))
    assert lines(watching) == [("ADDED", "b")]
    held.replace(CONFIG_MAP, item("b"))
    held.remove(CONFIG_MAP, "default", "a")
    assert lines(watching) == [("MODIFIED", "b"), ("DELETED", "a")]
    assert lines(watching) == []
    assert lines(watch(held)) == [("ADDED", "b")]


def test_a_watch_from_before_the_window_is_410() -> None:
    held = store(history_max=10)
    for number in range(25):
        held.put(CONFIG_MAP, item(f"a{number}"))
    old = watch(held, 1)
    [(type_, found)] = old.take()
    assert (type_, found["code"], found["reason"]) == ("ERROR", 410, "Expired")
    assert old.ended
    assert len(lines(watch(held, 23))) == 2


def test_a_watch_that_fell_behind_is_410() -> None:
    held = store(history_max=10)
    watching = watch(held)
    for number in range(25):
        held.put(CONFIG_MAP, item(f"a{number}"))
    [(type_, found)] = watching.take()
    assert (type_, found["code"]) == ("ERROR", 410)


@given(st.lists(st.sampled_from(["put", "replace", "remove"]), max_size=40), st.integers(0, 40))
def test_a_watch_from_any_version_leads_to_what_is_there(steps: list[str], start: int) -> None:
    held = store()
    seen: dict[str, Any] = {}
    watching: Watch | None = None
    for number, step in enumerate(steps):
        if number == start:
            seen = {found["metadata"]["name"]: found for found in held.items(CONFIG_MAP)}
            watching = watch(held, held.version)
        name = f"a{number % 3}"
        if step == "remove":
            held.remove(CONFIG_MAP, "default", name)
        elif step == "put" or held.get(CONFIG_MAP, "default", name) is None:
            held.put(CONFIG_MAP, item(name))
        else:
            held.replace(CONFIG_MAP, item(name))
    for type_, found in watching.take() if watching is not None else []:
        if type_ == "DELETED":
            seen.pop(found["metadata"]["name"])
        else:
            seen[found["metadata"]["name"]] = found
    if watching is not None:
        assert [seen[name] for name in sorted(seen)] == held.items(CONFIG_MAP)


# Faults.


def test_an_emitted_event_is_seen_by_open_watches_and_changes_nothing() -> None:
    held = store()
    held.put(CONFIG_MAP, item("a"))
    watching, other = watch(held, held.version, "watcher"), watch(held, held.version, "controller")
    version = held.version
    held.emit(CONFIG_MAP, "MODIFIED", item("a", resourceVersion="1"), "watcher")
    assert held.version == version
    assert lines(watching) == [("MODIFIED", "a")]
    assert lines(other) == []
    assert lines(watch(held, version)) == []
    held.emit(CONFIG_MAP, "DELETED", item("ghost"))
    assert lines(watching) == lines(other) == [("DELETED", "ghost")]


@pytest.mark.parametrize(("code", "reason"), [(410, "Expired"), (500, "InternalError")])
def test_a_broken_watch_ends_with_an_error(code: int, reason: str) -> None:
    held = store()
    watching = watch(held, held.version)
    held.break_watch(CONFIG_MAP, code)
    held.put(CONFIG_MAP, item("after"))
    [(type_, found)] = watching.take()
    assert (type_, found["kind"], found["code"], found["reason"]) == ("ERROR", "Status", code, reason)
    assert watching.ended
    assert watching.take() == []


def test_a_bookmark() -> None:
    held = store()
    watching = watch(held, held.version)
    held.bookmark(CONFIG_MAP, "77")
    [(type_, found)] = watching.take()
    assert (type_, found["metadata"]["resourceVersion"]) == ("BOOKMARK", "77")


async def test_the_next_list_can_be_given() -> None:
    cluster = EmbeddedCluster(ManualClock(START_MS), derived_uid)
    cluster.put(item("a"))
    cluster.api.reads.override(CONFIG_MAP, [item("ghost")], "watcher")

    async def listed(client: str) -> list[str]:
        return [found["metadata"]["name"] for found in (await cluster.direct(client).list(CONFIG_MAP)).items]

    assert await listed("other") == ["a"]
    assert await listed("watcher") == ["ghost"]
    assert await listed("watcher") == ["a"]


async def test_accepted_bindings_are_counted_with_their_node() -> None:
    cluster = EmbeddedCluster(ManualClock(START_MS), derived_uid)
    cluster.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}})
    for name in ("a", "b"):
        cluster.put({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "uid": name}, "spec": {}})
    api = cluster.direct()
    await api.bind("default", "a", {"metadata": {"name": "a"}, "target": {"name": "n1"}})
    await api.bind("default", "b", {"metadata": {"name": "b"}, "target": {"name": "gone"}})
    assert [(found.node, found.node_existed) for found in cluster.store.bindings["a"]] == [("n1", True)]
    assert [(found.node, found.node_existed) for found in cluster.store.bindings["b"]] == [("gone", False)]


# The direct port.


async def test_what_the_direct_port_gives_cannot_change_the_cluster() -> None:
    cluster = EmbeddedCluster(ManualClock(START_MS), derived_uid)
    api = cluster.direct()
    watching = await api.watch(CONFIG_MAP, "")
    made = await api.create(CONFIG_MAP, config("a", k="v"))
    made["data"]["k"] = "changed"
    (await api.get(CONFIG_MAP, "default", "a"))["data"]["k"] = "changed"
    (await api.list(CONFIG_MAP)).items[0]["data"]["k"] = "changed"
    events = await watching.next(wait=False)
    assert events is not None
    events[0].object["data"]["k"] = "changed"
    assert (await api.get(CONFIG_MAP, "default", "a"))["data"] == {"k": "v"}
    await watching.close()
    assert await watching.next(wait=True) is None


async def test_apply_creates_as_written_and_merges() -> None:
    cluster = EmbeddedCluster(ManualClock(START_MS), derived_uid)
    api = cluster.direct()
    pod = {
        "metadata": {"name": "a", "uid": "mine", "labels": {"l": "1"}}, "status": {"phase": "Running"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "x"}]},
    }  # fmt: skip
    made = api.apply(POD, pod)
    assert (made["metadata"]["uid"], made["status"]["phase"], made["spec"]["nodeName"]) == ("mine", "Running", "n")
    pod["metadata"] = {"name": "a", "labels": {"m": "2"}}
    again = api.apply(POD, pod)
    assert (again["metadata"]["uid"], again["metadata"]["labels"]) == ("mine", {"l": "1", "m": "2"})
    node = {"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": "1"}}}
    api.apply(NODE, node)
    node["status"] = {"allocatable": {"cpu": "2"}}
    assert api.apply(NODE, node)["status"]["allocatable"] == {"cpu": "2"}


# From the start, on disk, on a port.


def test_what_is_there_from_the_start() -> None:
    held = EmbeddedCluster(ManualClock(START_MS), derived_uid).store
    queues = {found["metadata"]["name"]: found["spec"] for found in held.items(QUEUE)}
    assert (queues["root"]["reclaimable"], queues["root"]["weight"], "parent" in queues["root"]) == (False, 1, False)
    assert (queues["default"]["reclaimable"], queues["default"]["parent"]) == (True, "root")


def test_objects_and_versions_survive_a_restart(tmp_path: Path) -> None:
    first = EmbeddedCluster(ManualClock(START_MS), derived_uid, tmp_path)
    first.put(item("kept"))
    first.put(item("gone"))
    first.remove(CONFIG_MAP, "default", "gone")
    version, kept = first.store.version, first.store.get(CONFIG_MAP, "default", "kept")
    first.close()
    second = EmbeddedCluster(ManualClock(START_MS), derived_uid, tmp_path)
    assert second.store.version == version
    assert second.store.get(CONFIG_MAP, "default", "kept") == kept
    assert second.store.get(CONFIG_MAP, "default", "gone") is None
    early = second.api.watch(Request("GET", "/api/v1/configmaps", {"resourceVersion": str(version - 1)}))
    assert early.take()[0][1]["code"] == 410
    late = second.api.watch(Request("GET", "/api/v1/configmaps", {"resourceVersion": str(version)}))
    second.put(item("new"))
    assert [type_ for type_, _ in late.take()] == ["ADDED"]
    second.close()


def test_a_file_of_another_time_loads_what_it_knows(tmp_path: Path) -> None:
    backing = SqliteBacking(tmp_path / "cluster.db")
    backing.save(CONFIG_MAP, ("default", "a"), item("a", resourceVersion="3"), 3)
    backing._connection.execute("INSERT INTO objects VALUES ('v9', 'Widget', '', 'w', '{}')")
    backing.close()
    cluster = EmbeddedCluster(ManualClock(START_MS), derived_uid, tmp_path)
    assert cluster.store.get(CONFIG_MAP, "default", "a") is not None
    cluster.close()


async def test_a_taken_port_is_said_clearly() -> None:
    cluster = EmbeddedCluster(ManualClock(START_MS), derived_uid)
    runner = await cluster.serve(0)
    try:
        with pytest.raises(PortInUse, match=f"port {port_of(runner)} on 127.0.0.1 is in use"):
            await cluster.serve(port_of(runner))
    finally:
        await runner.cleanup()


SERVER = """
import asyncio, sys
from pathlib import Path
from adapters.clock import SystemClock
from services.cluster.api import EmbeddedApi
from services.cluster.cluster import EmbeddedCluster
from services.cluster.http import port_of

async def main():
    runner = await EmbeddedCluster(SystemClock(), data=Path(sys.argv[1])).serve(0)
    print(port_of(runner), flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


def serving(data: Path) -> tuple[subprocess.Popen[str], Kube]:
    process = subprocess.Popen([sys.executable, "-c", SERVER, str(data)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Kube(f"http://127.0.0.1:{int(process.stdout.readline())}")


def test_what_was_acknowledged_survives_kill_9(tmp_path: Path) -> None:
    acknowledged: list[str] = []
    for round_ in range(3):
        process, kube = serving(tmp_path)
        try:
            found = {entry["metadata"]["name"] for entry in kube.ok("GET", maps("default"))["items"]}
            assert set(acknowledged) <= found
            for number in range(20):
                name = f"c-{round_}-{number}"
                kube.ok("POST", maps("default"), config(name))
                acknowledged.append(name)
        finally:
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()


def test_a_restored_store_is_as_it_was_versions_included() -> None:
    held = store()
    held.put(CONFIG_MAP, item("a"))
    held.put(CONFIG_MAP, item("b"))
    saved = held.backup()
    first = held.get(CONFIG_MAP, "default", "a")
    held.replace(CONFIG_MAP, item("a", labels={"x": "1"}))
    held.remove(CONFIG_MAP, "default", "b")
    uid = held.put(CONFIG_MAP, item("c"))["metadata"]["uid"]
    held.accept_binding("p", "n1", existed=True)
    held.restore(saved)
    assert (held.version, held.restores, held.bindings) == (2, 1, {})
    assert held.get(CONFIG_MAP, "default", "a") == first
    assert [found["metadata"]["name"] for found in held.items(CONFIG_MAP)] == ["a", "b"]
    again = held.put(CONFIG_MAP, item("c"))["metadata"]
    assert (again["resourceVersion"], again["uid"] == uid) == ("3", False), "a version comes again, a uid never does"
    held.restore(saved)
    assert held.get(CONFIG_MAP, "default", "c") is None, "a backup can be used again"


def test_watches_end_at_a_restore_and_a_watch_from_the_lost_future_is_silent_until_it_has_passed() -> None:
    held = store()
    held.put(CONFIG_MAP, item("a"))
    saved = held.backup()
    held.put(CONFIG_MAP, item("b"))
    held.put(CONFIG_MAP, item("c"))
    before = watch(held, 1)
    held.restore(saved)
    assert lines(before) == []
    assert before.ended
    blind, seeing = watch(held, 3), watch(held, 1)
    for name in "def":
        held.put(CONFIG_MAP, item(name))
    assert lines(seeing) == [("ADDED", "d"), ("ADDED", "e"), ("ADDED", "f")]
    assert lines(blind) == [("ADDED", "f")], "as the real server does: version 2 and 3 of the new history are not told"


def test_what_was_on_its_way_out_at_the_backup_ends_after_the_restore() -> None:
    held = store()
    api = EmbeddedApi(held)
    held.put(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})
    owner = held.put(CONFIG_MAP, item("owner"))["metadata"]["uid"]
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner, "blockOwnerDeletion": True}
    held.put(CONFIG_MAP, item("child", ownerReferences=[reference], finalizers=["x/y"]))
    body = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}
    path = CONFIG_MAP.path("default", "owner")
    assert api.handle(Request("DELETE", path, {}, body)).status == 200
    assert held.get(CONFIG_MAP, "default", "owner") is not None
    saved = held.backup()
    free = {"metadata": {"finalizers": None}}
    child = CONFIG_MAP.path("default", "child")
    for _ in range(2):
        assert api.handle(Request("PATCH", child, {}, free, "application/merge-patch+json")).status == 200
        assert held.items(CONFIG_MAP, "default") == []
        api.restore(saved)
        assert len(held.items(CONFIG_MAP, "default")) == 2


def test_the_rest_of_a_list_is_never_that_of_another() -> None:
    """A token of a list that was dropped says so, however many lists came since."""
    held = store()
    api = EmbeddedApi(held)
    for name in ("a", "b"):
        held.put(CONFIG_MAP, item(name))
        held.put(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    tokens = [
        api.handle(Request("GET", path, {"limit": "1"})).body["metadata"]["continue"]
        for _ in range(200)
        for path in (CONFIG_MAP.path("default"), NODE.path())
    ]
    assert len(set(tokens)) == len(tokens)
    assert api.handle(Request("GET", NODE.path(), {"continue": tokens[1]})).status == 410
    (last,) = api.handle(Request("GET", NODE.path(), {"continue": tokens[-1]})).body["items"]
    assert last["metadata"]["name"] == "b"


def test_events_end_an_hour_after_they_were_last_written() -> None:
    held = store()
    for name, last in (("old", START_MS), ("counted", START_MS + 600_000), ("odd", START_MS + 10**12), ("bad", None)):
        written = "x" if last is None else rfc3339(last)
        meta = {"name": name, "namespace": "default", "creationTimestamp": rfc3339(START_MS)}
        held.put(EVENT, {"apiVersion": "v1", "kind": "Event", "metadata": meta, "lastTimestamp": written})
    held.put(CONFIG_MAP, item("stays", creationTimestamp=rfc3339(START_MS)))
    watching = Watch(held, EVENT, "", "", everything, held.version)
    assert isinstance(held.clock, ManualClock)
    held.clock.time_ms += 3_600_000
    assert expire_events(held) == 0
    held.clock.time_ms += 1_000
    assert expire_events(held) == 3
    assert sorted(lines(watching)) == [("DELETED", "bad"), ("DELETED", "odd"), ("DELETED", "old")]
    assert [event["metadata"]["name"] for event in held.items(EVENT)] == ["counted"]
    assert len(held.items(CONFIG_MAP)) == 1
