"""The embedded API server's socket."""

from __future__ import annotations

from aiohttp import web

from services.cluster.api import EmbeddedApi


async def serve(api: EmbeddedApi, host: str, port: int) -> web.AppRunner:
    """Serve the API on a port."""
    runner = web.AppRunner(web.Application())
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner
