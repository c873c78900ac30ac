"""The embedded API server's socket: aiohttp on loopback, in front of ``EmbeddedApi``.

One handler takes every path: discovery and health, watches (a stream of lines), and resources. Whether an answer is
an object or a Table is decided here, from the Accept header. All of it runs on one event loop, so each request sees
and leaves the store whole.
"""

from __future__ import annotations

import asyncio
import errno
import random
from typing import Any

import structlog
from aiohttp import web

from events.canonical import Json
from services.cluster import discovery, openapi, tables, wire
from services.cluster.api import EmbeddedApi
from services.cluster.reads import number
from services.cluster.refusal import Refused, failure
from services.cluster.routes import Request, Response, target_of
from services.cluster.watches import Line, Watch
from services.runtime.access import LOOPBACK, stranger

_log = structlog.get_logger(__name__)

WATCH_S = (1800, 3600)  # how long a watch lasts that names no time-out
BOOKMARK_S = 60.0
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class PortInUse(Exception):
    """The port to listen on is taken by another process."""


async def serve(api: EmbeddedApi, host: str, port: int) -> web.AppRunner:
    """Serve the API on a port (0 takes a free one: see ``port_of``). Raises PortInUse."""
    runner = web.AppRunner(make_app(api, local=host in LOOPBACK), shutdown_timeout=1.0, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        await runner.cleanup()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(f"port {port} on {host} is in use by another process; choose another port") from error
        raise
    return runner


def port_of(runner: web.AppRunner) -> int:
    """Return the port that a runner listens on."""
    return int(runner.addresses[0][1])


def make_app(api: EmbeddedApi, *, local: bool = True) -> web.Application:
    """Return the web application; ``local``: it answers programs of this machine only."""
    app = web.Application(client_max_size=wire.BODY_BYTES_MAX + 1)
    handler = _Handler(api, local)
    app.router.add_route("*", "/{path:.*}", handler.handle)
    app.on_shutdown.append(handler.stop)
    return app


class _Handler:
    def __init__(self, api: EmbeddedApi, local: bool) -> None:
        self._api, self._local = api, local
        self._stopping = asyncio.Event()

    async def stop(self, app: web.Application) -> None:
        """Let the open watches end."""
        self._stopping.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request; whatever goes wrong is a Status."""
        try:
            return await self._answer(request)
        except Refused as refused:
            return _json(refused.status, refused.body())
        except web.HTTPRequestEntityTooLarge:
            message = f"Request entity too large: limit is {wire.BODY_BYTES_MAX}"
            return _json(413, failure(413, "RequestEntityTooLarge", message))
        except Exception as error:  # the last line of defence: a fault of ours is said, and stops no other request
            _log.exception("request failed", method=request.method, path=request.path)
            return _json(500, failure(500, "InternalError", f"Internal error occurred: {type(error).__name__}"))

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if self._local and (why := stranger(request)):
            raise Refused(403, "Forbidden", why)
        if request.method in ("GET", "HEAD"):
            fixed = self._fixed(request)
            if fixed is not None:
                return fixed
        asked = await _request(request)
        if asked.method == "GET" and asked.flag("watch"):
            return await self._watch(request, asked)
        response = self._api.handle(asked)
        if response.text is not None:
            return web.Response(status=response.status, text=response.text)
        return self._formed(request, asked, response)

    def _fixed(self, request: web.Request) -> web.Response | None:
        """Answer what does not depend on objects: health, version, discovery, OpenAPI."""
        path = request.path.rstrip("/")
        if path in discovery.HEALTH:
            return web.Response(text="ok")
        accept = request.headers.get("Accept", "")
        if path.startswith("/openapi"):
            found = openapi.document(path)
        else:
            found = discovery.document(path, accept, request.host)
            if found is not None and found.get("kind") == "APIGroupDiscoveryList":
                return _json(200, found, discovery.AGGREGATED)
        return None if found is None else _json(200, found)

    def _formed(self, request: web.Request, asked: Request, response: Response) -> web.Response:
        """Give the answer the form that the client prefers."""
        accept, body = request.headers.get("Accept", ""), response.body
        if response.status >= 400 or body.get("kind") == "Status":
            return _json(response.status, body)
        kind = target_of(asked.path).kind
        if body.get("kind") == f"{kind.name}List" and wire.accepts(accept, "PartialObjectMetadataList"):
            return _json(response.status, tables.partial_list(body))
        if body.get("kind") == kind.name and wire.accepts(accept, "PartialObjectMetadata"):
            return _json(response.status, tables.partial(body))
        if body.get("kind") in (kind.name, f"{kind.name}List") and wire.accepts(accept, "Table"):
            now_ms = self._api.store.clock.now_ms()
            included = asked.query.get("includeObject", "Metadata")
            return _json(response.status, tables.table(kind, body, now_ms, included), _TABLE)
        return _json(response.status, body)

    # Watches.

    async def _watch(self, request: web.Request, asked: Request) -> web.StreamResponse:
        if asked.flag("sendInitialEvents"):
            message = ('ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents is '
                       "forbidden for watch unless the WatchList feature gate is enabled")  # fmt: skip
            raise Refused(422, "Invalid", message)
        timeout_s = number(asked, "timeoutSeconds") or random.randint(*WATCH_S)
        watch = self._api.watch(asked)
        accept = request.headers.get("Accept", "")
        form = next((form for form in ("Table", "PartialObjectMetadata") if wire.accepts(accept, form)), "")
        response = web.StreamResponse(headers={"Content-Type": _TABLE if form == "Table" else "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        stream = _Stream(self._api, watch, response, asked, form)
        try:
            await stream.run(timeout_s, self._stopping)
        except (ConnectionError, ConnectionResetError):
            _log.debug("watch closed by its reader", path=asked.path)
        finally:
            stream.close()
        return response


class _Stream:
    """One open watch on the wire."""

    def __init__(self, api: EmbeddedApi, watch: Watch, response: web.StreamResponse, asked: Request,
                 form: str) -> None:  # fmt: skip
        self._api, self._watch, self._response = api, watch, response
        self._bookmarks, self._form = asked.flag("allowWatchBookmarks"), form
        self._included = asked.query.get("includeObject", "Metadata")
        self._news = asyncio.Event()
        self._first = True
        api.store.listeners.append(self._told)

    def _told(self, kind: Any) -> None:
        if kind == self._watch.kind:
            self._news.set()

    def close(self) -> None:
        self._watch.close()
        self._api.store.listeners.remove(self._told)

    async def run(self, timeout_s: int, stopping: asyncio.Event) -> None:
        """Write events as they come, until the time-out, the end of the watch, or the server's stop."""
        loop = asyncio.get_running_loop()
        end, bookmark = loop.time() + timeout_s, loop.time() + BOOKMARK_S
        stop = asyncio.ensure_future(stopping.wait())
        try:
            while True:
                self._news.clear()
                await self._write(self._watch.take())
                now = loop.time()
                if self._watch.ended or stop.done() or now >= end:
                    break
                if now >= bookmark:
                    await self._bookmark()
                    bookmark = now + BOOKMARK_S
                await self._wait(stop, min(end, bookmark) - now)
            if not self._watch.ended:
                await self._bookmark()
        finally:
            stop.cancel()

    async def _wait(self, stop: asyncio.Future[Any], seconds: float) -> None:
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait({news, stop}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()

    async def _bookmark(self) -> None:
        if self._bookmarks:
            await self._write([self._watch.bookmark()])

    async def _write(self, lines: list[Line]) -> None:
        if lines:
            await self._response.write(b"".join(self._line(*line) for line in lines))

    def _line(self, type_: str, item: Json) -> bytes:
        if self._form == "PartialObjectMetadata" and type_ != "ERROR":
            item = tables.partial(item)
        elif self._form and type_ != "ERROR":
            shown = item
            now_ms = self._api.store.clock.now_ms()
            item = tables.table(self._watch.kind, shown, now_ms, self._included, head=self._first,
                                rows=type_ != "BOOKMARK")  # fmt: skip
            self._first = False
        return wire.encode({"type": type_, "object": item}) + b"\n"


async def _request(request: web.Request) -> Request:
    content_type = wire.media_type(request.headers.get("Content-Type", ""))
    body = wire.decode(await request.read(), content_type)
    if body is None and request.method in ("POST", "PUT", "PATCH"):
        raise Refused(400, "BadRequest", "the body of the request is empty")
    return Request(request.method, request.rel_url.raw_path, dict(request.query), body, content_type,
                   request.headers.get("User-Agent", ""))  # fmt: skip


def _json(status: int, body: Json, content_type: str = "application/json") -> web.Response:
    return web.Response(status=status, body=wire.encode(body), headers={"Content-Type": content_type})
