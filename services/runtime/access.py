"""Who may ask over HTTP: everybody for health and metrics, on loopback everything, elsewhere a bearer token.

What is open on loopback is open to the programs of this machine, and to no page that a browser here shows: such a
request names another host, or the page that it comes from, and is refused.

An application that serves more than health and metrics does not listen off loopback without a token. So what a service
shows of its work to people is never open to a network by oversight.
"""

from __future__ import annotations

import hmac
import re
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

#: They say nothing that could be a secret, and probes and Prometheus come without credentials.
OPEN: Final = frozenset({"/healthz", "/readyz", "/metrics"})
LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})
_LOCAL: Final = re.compile(r"(https?://)?(localhost|127(\.[0-9]{1,3}){3}|\[::1\])(:[0-9]{1,5})?", re.IGNORECASE)


class NotGuarded(OSError):
    """An application would be open to a network: the text says what it serves."""


def guard(app: web.Application, host: str, token: str) -> None:
    """Ask for the token wherever this application is not open. Call it before the application is served.

    Raises NotGuarded if it listens off loopback, serves more than what is open, and there is no token.
    """
    if host in LOOPBACK and not token:
        app.middlewares.append(_from_here)
        return
    closed = sorted({route.resource.canonical for route in app.router.routes() if route.resource} - OPEN)
    if closed and not token:
        raise NotGuarded(f"http.host {host}: {', '.join(closed)} would be open to the network; set http.token")
    app.middlewares.append(_asking(token))


def stranger(request: web.Request) -> str:
    """Say why a request to a server on loopback is not from a program of this machine; empty if it may be."""
    for what, value in (("host", request.headers.get("Host", "")), ("origin", request.headers.get("Origin", ""))):
        if value and not _LOCAL.fullmatch(value):
            return f"{what} {value[:100]!r}: only what comes from this machine is answered"
    return ""


@web.middleware
async def _from_here(request: web.Request, handler: Handler) -> web.StreamResponse:
    why = stranger(request) if request.path not in OPEN else ""
    return web.Response(status=403, text=f"{why}\n") if why else await handler(request)


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
