"""The admission webhook: reviews in, verdicts and patches out (scheduling/J-1 to J-3, Q-5, AS-13)."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from adapters.cluster.port import ApiError, ApiUnknown, Page
from events.canonical import Json
from events.kinds import POD, POD_GROUP, QUEUE, VOLCANO_JOB, Kind
from services.controller.webhook import Webhook, difference

TEMPLATE = {"spec": {"containers": [{"name": "c", "image": "none"}]}}


class Api:
    """A cluster of queues; everything else is absent. ``down``: it does not answer."""

    def __init__(self, **states: str) -> None:
        names = {"root": "Open", "default": "Open", **states}
        self.queues = {name: {"metadata": {"name": name}, "status": {"state": state}} for name, state in names.items()}
        self.down = False

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        if self.down:
            raise ApiUnknown("no answer")
        if kind == QUEUE and name in self.queues:
            return self.queues[name]
        raise ApiError(404, "NotFound", f"{name} not found")

    async def list(self, kind: Kind, *, namespace: str = "", token: str = "") -> Page:
        names = sorted(self.queues)
        here = names.index(token) if token else 0
        after = names[here + 1] if here + 1 < len(names) else ""
        return Page([self.queues[names[here]]] if kind == QUEUE else [], "1", after)


def asked(kind: Kind, new: Json | None, old: Json | None = None, operation: str = "CREATE", sub: str = "") -> Json:
    resource = {"group": kind.group, "version": kind.version, "resource": kind.plural}
    return {"uid": "u", "resource": resource, "operation": operation, "subResource": sub, "object": new,
            "oldObject": old}  # fmt: skip


def hook(**states: str) -> Webhook:
    return Webhook(Api(**states))  # type: ignore[arg-type]  # the two verbs that it asks


def job(**spec: Any) -> Json:
    tasks = [{"name": "w", "replicas": 2, "template": TEMPLATE}]
    return {"metadata": {"name": "j", "namespace": "n"}, "spec": {"tasks": tasks, **spec}}


def applied(item: Json, patch: list[Json]) -> Json:
    made: Any = json.loads(json.dumps(item))
    for step in patch:
        *way, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
        place = made
        for part in way:
            place = place[int(part)] if isinstance(place, list) else place[part]
        place[int(last) if isinstance(place, list) else last] = step["value"]
    return made


async def test_a_job_is_completed_by_a_patch() -> None:
    """scheduling/J-1"""
    found = await hook().review(asked(VOLCANO_JOB, job()), patches=True)
    assert (found["allowed"], found["patchType"]) == (True, "JSONPatch")
    spec = applied(job(), json.loads(base64.b64decode(found["patch"])))["spec"]
    assert (spec["queue"], spec["minAvailable"], spec["maxRetry"]) == ("default", 2, 3)
    assert spec["tasks"][0]["minAvailable"] == 2


async def test_judging_alone_changes_nothing() -> None:
    """scheduling/J-1: the validating path has no patch"""
    assert await hook().review(asked(VOLCANO_JOB, job()), patches=False) == {"allowed": True}


@pytest.mark.parametrize(
    ("kind", "item", "text"),
    [
        (
            VOLCANO_JOB,
            job(queue="shut"),
            "can only submit job to queue with state `Open`, queue `shut` status is `Closed`;",
        ),
        (VOLCANO_JOB, job(queue="none"), 'unable to find job queue: queues.scheduling.volcano.sh "none" not found;'),
        (VOLCANO_JOB, job(tasks=[]), "No task specified in job spec"),
        (
            POD_GROUP,
            {"metadata": {"name": "g", "namespace": "n"}, "spec": {"queue": "shut"}},
            "can only submit PodGroup to queue with state `Open`, queue `shut` status is `Closed`.",
        ),
        (
            QUEUE,
            {"metadata": {"name": "q"}, "spec": {"deserved": {"cpu": "2"}, "capability": {"cpu": "1"}}},
            "deserved[cpu]=2 must be <= capability[cpu]=1",
        ),
        (
            POD,
            {
                "metadata": {"name": "p", "annotations": {"volcano.sh/jdb-min-available": "0"}},
                "spec": {"schedulerName": "gpuledger"},
            },
            'invalid value <"0"> for volcano.sh/jdb-min-available, it must be a positive integer',
        ),
    ],
)  # fmt: skip
async def test_refusals_have_the_known_texts(kind: Kind, item: Json, text: str) -> None:
    """scheduling/J-2, scheduling/AS-13, scheduling/Q-5"""
    for patches in (True, False):
        found = await hook(shut="Closed").review(asked(kind, item), patches=patches)
        assert (found["allowed"], found["status"]["code"]) == (False, 403)
        assert found["status"]["message"].strip() == text


async def test_an_update_may_change_only_some_fields() -> None:
    """scheduling/J-3"""
    before = (await hook()._judge("create", VOLCANO_JOB, job(), None)) or {}
    more = json.loads(json.dumps(before)) | {"spec": {**before["spec"], "minAvailable": 1}}
    assert (await hook().review(asked(VOLCANO_JOB, more, before, "UPDATE"), patches=True))["allowed"]
    other = json.loads(json.dumps(before)) | {"spec": {**before["spec"], "queue": "root"}}
    assert not (await hook().review(asked(VOLCANO_JOB, other, before, "UPDATE"), patches=True))["allowed"]


async def test_the_default_queue_is_not_deleted() -> None:
    """scheduling/Q-2"""
    found = await hook().review(asked(QUEUE, None, Api().queues["default"], "DELETE"), patches=False)
    assert found["status"]["message"] == "`default` queue can not be deleted"


async def test_what_is_no_matter_is_let_through() -> None:
    """scheduling/AS-13: other kinds, other verbs, other subresources"""
    other = Kind("Service", "", "v1", "services", True)
    assert await hook().review(asked(other, {}), patches=True) == {"allowed": True}
    assert await hook().review(asked(QUEUE, {}, {}, "CONNECT"), patches=True) == {"allowed": True}
    assert await hook().review(asked(QUEUE, {}, {}, "UPDATE", "scale"), patches=True) == {"allowed": True}


async def test_no_answer_of_the_api_server_is_no_verdict() -> None:
    """scheduling/AS-13: the failurePolicy decides then"""
    api = Api()
    api.down = True
    with pytest.raises(ApiUnknown):
        await Webhook(api).review(asked(VOLCANO_JOB, job()), patches=True)  # type: ignore[arg-type]


def test_the_patch_leads_from_one_to_the_other() -> None:
    """scheduling/J-1: names with slashes and tildes, lists, other types"""
    before: Json = {"a/b": {"c~d": 1}, "list": [{"x": 1}, 2], "gone": None}
    after: Json = {"a/b": {"c~d": 2, "e": []}, "list": [{"x": 1, "y": True}, "2"], "gone": {"z": 0}}
    assert applied(before, difference(before, after)) == after
    assert difference(before, before) == []


_DEEP = b'{"request": {"uid": "u", "object": ' + b"[" * 100_000 + b"]" * 100_000 + b"}}"


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"nothing", b'{"request": []}', b'{"request": "x"}', _DEEP,
        b'{"request": {"uid": "u", "resource": "x"}}',
        b'{"request": {"uid": "u", "resource": {"group": ["x"], "resource": {"y": 1}}}}',
        b'{"request": {"uid": "u", "resource": {"group": "batch.volcano.sh", "resource": "jobs"}, "operation": ["x"]}}',
    ],
    ids=lambda body: body[:60].decode(),
)  # fmt: skip
async def test_what_is_no_review_is_refused_and_breaks_nothing(body: bytes) -> None:
    """A fault of the service (500) would let the webhook's failurePolicy decide about what somebody made up."""
    async with TestClient(TestServer(hook().app())) as client:
        for path in ("/mutate", "/validate"):
            async with client.post(path, data=body) as reply:
                assert reply.status == 400


async def test_a_review_larger_than_two_objects_is_refused() -> None:
    large = io.BytesIO(b" " * 8_400_000)
    async with TestClient(TestServer(hook().app())) as client, client.post("/mutate", data=large) as reply:
        assert reply.status == 413
