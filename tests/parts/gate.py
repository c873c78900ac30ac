"""A gate before an API server: requests pass, and one that is waited for is held, before it is sent on or after.

So a test can act at a moment that no log shows: a Binding that was asked for and never made, or made and never
answered. What breaks behind the gate breaks for the client too.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import Final

import aiohttp
from aiohttp import web
from parts.cache import free_port

Wanted = Callable[[web.Request], bool]
_HOP_BY_HOP: Final = frozenset({"host", "connection", "content-length", "transfer-encoding"})


class Hold:
    """One request to be held. ``after``: its answer is held, it has its effect. It is let go by ``release``.

    ``status`` is what the API server answered, 0 as long as it has not.
    """

    def __init__(self, wanted: Wanted, *, after: bool, skip: int) -> None:
        self.wanted, self.after, self.skip = wanted, after, skip
        self.path, self.status = "", 0
        self._released = asyncio.Event()

    @property
    def reached(self) -> bool:
        return bool(self.path)

    def takes(self, request: web.Request) -> bool:
        if self.reached or self._released.is_set() or not self.wanted(request):
            return False
        self.skip -= 1
        return self.skip < 0

    async def wait(self, request: web.Request) -> None:
        self.path = request.path
        await self._released.wait()

    def release(self) -> None:
        """Let the request, or its answer, go on; nothing is held any more."""
        self._released.set()


class Gate:
    """Passes on to ``upstream``. ``hold`` asks for one request to be held."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream
        self._port = free_port()
        self._holds: list[Hold] = []
        self._runner: web.AppRunner | None = None
        self._session: aiohttp.ClientSession | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    async def start(self) -> None:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        connector = aiohttp.TCPConnector(ssl=context, limit=0)
        timeout = aiohttp.ClientTimeout(total=None)
        self._session = aiohttp.ClientSession(connector=connector, timeout=timeout, auto_decompress=False)
        app = web.Application(client_max_size=16 << 20)
        app.router.add_route("*", "/{path:.*}", self._pass)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", self._port).start()

    async def close(self) -> None:
        """Let everything go and stop."""
        for hold in self._holds:
            hold.release()
        if self._session is not None:
            await self._session.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def hold(self, wanted: Wanted, *, after: bool = False, skip: int = 0) -> Hold:
        """Hold one request that is wanted, the first after ``skip`` others."""
        found = Hold(wanted, after=after, skip=skip)
        self._holds.append(found)
        return found

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        assert self._session is not None, "started"
        body = await request.read()
        hold = next((hold for hold in self._holds if hold.takes(request)), None)
        if hold is not None and not hold.after:
            await hold.wait(request)
        headers = {key: value for key, value in request.headers.items() if key.lower() not in _HOP_BY_HOP}
        url = self._upstream + request.raw_path
        try:
            async with self._session.request(request.method, url, headers=headers, data=body) as answer:
                if hold is not None:
                    hold.status = answer.status
                if hold is not None and hold.after:
                    await hold.wait(request)
                return await self._answer(request, answer)
        except (aiohttp.ClientError, OSError):
            # Whether it had an effect nobody knows.
            if request.transport is not None:
                request.transport.abort()
            return web.Response(status=502)

    @staticmethod
    async def _answer(request: web.Request, answer: aiohttp.ClientResponse) -> web.StreamResponse:
        headers = {key: value for key, value in answer.headers.items() if key.lower() not in _HOP_BY_HOP}
        if "watch" not in request.query:
            return web.Response(status=answer.status, headers=headers, body=await answer.read())
        stream = web.StreamResponse(status=answer.status, headers=headers)
        await stream.prepare(request)
        async for chunk in answer.content.iter_any():
            await stream.write(chunk)
        await stream.write_eof()
        return stream
