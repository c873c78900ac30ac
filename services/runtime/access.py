"""Who may ask over HTTP: everybody for health and metrics, on loopback everything, elsewhere a bearer token.

An application that serves more than health and metrics does not listen off loopback without a token. So what a service
shows of its work to people is never open to a network by oversight.
"""

from __future__ import annotations

import hmac
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

#: They say nothing that could be a secret, and probes and Prometheus come without credentials.
OPEN: Final = frozenset({"/healthz", "/readyz", "/metrics"})
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class NotGuarded(OSError):
    """An application would be open to a network: the text says what it serves."""


def guard(app: web.Application, host: str, token: str) -> None:
    """Ask for the token wherever this application is not open. Call it before the application is served.

    Raises NotGuarded if it listens off loopback, serves more than what is open, and there is no token.
    """
    if host in LOOPBACK and not token:
        return
    closed = sorted({route.resource.canonical for route in app.router.routes() if route.resource} - OPEN)
    if closed and not token:
        raise NotGuarded(f"http.host {host}: {', '.join(closed)} would be open to the network; set http.token")
    app.middlewares.append(_asking(token))


def _asking(token: str) -> Middleware:
    @web.middleware
    async def ask(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path not in OPEN and not _has(request, token):
            return web.Response(status=401, text="a bearer token is needed\n", headers={"WWW-Authenticate": "Bearer"})
        return await handler(request)

    return ask


def _has(request: web.Request, token: str) -> bool:
    scheme, _, given = request.headers.get("Authorization", "").partition(" ")
    right = hmac.compare_digest(given.strip().encode("utf-8", "surrogateescape"), token.encode())
    return bool(token) and scheme.lower() == "bearer" and right
