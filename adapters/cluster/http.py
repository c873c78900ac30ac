"""A Kubernetes API server over HTTP: raw JSON in and out, through kubernetes-asyncio's configuration and requests.

The library brings what is tedious and settled: kubeconfig, in-cluster credentials, token refresh, TLS and the session.
It does not bring its typed models (they drop fields they do not know) nor its watch (it retries a 410 with the version
that has just been refused): objects stay plain JSON and the watch's lines are split here.

What came back is one of three things: an object; ``ApiError``, a final answer that says no; ``ApiUnknown``, no final
answer (a time-out, a broken connection, any 5xx, something that no API server says), after which the request may or may
not have had its effect.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import yaml
from kubernetes_asyncio import config as kube_config
from kubernetes_asyncio.client.configuration import Configuration
from kubernetes_asyncio.client.rest import RESTClientObject
from kubernetes_asyncio.config import ConfigException

from adapters.cluster.port import ApiError, ApiUnknown, Page, WatchEvent
from events.canonical import Json
from events.kinds import POD, Kind
from events.reading import mapping

REQUEST_TIMEOUT_S: Final = 30
CONNECT_TIMEOUT_S: Final = 10
#: No object of the API is larger than etcd's limit of 1.5 MiB; a longer line is not a watch's.
LINE_BYTES_MAX: Final = 16 * 1024 * 1024
READ_BYTES: Final = 2 * 1024 * 1024

Configure = Callable[[], Awaitable[Configuration]]
#: What the library raises for a kubeconfig, an exec plug-in, a token's or a certificate's file that cannot be used.
_UNUSABLE: Final = (ConfigException, OSError, ValueError, RuntimeError, yaml.YAMLError, aiohttp.ClientError)


def server_configuration(url: str, token: str = "") -> Configure:
    """Return how to configure for a plain server URL, with a bearer token if one is given.

    Configuring raises ApiUnknown for a URL that would show a secret: in itself, or the token to a network.
    """

    async def configure() -> Configuration:
        parts = urlsplit(url)
        if "@" in parts.netloc:
            raise ApiUnknown("kubernetes.server: a URL without user and password; kubernetes.token says who asks")
        if token and parts.scheme == "http" and parts.hostname not in ("localhost", "127.0.0.1", "::1"):
            raise ApiUnknown(f"kubernetes.server {url}: a token is not sent in plain text off loopback, use https")
        made = _configuration(url.rstrip("/"))
        if token:
            made.api_key["BearerToken"] = f"Bearer {token}"
        return made

    return configure


def kubeconfig_configuration(path: str = "", context: str = "") -> Configure:
    """Return how to configure from a kubeconfig file (empty: the usual places) and one of its contexts."""

    async def configure() -> Configuration:
        made = _configuration()
        load: Any = kube_config.load_kube_config
        await load(config_file=path or None, context=context or None, client_configuration=made, persist_config=False)
        return made

    return configure


def in_cluster_configuration() -> Configure:
    """Return how to configure from the pod's own service account."""

    async def configure() -> Configuration:
        made = _configuration()
        load: Any = kube_config.load_incluster_config
        load(client_configuration=made)
        return made

    return configure


def _configuration(host: str = "") -> Configuration:
    make: Any = Configuration
    made: Configuration = make(host=host or None)
    return made


class KubernetesApi:
    """The port ``ClusterApi`` over HTTP. Open with ``connect``; refused credentials are read anew once per request."""

    def __init__(self, configure: Configure, configuration: Configuration, rest: Any) -> None:
        self._configure = configure
        self._configuration, self._rest = configuration, rest
        self._retired: Any = None
        self._reconnecting = asyncio.Lock()

    @classmethod
    async def connect(cls, configure: Configure) -> KubernetesApi:
        """Read the configuration and open a session; nothing is sent yet. Raises ApiUnknown for a useless one."""
        return cls(configure, *await _opened(configure))

    async def close(self) -> None:
        """Close the session and its connections."""
        for rest in (self._rest, self._retired):
            if rest is not None:
                await rest.close()

    async def list(
        self,
        kind: Kind,
        *,
        namespace: str = "",
        limit: int = 500,
        token: str = "",
        selector: str = "",
        fields: str = "",
    ) -> Page:
        """Return one page of the kind's objects; ``apiVersion`` and ``kind`` of the items are filled in."""
        asked = {"limit": str(limit), "continue": token, "labelSelector": selector, "fieldSelector": fields}
        path = kind.path(namespace)
        found = await self._ask("GET", path, {key: value for key, value in asked.items() if value})
        meta, items = mapping(found.get("metadata")), found.get("items", [])
        items = [] if items is None else items
        if not meta.get("resourceVersion") or not isinstance(items, list) or not all(map(_is_item, items)):
            raise ApiUnknown(f"GET {path}: the answer is no {kind.name}List")  # taken for one, all would seem deleted
        for item in items:
            item.setdefault("apiVersion", kind.api_version)
            item.setdefault("kind", kind.name)
        return Page(items, str(meta["resourceVersion"]), str(meta.get("continue") or ""))

    async def watch(self, kind: Kind, version: str, *, timeout_s: int = 300) -> HttpWatch:
        """Open a watch from a version on, with bookmarks. Raises ApiError 410 if the version is too old."""
        asked = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(timeout_s),
        }
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=CONNECT_TIMEOUT_S, sock_read=timeout_s + REQUEST_TIMEOUT_S
        )
        response = await self._send("GET", kind.path(), asked, None, "", limits)
        if response.status != 200:
            await _json_of(response)
            raise ApiUnknown(f"GET {kind.path()}: watch answered {response.status}")
        return HttpWatch(response)

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        """Return one object. Raises ApiError 404 if it is not there."""
        return await self._ask_item("GET", kind.path(namespace, name))

    async def create(self, kind: Kind, item: Json) -> Json:
        """Create an object and return it as the server made it."""
        return await self._ask_item("POST", kind.path(_namespace(item)), item)

    async def update(self, kind: Kind, item: Json, subresource: str = "") -> Json:
        """Replace an object; its resourceVersion, if it has one, is a precondition."""
        path = kind.path(_namespace(item), str(mapping(item.get("metadata")).get("name") or ""), subresource)
        return await self._ask_item("PUT", path, item)

    async def patch(self, kind: Kind, namespace: str, name: str, merge: Json, subresource: str = "") -> Json:
        """Apply a JSON merge patch; ``metadata.resourceVersion`` and ``uid`` in it are preconditions."""
        path = kind.path(namespace, name, subresource)
        return await self._ask_item("PATCH", path, merge, "application/merge-patch+json")

    async def delete(
        self,
        kind: Kind,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        version: str = "",
        grace_s: int | None = None,
        propagation: str = "Background",
    ) -> None:
        """Delete an object, only if it has this uid and version where they are given."""
        options: Json = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
        preconditions = {key: value for key, value in (("uid", uid), ("resourceVersion", version)) if value}
        if preconditions:
            options["preconditions"] = preconditions
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        await self._ask("DELETE", kind.path(namespace, name), body=options)

    async def bind(self, namespace: str, name: str, binding: Json) -> None:
        """Create the pod's Binding: node and annotations, or nothing (devices/A-6)."""
        await self._ask("POST", POD.path(namespace, name, "binding"), body=binding)

    async def _ask_item(
        self, method: str, path: str, body: Json | None = None, content_type: str = "application/json"
    ) -> Json:
        found = await self._ask(method, path, body=body, content_type=content_type)
        if not _is_item(found):
            raise ApiUnknown(f"{method} {path}: the answer is no object of the API")
        return found

    async def _ask(
        self,
        method: str,
        path: str,
        query: dict[str, str] | None = None,
        body: Json | None = None,
        content_type: str = "application/json",
    ) -> Json:
        limits = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_S, sock_connect=CONNECT_TIMEOUT_S)
        response = await self._send(method, path, query or {}, body, content_type, limits)
        return await _json_of(response)

    async def _send(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: Json | None,
        content_type: str,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        for attempt in (0, 1):
            asked = self._rest
            response = await self._send_once(method, path, query, body, content_type, limits)
            if response.status != 401 or attempt:
                break
            response.release()
            await self._reconnect(asked)
        return response

    async def _send_once(
        self,
        method: str,
        path: str,
        query: dict[str, str],
        body: Json | None,
        content_type: str,
        limits: aiohttp.ClientTimeout,
    ) -> aiohttp.ClientResponse:
        headers = {"Accept": "application/json", "User-Agent": "gpuledger"} | await self._credentials()
        if content_type:
            headers["Content-Type"] = content_type
        try:
            response: aiohttp.ClientResponse = await self._rest.request(
                method,
                f"{self._configuration.host}{path}",
                query_params=list(query.items()),
                headers=headers,
                body=body,
                _preload_content=False,
                _request_timeout=limits,
            )
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ApiUnknown(f"{method} {path}: {type(error).__name__}: {error}") from error
        return response

    async def _credentials(self) -> dict[str, str]:
        settings: Any = self._configuration.auth_settings
        try:
            parts = await settings()
        except _UNUSABLE as error:
            raise ApiUnknown(f"kubernetes: {error}") from error
        return {part["key"]: part["value"] for part in parts.values() if part["value"]}

    async def _reconnect(self, refused: Any) -> None:
        """Read the credentials anew: an exec plug-in's or a file's token has run out, for many requests at once.

        What is still under way on the session so far gets its answer there: it is closed the next time.
        """
        async with self._reconnecting:
            if self._rest is not refused:
                return
            self._configuration, self._rest = await _opened(self._configure)
            old, self._retired = self._retired, refused
            if old is not None:
                await old.close()


async def _opened(configure: Configure) -> tuple[Configuration, Any]:
    """Read the configuration and open a session with it. Raises ApiUnknown if anything of it cannot be used."""
    try:
        configuration = await configure()
        return configuration, _rest(configuration)
    except _UNUSABLE as error:
        raise ApiUnknown(f"kubernetes: {error}") from error


def _rest(configuration: Configuration) -> Any:
    """Return the library's client with a session that does not look into the environment at every request.

    A proxy that the environment names is found here, once; a netrc file never holds credentials for an API server.
    """
    make: Any = RESTClientObject
    made = make(configuration)
    old: aiohttp.ClientSession = made.pool_manager
    made.pool_manager = aiohttp.ClientSession(connector=old.connector, read_bufsize=READ_BYTES)
    old.detach()
    made.proxy = made.proxy or _proxy(configuration.host or "")
    return made


def _proxy(url: str) -> str | None:
    parts = urlsplit(url)
    if not parts.hostname or proxy_bypass(parts.hostname):
        return None
    return getproxies().get(parts.scheme)


def _is_item(found: object) -> bool:
    return isinstance(found, dict) and isinstance(found.get("metadata"), dict)


def _namespace(item: Json) -> str:
    return str(mapping(item.get("metadata")).get("namespace") or "")


async def _json_of(response: aiohttp.ClientResponse) -> Json:
    """Return the object that a response holds, or raise what its status says."""
    try:
        content = await response.read()
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise ApiUnknown(f"{response.method} {response.url.path}: {type(error).__name__}: {error}") from error
    try:
        found = mapping(json.loads(content)) if content else {}
    except (ValueError, RecursionError):
        found = {}
        if response.status < 400:
            raise ApiUnknown(f"{response.method} {response.url.path}: the answer is not JSON") from None
    if response.status < 400:
        return found
    message = str(found.get("message") or content[:300].decode("utf-8", "replace"))
    if response.status >= 500:
        raise ApiUnknown(f"{response.method} {response.url.path}: {response.status} {message}")
    raise ApiError(response.status, str(found.get("reason") or response.reason or ""), message)


class HttpWatch:
    """An open watch: one JSON object a line, as many lines as have come."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self._rest = b""

    async def next(self, wait: bool) -> Sequence[WatchEvent] | None:
        """Return the events that are there; None at the end of the stream, however it ended."""
        while True:
            chunk = await self._chunk(wait)
            if chunk is None:
                return None
            events = self._split(chunk)
            if events is None or events or not wait:
                return events

    async def close(self) -> None:
        """Give the connection up."""
        self._response.close()

    async def _chunk(self, wait: bool) -> bytes | None:
        content = self._response.content
        try:
            chunk = content.read_nowait()
            if not chunk and wait and not content.at_eof():
                chunk = await content.readany()
        except (aiohttp.ClientError, TimeoutError, OSError, asyncio.IncompleteReadError):
            return None
        return None if not chunk and content.at_eof() else chunk

    def _split(self, chunk: bytes) -> list[WatchEvent] | None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX:
            return None
        events = []
        for line in lines:
            event = _event(line)
            if event is not None:
                events.append(event)
        return events


def _event(line: bytes) -> WatchEvent | None:
    """Return the event of one line; a line that is none is one ERROR, which makes the reader list again."""
    if not line.strip():
        return None
    try:
        found = mapping(json.loads(line))
    except (ValueError, RecursionError):
        found = {}
    kind, item = found.get("type"), found.get("object")
    if isinstance(kind, str) and isinstance(item, dict):
        return WatchEvent(kind, item)
    return WatchEvent("ERROR", {"kind": "Status", "code": 410, "message": "a line of the watch could not be read"})
