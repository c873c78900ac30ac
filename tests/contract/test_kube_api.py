"""What kubectl and our services rest on, of any API server: the embedded cluster and a real kube-apiserver alike.

Where the two differ, the embedded one is wrong.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from parts.kube import TOKEN, KubeApiServer
from support.kube_wire import APPLY, JSON_PATCH, MERGE, STRATEGIC, TABLE, EmbeddedServer, Kube

_number = itertools.count(1)


@pytest.fixture(scope="module", params=["embedded", "real"])
def kube(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kube]:
    """Each API server in turn."""
    if request.param == "embedded":
        with EmbeddedServer() as server:
            yield Kube(server.address)
        return
    real = KubeApiServer(Path(tmp_path_factory.mktemp("kube")))
    asyncio.run(real.start())
    try:
        yield Kube(real.address, TOKEN)
    finally:
        real.stop()


@pytest.fixture
def space(kube: Kube) -> str:
    """A fresh namespace."""
    name = f"space-{next(_number)}"
    kube.ok("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return name


def maps(space: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{space}/configmaps" + (f"/{name}" if name else "")


def pods(space: str, name: str = "", sub: str = "") -> str:
    return f"/api/v1/namespaces/{space}/pods" + (f"/{name}" if name else "") + (f"/{sub}" if sub else "")


def config(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, **limits: str) -> dict[str, Any]:
    container = {"name": "main", "image": "app:1", "resources": {"limits": limits}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


# Create and get.


def test_create_fills_in_what_the_server_owns(kube: Kube, space: str) -> None:
    body = config("a", k="v")
    body["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
    made = kube.ok("POST", maps(space), body)
    assert made["metadata"]["namespace"] == space
    assert made["metadata"]["uid"] not in ("", "mine")
    assert not made["metadata"]["creationTimestamp"].startswith("2001")
    assert int(made["metadata"]["resourceVersion"]) > 0
    assert kube.ok("GET", maps(space, "a"))["data"] == {"k": "v"}


def test_create_answers_201_and_repeats_are_409(kube: Kube, space: str) -> None:
    assert kube.ask("POST", maps(space), config("a"))[0] == 201
    assert kube.refused("POST", maps(space), config("a")) == (409, "AlreadyExists", 'configmaps "a" already exists')


def test_generate_name(kube: Kube, space: str) -> None:
    body = {"metadata": {"generateName": "run-"}}
    names = {kube.ok("POST", maps(space), body)["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("run-") and len(name) == 9 for name in names)


def test_what_is_not_there_is_404(kube: Kube, space: str) -> None:
    assert kube.refused("GET", maps(space, "no")) == (404, "NotFound", 'configmaps "no" not found')
    assert kube.refused("DELETE", maps(space, "no"))[:2] == (404, "NotFound")
    assert kube.refused("PUT", maps(space, "no"), config("no"))[:2] == (404, "NotFound")
    assert kube.refused("PATCH", maps(space, "no"), {}, MERGE)[:2] == (404, "NotFound")
    assert kube.send("GET", "/api/v1/widgets")[0] == 404
    assert kube.send("GET", "/apis/no.such/v1/widgets")[0] == 404


def test_details_of_a_refusal_name_the_object(kube: Kube, space: str) -> None:
    _, answer = kube.ask("GET", maps(space, "no"))
    assert answer["details"] == {"name": "no", "kind": "configmaps"}
    _, answer = kube.ask("GET", "/apis/scheduling.k8s.io/v1/priorityclasses/no")
    assert answer["message"] == 'priorityclasses.scheduling.k8s.io "no" not found'
    assert answer["details"] == {"name": "no", "group": "scheduling.k8s.io", "kind": "priorityclasses"}


def test_a_namespace_must_exist(kube: Kube) -> None:
    assert kube.refused("POST", maps("nowhere"), config("a")) == (404, "NotFound", 'namespaces "nowhere" not found')


def test_methods_that_are_not_served_are_405(kube: Kube, space: str) -> None:
    assert kube.ask("PUT", maps(space), config("a"))[0] == 405
    assert kube.ask("POST", maps(space, "a"), config("a"))[0] == 405
    assert kube.ask("POST", "/api/v1/configmaps", config("a"))[0] == 405


@pytest.mark.parametrize("data", [b"{", b'{"a": NaN}', b"[1,", b"nonsense: ["])
def test_broken_bodies_are_400(kube: Kube, space: str, data: bytes) -> None:
    assert kube.send("POST", maps(space), data)[0] == 400


def test_unknown_media_types_are_415(kube: Kube, space: str) -> None:
    assert kube.send("POST", maps(space), b"{}", "text/csv")[0] == 415
    kube.ok("POST", maps(space), config("a"))
    assert kube.send("PATCH", maps(space, "a"), b"{}", "application/json")[0] == 415


def test_yaml_bodies_are_read(kube: Kube, space: str) -> None:
    data = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: v\n"
    assert kube.send("POST", maps(space), data, "application/yaml")[0] == 201
    assert kube.ok("GET", maps(space, "a"))["data"] == {"k": "v"}


def test_wrong_kinds_names_and_spaces_are_400(kube: Kube, space: str) -> None:
    assert kube.refused("POST", maps(space), pod("a"))[0] == 400
    elsewhere = {"metadata": {"name": "a", "namespace": "default"}}
    assert kube.refused("POST", maps(space), elsewhere)[0] == 400
    kube.ok("POST", maps(space), config("a"))
    assert kube.refused("PUT", maps(space, "a"), config("b"))[0] == 400


def test_wrong_types_are_400_and_name_the_field(kube: Kube, space: str) -> None:
    status, reason, message = kube.refused("POST", maps(space), {"metadata": {"name": "a"}, "data": {"k": 5}})
    assert (status, reason) == (400, "BadRequest")
    assert "data" in message


def test_invalid_names_are_422(kube: Kube, space: str) -> None:
    status, reason, message = kube.refused("POST", maps(space), config("Not_A_Name"))
    assert (status, reason) == (422, "Invalid")
    assert message.startswith('ConfigMap "Not_A_Name" is invalid: metadata.name: Invalid value: "Not_A_Name": ')
    _, answer = kube.ask("POST", maps(space), config("Not_A_Name"))
    assert answer["details"]["causes"][0]["field"] == "metadata.name"
    assert answer["details"]["causes"][0]["reason"] == "FieldValueInvalid"
    assert kube.refused("POST", maps(space), {"metadata": {}})[0] == 422


def test_strict_field_validation(kube: Kube, space: str) -> None:
    body = config("a") | {"dato": {}}
    status, _, message = kube.refused("POST", maps(space), body, fieldValidation="Strict")
    assert status == 400
    assert 'strict decoding error: unknown field "dato"' in message
    assert kube.ask("POST", maps(space), body, fieldValidation="Ignore")[0] == 201


# Dry run.


def test_dry_run_changes_nothing(kube: Kube, space: str) -> None:
    made = kube.ok("POST", maps(space), config("a", k="v"), dryRun="All")
    assert made["metadata"]["uid"]
    assert kube.ask("GET", maps(space, "a"))[0] == 404
    kube.ok("POST", maps(space), config("a", k="v"))
    changed = kube.ok("PATCH", maps(space, "a"), {"data": {"k": "w"}}, MERGE, dryRun="All")
    assert changed["data"] == {"k": "w"}
    kube.ok("DELETE", maps(space, "a"), dryRun="All")
    assert kube.ok("GET", maps(space, "a"))["data"] == {"k": "v"}
    assert kube.refused("POST", maps(space), config("b"), dryRun="Some")[0] in (400, 422)


# Update and conflicts.


def test_update_needs_the_version_it_saw(kube: Kube, space: str) -> None:
    first = kube.ok("POST", maps(space), config("a", k="1"))
    second = kube.ok("PUT", maps(space, "a"), {**first, "data": {"k": "2"}})
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert second["metadata"]["creationTimestamp"] == first["metadata"]["creationTimestamp"]
    assert kube.refused("PUT", maps(space, "a"), {**first, "data": {"k": "3"}}) == (
        409, "Conflict", 'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply '
        "your changes to the latest version and try again",
    )  # fmt: skip


def test_update_without_version_is_unconditional_for_core_kinds(kube: Kube, space: str) -> None:
    kube.ok("POST", maps(space), config("a", k="1"))
    assert kube.ok("PUT", maps(space, "a"), config("a", k="2"))["data"] == {"k": "2"}


def test_an_update_that_changes_nothing_writes_nothing(kube: Kube, space: str) -> None:
    first = kube.ok("POST", maps(space), config("a", k="1"))
    second = kube.ok("PUT", maps(space, "a"), first)
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_another_uid_is_a_conflict(kube: Kube, space: str) -> None:
    first = kube.ok("POST", maps(space), config("a", k="1"))
    other = {**first, "metadata": {**first["metadata"], "uid": "11111111-1111-1111-1111-111111111111"}}
    status, reason, message = kube.refused("PUT", maps(space, "a"), other)
    assert (status, reason) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: 11111111-1111-1111-1111-111111111111" in message
    assert kube.refused("PATCH", maps(space, "a"), {"metadata": {"uid": "x"}}, MERGE)[:2] == (422, "Invalid")


# The kinds of patch.


def test_merge_patch(kube: Kube, space: str) -> None:
    kube.ok("POST", maps(space), config("a", k="1", gone="x"))
    patched = kube.ok("PATCH", maps(space, "a"), {"data": {"k": "2", "gone": None, "new": "y"}}, MERGE)
    assert patched["data"] == {"k": "2", "new": "y"}


def test_merge_patch_with_a_version_is_conditional(kube: Kube, space: str) -> None:
    first = kube.ok("POST", maps(space), config("a", k="1"))
    version = first["metadata"]["resourceVersion"]
    kube.ok("PATCH", maps(space, "a"), {"metadata": {"resourceVersion": version}, "data": {"k": "2"}}, MERGE)
    again = {"metadata": {"resourceVersion": version}, "data": {"k": "3"}}
    assert kube.refused("PATCH", maps(space, "a"), again, MERGE)[:2] == (409, "Conflict")


def test_json_patch(kube: Kube, space: str) -> None:
    body = config("a", k="2")
    body["metadata"]["annotations"] = {"x/y": "1"}
    kube.ok("POST", maps(space), body)
    operations = [
        {"op": "test", "path": "/data/k", "value": "2"},
        {"op": "replace", "path": "/data/k", "value": "3"},
        {"op": "copy", "from": "/metadata/annotations/x~1y", "path": "/data/copy"},
        {"op": "move", "from": "/data/copy", "path": "/data/moved"},
        {"op": "remove", "path": "/metadata/annotations/x~1y"},
        {"op": "add", "path": "/metadata/labels", "value": {"l": "1"}},
    ]
    patched = kube.ok("PATCH", maps(space, "a"), operations, JSON_PATCH)
    assert patched["data"] == {"k": "3", "moved": "1"}
    assert patched["metadata"]["labels"] == {"l": "1"}
    failing = [{"op": "test", "path": "/data/k", "value": "9"}]
    assert kube.refused("PATCH", maps(space, "a"), failing, JSON_PATCH)[:2] == (422, "Invalid")
    missing = [{"op": "remove", "path": "/data/none"}]
    assert kube.refused("PATCH", maps(space, "a"), missing, JSON_PATCH)[0] == 422
    assert kube.refused("PATCH", maps(space, "a"), {"op": "add"}, JSON_PATCH)[0] == 400


def test_strategic_merge_patch_merges_lists_by_key(kube: Kube, space: str) -> None:
    body = pod("a")
    body["spec"]["containers"].append({"name": "side", "image": "side:1"})
    kube.ok("POST", pods(space), body)
    change = {"spec": {"containers": [{"name": "side", "image": "side:2"}]}}
    patched = kube.ok("PATCH", pods(space, "a"), change, STRATEGIC)
    assert [(item["name"], item["image"]) for item in patched["spec"]["containers"]] == [
        ("main", "app:1"), ("side", "side:2"),
    ]  # fmt: skip


def test_strategic_merge_patch_of_conditions_and_finalizers(kube: Kube, space: str) -> None:
    kube.ok("POST", pods(space), pod("a"))
    conditions = [{"type": "One", "status": "True"}, {"type": "Two", "status": "True"}]
    kube.ok("PATCH", pods(space, "a", "status"), {"status": {"conditions": conditions}}, STRATEGIC)
    change = {"status": {"conditions": [{"type": "Two", "status": "False"}]}}
    patched = kube.ok("PATCH", pods(space, "a", "status"), change, STRATEGIC)
    found = {item["type"]: item["status"] for item in patched["status"]["conditions"]}
    assert (found["One"], found["Two"]) == ("True", "False")
    drop = {"status": {"conditions": [{"type": "One", "$patch": "delete"}]}}
    patched = kube.ok("PATCH", pods(space, "a", "status"), drop, STRATEGIC)
    assert "One" not in [item["type"] for item in patched["status"]["conditions"]]
    kube.ok("PATCH", pods(space, "a"), {"metadata": {"finalizers": ["x.example/a"]}}, STRATEGIC)
    patched = kube.ok("PATCH", pods(space, "a"), {"metadata": {"finalizers": ["x.example/b"]}}, STRATEGIC)
    assert sorted(patched["metadata"]["finalizers"]) == ["x.example/a", "x.example/b"]
    drop = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.example/a", "x.example/b"]}}
    assert not kube.ok("PATCH", pods(space, "a"), drop, STRATEGIC)["metadata"].get("finalizers")


def test_apply_patch_creates_and_merges(kube: Kube, space: str) -> None:
    body = config("a", k="1")
    assert kube.ask("PATCH", maps(space, "a"), body, APPLY, fieldManager="test")[0] == 201
    body["data"] = {"k": "2"}
    status, answer = kube.ask("PATCH", maps(space, "a"), body, APPLY, fieldManager="test")
    assert (status, answer["data"]) == (200, {"k": "2"})
    assert kube.ask("PATCH", maps(space, "a"), body, APPLY)[0] in (400, 422)


# Delete.


def test_delete_answers_with_a_status_and_is_final(kube: Kube, space: str) -> None:
    made = kube.ok("POST", maps(space), config("a"))
    answer = kube.ok("DELETE", maps(space, "a"))
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    assert kube.ask("GET", maps(space, "a"))[0] == 404


def test_delete_preconditions(kube: Kube, space: str) -> None:
    made = kube.ok("POST", maps(space), config("a"))
    for wanted in ({"uid": "other"}, {"resourceVersion": "1"}):
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": wanted}
        assert kube.refused("DELETE", maps(space, "a"), options)[:2] == (409, "Conflict")
    right = {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}
    kube.ok("DELETE", maps(space, "a"), {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": right})


def test_finalizers_hold_an_object(kube: Kube, space: str) -> None:
    body = config("a")
    body["metadata"]["finalizers"] = ["x.example/wait"]
    kube.ok("POST", maps(space), body)
    held = kube.ok("DELETE", maps(space, "a"))
    assert held["metadata"]["deletionTimestamp"]
    more = {"metadata": {"finalizers": ["x.example/wait", "x.example/more"]}}
    assert kube.refused("PATCH", maps(space, "a"), more, MERGE)[:2] == (422, "Invalid")
    kube.ok("PATCH", maps(space, "a"), {"metadata": {"finalizers": None}}, MERGE)
    assert kube.ask("GET", maps(space, "a"))[0] == 404


def test_a_pod_on_a_node_gets_its_grace(kube: Kube, space: str) -> None:
    body = pod("a")
    body["spec"] |= {"nodeName": "somewhere", "terminationGracePeriodSeconds": 7}
    kube.ok("POST", pods(space), body)
    ending = kube.ok("DELETE", pods(space, "a"))
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 7
    assert ending["metadata"]["deletionTimestamp"]
    assert kube.ask("GET", pods(space, "a"))[0] == 200
    kube.ok("DELETE", pods(space, "a"), {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
    assert kube.ask("GET", pods(space, "a"))[0] == 404


def test_a_pod_without_node_goes_at_once(kube: Kube, space: str) -> None:
    kube.ok("POST", pods(space), pod("a"))
    assert kube.ok("DELETE", pods(space, "a"))["metadata"]["name"] == "a"
    assert kube.ask("GET", pods(space, "a"))[0] == 404


def test_delete_collection_by_label(kube: Kube, space: str) -> None:
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        body = config(name)
        body["metadata"]["labels"] = {"l": label}
        kube.ok("POST", maps(space), body)
    kube.ok("DELETE", maps(space), labelSelector="l=x")
    names = [item["metadata"]["name"] for item in kube.ok("GET", maps(space))["items"]]
    assert "b" in names
    assert not {"a", "c"} & set(names)


# Lists, selectors, pages.


def test_lists_are_ordered_and_carry_a_version(kube: Kube, space: str) -> None:
    for name in ("b", "a", "c"):
        kube.ok("POST", pods(space), pod(name))
    found = kube.ok("GET", pods(space))
    assert (found["kind"], found["apiVersion"]) == ("PodList", "v1")
    assert int(found["metadata"]["resourceVersion"]) > 0
    assert [item["metadata"]["name"] for item in found["items"]] == ["a", "b", "c"]
    assert all("kind" not in item and "apiVersion" not in item for item in found["items"])


@pytest.mark.parametrize(
    ("selector", "wanted"),
    [
        ("l=x", ["a"]), ("l==x", ["a"]), ("l!=x", ["b", "c"]), ("l in (x, y)", ["a", "b"]), ("l notin (x)", ["b", "c"]),
        ("l", ["a", "b"]), ("!l", ["c"]), ("l=x,m=1", ["a"]), ("l=x,m=2", []), ("", ["a", "b", "c"]),
    ],
)  # fmt: skip
def test_label_selectors(kube: Kube, space: str, selector: str, wanted: list[str]) -> None:
    for name, labels in (("a", {"l": "x", "m": "1"}), ("b", {"l": "y"}), ("c", {})):
        body = pod(name)
        body["metadata"]["labels"] = labels
        kube.ok("POST", pods(space), body)
    found = kube.ok("GET", pods(space), labelSelector=selector)
    assert [item["metadata"]["name"] for item in found["items"]] == wanted


def test_field_selectors(kube: Kube, space: str) -> None:
    placed = pod("placed")
    placed["spec"]["nodeName"] = "n1"
    kube.ok("POST", pods(space), placed)
    kube.ok("POST", pods(space), pod("waiting"))

    def names(fields: str) -> list[str]:
        return [item["metadata"]["name"] for item in kube.ok("GET", pods(space), fieldSelector=fields)["items"]]

    assert names("spec.nodeName=n1") == ["placed"]
    assert names("spec.nodeName!=n1") == ["waiting"]
    assert names("metadata.name=waiting,status.phase=Pending") == ["waiting"]
    assert names("status.phase!=Pending") == []
    assert kube.refused("GET", pods(space), fieldSelector="spec.nothing=1")[0] == 400
    assert kube.refused("GET", pods(space), fieldSelector="spec.nodeName")[0] == 400
    assert kube.refused("GET", pods(space), labelSelector="a in b")[0] == 400


def test_pages_show_one_moment(kube: Kube, space: str) -> None:
    for number in range(5):
        kube.ok("POST", pods(space), pod(f"p{number}"))
    first = kube.ok("GET", pods(space), limit=2)
    assert first["metadata"]["remainingItemCount"] == 3
    kube.ok("POST", pods(space), pod("p00"))
    second = kube.ok("GET", pods(space), limit=2, **{"continue": first["metadata"]["continue"]})
    third = kube.ok("GET", pods(space), limit=2, **{"continue": second["metadata"]["continue"]})
    names = [item["metadata"]["name"] for page in (first, second, third) for item in page["items"]]
    assert names == ["p0", "p1", "p2", "p3", "p4"]
    assert not third["metadata"].get("continue")
    assert first["metadata"]["resourceVersion"] == third["metadata"]["resourceVersion"]
    assert kube.refused("GET", pods(space), limit=2, **{"continue": "nonsense"})[0] == 400


def test_a_version_from_the_future_times_out(kube: Kube, space: str) -> None:
    version = int(kube.ok("GET", pods(space))["metadata"]["resourceVersion"]) + 1_000_000
    assert kube.refused("GET", pods(space), resourceVersion=version)[:2] == (504, "Timeout")


# Watches.


def test_watch_from_a_version_shows_what_came_after(kube: Kube, space: str) -> None:
    kube.ok("POST", pods(space), pod("before"))
    version = kube.ok("GET", pods(space))["metadata"]["resourceVersion"]
    kube.ok("POST", pods(space), pod("a"))
    kube.ok("PATCH", pods(space, "a"), {"metadata": {"labels": {"l": "1"}}}, MERGE)
    kube.ok("DELETE", pods(space, "a"))
    with kube.watch(pods(space), resourceVersion=version) as watch:
        assert watch.take(4) == [("ADDED", "a"), ("MODIFIED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_watch_without_version_begins_with_what_is_there(kube: Kube, space: str) -> None:
    kube.ok("POST", pods(space), pod("a"))
    with kube.watch(pods(space)) as watch:
        assert watch.take(1) == [("ADDED", "a")]
        kube.ok("POST", pods(space), pod("b"))
        event = watch.next()
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "b")
        assert (event["object"]["kind"], event["object"]["apiVersion"]) == ("Pod", "v1")


def test_a_deleted_event_has_a_newer_version(kube: Kube, space: str) -> None:
    made = kube.ok("POST", pods(space), pod("a"))
    with kube.watch(pods(space), resourceVersion=made["metadata"]["resourceVersion"]) as watch:
        kube.ok("DELETE", pods(space, "a"))
        ending, event = watch.next(), watch.next()
        assert ending["object"]["metadata"]["deletionTimestamp"]
        assert event["type"] == "DELETED"
        assert int(event["object"]["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])


def test_watch_with_a_selector_shows_entering_and_leaving(kube: Kube, space: str) -> None:
    version = kube.ok("GET", pods(space))["metadata"]["resourceVersion"]
    with kube.watch(pods(space), resourceVersion=version, labelSelector="l=1") as watch:
        kube.ok("POST", pods(space), pod("a"))
        kube.ok("PATCH", pods(space, "a"), {"metadata": {"labels": {"l": "1"}}}, MERGE)
        kube.ok("PATCH", pods(space, "a"), {"metadata": {"labels": {"l": "2"}}}, MERGE)
        assert watch.take(2) == [("ADDED", "a"), ("DELETED", "a")]


def test_watch_of_one_object_by_field(kube: Kube, space: str) -> None:
    version = kube.ok("GET", pods(space))["metadata"]["resourceVersion"]
    with kube.watch(pods(space), resourceVersion=version, fieldSelector="metadata.name=b") as watch:
        kube.ok("POST", pods(space), pod("a"))
        kube.ok("POST", pods(space), pod("b"))
        assert watch.take(1) == [("ADDED", "b")]


def test_watch_ends_after_its_time_with_a_bookmark(kube: Kube, space: str) -> None:
    kube.ok("POST", pods(space), pod("a"))
    version = kube.ok("GET", pods(space))["metadata"]["resourceVersion"]
    with kube.watch(pods(space), resourceVersion=version, timeoutSeconds=3, allowWatchBookmarks="true") as watch:
        events = list(iter(watch.next, None))
    assert {event["type"] for event in events} <= {"BOOKMARK"}
    for event in events:
        assert event["object"]["kind"] == "Pod"
        assert int(event["object"]["metadata"]["resourceVersion"]) >= int(version)


def test_watch_from_too_far_back_is_410(kube: Kube, space: str) -> None:
    with kube.watch(pods(space), resourceVersion=1, timeoutSeconds=5) as watch:
        event = watch.next()
    if event is None or event["type"] != "ERROR":
        pytest.skip("this server still has its whole history")
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


# Status.


def test_status_is_written_apart(kube: Kube, space: str) -> None:
    made = kube.ok("POST", pods(space), pod("a") | {"status": {"phase": "Running"}})
    assert made["status"]["phase"] == "Pending"
    main = kube.ok("PATCH", pods(space, "a"), {"status": {"phase": "Running"}}, MERGE)
    assert main["status"]["phase"] == "Pending"
    change = {"status": {"phase": "Running"}, "spec": {"priority": 5}, "metadata": {"annotations": {"k": "v"}}}
    written = kube.ok("PATCH", pods(space, "a", "status"), change, MERGE)
    assert written["status"]["phase"] == "Running"
    assert written["spec"]["priority"] == 0
    replaced = kube.ok("PUT", pods(space, "a", "status"), {**written, "status": {"phase": "Succeeded"}})
    assert replaced["status"]["phase"] == "Succeeded"
    assert kube.ok("GET", pods(space, "a", "status"))["status"]["phase"] == "Succeeded"


def test_a_node_brings_its_status(kube: Kube) -> None:
    name = f"node-{next(_number)}"
    capacity = {"cpu": "0.5", "memory": "1024Mi", "volcano.sh/vgpu-number": "10"}
    made = kube.ok("POST", "/api/v1/nodes", {"metadata": {"name": name}, "status": {"capacity": capacity}})
    assert made["status"]["capacity"] == {"cpu": "500m", "memory": "1Gi", "volcano.sh/vgpu-number": "10"}
    assert made["status"]["allocatable"] == made["status"]["capacity"]


# Pods: defaults, validation, what may change.


def test_limits_become_requests(kube: Kube, space: str) -> None:
    made = kube.ok("POST", pods(space), pod("a", **{"volcano.sh/vgpu-number": "1", "cpu": "0.5", "memory": "1024Mi"}))
    resources = made["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"volcano.sh/vgpu-number": "1", "cpu": "500m", "memory": "1Gi"}
    assert resources["limits"] == resources["requests"]


def test_pod_defaults(kube: Kube, space: str) -> None:
    made = kube.ok("POST", pods(space), pod("a"))
    spec, container = made["spec"], made["spec"]["containers"][0]
    wanted = {
        "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30, "securityContext": {}, "enableServiceLinks": True, "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }  # fmt: skip
    assert {key: spec[key] for key in wanted} == wanted
    assert (container["imagePullPolicy"], container["terminationMessagePath"]) == (
        "IfNotPresent",
        "/dev/termination-log",
    )
    assert (made["status"]["phase"], made["status"]["qosClass"]) == ("Pending", "BestEffort")


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        ({"volcano.sh/vgpu-memory": "1.5"}, 422), ({"volcano.sh/vgpu-memory": "-1"}, 422), ({"cpu": "lots"}, 400),
        ({"volcano.sh/vgpu-memory": "5k"}, 201), ({"cpu": ""}, 400), ({"memory": "1Zi"}, 400),
    ],
)  # fmt: skip
def test_quantities(kube: Kube, space: str, limits: dict[str, str], status: int) -> None:
    assert kube.ask("POST", pods(space), pod("a", **limits))[0] == status


def test_extended_resources_need_equal_request_and_limit(kube: Kube, space: str) -> None:
    body = pod("a", **{"volcano.sh/vgpu-number": "2"})
    body["spec"]["containers"][0]["resources"]["requests"] = {"volcano.sh/vgpu-number": "1"}
    message = kube.refused("POST", pods(space), body)[2]
    assert 'resources.requests: Invalid value: "1": must be equal to volcano.sh/vgpu-number limit of 2' in message


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "x"}]}, "spec.containers[1].name"),
        ({"containers": [{"name": "a"}]}, "spec.containers[0].image"),
        ({"containers": [{"image": "x"}]}, "spec.containers[0].name"),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy"),
    ],
)
def test_pod_validation_names_the_field(kube: Kube, space: str, change: dict[str, Any], field: str) -> None:
    body = pod("a")
    body["spec"] |= change
    status, answer = kube.ask("POST", pods(space), body)
    assert (status, answer["reason"]) == (422, "Invalid")
    assert field in [cause["field"] for cause in answer["details"]["causes"]]


def test_a_pods_spec_stands(kube: Kube, space: str) -> None:
    kube.ok("POST", pods(space), pod("a"))
    status, reason, message = kube.refused("PATCH", pods(space, "a"), {"spec": {"nodeName": "n"}}, MERGE)
    assert (status, reason) == (422, "Invalid")
    assert "pod updates may not change fields other than" in message
    image = {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}
    assert kube.ok("PATCH", pods(space, "a"), image, STRATEGIC)["spec"]["containers"][0]["image"] == "app:2"


def test_scheduling_gates_only_go(kube: Kube, space: str) -> None:
    body = pod("a")
    body["spec"]["schedulingGates"] = [{"name": "x.example/wait"}]
    kube.ok("POST", pods(space), body)
    more = {"spec": {"schedulingGates": [{"name": "x.example/more"}]}}
    assert kube.refused("PATCH", pods(space, "a"), more, STRATEGIC)[0] == 422
    assert (
        "schedulingGates" not in kube.ok("PATCH", pods(space, "a"), {"spec": {"schedulingGates": None}}, MERGE)["spec"]
    )


# Binding and eviction.


def binding(name: str, node: str, **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **meta},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }  # fmt: skip


def test_binding_sets_node_annotations_and_condition(kube: Kube, space: str) -> None:
    body = pod("a")
    body["metadata"]["annotations"] = {"old": "1"}
    made = kube.ok("POST", pods(space), body)
    meta = {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}
    status, answer = kube.ask("POST", pods(space, "a", "binding"), binding("a", "n1", annotations={"new": "2"}, **meta))
    assert (status, answer["status"]) == (201, "Success")
    bound = kube.ok("GET", pods(space, "a"))
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"old": "1", "new": "2"}
    condition = next(item for item in bound["status"]["conditions"] if item["type"] == "PodScheduled")
    assert condition["status"] == "True"


def test_binding_refusals(kube: Kube, space: str) -> None:
    assert kube.refused("POST", pods(space, "a", "binding"), binding("a", "n1"))[:2] == (404, "NotFound")
    made = kube.ok("POST", pods(space), pod("a"))
    path = pods(space, "a", "binding")
    assert kube.refused("POST", path, binding("a", "n1", uid="other"))[:2] == (409, "Conflict")
    kube.ok("PATCH", pods(space, "a"), {"metadata": {"labels": {"l": "1"}}}, MERGE)
    stale = binding("a", "n1", resourceVersion=made["metadata"]["resourceVersion"])
    assert kube.refused("POST", path, stale)[:2] == (409, "Conflict")
    assert "nodeName" not in kube.ok("GET", pods(space, "a"))["spec"]
    kube.ok("POST", path, binding("a", "n1"))
    assert kube.refused("POST", path, binding("a", "n2")) == (
        409, "Conflict",
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"',
    )  # fmt: skip


def test_binding_of_gated_and_ending_pods_is_refused(kube: Kube, space: str) -> None:
    gated = pod("gated")
    gated["spec"]["schedulingGates"] = [{"name": "x.example/wait"}]
    kube.ok("POST", pods(space), gated)
    assert kube.refused("POST", pods(space, "gated", "binding"), binding("gated", "n"))[:2] == (409, "Conflict")
    ending = pod("ending")
    ending["metadata"]["finalizers"] = ["x.example/wait"]
    kube.ok("POST", pods(space), ending)
    kube.ok("DELETE", pods(space, "ending"))
    assert kube.refused("POST", pods(space, "ending", "binding"), binding("ending", "n"))[:2] == (409, "Conflict")


def test_binding_dry_run(kube: Kube, space: str) -> None:
    kube.ok("POST", pods(space), pod("a"))
    kube.ok("POST", pods(space, "a", "binding"), binding("a", "n1"), dryRun="All")
    assert "nodeName" not in kube.ok("GET", pods(space, "a"))["spec"]


def test_eviction(kube: Kube, space: str) -> None:
    kube.ok("POST", pods(space), pod("a"))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    assert kube.ask("POST", pods(space, "a", "eviction"), body)[0] == 201
    assert kube.ask("GET", pods(space, "a"))[0] == 404
    assert kube.ask("POST", pods(space, "a", "eviction"), body)[0] == 404


# Priority classes.


def test_priority_comes_from_the_class(kube: Kube, space: str) -> None:
    name = f"class-{next(_number)}"
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    made = kube.ok("POST", classes, {"metadata": {"name": name}, "value": 1000, "preemptionPolicy": "Never"})
    assert made["value"] == 1000
    body = pod("a")
    body["spec"]["priorityClassName"] = name
    spec = kube.ok("POST", pods(space), body)["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
    body = pod("b")
    body["spec"]["priorityClassName"] = "no-such-class"
    assert kube.refused("POST", pods(space), body) == (
        403, "Forbidden", 'pods "b" is forbidden: no PriorityClass with name no-such-class was found',
    )  # fmt: skip
    assert kube.refused("PATCH", f"{classes}/{name}", {"value": 5}, MERGE)[0] == 422
    too_high = {"metadata": {"name": "too-high"}, "value": 1_000_000_001}
    assert kube.refused("POST", classes, too_high)[0] in (403, 422)


# Quotas.


def test_quota_refuses_what_exceeds_it(kube: Kube, space: str) -> None:
    quotas = f"/api/v1/namespaces/{space}/resourcequotas"
    hard = {"requests.volcano.sh/vgpu-number": "2", "pods": "5"}
    kube.ok("POST", quotas, {"metadata": {"name": "limits"}, "spec": {"hard": hard}})
    zero = {"status": {"hard": hard, "used": {"requests.volcano.sh/vgpu-number": "0", "pods": "0"}}}
    kube.ok("PATCH", f"{quotas}/limits/status", zero, MERGE)  # a real server waits for its controller to write this
    kube.ok("POST", pods(space), pod("a", **{"volcano.sh/vgpu-number": "1"}))
    found = _settled_quota(kube, f"{quotas}/limits")
    assert found["status"]["used"] == {"requests.volcano.sh/vgpu-number": "1", "pods": "1"}
    assert kube.refused("POST", pods(space), pod("b", **{"volcano.sh/vgpu-number": "2"})) == (
        403, "Forbidden",
        'pods "b" is forbidden: exceeded quota: limits, requested: requests.volcano.sh/vgpu-number=2, '
        "used: requests.volcano.sh/vgpu-number=1, limited: requests.volcano.sh/vgpu-number=2",
    )  # fmt: skip
    kube.ok("POST", pods(space), pod("c"))


def _settled_quota(kube: Kube, path: str) -> Any:
    for _ in range(50):
        found = kube.ok("GET", path)
        if found.get("status", {}).get("used", {}).get("pods") == "1":
            return found
    return found


# Scale.


def test_scale_of_a_replica_set(kube: Kube, space: str) -> None:
    sets = f"/apis/apps/v1/namespaces/{space}/replicasets"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = kube.ok("POST", sets, {"metadata": {"name": "r"}, "spec": spec})
    assert made["metadata"]["generation"] == 1
    scale = kube.ok("GET", f"{sets}/r/scale")
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 1})
    assert scale["status"]["selector"] == "a=b"
    scale["spec"]["replicas"] = 3
    assert kube.ok("PUT", f"{sets}/r/scale", scale)["spec"] == {"replicas": 3}
    kube.ok("PATCH", f"{sets}/r/scale", {"spec": {"replicas": 4}}, MERGE)
    found = kube.ok("GET", f"{sets}/r")
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (4, 3)
    assert kube.refused("PATCH", f"{sets}/r/scale", {"spec": {"replicas": -1}}, MERGE)[0] == 422


# Tables.


def columns(table: Any) -> list[str]:
    return [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0]


def test_tables_of_core_kinds(kube: Kube, space: str) -> None:
    kube.ok("POST", pods(space), pod("a"))
    _, table = kube.ask("GET", pods(space), accept=TABLE)
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert columns(table) == ["Name", "Ready", "Status", "Restarts", "Age"]
    assert table["rows"][0]["cells"][:3] == ["a", "0/1", "Pending"]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    _, table = kube.ask("GET", pods(space, "a"), accept=TABLE, includeObject="Object")
    assert table["rows"][0]["object"]["kind"] == "Pod"
    wanted = {
        "/api/v1/nodes": ["Name", "Status", "Roles", "Age", "Version"],
        "/api/v1/namespaces": ["Name", "Status", "Age"],
        maps(space): ["Name", "Data", "Age"],
        f"/api/v1/namespaces/{space}/secrets": ["Name", "Type", "Data", "Age"],
        f"/api/v1/namespaces/{space}/events": ["Last Seen", "Type", "Reason", "Object", "Message"],
        f"/api/v1/namespaces/{space}/services": ["Name", "Type", "Cluster-IP", "External-IP", "Port(s)", "Age"],
        f"/api/v1/namespaces/{space}/resourcequotas": ["Name", "Request", "Limit", "Age"],
        "/apis/scheduling.k8s.io/v1/priorityclasses": ["Name", "Value", "Global-Default", "Age", "PreemptionPolicy"],
        f"/apis/apps/v1/namespaces/{space}/replicasets": ["Name", "Desired", "Current", "Ready", "Age"],
        f"/apis/apps/v1/namespaces/{space}/statefulsets": ["Name", "Ready", "Age"],
        f"/apis/batch/v1/namespaces/{space}/jobs": ["Name", "Status", "Completions", "Duration", "Age"],
        f"/apis/coordination.k8s.io/v1/namespaces/{space}/leases": ["Name", "Holder", "Age"],
    }
    assert {path: columns(kube.ask("GET", path, accept=TABLE)[1]) for path in wanted} == wanted


def test_a_watch_of_tables(kube: Kube, space: str) -> None:
    kube.ok("POST", pods(space), pod("a"))
    with kube.watch(pods(space), accept=TABLE) as watch:
        first = watch.next()
        kube.ok("POST", pods(space), pod("b"))
        second = watch.next()
    assert (first["type"], first["object"]["kind"]) == ("ADDED", "Table")
    assert columns(first["object"])
    assert second["object"]["columnDefinitions"] is None or not second["object"]["columnDefinitions"]
    assert second["object"]["rows"][0]["cells"][0] == "b"


def test_an_unknown_form_of_answer_falls_back(kube: Kube, space: str) -> None:
    _, found = kube.ask("GET", pods(space), accept="application/json;as=Table;v=v1;g=meta.k8s.io,application/json")
    assert found["kind"] == "Table"
    _, found = kube.ask("GET", pods(space), accept="application/json")
    assert found["kind"] == "PodList"


# Discovery.


def test_discovery(kube: Kube) -> None:
    assert kube.ok("GET", "/api")["versions"] == ["v1"]
    resources = {item["name"]: item for item in kube.ok("GET", "/api/v1")["resources"]}
    assert resources["pods"]["shortNames"] == ["po"]
    assert resources["pods"]["namespaced"] is True
    assert set(resources["pods"]["verbs"]) == {
        "create", "delete", "deletecollection", "get", "list", "patch", "update", "watch",
    }  # fmt: skip
    assert {"pods/status", "pods/binding", "pods/eviction", "pods/log"} <= set(resources)
    groups = {group["name"]: group for group in kube.ok("GET", "/apis")["groups"]}
    assert groups["apps"]["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
    assert kube.ok("GET", "/apis/apps")["kind"] == "APIGroup"
    apps = {item["name"]: item for item in kube.ok("GET", "/apis/apps/v1")["resources"]}
    assert (apps["replicasets/scale"]["group"], apps["replicasets/scale"]["kind"]) == ("autoscaling", "Scale")


def test_aggregated_discovery(kube: Kube) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    _, found = kube.ask("GET", "/api", accept=accept)
    assert found["kind"] == "APIGroupDiscoveryList"
    resources = {item["resource"]: item for item in found["items"][0]["versions"][0]["resources"]}
    assert resources["pods"]["responseKind"]["kind"] == "Pod"
    assert resources["nodes"]["scope"] == "Cluster"
    _, found = kube.ask("GET", "/apis", accept=accept)
    assert "apps" in [item["metadata"]["name"] for item in found["items"]]


def test_version_health_and_openapi(kube: Kube) -> None:
    assert kube.ok("GET", "/version")["major"] == "1"
    for path in ("/healthz", "/readyz", "/livez"):
        assert kube.send("GET", path) == (200, b"ok")
    paths = kube.ok("GET", "/openapi/v3")["paths"]
    document = kube.ok("GET", paths["api/v1"]["serverRelativeURL"])
    operation = document["paths"]["/api/v1/namespaces/{namespace}/pods/{name}"]["patch"]
    assert "fieldValidation" in [parameter["name"] for parameter in operation["parameters"]]
    assert operation["x-kubernetes-group-version-kind"]["kind"] == "Pod"
    kinds = [
        item["kind"]
        for schema in document["components"]["schemas"].values()
        for item in schema.get("x-kubernetes-group-version-kind", [])
    ]
    assert "Pod" in kinds


# Custom resources.

CRDS = Path(__file__).parents[2] / "deploy" / "crds"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


@pytest.fixture(scope="module")
def volcano(kube: Kube) -> Kube:
    """The server with the custom resources of the batch system; a real one is given their definitions."""
    if kube.send("GET", QUEUES)[0] == 200:
        return kube
    for path in sorted(CRDS.glob("*.yaml")):
        body = yaml.safe_load(path.read_text())
        kube.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    for path in (QUEUES, "/apis/scheduling.volcano.sh/v1beta1/podgroups", "/apis/batch.volcano.sh/v1alpha1/jobs"):
        for _ in range(2000):
            if kube.send("GET", path)[0] == 200:
                break
    return kube


def groups(space: str, name: str = "", sub: str = "") -> str:
    path = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{space}/podgroups"
    return path + (f"/{name}" if name else "") + (f"/{sub}" if sub else "")


def group(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def test_custom_resources_are_defaulted_and_counted(volcano: Kube, space: str) -> None:
    made = volcano.ok("POST", groups(space), group("g", minMember=2) | {"status": {"phase": "Running"}})
    assert made["spec"] == {"minMember": 2, "queue": "default"}
    assert "status" not in made
    assert made["metadata"]["generation"] == 1
    changed = volcano.ok("PATCH", groups(space, "g"), {"spec": {"minMember": 3}}, MERGE)
    assert changed["metadata"]["generation"] == 2
    labelled = volcano.ok("PATCH", groups(space, "g"), {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert labelled["metadata"]["generation"] == 2
    name = f"queue-{next(_number)}"
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": {}}
    spec = volcano.ok("POST", QUEUES, body)["spec"]
    wanted = {"weight": 1, "reclaimable": True, "priority": 0, "dequeueStrategy": "traverse"}
    assert {key: spec[key] for key in wanted} == wanted


def test_quantities_of_custom_resources_stay_as_written(volcano: Kube, space: str) -> None:
    amounts = {"volcano.sh/vgpu-memory": 6000, "cpu": "0.5", "memory": "1024Mi"}
    assert (
        volcano.ok("POST", groups(space), group("g", minMember=1, minResources=amounts))["spec"]["minResources"]
        == amounts
    )


def test_custom_resources_take_no_strategic_patch_and_no_blind_update(volcano: Kube, space: str) -> None:
    made = volcano.ok("POST", groups(space), group("g", minMember=1))
    assert volcano.refused("PATCH", groups(space, "g"), {}, STRATEGIC)[0] == 415
    status, reason, message = volcano.refused("PUT", groups(space, "g"), group("g", minMember=2))
    assert (status, reason) == (422, "Invalid")
    assert "must be specified for an update" in message
    made["spec"]["minMember"] = 2
    assert volcano.ok("PUT", groups(space, "g"), made)["spec"]["minMember"] == 2


def test_status_of_custom_resources(volcano: Kube, space: str) -> None:
    volcano.ok("POST", groups(space), group("g", minMember=1))
    change = {"status": {"phase": "Inqueue"}, "spec": {"minMember": 9}, "metadata": {"labels": {"a": "b"}}}
    written = volcano.ok("PATCH", groups(space, "g", "status"), change, MERGE)
    assert (written["status"], written["spec"]["minMember"]) == ({"phase": "Inqueue"}, 1)
    assert "labels" not in written["metadata"]
    assert written["metadata"]["generation"] == 1
    assert volcano.ok("PATCH", groups(space, "g"), {"status": None}, MERGE)["status"] == {"phase": "Inqueue"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minMember": "two"}, "spec.minMember"), ({"minMember": -1}, "spec.minMember"), ({"queue": 5}, "spec.queue"),
        ({"minResources": {"cpu": "lots"}}, "spec.minResources"), ({"minResources": []}, "spec.minResources"),
    ],
)  # fmt: skip
def test_wrong_custom_resources_are_422(volcano: Kube, space: str, spec: dict[str, Any], field: str) -> None:
    status, answer = volcano.ask("POST", groups(space), group("g", **spec))
    assert (status, answer["reason"]) == (422, "Invalid")
    assert answer["details"]["causes"][0]["field"].startswith(field)


def test_tables_of_custom_resources(volcano: Kube, space: str) -> None:
    jobs = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{space}/jobs"
    volcano.ok("POST", groups(space), group("g", minMember=2))
    wanted = {
        groups(space): ["Name", "STATUS", "minMember", "RUNNINGS", "AGE", "QUEUE"],
        jobs: ["Name", "STATUS", "minAvailable", "RUNNINGS", "AGE", "QUEUE"],
        QUEUES: ["Name", "PARENT", "STATE", "WEIGHT", "INQUEUE", "PENDING", "RUNNING", "UNKNOWN", "AGE"],
    }
    assert {path: columns(volcano.ask("GET", path, accept=TABLE)[1]) for path in wanted} == wanted
    row = volcano.ask("GET", groups(space), accept=TABLE)[1]["rows"][0]["cells"]
    assert (row[0], row[1], row[2], row[5]) == ("g", None, 2, "default")


def test_items_of_custom_lists_carry_their_type(volcano: Kube, space: str) -> None:
    volcano.ok("POST", groups(space), group("g", minMember=1))
    found = volcano.ok("GET", groups(space))
    assert (found["kind"], found["items"][0]["kind"]) == ("PodGroupList", "PodGroup")


def test_custom_watch(volcano: Kube, space: str) -> None:
    version = volcano.ok("GET", groups(space))["metadata"]["resourceVersion"]
    with volcano.watch(groups(space), resourceVersion=version) as watch:
        volcano.ok("POST", groups(space), group("g", minMember=1))
        volcano.ok("DELETE", groups(space, "g"))
        assert watch.take(2) == [("ADDED", "g"), ("DELETED", "g")]
