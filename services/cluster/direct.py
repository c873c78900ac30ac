"""The embedded cluster as a ``ClusterApi`` without a socket: what the services are given in a simulation.

Every request goes through ``EmbeddedApi.handle``, so the semantics are those of the wire; only bytes, timing and lost
answers are missing. What comes out is a copy: nobody can change the cluster by changing what he was given.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from adapters.cluster.port import ApiError, Page, WatchEvent, WatchStream
from events.canonical import Json
from events.kinds import POD, Kind
from services.cluster import patches
from services.cluster.api import EmbeddedApi
from services.cluster.refusal import Refused
from services.cluster.routes import CUSTOM, WITH_STATUS, Request, Response
from services.cluster.watches import Watch


class DirectWatch:
    """An open watch of the embedded cluster."""

    def __init__(self, api: EmbeddedApi, watch: Watch) -> None:
        self._api, self._watch = api, watch
        self._news = asyncio.Event()
        api.store.listeners.append(self._told)

    def _told(self, kind: Kind) -> None:
        if kind == self._watch.kind:
            self._news.set()

    async def next(self, wait: bool) -> Sequence[WatchEvent] | None:
        """Return the events that are there; None at the end of the stream."""
        while True:
            self._news.clear()
            lines = self._watch.take()
            if lines:
                return [WatchEvent(type_, patches.copied(item)) for type_, item in lines]
            if self._watch.ended:
                return None
            if not wait:
                return []
            await self._news.wait()

    async def close(self) -> None:
        self._watch.close()
        self._news.set()
        if self._told in self._api.store.listeners:
            self._api.store.listeners.remove(self._told)


class DirectApi:
    """The port on the embedded cluster. ``client`` names who asks, so that a fault can be meant for one of them.

    ``after_write`` is awaited after each write. Without a socket nothing here ever waits, so a client that writes ten
    thousand pods would keep everybody else on the event loop waiting; ``asyncio.sleep(0)`` lets them in between.
    """

    def __init__(
        self, api: EmbeddedApi, client: str = "", after_write: Callable[[], Awaitable[None]] | None = None
    ) -> None:
        self._api, self._client, self._after_write = api, client, after_write

    async def _write(self, method: str, path: str, body: Any, content_type: str = "application/json") -> Json:
        try:
            return self._ask(method, path, body=body, content_type=content_type)
        finally:
            if self._after_write is not None:
                await self._after_write()

    def _ask(self, method: str, path: str, query: dict[str, str] | None = None, body: Any = None,
             content_type: str = "application/json", *, as_written: bool = False) -> Json:  # fmt: skip
        request = Request(method, path, query or {}, body, content_type, self._client, as_written)
        response: Response = self._api.handle(request)
        if response.status >= 400:
            raise ApiError(response.status, response.body.get("reason", ""), response.body.get("message", ""))
        return response.body

    async def list(self, kind: Kind, *, namespace: str = "", limit: int = 500, token: str = "", selector: str = "",
                   fields: str = "") -> Page:  # fmt: skip
        query = {"limit": str(limit), "continue": token, "labelSelector": selector, "fieldSelector": fields}
        body = self._ask("GET", kind.path(namespace), {key: value for key, value in query.items() if value})
        items = [{"apiVersion": kind.api_version, "kind": kind.name, **patches.copied(item)} for item in body["items"]]
        return Page(items, body["metadata"]["resourceVersion"], body["metadata"].get("continue", ""))

    async def watch(self, kind: Kind, version: str, *, timeout_s: int = 300) -> WatchStream:
        request = Request("GET", kind.path(), {"watch": "1", "resourceVersion": version}, client=self._client)
        try:
            return DirectWatch(self._api, self._api.watch(request))
        except Refused as refused:
            raise ApiError(refused.status, refused.reason, refused.message) from refused

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        return _copy(self._ask("GET", kind.path(namespace, name)))

    async def create(self, kind: Kind, item: Json) -> Json:
        namespace = item.get("metadata", {}).get("namespace") or "default"
        return _copy(await self._write("POST", kind.path(namespace), item))

    async def update(self, kind: Kind, item: Json, subresource: str = "") -> Json:
        meta = item["metadata"]
        path = kind.path(meta.get("namespace") or "", meta["name"], subresource)
        return _copy(await self._write("PUT", path, item))

    async def patch(self, kind: Kind, namespace: str, name: str, merge: Json, subresource: str = "") -> Json:
        path = kind.path(namespace, name, subresource)
        return _copy(await self._write("PATCH", path, merge, patches.MERGE_PATCH))

    async def delete(self, kind: Kind, namespace: str, name: str, *, uid: str = "", version: str = "",
                     grace_s: int | None = None, propagation: str = "Background") -> None:  # fmt: skip
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation}
        wanted = {key: value for key, value in (("uid", uid), ("resourceVersion", version)) if value}
        if wanted:
            options["preconditions"] = wanted
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        await self._write("DELETE", kind.path(namespace, name), options)

    async def bind(self, namespace: str, name: str, binding: dict[str, Any]) -> None:
        await self._write("POST", POD.path(namespace, name, "binding"), binding)

    def apply(self, kind: Kind, item: Json) -> Json:
        """Create an object or merge it into what exists, as ``kubectl apply`` does; what a server would own is kept.

        Raises ApiError if validation or admission refuse it.
        """
        meta = item.get("metadata")
        meta = meta if isinstance(meta, dict) else {}
        namespace = str(meta.get("namespace") or "default") if kind.namespaced else ""
        name = str(meta.get("name") or "")
        if not name or self._api.store.get(kind, namespace, name) is None:
            return _copy(self._ask("POST", kind.path(namespace), body=item, as_written=True))
        content_type = patches.MERGE_PATCH if kind in CUSTOM else patches.STRATEGIC_PATCH
        owned = ("uid", "resourceVersion", "creationTimestamp")
        patch = {**item, "metadata": {key: value for key, value in meta.items() if key not in owned}}
        result = self._ask("PATCH", kind.path(namespace, name), body=patch, content_type=content_type)
        if kind in WITH_STATUS and "status" in item:
            status = {"status": item["status"]}
            result = self._ask("PATCH", kind.path(namespace, name, "status"), body=status, content_type=content_type)
        return _copy(result)


def _copy(item: Json) -> Json:
    copied: Json = patches.copied(item)
    return copied
