"""A small HTTP client for API servers in tests, and the embedded cluster on a thread of its own.

It is synchronous and knows nothing of Kubernetes but JSON, so that what goes over the wire stands in the test.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import yaml

from adapters.clock import SystemClock
from services.cluster.cluster import EmbeddedCluster
from services.cluster.http import port_of

MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
CUSTOM = (
    "/apis/scheduling.volcano.sh/v1beta1/queues",
    "/apis/scheduling.volcano.sh/v1beta1/podgroups",
    "/apis/batch.volcano.sh/v1alpha1/jobs",
    "/apis/bus.volcano.sh/v1alpha1/commands",
)
_CRDS = Path(__file__).parents[2] / "deploy" / "crds"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


class Kube:
    """A client of one server."""

    def __init__(self, address: str, token: str = "") -> None:
        self.address, self._token = address, token

    def _connect(self, timeout_s: float) -> http.client.HTTPConnection:
        parts = urlsplit(self.address)
        if parts.scheme == "https":
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            return http.client.HTTPSConnection(parts.netloc, timeout=timeout_s, context=context)
        return http.client.HTTPConnection(parts.netloc, timeout=timeout_s)

    def _headers(self, content_type: str, accept: str) -> dict[str, str]:
        headers = {"Content-Type": content_type, "Accept": accept}
        return headers | ({"Authorization": f"Bearer {self._token}"} if self._token else {})

    def send(self, method: str, path: str, data: bytes | None = None, content_type: str = "application/json",
             accept: str = "application/json", **query: object) -> tuple[int, bytes]:  # fmt: skip
        """Send bytes; return status and body."""
        connection = self._connect(30)
        try:
            target = path + ("?" + urlencode(query) if query else "")
            connection.request(method, target, data, self._headers(content_type, accept))
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def ask(self, method: str, path: str, body: Any = None, content_type: str = "application/json",
            accept: str = "application/json", **query: object) -> tuple[int, Any]:  # fmt: skip
        """Send JSON; return status and parsed body."""
        data = None if body is None else json.dumps(body).encode()
        status, answer = self.send(method, path, data, content_type, accept, **query)
        return status, json.loads(answer) if answer else None

    def ok(self, method: str, path: str, body: Any = None, content_type: str = "application/json",
           **query: object) -> Any:  # fmt: skip
        """Send JSON; return the body of a success, fail otherwise."""
        status, answer = self.ask(method, path, body, content_type, **query)
        assert status < 300, f"{method} {path}: {status} {answer}"
        return answer

    def refused(self, method: str, path: str, body: Any = None, content_type: str = "application/json",
                **query: object) -> tuple[int, str, str]:  # fmt: skip
        """Send JSON; return status, reason and message of the refusal, fail if it is none."""
        status, answer = self.ask(method, path, body, content_type, **query)
        assert status >= 400, f"{method} {path}: {status} {answer}"
        assert answer["kind"] == "Status"
        assert answer["status"] == "Failure"
        assert answer["code"] == status
        return status, answer.get("reason", ""), answer.get("message", "")

    @contextmanager
    def watch(self, path: str, accept: str = "application/json", **query: object) -> Iterator[Watching]:
        """Open a watch."""
        connection = self._connect(20)
        try:
            target = path + "?" + urlencode({"watch": "true", **query})
            connection.request("GET", target, headers=self._headers("application/json", accept))
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            yield Watching(answer)
        finally:
            connection.close()


def with_crds(kube: Kube) -> Kube:
    """Return a server once it has the custom resources of the batch system; a real one is given their definitions."""
    if kube.send("GET", CUSTOM[0])[0] == 200:
        return kube
    for path in sorted(_CRDS.glob("*.yaml")):
        body = yaml.safe_load(path.read_text())
        kube.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    for path_of_kind in CUSTOM:
        for _ in range(2000):
            if kube.send("GET", path_of_kind)[0] == 200:
                break
    return kube


class Watching:
    """An open watch."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self._answer = answer

    def next(self) -> Any:
        """Return the next event, None at the end."""
        line = self._answer.readline()
        return json.loads(line) if line.strip() else None

    def take(self, count: int) -> list[tuple[str, str]]:
        """Return type and object's name of the next events."""
        events = [self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


class EmbeddedServer:
    """An embedded cluster that serves HTTP on a thread."""

    def __init__(self, data: Path | None = None) -> None:
        self._data = data
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), daemon=True)
        self.address = ""

    async def _run(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        self.cluster = EmbeddedCluster(SystemClock(), data=self._data)
        runner = await self.cluster.serve(0)
        self.address = f"http://127.0.0.1:{port_of(runner)}"
        self._ready.set()
        await self._stop.wait()
        await runner.cleanup()
        self.cluster.close()

    def __enter__(self) -> EmbeddedServer:
        self._thread.start()
        assert self._ready.wait(20), "the embedded cluster did not start"
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(20)
