"""Hostile input: whatever is sent, the answer is a Status or an object, and one bad object stops nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from support.kube_wire import EmbeddedServer, Kube

from adapters.clock import ManualClock
from events.kinds import ALL_KINDS, CONFIG_MAP, POD, RESOURCE_QUOTA, Kind
from services.cluster import schema, tables
from services.cluster.admission import admission_chain
from services.cluster.cluster import EmbeddedCluster
from services.cluster.patches import APPLY_PATCH, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from services.cluster.routes import Request, subresources
from services.cluster.store import derived_uid

START_MS = 1_767_225_600_000
QUICK = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])

odd_text = st.one_of(
    st.text(max_size=8),
    st.sampled_from(
        ["", "a", "default", "-1", "NaN", "1e999", "٣", "\x00", "‮", "\ud800", "5k", "Open", "root", "true"]
    ),
)
odd_number = st.one_of(st.integers(-(2**70), 2**70), st.floats(allow_nan=False, allow_infinity=False))
odd_leaf = st.one_of(st.none(), st.booleans(), odd_number, odd_text)
odd_value = st.recursive(
    odd_leaf, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(odd_text, inner, max_size=3)),
    max_leaves=8,
)  # fmt: skip


@st.composite
def typed(draw: st.DrawFn, type_: str, depth: int) -> Any:
    """Draw a value that is nearly of a type of the schema: mostly right, sometimes anything."""
    if depth > 6 or draw(st.integers(0, 11)) == 0:
        return draw(odd_value)
    if type_.startswith("&"):
        fields = sorted(schema.definitions()[type_[1:]].items())
        chosen = draw(st.lists(st.sampled_from(fields), max_size=5, unique_by=lambda field: field[0])) if fields else []
        return {name: draw(typed(inner, depth + 1)) for name, inner in chosen}
    if type_.startswith("[]"):
        return [draw(typed(type_[2:], depth + 1)) for _ in range(draw(st.integers(0, 2)))]
    if type_.startswith("{}"):
        return {draw(odd_text): draw(typed(type_[2:], depth + 1)) for _ in range(draw(st.integers(0, 2)))}
    plain: dict[str, st.SearchStrategy[Any]] = {
        "string": odd_text, "integer": st.integers(-3, 70000), "boolean": st.booleans(), "number": odd_number,
        "quantity": st.one_of(st.sampled_from(["1", "500m", "1Gi", "-1", "x", "1.5"]), odd_number),
    }  # fmt: skip
    return draw(plain.get(type_, odd_value))


@st.composite
def objects(draw: st.DrawFn) -> tuple[Kind, Any]:
    kind = draw(st.sampled_from(ALL_KINDS))
    item = draw(typed(f"&{schema.name_of(kind)}", 0))
    if isinstance(item, dict):
        item.pop("apiVersion", None)
        item.pop("kind", None)
        if draw(st.integers(0, 3)):
            meta = item.get("metadata")
            item["metadata"] = {**(meta if isinstance(meta, dict) else {}), "name": "a"}
            item["metadata"].pop("namespace", None)
        if kind == POD and draw(st.booleans()):
            spec = item.get("spec")
            containers = [{"name": "c", "image": "x"}, *([draw(typed("&Container", 2))] if draw(st.booleans()) else [])]
            item["spec"] = {**(spec if isinstance(spec, dict) else {}), "containers": containers}
    return kind, item


def cluster() -> EmbeddedCluster:
    return EmbeddedCluster(ManualClock(START_MS), derived_uid, admission=admission_chain())


def path(kind: Kind, name: str = "", sub: str = "") -> str:
    return kind.path("default", name, sub)


def judged(embedded: EmbeddedCluster, request: Request) -> int:
    """Return the status of the answer, which is well-formed and no server error."""
    response = embedded.api.handle(request)
    assert response.status < 500, response.body
    if response.status >= 400:
        assert response.body["kind"] == "Status"
        assert response.body["message"]
    return response.status


@QUICK
@given(made=objects(), changed=objects(), content_type=st.sampled_from([MERGE_PATCH, STRATEGIC_PATCH, JSON_PATCH]))
def test_writes_of_anything(made: tuple[Kind, Any], changed: tuple[Kind, Any], content_type: str) -> None:
    embedded = cluster()
    kind, item = made
    judged(embedded, Request("POST", path(kind), body=item))
    judged(embedded, Request("POST", path(kind), {"fieldValidation": "Strict"}, item, as_written=True))
    judged(embedded, Request("PATCH", path(kind, "a"), {"fieldManager": "x"}, item, APPLY_PATCH))
    change = changed[1]
    judged(embedded, Request("PATCH", path(kind, "a"), {}, change, content_type))
    judged(embedded, Request("PUT", path(kind, "a"), {}, change))
    for sub in subresources(kind):
        for method in ("GET", "PUT", "PATCH", "POST"):
            judged(embedded, Request(method, path(kind, "a", sub), {}, change, content_type))
    judged(embedded, Request("DELETE", path(kind, "a"), {}, change))
    judged(embedded, Request("DELETE", path(kind)))


@QUICK
@example(raw=(POD, {"metadata": {"uid": []}}), changed=(POD, None))
@given(raw=objects(), changed=objects())
def test_an_object_past_the_door_stops_nothing(raw: tuple[Kind, Any], changed: tuple[Kind, Any]) -> None:
    embedded = cluster()
    kind, item = raw
    if not isinstance(item, dict):
        return
    meta = item.get("metadata")
    item["metadata"] = {**(meta if isinstance(meta, dict) else {}), "name": "a", "namespace": "default"}
    if not kind.namespaced:
        del item["metadata"]["namespace"]
    embedded.put({**item, "apiVersion": kind.api_version, "kind": kind.name})
    quota = {"metadata": {"name": "q"}, "spec": {"hard": {"pods": 9, "requests.volcano.sh/vgpu-number": 9, "cpu": 9}}}
    judged(embedded, Request("POST", path(RESOURCE_QUOTA), body=quota))
    found = embedded.api.handle(
        Request("GET", path(kind), {"labelSelector": "!zz", "fieldSelector": "metadata.name=a"})
    )
    assert found.status == 200
    table = tables.table(kind, embedded.api.handle(Request("GET", path(kind))).body, START_MS, "Object")
    assert table["rows"]
    judged(embedded, Request("PATCH", path(kind, "a"), {}, {"metadata": {"annotations": {"k": "v"}}}, MERGE_PATCH))
    judged(embedded, Request("PATCH", path(kind, "a"), {}, changed[1], MERGE_PATCH))
    judged(embedded, Request("PATCH", path(kind, "a"), {}, changed[1], STRATEGIC_PATCH))
    for sub in subresources(kind):
        judged(embedded, Request("PATCH", path(kind, "a", sub), {}, changed[1], MERGE_PATCH))
    bind = {"metadata": {"name": "a"}, "target": {"name": "n"}}
    judged(embedded, Request("POST", path(POD, "a", "binding"), body=bind))
    judged(embedded, Request("POST", path(POD, "a", "eviction"), {"dryRun": "All"}, {"metadata": {"name": "a"}}))
    judged(embedded, Request("GET", path(POD, "a", "log")))
    judged(embedded, Request("DELETE", path(kind, "a"), {"propagationPolicy": "Foreground"}))
    good = {"metadata": {"name": "b"}, "data": {}}
    assert judged(embedded, Request("POST", path(CONFIG_MAP), body=good)) == 201


@QUICK
@given(
    path=st.lists(st.one_of(odd_text, st.sampled_from(["api", "v1", "apis", "namespaces", "pods", "status"]))),
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "BREW"]),
    query=st.dictionaries(
        st.sampled_from(["limit", "continue", "labelSelector", "fieldSelector", "resourceVersion", "dryRun",
                         "resourceVersionMatch", "gracePeriodSeconds", "propagationPolicy"]), odd_text),
)  # fmt: skip
def test_requests_of_anything(path: list[str], method: str, query: dict[str, str]) -> None:
    response = cluster().api.handle(Request(method, "/" + "/".join(path), query, {}))
    assert response.status < 500 or (response.status == 504 and "resourceVersion" in query)
    response = cluster().api.handle(Request(method, "/api/v1/namespaces/default/pods", query, {}))
    assert response.status < 500 or (response.status == 504 and "resourceVersion" in query)


BODIES = [
    (b"", 400), (b"[" * 100_000, 400), (b'{"a":' * 5000 + b"1" + b"}" * 5000, 400), (b'{"metadata":{"name":NaN}}', 400),
    (b'{"metadata":{"name":"a"},"x":1e999}', 400), (b'{"x":' + b"9" * 5000 + b"}", 400), (b"\xff\xfe", 400),
    (b"null", 400), (b'"text"', 400), (b"[]", 400), (b'{"metadata":"x"}', 400), (b'{"metadata":{"name":5}}', 400),
    (b'{"metadata":{"name":"a","labels":{"k":{}}}}', 400), (b'{"data":{"k":"' + b"x" * 3_200_000 + b'"}}', 413),
    (b'{"metadata":{"name":"a"},"data":{"k":"' + b"x" * 1_100_000 + b'"}}', 422),
    (b'{"metadata":{"name":"\\ud800"}}', 422), (b'{"metadata":{"name":"a\\u0000"}}', 422),
]  # fmt: skip
YAMLS = [
    b"a: &a [x]\nb: *a", b"a: !!python/object:os.system {}", b"? [a]\n: b", b"a: .nan", b"{a: b", b"- " * 3000 + b"x",
    b"\x00", b"a: &a [*a]",
]  # fmt: skip


@pytest.fixture(scope="module")
def kube() -> Any:
    with EmbeddedServer() as server:
        yield Kube(server.address)


@pytest.mark.parametrize(("data", "status"), BODIES, ids=range(len(BODIES)))
def test_bodies(kube: Kube, data: bytes, status: int) -> None:
    assert kube.send("POST", "/api/v1/namespaces/default/configmaps", data)[0] == status


@pytest.mark.parametrize("data", YAMLS, ids=range(len(YAMLS)))
def test_yaml_bodies(kube: Kube, data: bytes) -> None:
    status, _ = kube.send("POST", "/api/v1/namespaces/default/configmaps", data, "application/yaml")
    assert status in (400, 422)


@QUICK
@given(data=st.binary(max_size=60))
def test_protobuf_bodies(kube: Kube, data: bytes) -> None:
    for prefix in (b"", b"k8s\x00", b"k8s\x00\n\x0f\n\x02v1\x12\x09ConfigMap\x12\x10"):
        status, _ = kube.send("POST", "/api/v1/namespaces/default/configmaps", prefix + data,
                              "application/vnd.kubernetes.protobuf")  # fmt: skip
        assert status in (201, 400, 409, 415, 422)


PATHS = [
    "/%zz", "/api/v1/namespaces/%2e%2e/pods", "/api//v1", "/openapi/v3/none", "/apis/x/y/z",
    "/api/v1/pods?watch=1&resourceVersion=x", "/api/v1/pods?watch=1&labelSelector=a+in",
]  # fmt: skip


@pytest.mark.parametrize("where", PATHS)
def test_paths(kube: Kube, where: str) -> None:
    status, _ = kube.send("GET", where)
    assert 400 <= status < 500 or where.startswith("/api/v1/namespaces")
