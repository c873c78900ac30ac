"""Events for people (scheduling section 2.7): the same event is the same object, however often it is sent.

An event's name is made of its object, reason and text. Sent again it raises the count of the one that is there, or, for
what can happen only once, changes nothing. Events are the one effect that may be lost: a full queue drops its oldest.
And they are the one that can wait: while bindings are under way an event stays in the queue for some seconds.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from adapters.clock import Clock
from adapters.cluster.port import ApiError, ApiUnknown, ClusterApi
from events.canonical import Json
from events.kinds import EVENT, Kind

MESSAGE_MAX: Final = 1024
QUEUE_MAX: Final = 10_000
COMPONENT: Final = "gpuledger"
#: How long an event waits at most for the bindings that are under way, in milliseconds.
HELD_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Subject:
    """The object that an event is about."""

    kind: Kind
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class _Pending:
    subject: Subject
    type: str
    reason: str
    message: str
    again: bool
    at_ms: int


class Recorder:
    """Collects events and sends them when told to, ``parallel`` at once.

    ``pressed`` says whether there is something more urgent to ask of the API server.
    """

    def __init__(
        self, api: ClusterApi, clock: Clock, *, parallel: int = 1, pressed: Callable[[], bool] = lambda: False
    ) -> None:
        self._api, self._clock, self._parallel, self._pressed = api, clock, parallel, pressed
        self._queue: deque[_Pending] = deque(maxlen=QUEUE_MAX)
        self._sending = asyncio.Lock()

    def emit(self, subject: Subject, kind: str, reason: str, message: str, *, again: bool = True) -> None:
        """Send an event of this kind (Normal, Warning) with the next flush; ``again``: it counts if it is repeated."""
        text = shorten(message)
        self._queue.append(_Pending(subject, kind, reason, text, again, self._clock.now_ms()))

    async def flush(self) -> bool:
        """Send what is due; True if anything was sent. What gets no answer stays for the next flush."""
        async with self._sending:
            return await self._flush()

    async def _flush(self) -> bool:
        sent = False
        while self._queue and self._due(self._queue[0]):
            part = [self._queue.popleft() for _ in range(min(self._parallel, len(self._queue)))]
            answers = await self._all(part)
            self._put_back([event for event, done in zip(part, answers, strict=True) if not done])
            sent |= any(answers)
            if not all(answers):
                break
        return sent

    def _put_back(self, events: list[_Pending]) -> None:
        """Put the oldest events back in front; what came meanwhile may have left no room for all of them."""
        room = QUEUE_MAX - len(self._queue)
        self._queue.extendleft(reversed(events[max(len(events) - room, 0) :]))

    def _due(self, oldest: _Pending) -> bool:
        # A time ahead is one of before the clock was set back.
        return not (self._pressed() and 0 <= self._clock.now_ms() - oldest.at_ms < HELD_MS)

    async def _all(self, part: Sequence[_Pending]) -> list[bool]:
        if len(part) == 1:
            return [await self._sent(part[0])]
        return await asyncio.gather(*(self._sent(event) for event in part))

    async def _sent(self, event: _Pending) -> bool:
        """Send one event; False if no answer came. A final no (a namespace that is going away) loses the event only."""
        try:
            await self._send(event)
        except ApiUnknown:
            return False
        except ApiError:
            return True
        return True

    async def _send(self, event: _Pending) -> None:
        item = _event(event)
        try:
            await self._api.create(EVENT, item)
        except ApiError as error:
            if error.status != 409:
                raise
            if event.again:
                await self._count(item, rfc3339(event.at_ms))

    async def _count(self, item: Json, time: str) -> None:
        namespace, name = item["metadata"]["namespace"], item["metadata"]["name"]
        found = await self._api.get(EVENT, namespace, name)
        count = found.get("count")
        known = count if isinstance(count, int) else 1
        await self._api.patch(EVENT, namespace, name, {"count": known + 1, "lastTimestamp": time})


def shorten(text: str, limit: int = MESSAGE_MAX) -> str:
    """Return a text of at most so many bytes, cut with an ellipsis."""
    raw = text.encode("utf-8", "replace")
    if len(raw) <= limit:
        return raw.decode("utf-8")
    return raw[: limit - 3].decode("utf-8", "ignore") + "..."


def rfc3339(time_ms: int) -> str:
    """Return Unix milliseconds as the API writes times: RFC 3339, UTC, whole seconds."""
    return datetime.fromtimestamp(time_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _event(event: _Pending) -> Json:
    subject = event.subject
    time = rfc3339(event.at_ms)
    content = "\0".join((subject.uid, event.type, event.reason, event.message))
    mark = hashlib.sha256(content.encode("utf-8", "replace")).hexdigest()[:16]
    reference = {
        "apiVersion": subject.kind.api_version,
        "kind": subject.kind.name,
        "namespace": subject.namespace,
        "name": subject.name,
        "uid": subject.uid,
    }
    return {
        "apiVersion": EVENT.api_version,
        "kind": EVENT.name,
        "metadata": {"namespace": subject.namespace or "default", "name": f"{subject.name[:236]}.{mark}"},
        "involvedObject": {key: value for key, value in reference.items() if value},
        "type": event.type,
        "reason": event.reason,
        "message": event.message,
        "count": 1,
        "firstTimestamp": time,
        "lastTimestamp": time,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "reportingInstance": COMPONENT,
    }
