"""The write checks for a real API server: an admission webhook (``AdmissionReview`` v1) over TLS.

Off by default, and to be left off where Volcano's own admission runs. ``/mutate`` completes an object and answers with
a JSON patch; ``/validate`` only judges, after all other webhooks had their say. Both refuse with the texts of
``scheduling.admission`` (scheduling/J-1 to J-3, Q-5, AS-13).

The rules are pure and look things up in a cluster that they are handed. Here that is what the API server says at this
moment, never a cache that may lag: a queue that was just made is there, one that was just closed is closed. A rule is
asked with what is known so far; what it misses is fetched, and it is asked again.

An answer that cannot be found out (the API server does not answer) is HTTP 503, so that the ``failurePolicy`` of the
webhook's configuration decides.
"""

from __future__ import annotations

import base64
import copy
import json
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import structlog
from aiohttp import web

from adapters.cluster.port import ApiError, ApiUnknown, ClusterApi, pages
from events.canonical import Json
from events.kinds import Kind
from scheduling.admission import KINDS, Denied, complete_and_judge

#: No object of the API is larger than etcd's limit of 1.5 MiB; a review holds two.
BODY_BYTES_MAX: Final = 8 * 1024 * 1024
_LOOKUPS_MAX: Final = 200
_LOG = structlog.get_logger("webhook")
_VERBS: Final = {"CREATE": "create", "UPDATE": "update", "DELETE": "delete"}
_BY_RESOURCE: Final = {(kind.group, kind.plural): kind for kind in KINDS}
_MALFORMED = (TypeError, ValueError, KeyError, AttributeError, ArithmeticError, IndexError, RecursionError)


class _Wanted(Exception):
    """A rule asked for something that was not fetched yet. Without ``name``: all objects of the kind."""

    def __init__(self, kind: Kind, namespace: str, name: str) -> None:
        super().__init__(kind.name)
        self.kind, self.namespace, self.name = kind, namespace, name


@dataclass
class _Known:
    """The cluster as far as it was asked about in one review."""

    objects: dict[tuple[str, str, str], Json | None] = field(default_factory=dict)
    lists: dict[tuple[str, str], list[Json]] = field(default_factory=dict)

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        key = (kind.name, namespace, name)
        if key not in self.objects:
            raise _Wanted(kind, namespace, name)
        return self.objects[key]

    def items(self, kind: Kind, namespace: str = "") -> list[Json]:
        key = (kind.name, namespace)
        if key not in self.lists:
            raise _Wanted(kind, namespace, "")
        return self.lists[key]

    async def fetch(self, api: ClusterApi, wanted: _Wanted) -> None:
        """Ask the API server. Raises ApiUnknown; ApiError for anything but 404."""
        if not wanted.name:
            found: list[Json] = []
            async for page in pages(api, wanted.kind, namespace=wanted.namespace):
                found += page.items
            self.lists[wanted.kind.name, wanted.namespace] = found
            return
        key = (wanted.kind.name, wanted.namespace, wanted.name)
        try:
            self.objects[key] = await api.get(wanted.kind, wanted.namespace, wanted.name)
        except ApiError as error:
            if error.status != 404:
                raise
            self.objects[key] = None


class Webhook:
    """Answers reviews. ``check_allocated_pods``: a queue that holds pods may not be deleted (scheduling/Q-5)."""

    def __init__(self, api: ClusterApi, *, check_allocated_pods: bool = False) -> None:
        self._api, self._check_allocated_pods = api, check_allocated_pods

    def app(self) -> web.Application:
        """Return the application with its two paths."""
        app = web.Application(client_max_size=BODY_BYTES_MAX)
        app.add_routes([web.post("/mutate", self._mutate), web.post("/validate", self._validate)])
        return app

    async def _mutate(self, request: web.Request) -> web.Response:
        return await self._answer(request, patches=True)

    async def _validate(self, request: web.Request) -> web.Response:
        return await self._answer(request, patches=False)

    async def _answer(self, request: web.Request, *, patches: bool) -> web.Response:
        try:
            review = json.loads(await request.read())
            asked = review["request"]
            uid = asked["uid"]
        except _MALFORMED:
            return web.Response(status=400, text="not an AdmissionReview\n")
        try:
            response = await self.review(asked, patches=patches)
        except _MALFORMED:
            return web.Response(status=400, text="not an AdmissionReview\n")
        except (ApiError, ApiUnknown) as error:
            _LOG.warning("a write cannot be judged", error=str(error))
            return web.Response(status=503, text=f"{error}\n")
        answer = {"uid": uid, **response}
        return web.json_response({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})

    async def review(self, asked: Mapping[str, Any], *, patches: bool) -> Json:
        """Judge one request; return the response without its uid. Raises ApiError and ApiUnknown."""
        resource = asked.get("resource") or {}
        kind = _BY_RESOURCE.get((resource.get("group") or "", resource.get("resource") or ""))
        verb = _verb(asked)
        if kind is None or not verb:
            return {"allowed": True}
        before = asked.get("object")
        try:
            after = await self._judge(verb, kind, before, asked.get("oldObject"))
        except Denied as denied:
            return _no(403, "Forbidden", denied.message)
        except _MALFORMED as error:
            return _no(422, "Invalid", f"{kind.name} cannot be read: {error!r}")
        patch = difference(before, after) if patches and before is not None else []
        if not patch:
            return {"allowed": True}
        return {"allowed": True, "patchType": "JSONPatch", "patch": base64.b64encode(_bytes(patch)).decode("ascii")}

    async def _judge(self, verb: str, kind: Kind, new: Json | None, old: Json | None) -> Json | None:
        known = _Known()
        for _ in range(_LOOKUPS_MAX):
            fresh = copy.deepcopy(new)
            try:
                complete_and_judge(verb, kind, fresh, old, known, check_allocated_pods=self._check_allocated_pods)
            except _Wanted as wanted:
                await known.fetch(self._api, wanted)
                continue
            return fresh
        raise ApiUnknown(f"{kind.name}: more than {_LOOKUPS_MAX} objects to look up")


def _verb(asked: Mapping[str, Any]) -> str:
    verb = _VERBS.get(asked.get("operation") or "", "")
    subresource = asked.get("subResource") or ""
    if subresource:
        return "status" if verb == "update" and subresource == "status" else ""
    return verb


def _no(code: int, reason: str, message: str) -> Json:
    return {"allowed": False, "status": {"code": code, "reason": reason, "message": message}}


def _bytes(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def difference(before: Any, after: Any, path: str = "") -> list[Json]:
    """Return the JSON patch (RFC 6902) that makes ``after`` of ``before``; nothing is ever taken away."""
    if before == after:
        return []
    if isinstance(before, dict) and isinstance(after, dict):
        found = []
        for key, value in after.items():
            where = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            found += difference(before[key], value, where) if key in before else [_add(where, value)]
        return found
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        pairs = zip(before, after, strict=True)
        return [step for i, (old, new) in enumerate(pairs) for step in difference(old, new, f"{path}/{i}")]
    return [{"op": "replace", "path": path, "value": after}]


def _add(path: str, value: Any) -> Json:
    return {"op": "add", "path": path, "value": value}


class Certificates:
    """The TLS files, read again when they have changed (whoever issues them renews them in place)."""

    def __init__(self, cert_file: str, key_file: str) -> None:
        self._files = (Path(cert_file), Path(key_file))
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._seen: tuple[int, ...] = ()
        self.load()

    def load(self) -> bool:
        """Read the files if they are others than before; return whether they were. Raises OSError (SSLError is one)."""
        seen = tuple(path.stat().st_mtime_ns for path in self._files)
        if seen == self._seen:
            return False
        self.context.load_cert_chain(*self._files)
        self._seen = seen
        return True

    async def step(self) -> bool:
        """Look after the files, as a service that is driven."""
        if self.load():
            _LOG.info("certificate read", file=str(self._files[0]))
        return False


async def serve(
    api: ClusterApi, host: str, port: int, certificates: Certificates, *, check_allocated_pods: bool = False
) -> tuple[Callable[[], Awaitable[None]], int]:
    """Serve the webhook; return how it is ended and its port. Raises OSError."""
    runner = web.AppRunner(Webhook(api, check_allocated_pods=check_allocated_pods).app(), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, port, ssl_context=certificates.context).start()
    found: int = runner.addresses[0][1]
    _LOG.info("serves", host=host, port=found)
    return runner.cleanup, found
