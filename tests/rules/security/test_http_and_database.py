"""HTTP asks for a token off loopback for all but health and metrics; PostgreSQL is spoken by TLS off loopback."""

from __future__ import annotations

import asyncio
import json
import ssl
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from aiohttp import ClientSession, web
from prometheus_client import CollectorRegistry
from sqlalchemy import make_url

from adapters.clock import ManualClock
from adapters.database.errors import DatabaseError
from adapters.database.tls import secured
from services.cluster.api import EmbeddedApi
from services.cluster.http import port_of, serve
from services.cluster.store import Store, derived_uid
from services.runtime.access import NotGuarded
from services.runtime.health import health_app, serve_health

TOKEN = "a-token-of-the-tests"


def app() -> web.Application:
    async def page(_: web.Request) -> web.Response:
        return web.Response(text="what is shown to people")

    found = health_app(CollectorRegistry())
    found.router.add_get("/page", page)
    return found


def status(port: int, path: str, header: str = "") -> int:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", headers={"Authorization": header} if header else {}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as reply:
            return int(reply.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code


async def answers(host: str, token: str, *asked: tuple[str, str]) -> list[int]:
    runner, port = await serve_health(app(), host, 0, token)
    try:
        return [await asyncio.to_thread(status, port, path, header) for path, header in asked]
    finally:
        await runner.cleanup()


async def test_off_loopback_all_but_health_and_metrics_asks_for_the_token() -> None:
    right = f"Bearer {TOKEN}"
    asked = [("/healthz", ""), ("/readyz", ""), ("/metrics", ""), ("/page", ""), ("/page", "Bearer wrong"),
             ("/page", f"Basic {TOKEN}"), ("/page", right), ("/nowhere", ""), ("/nowhere", right)]  # fmt: skip
    assert await answers("0.0.0.0", TOKEN, *asked) == [200, 200, 200, 401, 401, 401, 200, 401, 404]


async def test_nothing_more_than_health_is_served_off_loopback_without_a_token() -> None:
    with pytest.raises(NotGuarded, match="/page would be open"):
        await serve_health(app(), "0.0.0.0", 0)
    runner, _ = await serve_health(health_app(CollectorRegistry()), "0.0.0.0", 0)
    await runner.cleanup()
    assert await answers("127.0.0.1", "", ("/page", "")) == [200]


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({}, 200),
        ({"Host": "localhost:1234"}, 200),
        ({"Host": "[::1]:9"}, 200),
        ({"Origin": "http://127.0.0.1:8002"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example:80"}, 403),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
async def test_a_page_in_a_browser_reaches_nothing_that_is_open_on_loopback(headers: dict[str, str], code: int) -> None:
    """It names another host (its name was made to mean this machine) or the page that it comes from."""
    shown, port = await serve_health(app(), "127.0.0.1", 0)
    api = EmbeddedApi(Store(ManualClock(1_767_225_600_000), derived_uid))
    cluster = await serve(api, "127.0.0.1", 0)
    try:
        async with ClientSession(headers=headers) as client:
            for url in (f"http://127.0.0.1:{port}/page", f"http://127.0.0.1:{port_of(cluster)}/api/v1/pods"):
                async with client.get(url) as reply:
                    assert reply.status == code
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "forged"}}
            url = f"http://127.0.0.1:{port_of(cluster)}/api/v1/namespaces"
            async with client.post(url, data=json.dumps(body), headers={"Content-Type": "text/plain"}) as reply:
                assert reply.status == (201 if code == 200 else 403)
    finally:
        await cluster.cleanup()
        await shown.cleanup()


def test_postgresql_is_spoken_by_tls_off_loopback() -> None:
    def context(text: str) -> ssl.SSLContext | None:
        """Return how a connection is encrypted, None if it is not: the driver is told so, and tries nothing itself."""
        found = secured(make_url(f"postgresql://u:p@{text}"))[1]["ssl_context"]
        assert found is False or isinstance(found, ssl.SSLContext)
        return found or None

    assert context("127.0.0.1/x") is None
    assert context("localhost/x") is None
    assert context("db.example/x?sslmode=disable") is None
    full, named, plain = (
        context("db.example/x"),
        context("db.example/x?sslmode=verify-ca"),
        context("127.0.0.1/x?sslmode=require"),
    )
    assert full is not None
    assert named is not None
    assert plain is not None
    assert (full.verify_mode, full.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert (named.verify_mode, named.check_hostname) == (ssl.CERT_REQUIRED, False)
    assert (plain.verify_mode, plain.check_hostname) == (ssl.CERT_NONE, False)


def test_words_that_cannot_be_used_are_named(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match="sslmode 'prefer'"):
        secured(make_url("postgresql://db.example/x?sslmode=prefer"))
    with pytest.raises(DatabaseError, match="sslrootcert"):
        secured(make_url(f"postgresql://db.example/x?sslrootcert={tmp_path}/none.pem"))
    plain, _ = secured(make_url("postgresql://db.example/x?sslmode=disable&application_name=g"))
    assert dict(plain.query) == {"application_name": "g"}
