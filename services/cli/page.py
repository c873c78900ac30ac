"""The page of a running system: what runs and where, health for probes, metrics for Prometheus."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, generate_latest

from services.cluster.http import PortInUse
from services.runtime.access import guard
from services.runtime.health import BODY_BYTES_MAX
from services.runtime.model_metrics import ModelCollector

if TYPE_CHECKING:
    from services.cli.embedded import EmbeddedSystem

_HOST = "127.0.0.1"
_STYLE = "body{font:15px/1.5 sans-serif;margin:2em;max-width:60em}td,th{text-align:left;padding:.2em 1.2em .2em 0}"


async def serve(system: EmbeddedSystem, port: int) -> web.AppRunner:
    """Serve the page on loopback. Raises PortInUse."""
    app = web.Application(client_max_size=BODY_BYTES_MAX)
    guard(app, _HOST, "")
    scheduler = system.scheduler
    collector = ModelCollector(lambda: system.model, scheduler.times, lambda: scheduler.follower.state)
    system.metrics.registry.register(collector)
    pages = _Pages(system)
    app.router.add_get("/", pages.overview)
    app.router.add_get("/metrics", pages.metrics)
    app.router.add_get("/healthz", pages.healthy)
    app.router.add_get("/readyz", pages.ready)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, _HOST, port).start()
    except OSError as error:
        await runner.cleanup()
        raise PortInUse(f"port {port} on 127.0.0.1 cannot be listened on: {error.strerror}") from error
    return runner


class _Pages:
    def __init__(self, system: EmbeddedSystem) -> None:
        self._system = system

    async def overview(self, request: web.Request) -> web.Response:
        """What runs and where, in plain HTML."""
        model = self._system.model
        services = [
            (item.name, "runs" if not item.failure else item.failure, item.steps) for item in self._system.driven
        ]
        body = [
            _list("gpuledger", self._facts()),
            _table("Services", ("service", "state", "steps"), services),
            _table("Cards", ("node", "card", "mode", "memory", "cores", "shares"), self._cards()),
            _table("PodGroups", ("PodGroup", "phase", "message"), [
                (key, entry.book.phase, entry.book.message) for key, entry in sorted(model.groups.items())
            ]),
            _table("Waiting pods", ("pod", "reason", "message"), [
                (entry.pod.key, entry.book.reason, entry.book.message)
                for entry in sorted(model.pods.values(), key=lambda item: item.pod.key) if not entry.node
            ]),
        ]  # fmt: skip
        text = f"<!doctype html><title>gpuledger</title><style>{_STYLE}</style>{''.join(body)}"
        return web.Response(text=text, content_type="text/html")

    def _facts(self) -> list[tuple[str, str]]:
        system, model = self._system, self._system.model
        terms = ", ".join(f"{role} {term.number}" for role, term in sorted(model.terms.items()))
        return [
            ("API server", system.server),
            ("data", str(system.data)),
            ("log", f"incarnation {model.incarnation}, read up to {system.scheduler.follower.position}"),
            ("terms", terms),
            ("metrics", f"{system.page}/metrics"),
            ("commands on their way", str(len(model.commands))),
        ]

    def _cards(self) -> list[tuple[object, ...]]:
        views = self._system.model.nodes
        return [
            (name, card.uuid, card.mode, f"{card.used_memory}/{card.memory}", f"{card.used_cores}/100",
             f"{card.used_shares}/{card.shares}")
            for name in sorted(views) for card in views[name].devices.cards
        ]  # fmt: skip

    async def metrics(self, request: web.Request) -> web.Response:
        """Prometheus' text format."""
        body = generate_latest(self._system.metrics.registry)
        return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def healthy(self, request: web.Request) -> web.Response:
        """Alive: this process serves."""
        return web.Response(text="ok\n")

    async def ready(self, request: web.Request) -> web.Response:
        """Ready: the scheduler leads on a whole state and nothing fails."""
        failing = [f"{item.name}: {item.failure}" for item in self._system.driven if item.failure]
        if not self._system.scheduler.leading or not self._system.scheduler.follower.state.ready:
            failing.append("scheduler: not deciding yet")
        return web.Response(text="\n".join(failing or ["ok"]) + "\n", status=503 if failing else 200)


def _list(title: str, facts: list[tuple[str, str]]) -> str:
    rows = "".join(f"<tr><th>{html.escape(name)}<td>{html.escape(value)}" for name, value in facts)
    return f"<h1>{html.escape(title)}</h1><table>{rows}</table>"


def _table(title: str, heads: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> str:
    head = "".join(f"<th>{html.escape(name)}" for name in heads)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}" for cell in row) for row in rows)
    return f"<h2>{html.escape(title)}</h2><table><tr>{head}{body}</table>"
