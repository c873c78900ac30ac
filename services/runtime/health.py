"""Metrics and health over HTTP: ``/metrics``, ``/healthz`` (the process lives), ``/readyz`` (it does its work).

Only GET, no body, nothing that could be a secret: that is why these three need no authentication.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from services.runtime.access import guard

BODY_BYTES_MAX: Final = 1024

#: Says why a part of the process is not ready, or nothing if it is.
Check = Callable[[], str]


def health_app(
    registry: CollectorRegistry,
    alive: Mapping[str, Check] | None = None,
    ready: Mapping[str, Check] | None = None,
) -> web.Application:
    """Return the application; ``alive`` and ``ready`` are the checks by the name of what they check."""

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def healthz(_: web.Request) -> web.Response:
        return _verdict(alive or {})

    async def readyz(_: web.Request) -> web.Response:
        return _verdict({**(alive or {}), **(ready or {})})

    app = web.Application(client_max_size=BODY_BYTES_MAX)
    app.add_routes([web.get("/metrics", metrics), web.get("/healthz", healthz), web.get("/readyz", readyz)])
    return app


async def serve_health(app: web.Application, host: str, port: int, token: str = "") -> tuple[web.AppRunner, int]:
    """Serve an application and return its runner (``cleanup`` ends it) and the port. Raises OSError, NotGuarded."""
    guard(app, host, token)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    site = web.TCPSite(runner, host, port)
    await site.start()
    found: int = runner.addresses[0][1]
    return runner, found


def _verdict(checks: Mapping[str, Check]) -> web.Response:
    lines, good = [], True
    for name in sorted(checks):
        why = checks[name]()
        good &= not why
        lines.append(f"{name}: {why or 'ok'}")
    return web.Response(status=200 if good else 503, text="\n".join(lines or ["ok"]) + "\n")
