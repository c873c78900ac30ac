"""The same random requests to the embedded cluster and to a real kube-apiserver: the answers are alike.

Alike but for uids, times and versions, and for what ``DIFFERENT`` names. Seeds are fixed, so a difference comes again.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from parts.kube import TOKEN, KubeApiServer
from support.kube_objects import config, fresh, group, groups, maps, pod, pods
from support.kube_wire import JSON_PATCH, MERGE, STRATEGIC, TABLE, EmbeddedServer, Kube, with_crds

Json = dict[str, Any]

REQUESTS: Final = 150
#: What differs and may: these tolerations come from an admission step that says when a pod leaves a lost node.
DIFFERENT: Final = ("not-ready", "unreachable")
_OWN: Final = {"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "lastTransitionTime", "continue"}
_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass
class Asked:
    """One request; ``body`` is made from the object as the server has it, which is empty if there is none."""

    method: str
    path: str
    body: Callable[[Json], Any] = field(default=lambda _: None)
    content_type: str = "application/json"
    accept: str = "application/json"
    query: dict[str, str] = field(default_factory=dict)


class Requests:
    """Requests from a seed, about a few names in one namespace."""

    def __init__(self, seed: int, space: str) -> None:
        self._random, self._space = random.Random(seed), space

    def next(self) -> Asked:
        form = self._pick(self._create, self._create, self._put, self._patch, self._patch, self._delete, self._bind,
                          self._evict, self._get, self._list)  # fmt: skip
        asked: Asked = form(self._pick("pods", "pods", "configmaps", "podgroups"), self._pick("a", "b", "c"))
        if asked.method in ("POST", "PUT", "PATCH") and self._random.random() < 0.1:
            asked.query["dryRun"] = "All"
        return asked

    def _pick(self, *choices: Any) -> Any:
        return self._random.choice(choices)

    def _path(self, kind: str, name: str = "", sub: str = "") -> str:
        if kind == "podgroups":
            return groups(self._space, name, sub)
        return pods(self._space, name, sub) if kind == "pods" else maps(self._space, name)

    def _new(self, kind: str, name: str) -> Json:
        labels = {"labels": {"app": self._pick("web", "db"), "tier": self._pick("x", "y")}} if self._pick(0, 1) else {}
        if kind == "podgroups":
            made = group(name, minMember=self._pick(0, 1, 3, -1), minResources=self._pick({}, {"cpu": "1"}, {"cpu": 2}))
        elif kind == "configmaps":
            made = config(name, k=self._pick("v", "w"))
        else:
            made = pod(name, **self._pick({}, {"cpu": "1"}, {"example.test/card": "2"}, {"memory": "0.5Gi"}))
            made["spec"] |= self._pick({}, {"schedulerName": "another"}, {"schedulingGates": [{"name": "a/b"}]})
        made["metadata"] |= labels | self._pick({}, {}, {"finalizers": ["example.test/f"]}, {"annotations": {"a": "b"}})
        return made

    def _create(self, kind: str, name: str) -> Asked:
        made = self._new(kind, self._pick(name, name, name, "Bad_Name"))
        made["metadata"] |= self._pick({}, {}, {}, {"labels": {"a b": "c"}})
        return Asked("POST", self._path(kind), lambda _: made, accept=self._pick("application/json", TABLE))

    def _put(self, kind: str, name: str) -> Asked:
        change = self._pick(
            {"metadata": {"labels": {"put": "1"}}}, {"data": {"k": "put"}}, {"spec": {"nodeName": "elsewhere"}},
            {"metadata": {"resourceVersion": "1"}}, {"metadata": {"uid": "another"}}, {"metadata": {"finalizers": []}},
            {"spec": {"minMember": 2}}, {"status": {"phase": "Running"}},
        )  # fmt: skip
        made = self._new(kind, name)
        if kind == "podgroups" and self._random.random() < 0.2:
            return Asked("PUT", self._path(kind, name), lambda _: made)  # without a version
        return Asked("PUT", self._path(kind, name), lambda now: _merged(now or made, change))

    def _patch(self, kind: str, name: str) -> Asked:
        type_, patch = self._pick(
            (MERGE, {"metadata": {"labels": {"app": None, "new": "1"}}}),
            (MERGE, {"metadata": {"annotations": {"a": ""}}}),
            (MERGE, {"metadata": {"resourceVersion": "1"}}),
            (MERGE, {"metadata": {"name": "other"}}),
            (MERGE, {"metadata": {"finalizers": None}}),
            (MERGE, {"data": {"k": None}, "unknown": 1}),
            (MERGE, {"spec": {"schedulingGates": None}}),
            (MERGE, {"spec": {"minMember": 4}}),
            (STRATEGIC, {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}),
            (STRATEGIC, {"spec": {"containers": [{"name": "more", "image": "app:2"}]}}),
            (STRATEGIC, {"spec": {"tolerations": [{"key": "t", "operator": "Exists"}]}}),
            (STRATEGIC, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.test/f"]}}),
            (JSON_PATCH, [{"op": "add", "path": "/metadata/labels", "value": {"json": "1"}}]),
            (JSON_PATCH, [{"op": "test", "path": "/metadata/name", "value": "a"}]),
            (JSON_PATCH, [{"op": "remove", "path": "/nope"}]),
            ("text/csv", {}),
        )
        if kind == "podgroups" and self._random.random() < 0.25:
            return Asked("PATCH", self._path(kind, name, "status"), lambda _: {"status": {"running": 1}}, MERGE)
        if kind == "pods" and self._random.random() < 0.25:
            ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            return Asked("PATCH", self._path(kind, name, "status"), lambda _: ready, STRATEGIC)
        return Asked("PATCH", self._path(kind, name), lambda _: patch, type_)

    def _delete(self, kind: str, name: str) -> Asked:
        options = self._pick(None, {}, {"uid": "another"}, {"resourceVersion": "1"}, "right")
        grace = self._pick({}, {}, {"gracePeriodSeconds": "0"})

        def body(now: Json) -> Any:
            wanted = {"uid": now.get("metadata", {}).get("uid", "none")} if options == "right" else options
            return None if wanted is None else {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": wanted}

        return Asked("DELETE", self._path(kind, name), body, query=grace)

    def _bind(self, _: str, name: str) -> Asked:
        wanted = self._pick({}, {"uid": "another"}, {"resourceVersion": "1"}, "right", "right")
        meta = {"name": self._pick(name, name, name, "other"), "annotations": {"bound": "1"}}

        def body(now: Json) -> Json:
            right = {key: now.get("metadata", {}).get(key, "1") for key in ("uid", "resourceVersion")}
            about = meta | (right if wanted == "right" else wanted)
            return {"apiVersion": "v1", "kind": "Binding", "metadata": about, "target": {"name": "n1"}}

        return Asked("POST", self._path("pods", name, "binding"), body)

    def _evict(self, _: str, name: str) -> Asked:
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": self._pick(name, "other")}}
        return Asked("POST", self._path("pods", name, "eviction"), lambda _: body)

    def _get(self, kind: str, name: str) -> Asked:
        partial = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
        return Asked("GET", self._path(kind, name), accept=self._pick("application/json", TABLE, partial))

    def _list(self, kind: str, _: str) -> Asked:
        query = self._pick(
            {}, {"labelSelector": "app=web"}, {"labelSelector": "app in (web,db),tier!=x"}, {"labelSelector": "!app"},
            {"labelSelector": "app in ("}, {"fieldSelector": "metadata.name=a"}, {"fieldSelector": "spec.nope=1"},
            {"limit": "1"}, {"limit": "2"}, {"continue": "nonsense"}, {"resourceVersion": "99999999"},
        )  # fmt: skip
        return Asked("GET", self._path(kind), accept=self._pick("application/json", TABLE), query=dict(query))


def _merged(item: Json, change: Json) -> Json:
    whole = json.loads(json.dumps(item))
    for part, fields in change.items():
        whole[part] = {**whole.get(part, {}), **fields}
    return dict(whole)


def _answer(kube: Kube, asked: Asked) -> tuple[int, Any]:
    """Send a request and return its answer without what is a server's own."""
    now: Json = {}
    if asked.method != "GET":
        path = re.sub("/(status|binding|eviction)$", "", asked.path)
        status, found = kube.ask("GET", path)
        now = found if status == 200 else {}
    body = asked.body(now)
    status, answer = kube.ask(asked.method, asked.path, body, asked.content_type, asked.accept, **asked.query)
    if status >= 400:
        kind = (answer.get("details") or {}).get("kind", "")
        causes = [
            (cause.get("field"), cause.get("reason")) for cause in (answer.get("details") or {}).get("causes", [])
        ]
        return status, (answer.get("reason"), kind, sorted(map(str, causes)))
    return status, _plain(answer)


def _plain(value: Any, key: str = "") -> Any:
    if isinstance(value, dict):
        kept = {name: _plain(inner, name) for name, inner in value.items() if name not in _OWN | {"managedFields"}}
        if "columnDefinitions" in kept:
            kept["columnDefinitions"] = [column["name"] for column in kept["columnDefinitions"]]
        return {
            name: inner for name, inner in kept.items() if inner is not None and (name, inner) != ("tolerations", [])
        }
    if isinstance(value, list):
        kept_items = [_plain(item, key) for item in value if not _differs_by_design(item)]
        return [re.sub(r"^\d+m?s$|<unknown>", "AGE", item) if isinstance(item, str) else item for item in kept_items]
    return _UID.sub("UID", value) if isinstance(value, str) else value


def _differs_by_design(item: Any) -> bool:
    return isinstance(item, dict) and str(item.get("key", "")).endswith(DIFFERENT)


@pytest.fixture(scope="module")
def servers(kube_server: KubeApiServer) -> Iterator[tuple[Kube, Kube]]:
    with EmbeddedServer() as embedded:
        yield with_crds(Kube(kube_server.address, TOKEN)), Kube(embedded.address)


@pytest.mark.parametrize("seed", range(3))
def test_both_answer_alike(servers: tuple[Kube, Kube], seed: int) -> None:
    space = fresh("alike")
    for kube in servers:
        kube.ok("POST", "/api/v1/namespaces", {"metadata": {"name": space}})
    requests = Requests(seed, space)
    try:
        for number in range(REQUESTS):
            asked = requests.next()
            real, embedded = (_answer(kube, asked) for kube in servers)
            assert embedded == real, f"request {number}: {asked.method} {asked.path} {asked.query} {asked.body({})}"
    finally:
        _clear(servers[0], space)


def _clear(kube: Kube, space: str) -> None:
    """Leave nothing to others who use the real server."""
    for path in (pods(space), maps(space), groups(space)):
        for item in kube.ok("GET", path)["items"]:
            one = f"{path}/{item['metadata']['name']}"
            kube.ok("PATCH", one, {"metadata": {"finalizers": None}}, MERGE)
            kube.ask("DELETE", one, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
