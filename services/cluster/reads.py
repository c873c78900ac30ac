"""Reading: one object, lists with selectors and pages, and the opening of watches."""

from __future__ import annotations

import base64
import binascii
import json
from collections import OrderedDict
from collections.abc import Callable
from itertools import count

from events.canonical import Json
from events.kinds import Kind
from services.cluster import selectors
from services.cluster.refusal import Refused, bad_request, expired, not_found
from services.cluster.routes import CUSTOM, Request, Response, Target
from services.cluster.store import Store
from services.cluster.watches import Watch

SNAPSHOTS_MAX = 64  # lists whose further pages can still be asked for
_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results."
)


def number(request: Request, name: str) -> int:
    """Return a whole number from the query, 0 if it is absent. Raises Refused (400)."""
    text = request.query.get(name, "")
    if not text:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise bad_request(f"invalid value for {name}: {text!r}: must be a whole number")
    return int(text)


def version_of(request: Request) -> int:
    """Return the resource version that a read asks for. Raises Refused (400) if it is none."""
    text = request.query.get("resourceVersion", "")
    if text and not (text.isascii() and text.isdigit() and len(text) <= 40):
        raise bad_request(f'resourceVersion: Invalid value: "{text}": must be a whole number')
    return int(text or 0)


class Reads:
    """Lists, pages, single objects and watches."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._snapshots: OrderedDict[str, list[Json]] = OrderedDict()
        self._kept = count()
        self._overrides: dict[tuple[Kind, str], list[Json]] = {}

    def override(self, kind: Kind, objects: list[Json], client: str = "") -> None:
        """Let the next list of this kind (by this client, if named) hold exactly these objects."""
        self._overrides[(kind, client)] = objects

    def begin(self) -> None:
        """Forget the lists whose further pages could be asked for: the store has gone back."""
        self._snapshots.clear()

    def get(self, target: Target) -> Json:
        """Return an object. Raises Refused (404)."""
        item = self._store.get(target.kind, target.namespace, target.name)
        if item is None:
            raise not_found(target.kind, target.name)
        return item

    def predicate(self, target: Target, request: Request) -> Callable[[Json], bool]:
        """Return what a list or a watch asks for, as a predicate."""
        kind = target.kind
        labels = selectors.labels(request.query.get("labelSelector", ""))
        fields = selectors.fields(kind, request.query.get("fieldSelector", ""))
        return lambda item: labels(item) and fields(item)

    def select(self, target: Target, request: Request) -> list[Json]:
        """Return the objects that a collection request names."""
        matches = self.predicate(target, request)
        if target.name:
            return [item for item in [self._store.get(target.kind, target.namespace, target.name)] if item]
        return [item for item in self._store.items(target.kind, target.namespace) if matches(item)]

    def page(self, target: Target, request: Request) -> Response:
        """Return a list, or one page of it."""
        limit, token = number(request, "limit"), request.query.get("continue", "")
        if token:
            version, start, items = self._continued(token)
        else:
            self._wait_for_version(request)
            version, start, items = self._store.version, 0, self._fresh(target, request)
        page = items[start : start + limit] if limit else items[start:]
        rest = len(items) - start - len(page)
        meta: Json = {"resourceVersion": str(version)}
        if rest > 0:
            meta["continue"] = self._keep(version, start + len(page), items, token)
            if not request.query.get("labelSelector") and not request.query.get("fieldSelector"):
                meta["remainingItemCount"] = rest
        kind = target.kind
        body: Json = {"kind": f"{kind.name}List", "apiVersion": kind.api_version, "metadata": meta}
        body["items"] = page if kind in CUSTOM else [_untyped(item) for item in page]
        return Response(200, body)

    def _fresh(self, target: Target, request: Request) -> list[Json]:
        for key in ((target.kind, request.client), (target.kind, "")):
            if key in self._overrides:
                matches = self.predicate(target, request)
                return [item for item in self._overrides.pop(key) if matches(item)]
        return self.select(target, request)

    def _wait_for_version(self, request: Request) -> None:
        asked, match = version_of(request), request.query.get("resourceVersionMatch", "")
        if asked > self._store.version:
            message = f"Too large resource version: {asked}, current: {self._store.version}"
            raise Refused(504, "Timeout", message, {"retryAfterSeconds": 1, "causes": [
                {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]})  # fmt: skip
        if match == "Exact" and asked != self._store.version:
            raise expired(f"The resourceVersion for the provided list is too old: {asked}")

    def _keep(self, version: int, start: int, items: list[Json], token: str) -> str:
        name = _decoded(token)[1] if token else f"{version}.{next(self._kept)}"
        self._snapshots[name] = items
        self._snapshots.move_to_end(name)
        while len(self._snapshots) > SNAPSHOTS_MAX:
            self._snapshots.popitem(last=False)
        return base64.urlsafe_b64encode(json.dumps([version, name, start]).encode()).decode()

    def _continued(self, token: str) -> tuple[int, int, list[Json]]:
        version, name, start = _decoded(token)
        items = self._snapshots.get(name)
        if items is None:
            raise expired(_TOO_OLD)
        return version, start, items

    def watch(self, target: Target, request: Request) -> Watch:
        """Open a watch. One that starts too far back carries the 410 as its first event."""
        text = request.query.get("resourceVersion", "")
        return Watch(self._store, target.kind, target.namespace, target.name, self.predicate(target, request),
                     version_of(request) if text not in ("", "0") else None, request.client)  # fmt: skip


def _decoded(token: str) -> tuple[int, str, int]:
    try:
        version, name, start = json.loads(base64.urlsafe_b64decode(token.encode()))
    except (ValueError, binascii.Error, TypeError, RecursionError) as error:
        raise bad_request("continue key is not valid") from error
    if not (isinstance(version, int) and isinstance(name, str) and isinstance(start, int)) or start < 0:
        raise bad_request("continue key is not valid")
    return version, name, start


def _untyped(item: Json) -> Json:
    """Return the object as a list of a core kind holds it: without kind and apiVersion."""
    return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}
