"""Events for people (scheduling section 2.7): the same event is the same object, however often it is sent.

Sent again it raises the count of the one that is there, or, for what can happen only once, changes nothing. Events are
the one effect that may be lost: a full queue drops its oldest. And they are the one that can wait: while bindings are
under way an event stays in the queue for some seconds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from adapters.clock import Clock
from adapters.cluster.port import ApiError, ApiUnknown, ClusterApi
from events.canonical import Json
from events.kinds import EVENT
from services.runtime.kube_events import Subject, counted_again, event_about, shorten

QUEUE_MAX: Final = 10_000
COMPONENT: Final = "gpuledger"
#: How long an event waits at most for the bindings that are under way, in milliseconds.
HELD_MS: Final = 10_000


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
        item = event_about(
            event.subject, event.type, event.reason, event.message, component=COMPONENT, at_ms=event.at_ms
        )
        try:
            await self._api.create(EVENT, item)
        except ApiError as error:
            if error.status != 409:
                raise
            if event.again:
                await self._count(item, event.at_ms)

    async def _count(self, item: Json, at_ms: int) -> None:
        namespace, name = item["metadata"]["namespace"], item["metadata"]["name"]
        found = await self._api.get(EVENT, namespace, name)
        await self._api.patch(EVENT, namespace, name, counted_again(found, at_ms))
