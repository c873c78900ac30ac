"""Reading, of any API server: lists, selectors, pages, watches, tables, discovery, OpenAPI.

It is asked of the embedded cluster and of a real kube-apiserver; where the two differ, the embedded one is wrong.
"""

from __future__ import annotations

import pytest
from support.kube_objects import columns, maps, pod, pods
from support.kube_wire import MERGE, TABLE, Kube

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


# Tables.


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
