"""A process's way to the API server, and everything that can happen on it: answers, watches, lists."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from functools import partial
from random import Random
from typing import Any, Final, TypeAlias, TypeVar

from adapters.cluster.port import ApiError, ApiUnknown, Page, WatchEvent, WatchStream
from events.canonical import Json
from events.kinds import POD, Kind
from services.cluster import patches
from services.cluster.api import EmbeddedApi
from services.cluster.direct import DirectApi
from services.cluster.refusal import Refused, failure
from services.cluster.routes import Request
from services.cluster.watches import Watch
from services.simulator.chaos.driving import at_once
from services.simulator.chaos.lanes import hold
from services.simulator.chaos.network import Network
from services.simulator.chaos.witness import Witness

CONFLICT, INVALID, BUSY = "api: 409", "api: 422", "api: 429"
ERROR, ERROR_AFTER = "api: 500 without effect", "api: 500 with effect"
TIMEOUT, TIMEOUT_AFTER, TIMEOUT_LATE = (
    "api: time-out without effect", "api: time-out with effect", "api: time-out, the effect comes late",
)  # fmt: skip
WRITE_FAULTS: Final = (CONFLICT, INVALID, BUSY, ERROR, ERROR_AFTER, TIMEOUT, TIMEOUT_AFTER, TIMEOUT_LATE)
READ_FAULTS: Final = (BUSY, ERROR, TIMEOUT)
#: What is told of a late effect when it comes: it did what was asked, or was refused by then.
ARRIVED: Final = "api: took effect after its sender gave up"
TOO_LATE: Final = "api: came too late to have an effect"

CLOSED, EXPIRED, MISSED, AGAIN, BOOKMARK, BOOKMARK_LOST, SLOW, BROKEN = (
    "watch: closed", "watch: 410", "watch: missed DELETE", "watch: events again", "watch: bookmark",
    "watch: bookmark lost", "watch: events late", "watch: error event",
)  # fmt: skip
STALE: Final = "list: stale"
#: So many events back one can come again.
_REMEMBERED: Final = 6
WATCH_FAULTS: Final = (CLOSED, EXPIRED, MISSED, AGAIN, BOOKMARK, BOOKMARK_LOST, SLOW, BROKEN)
API_FAULTS: Final = (*WRITE_FAULTS, *WATCH_FAULTS, STALE)

_REASONS: Final = {
    CONFLICT: (409, "Conflict", "the object has been modified"),
    INVALID: (422, "Invalid", "a webhook says no"),
    BUSY: (429, "TooManyRequests", "the server has received too many requests"),
}

Answer = TypeVar("Answer")
#: Sends a request.
Send: TypeAlias = Callable[[], Coroutine[Any, Any, Answer]]


class ApiLink:
    """The port ``ClusterApi`` as one process has it. ``witness`` is told of a binder's Bindings and deletions."""

    def __init__(self, api: EmbeddedApi, network: Network, who: str, rng: Random) -> None:
        self._api, self._network, self._who, self._rng = api, network, who, rng
        self._direct = DirectApi(api, who)
        self.witness: Witness | None = None

    # --- requests ---

    async def _ask(self, verb: str, send: Send[Answer], *, writes: bool) -> Answer:
        network = self._network
        if network.calm:
            return await send()
        await network.point(self._who, f"before {verb}")
        server = self._api.store.restores
        if network.is_cut(self._who, "api", "to"):
            raise ApiUnknown("no answer: the API server is not reached")
        fault = network.take(self._who, verb, WRITE_FAULTS if writes else READ_FAULTS) if network.armed else ""
        if fault in _REASONS:
            raise ApiError(*_REASONS[fault])
        if fault in (ERROR, TIMEOUT):
            raise ApiUnknown("no answer")
        if fault == TIMEOUT_LATE:
            network.later(self._rng.randint(1, 40), ARRIVED, lambda: self._arrive(send))
            raise ApiUnknown("no answer in time")
        answer = await send()
        await network.point(self._who, f"after {verb}")
        if fault in (ERROR_AFTER, TIMEOUT_AFTER) or network.is_cut(self._who, "api", "from"):
            raise ApiUnknown("the answer was lost")
        if network.armed and network.take(self._who, verb, (STALE,)):
            await hold()  # the answer is on its way while the cluster moves on: when it comes it is old
        if server != self._api.store.restores:
            raise ApiUnknown("the connection broke: the API server went away")
        return answer

    def _arrive(self, send: Send[object]) -> None:
        try:
            at_once(send())
        except ApiError:
            self._network.fired[TOO_LATE] += 1

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        return await self._ask("get", partial(self._direct.get, kind, namespace, name), writes=False)

    async def create(self, kind: Kind, item: Json) -> Json:
        return await self._ask("create", partial(self._direct.create, kind, item), writes=True)

    async def update(self, kind: Kind, item: Json, subresource: str = "") -> Json:
        return await self._ask("update", partial(self._direct.update, kind, item, subresource), writes=True)

    async def patch(self, kind: Kind, namespace: str, name: str, merge: Json, subresource: str = "") -> Json:
        send = partial(self._direct.patch, kind, namespace, name, merge, subresource)
        return await self._ask("patch", send, writes=True)

    async def delete(
        self, kind: Kind, namespace: str, name: str, *, uid: str = "", version: str = "", grace_s: int | None = None,
        propagation: str = "Background",
    ) -> None:  # fmt: skip
        send: Send[None] = partial(
            self._direct.delete, kind, namespace, name, uid=uid, version=version, grace_s=grace_s,
            propagation=propagation,
        )  # fmt: skip
        if self.witness and kind == POD:
            send = self.witness.deleting(namespace, name, send)
        await self._ask("delete", send, writes=True)

    async def bind(self, namespace: str, name: str, binding: dict[str, Any]) -> None:
        send = partial(self._direct.bind, namespace, name, binding)
        await self._ask("bind", self.witness.asked(binding, send) if self.witness else send, writes=True)

    async def list(
        self, kind: Kind, *, namespace: str = "", limit: int = 500, token: str = "", selector: str = "",
        fields: str = "",
    ) -> Page:  # fmt: skip
        send = partial(
            self._direct.list, kind, namespace=namespace, limit=limit, token=token, selector=selector, fields=fields
        )
        return await self._ask("list", send, writes=False)

    # --- watches ---

    async def watch(self, kind: Kind, version: str, *, timeout_s: int = 300) -> WatchStream:
        network = self._network
        if not network.calm:
            await network.point(self._who, "before watch")
            if network.is_cut(self._who, "api", "to") or network.is_cut(self._who, "api", "from"):
                raise ApiUnknown("no answer: the API server is not reached")
        request = Request("GET", kind.path(), {"watch": "1", "resourceVersion": version}, client=self._who)
        try:
            ends_ms = self._api.store.clock.now_ms() + timeout_s * 1000
            return Stream(self._api, self._api.watch(request), ends_ms, network, self._who, self._rng)
        except Refused as refused:
            raise ApiError(refused.status, refused.reason, refused.message) from refused


class Stream:
    """An open watch, which the server ends at its time."""

    def __init__(
        self, api: EmbeddedApi, watch: Watch, ends_ms: int, network: Network, who: str, rng: Random
    ) -> None:  # fmt: skip
        self._clock, self._watch, self._ends_ms = api.store.clock, watch, ends_ms
        self._network, self._who, self._rng = network, who, rng
        self._seen: list[WatchEvent] = []
        self._slow_until = 0

    async def next(self, wait: bool) -> Sequence[WatchEvent] | None:
        network = self._network
        if not network.calm:
            if network.is_cut(self._who, "api", "from"):
                return []
            if self._slow_until > network.step:
                return []
            if network.armed and (fault := self._fault()):
                return self._with(fault)
        events = self._take()
        if not events and self._clock.now_ms() >= self._ends_ms:
            self._watch.close()
        return None if not events and self._watch.ended else events

    def _fault(self) -> str:
        """A missed DELETE and a repeated event need an event to happen to."""
        network, kind = self._network, self._watch.kind.plural
        return network.take(self._who, f"watch of {kind}", WATCH_FAULTS)

    def _with(self, fault: str) -> Sequence[WatchEvent] | None:
        if fault == CLOSED:
            self._watch.close()
            return None
        if fault == EXPIRED:
            self._watch.close()
            return [WatchEvent("ERROR", failure(410, "Expired", "too old resource version"))]
        if fault == BROKEN:
            self._watch.close()
            return [*self._take(), WatchEvent("ERROR", failure(500, "InternalError", "watch broken"))]
        if fault == SLOW:
            self._slow_until = self._network.step + self._rng.randint(5, 60)
            return []
        if fault == MISSED:
            return self._missed()
        if fault == AGAIN:
            events = self._take()
            return [*events, *([self._rng.choice(self._seen)] if self._seen else [])]
        events = self._take()
        return events if fault == BOOKMARK_LOST else [*events, self._bookmark()]

    def _bookmark(self) -> WatchEvent:
        kind, item = self._watch.bookmark()
        return WatchEvent(kind, item)

    def _missed(self) -> Sequence[WatchEvent]:
        """From the first deletion on nothing comes through any more, and the place is too old to go on from."""
        events = self._take()
        kept: list[WatchEvent] = []
        for event in events:
            if event.type == "DELETED":
                break
            kept.append(event)
        self._watch.close()
        return [*kept, WatchEvent("ERROR", failure(410, "Expired", "too old resource version"))]

    def _take(self) -> list[WatchEvent]:
        lines = self._watch.take()
        events = [WatchEvent(type_, patches.copied(item)) for type_, item in lines]
        if events:
            self._seen = [*self._seen, *events][-_REMEMBERED:]
        return events

    async def close(self) -> None:
        self._watch.close()
