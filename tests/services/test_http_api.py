"""The API server over HTTP: objects, refusals, answers that never came, and watches line by line."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import yaml
from aiohttp import web
from kubernetes_asyncio.config import ConfigException

from adapters.clock import ManualClock
from adapters.cluster.http import KubernetesApi, kubeconfig_configuration, server_configuration
from adapters.cluster.port import ApiError, ApiUnknown
from events.kinds import NODE, POD, QUEUE
from services.cluster.api import EmbeddedApi
from services.cluster.http import serve
from services.cluster.store import Store, derived_uid

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@pytest.fixture
async def embedded() -> AsyncIterator[tuple[KubernetesApi, Store]]:
    store = Store(ManualClock(1_767_225_600_000), derived_uid)
    runner = await serve(EmbeddedApi(store), "127.0.0.1", 0)
    api = await KubernetesApi.connect(server_configuration(f"http://127.0.0.1:{runner.addresses[0][1]}"))
    yield api, store
    await api.close()
    await runner.cleanup()


async def stub(handler: Handler) -> tuple[KubernetesApi, web.AppRunner, list[web.Request]]:
    """A server that answers everything with one handler."""
    seen: list[web.Request] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        return await handler(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    tokens = iter(("old", "new", "newer"))

    async def configure() -> Any:
        return await server_configuration(url, next(tokens))()

    return await KubernetesApi.connect(configure), runner, seen


async def test_objects_pages_and_preconditions(embedded: tuple[KubernetesApi, Store]) -> None:
    api, _ = embedded
    for name in ("a", "b", "c"):
        await api.create(NODE, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    page = await api.list(NODE, limit=2)
    assert [item["metadata"]["name"] for item in page.items] == ["a", "b"]
    assert page.items[0]["kind"] == "Node"
    rest = await api.list(NODE, limit=2, token=page.next_token)
    assert [item["metadata"]["name"] for item in rest.items] == ["c"]
    node = await api.patch(NODE, "", "a", {"metadata": {"annotations": {"x": "y"}}})
    assert node["metadata"]["annotations"]["x"] == "y"
    with pytest.raises(ApiError) as stale:
        await api.patch(NODE, "", "a", {"metadata": {"resourceVersion": "1", "annotations": {"x": "z"}}})
    assert stale.value.status == 409
    with pytest.raises(ApiError) as other:
        await api.delete(NODE, "", "a", uid="another")
    assert other.value.status == 409
    await api.delete(NODE, "", "a", uid=node["metadata"]["uid"])
    with pytest.raises(ApiError) as gone:
        await api.get(NODE, "", "a")
    assert (gone.value.status, gone.value.reason) == (404, "NotFound")


async def test_a_binding_and_a_status(embedded: tuple[KubernetesApi, Store]) -> None:
    api, store = embedded
    store.put(NODE, {"metadata": {"name": "n1"}})
    store.put(POD, {"metadata": {"namespace": "a", "name": "p"}, "spec": {"containers": []}, "status": {}})
    await api.bind("a", "p", {"metadata": {"name": "p", "annotations": {"k": "v"}}, "target": {"name": "n1"}})
    pod = await api.get(POD, "a", "p")
    assert (pod["spec"]["nodeName"], pod["metadata"]["annotations"]["k"]) == ("n1", "v")
    changed = await api.patch(POD, "a", "p", {"status": {"phase": "Running"}}, "status")
    assert changed["status"]["phase"] == "Running"


async def test_a_watch_brings_what_happens_and_bookmarks_end_nothing(embedded: tuple[KubernetesApi, Store]) -> None:
    api, store = embedded
    page = await api.list(QUEUE)
    watch = await api.watch(QUEUE, page.version)
    assert await watch.next(wait=False) == []
    store.put(QUEUE, {"metadata": {"name": "q"}, "spec": {}})
    events = await watch.next(wait=True)
    assert events is not None
    assert [(event.type, event.object["metadata"]["name"]) for event in events] == [("ADDED", "q")]
    store.remove(QUEUE, "", "q")
    events = await watch.next(wait=True)
    assert events is not None
    assert events[0].type == "DELETED"
    await watch.close()


@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_any_5xx_is_no_final_answer(status: int) -> None:
    async def broken(_: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "message": "etcd"}, status=status)

    api, runner, _ = await stub(broken)
    with pytest.raises(ApiUnknown, match="etcd"):
        await api.get(NODE, "", "n")
    await api.close()
    await runner.cleanup()


@pytest.mark.parametrize("status", [400, 403, 404, 409, 422, 429])
async def test_a_4xx_is_final(status: int) -> None:
    async def no(_: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "reason": "Why", "message": "no"}, status=status)

    api, runner, _ = await stub(no)
    with pytest.raises(ApiError) as answer:
        await api.bind("a", "p", {})
    assert (answer.value.status, answer.value.reason, answer.value.message) == (status, "Why", "no")
    await api.close()
    await runner.cleanup()


async def test_a_connection_that_breaks_and_text_that_is_no_json_are_no_answers() -> None:
    async def torn(request: web.Request) -> web.StreamResponse:
        if request.method == "GET":
            return web.Response(text="<html>")
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    api, runner, _ = await stub(torn)
    with pytest.raises(ApiUnknown, match="not JSON"):
        await api.get(NODE, "", "n")
    with pytest.raises(ApiUnknown):
        await api.create(NODE, {"metadata": {"name": "n"}})
    await api.close()
    await runner.cleanup()
    nowhere = await KubernetesApi.connect(server_configuration("http://127.0.0.1:9"))
    with pytest.raises(ApiUnknown):
        await nowhere.get(NODE, "", "n")
    await nowhere.close()


LIST = {"kind": "NodeList", "metadata": {"resourceVersion": "7"}, "items": [{"metadata": {"name": "n"}}]}


@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        None,
        "no list",
        {**LIST, "metadata": {}},
        {**LIST, "metadata": {"resourceVersion": ""}},
        {**LIST, "items": {}},
        {**LIST, "items": "n"},
        {**LIST, "items": [LIST["items"][0], "n"]},
        {**LIST, "items": [{"name": "n"}]},
    ],
)
async def test_what_is_no_list_is_no_answer(answer: Any) -> None:
    """scheduling/F-11a: a proxy that says something else must not make everything seem deleted."""

    async def say(_: web.Request) -> web.StreamResponse:
        return web.json_response(answer)

    api, runner, _ = await stub(say)
    with pytest.raises(ApiUnknown, match="/api/v1/nodes: the answer is no NodeList"):
        await api.list(NODE)
    for asked in (
        api.get(NODE, "", "n"),
        api.create(NODE, {"metadata": {"name": "n"}}),
        api.update(NODE, {"metadata": {"name": "n"}}),
        api.patch(NODE, "", "n", {}),
    ):
        if isinstance(answer, dict) and answer:
            await asked
        else:
            with pytest.raises(ApiUnknown, match=r"/api/v1/nodes.*: the answer is no object of the API"):
                await asked
    await api.close()
    await runner.cleanup()


async def test_a_list_of_none_may_say_null() -> None:
    async def say(_: web.Request) -> web.StreamResponse:
        return web.json_response({**LIST, "items": None})

    api, runner, _ = await stub(say)
    assert (await api.list(NODE)).items == []
    await api.close()
    await runner.cleanup()


async def test_a_quiet_watch_that_is_closed_wakes_who_waits_for_it(embedded: tuple[KubernetesApi, Store]) -> None:
    api, _ = embedded
    watch = await api.watch(QUEUE, (await api.list(QUEUE)).version)
    waiting = asyncio.create_task(watch.next(wait=True))
    await asyncio.sleep(0)
    await watch.close()
    assert await waiting is None


@pytest.mark.parametrize(
    "error",
    [
        ConfigException("Token file exists but empty."),
        FileNotFoundError("no such plug-in"),
        ValueError("oidc: missing configuration"),
        RuntimeError("Unable to read stdout"),
        yaml.YAMLError("half a file"),
    ],
)
async def test_credentials_that_cannot_be_read_anew_are_no_answer(error: Exception) -> None:
    """The service goes on trying, as with a server that is away; it does not end."""

    async def judge(request: web.Request) -> web.StreamResponse:
        good = request.headers.get("Authorization") == "Bearer new"
        return web.json_response({"metadata": {"name": "n"}}, status=200 if good else 401)

    api, runner, _ = await stub(judge)
    configure = api._configure
    broken = [error, error]

    async def at_last() -> Any:
        if broken:
            raise broken.pop()
        return await configure()

    api._configure = at_last
    for _ in range(2):
        with pytest.raises(ApiUnknown, match=f"kubernetes: {error}"):
            await api.get(NODE, "", "n")
    assert (await api.get(NODE, "", "n"))["metadata"]["name"] == "n"
    await api.close()
    broken.append(error)
    with pytest.raises(ApiUnknown, match=f"kubernetes: {error}"):
        await KubernetesApi.connect(at_last)
    await runner.cleanup()


async def test_a_token_whose_file_is_empty_is_no_answer() -> None:
    """The library reads a service account's token anew before a request, which may be while it is being replaced."""

    async def fine(_: web.Request) -> web.StreamResponse:
        return web.json_response({"metadata": {"name": "n"}})

    api, runner, _ = await stub(fine)

    async def refresh(_: Any) -> None:
        raise ConfigException("Token file exists but empty.")

    api._configuration.refresh_api_key_hook = refresh
    with pytest.raises(ApiUnknown, match="kubernetes: Token file exists but empty"):
        await api.get(NODE, "", "n")
    await api.close()
    await runner.cleanup()


async def test_refused_credentials_are_read_anew_once() -> None:
    async def judge(request: web.Request) -> web.StreamResponse:
        good = request.headers.get("Authorization") == "Bearer new"
        return web.json_response({"metadata": {"name": "n"}}, status=200 if good else 401)

    api, runner, seen = await stub(judge)
    assert (await api.get(NODE, "", "n"))["metadata"]["name"] == "n"
    assert len(seen) == 2
    await api.close()
    await runner.cleanup()


async def test_credentials_that_run_out_for_many_requests_at_once_are_read_once() -> None:
    """Each request gets its answer, and what comes late on the session so far does, too."""
    all_there = asyncio.Barrier(8)

    async def judge(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") == "Bearer new":
            return web.json_response({"metadata": {"name": "n"}})
        await all_there.wait()
        return web.json_response({}, status=401)

    api, runner, seen = await stub(judge)
    found = await asyncio.gather(*(api.get(NODE, "", "n") for _ in range(8)))
    assert [item["metadata"]["name"] for item in found] == ["n"] * 8
    assert len(seen) == 16
    await api.close()
    await runner.cleanup()


async def test_a_line_may_come_in_pieces_and_a_broken_one_is_an_error() -> None:
    async def lines(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        first = json.dumps({"type": "ADDED", "object": {"metadata": {"name": "ü"}}}, ensure_ascii=False).encode()
        for piece in (first[:20], first[20:41], first[41:] + b"\n{broken\n", b'{"type": "ADDED", "object"'):
            await response.write(piece)
        return response

    api, runner, _ = await stub(lines)
    watch = await api.watch(NODE, "1")
    events = []
    while (more := await watch.next(wait=True)) is not None:
        events += more
    assert [event.type for event in events] == ["ADDED", "ERROR"]
    assert events[0].object["metadata"]["name"] == "ü"
    await api.close()
    await runner.cleanup()


async def test_a_watch_that_is_too_old_is_refused_with_410() -> None:
    async def old(_: web.Request) -> web.StreamResponse:
        return web.json_response({"kind": "Status", "reason": "Expired", "message": "too old"}, status=410)

    api, runner, seen = await stub(old)
    with pytest.raises(ApiError) as answer:
        await api.watch(POD, "5")
    assert answer.value.status == 410
    assert seen[0].query["allowWatchBookmarks"] == "true"
    await api.close()
    await runner.cleanup()


async def test_a_kubeconfig_names_server_and_token(tmp_path: Any) -> None:
    path = tmp_path / "config"
    path.write_text(
        json.dumps(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1234"}}],
                "users": [{"name": "u", "user": {"token": "tok"}}],
            }
        )
    )
    found = await kubeconfig_configuration(str(path))()
    assert found.host == "http://127.0.0.1:1234"
    assert found.api_key["BearerToken"] == "Bearer tok"
