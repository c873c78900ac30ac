"""The port of a Kubernetes cluster: plain JSON objects, the verbs that the services need, typed refusals.

Two homes: ``adapters.cluster.http`` (kubernetes-asyncio's requests against any API server, the embedded one included)
and the embedded cluster called directly (simulation).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from events.canonical import Json
from events.kinds import Kind


class ApiError(Exception):
    """A final answer of the API server that is not success: HTTP status, Kubernetes reason, message."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status, self.reason, self.message = status, reason, message


class ApiUnknown(Exception):
    """No final answer came (time-out, broken connection, 5xx without effect known): it may have happened or not."""


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a list."""

    items: list[Json]
    version: str
    next_token: str


@dataclass(frozen=True, slots=True)
class WatchEvent:
    """One line of a watch: ADDED, MODIFIED, DELETED, BOOKMARK or ERROR (then ``object`` is a Status)."""

    type: str
    object: Json


class WatchStream(Protocol):
    """An open watch."""

    async def next(self, wait: bool) -> Sequence[WatchEvent] | None:
        """Return the events that are there (if ``wait``: at least one, as soon as it comes); None at its end."""
        ...

    async def close(self) -> None: ...


class ClusterApi(Protocol):
    """What the services ask of an API server. Every verb raises ApiError or ApiUnknown."""

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str = "",
        limit: int = 500,
        token: str = "",
        selector: str = "",
        fields: str = "",
    ) -> Page: ...

    async def watch(self, kind: Kind, version: str, *, timeout_s: int = 300) -> WatchStream: ...

    async def get(self, kind: Kind, namespace: str, name: str) -> Json: ...

    async def create(self, kind: Kind, item: Json) -> Json: ...

    async def update(self, kind: Kind, item: Json, subresource: str = "") -> Json: ...

    async def patch(self, kind: Kind, namespace: str, name: str, merge: Json, subresource: str = "") -> Json:
        """Apply a JSON merge patch; with ``metadata.resourceVersion`` or ``uid`` in it they are preconditions."""
        ...

    async def delete(
        self, kind: Kind, namespace: str, name: str, *, uid: str = "", version: str = "", grace_s: int | None = None,
        propagation: str = "Background",
    ) -> None: ...  # fmt: skip

    async def bind(self, namespace: str, name: str, binding: dict[str, Any]) -> None:
        """Create the pod's Binding: node, annotations, uid and resourceVersion preconditions in its metadata."""
        ...


async def pages(api: ClusterApi, kind: Kind, *, namespace: str = "") -> AsyncIterator[Page]:
    """Yield a list page by page; all are of one version. Raises ApiError, ApiUnknown."""
    token = ""
    while True:
        page = await api.list(kind, namespace=namespace, token=token)
        yield page
        token = page.next_token
        if not token:
            return
