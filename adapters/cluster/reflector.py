"""A reflector: one kind of one cluster, as a stream of differences that never lies by omission.

It lists (in pages, complete or not at all), then watches from the list's version. What can go wrong has one answer
each (scheduling/F-11a):

- the version is too old (410, as an answer or as an ERROR event): list again;
- the watch ends when its time is over: watch again from the last version seen;
- it ends before, or much later, or with an ERROR event, or cannot be opened: list again. Behind it may be a server that
  was restored to an older state. It takes a watch from a version that it has not reached, and says nothing until it
  has passed it; what happened up to there is never told;
- a list is older than what was seen before: ``ListEnd`` says so, since versions mean nothing across that;
- anything that is not an object of the kind (a Status, a bookmark) is never taken for one.

``poll`` never waits unless asked to: while it backs off it returns nothing. Back-off doubles from half a second to half
a minute; its jitter comes from outside, so that a simulation has none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from adapters.clock import Clock, Waiting
from adapters.cluster.port import ApiError, ApiUnknown, ClusterApi, WatchEvent, WatchStream, pages
from events.canonical import Json
from events.kinds import Kind
from events.projection import version_number

_FIRST_DELAY_MS: Final = 500
_LAST_DELAY_MS: Final = 30_000
#: How long a watch is asked for, and how much later its end may be noticed; a process that slept knows nothing.
WATCH_S: Final = 300
_LATE_MS: Final = 10_000
#: Watches that were refused in a row before the kind is listed again.
_REFUSED_MAX: Final = 3
#: A watch that ended sooner than this is one of a row of broken ones.
_SHORT_WATCH_MS: Final = 5_000
#: Rounds of list and watch within one poll; more than this waits for the next poll.
_ROUNDS_MAX: Final = 4


@dataclass(frozen=True, slots=True)
class Listed:
    """One page of a complete list."""

    items: list[Json]


@dataclass(frozen=True, slots=True)
class ListEnd:
    """The list is complete as of this version: what was not in its pages does not exist.

    ``went_back``: the version is older than one seen before, so the server was restored to an older state.
    """

    version: str
    went_back: bool = False


@dataclass(frozen=True, slots=True)
class Upsert:
    """An object was added or modified."""

    item: Json


@dataclass(frozen=True, slots=True)
class Gone:
    """An object was deleted; ``item`` is its last form as the server tells it."""

    item: Json


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The stream has reached this version."""

    version: str


Delta: TypeAlias = Listed | ListEnd | Upsert | Gone | Bookmark


class Backoff:
    """Exponential back-off on a clock that is asked, never waited for."""

    def __init__(self, clock: Clock, jitter: Callable[[], float] | None, *, first_ms: int = _FIRST_DELAY_MS) -> None:
        self._jitter, self._first_ms = jitter, first_ms
        self._failures = 0
        self._waiting = Waiting(clock)

    @property
    def failures(self) -> int:
        """How many failures came in a row."""
        return self._failures

    @property
    def remaining_ms(self) -> int:
        """How long there is nothing to do, 0 if now is the time."""
        return self._waiting.remaining_ms

    def succeeded(self) -> None:
        self._failures = 0
        self._waiting.begin(0)

    def failed(self) -> None:
        """Put the next attempt off: doubled each time, between half and all of it by jitter."""
        delay = min(self._first_ms << min(self._failures, 16), _LAST_DELAY_MS)
        self._failures += 1
        if self._jitter is not None:
            self._waiting.begin(delay // 2 + int(self._jitter() * (delay // 2)))


class Reflector:
    """Follows one kind. ``jitter`` returns a number from 0 to 1; None means no back-off at all (simulation)."""

    def __init__(self, api: ClusterApi, kind: Kind, clock: Clock, jitter: Callable[[], float] | None = None) -> None:
        self.kind = kind
        self._api = api
        self._clock = clock
        self._version = self._reached = ""
        self._stream: WatchStream | None = None
        self._inbox: list[WatchEvent] = []
        self._ended = False
        self._fetched: WatchStream | None = None
        self._broken = 0
        self._refusals = 0
        self._expired = 0
        self._opened_ms = 0
        self._backoff = Backoff(clock, jitter)
        self.failure = ""

    def relist(self) -> None:
        """Make the next poll begin with a complete list, also while ``fetch`` waits."""
        self._version = ""

    async def close(self) -> None:
        """Close the watch."""
        await self._drop_stream()

    async def poll(self, wait: bool = False) -> list[Delta]:
        """Return what is new, in order; empty if nothing is, or while it backs off."""
        if self._backoff.remaining_ms or (self._fetched and self._version):
            return []
        found: list[Delta] = []
        for _ in range(_ROUNDS_MAX):
            again = await self._round(found, wait and not found)
            if not again:
                break
        return found

    async def fetch(self) -> None:
        """Wait until the open watch has something for the next poll; at once if there is no open watch."""
        stream = self._stream
        if stream is None or self._inbox or self._ended or self._fetched:
            return
        self._fetched = stream
        try:
            events = await stream.next(True)
        finally:
            if self._fetched is stream:
                self._fetched = None
        if stream is self._stream:  # else the kind was listed meanwhile, and another watch follows that list
            self._ended = events is None
            self._inbox += events or ()

    @property
    def watching(self) -> bool:
        """Whether there is an open watch, which ``fetch`` can wait for."""
        return self._stream is not None

    @property
    def idle_ms(self) -> int:
        """How long a poll is known to bring nothing because of a back-off."""
        return self._backoff.remaining_ms

    async def _round(self, found: list[Delta], wait: bool) -> bool:
        """List if need be, watch, read; True if another round may bring more at once."""
        try:
            if not self._version:
                await self._list(found)
            if self._stream is None and not await self._open():
                return True
        except ApiError as error:
            return await self._refused(error)
        except ApiUnknown as error:
            self._version = ""
            self._failed(str(error))
            return False
        return await self._read(found, wait)

    async def _list(self, found: list[Delta]) -> None:
        """Fetch all pages, then deliver them: half a list is none."""
        await self._drop_stream()
        listed = [page async for page in pages(self._api, self.kind)]
        version = listed[-1].version
        found += [Listed(page.items) for page in listed]
        found.append(ListEnd(version, went_back=_older(version, self._reached)))
        self._version = self._reached = version

    async def _open(self) -> bool:
        """Open the watch; False if the server turns out to be older than what it is to be watched from."""
        self._opened_ms = self._clock.now_ms()
        stream = await self._api.watch(self.kind, self._version, timeout_s=WATCH_S)
        try:
            # It may have been restored since the list, and would then be silent.
            now = await self._api.list(self.kind, limit=1)
        except BaseException:
            await stream.close()
            raise
        self._refusals = 0
        if _older(now.version, self._version):
            await stream.close()
            self._version = ""
            return False
        self._stream = stream
        return True

    async def _read(self, found: list[Delta], wait: bool) -> bool:
        events, ended = self._inbox, self._ended
        self._inbox, self._ended = [], False
        if not events and not ended and self._stream is not None:
            more: Sequence[WatchEvent] | None = await self._stream.next(wait)
            events, ended = list(more or ()), more is None
        for event in events:
            if event.type == "ERROR":
                return await self._error(event.object)
            self._take(event, found)
        if events:
            self._expired = 0
        if ended:
            await self._broke()
        return ended and self._broken <= 1

    def _take(self, event: WatchEvent, found: list[Delta]) -> None:
        """Turn one event into a delta; what is no object of the kind moves nothing but, as a bookmark, the version."""
        item = event.object
        version = _version(item)
        if event.type == "BOOKMARK":
            if version:
                self._advance_to(version)
                found.append(Bookmark(version))
        elif event.type in ("ADDED", "MODIFIED", "DELETED") and self._is_object(item):
            self._advance_to(version)
            found.append(Gone(item) if event.type == "DELETED" else Upsert(item))

    def _is_object(self, item: Json) -> bool:
        meta = item.get("metadata")
        named = isinstance(meta, dict) and isinstance(meta.get("name"), str)
        return named and item.get("kind", self.kind.name) == self.kind.name

    def _advance_to(self, version: str) -> None:
        """Remember where the stream is; an event that comes late does not move it back."""
        here, there = version_number(self._version), version_number(version)
        if version and (here is None or there is None or there > here):
            self._version = self._reached = version

    async def _error(self, status: Json) -> bool:
        code = status.get("code")
        self.failure = f"{code}: {status.get('message')}"
        if code == 410 or status.get("reason") in ("Expired", "Gone"):
            return await self._too_old()
        await self._broke()
        return self._broken <= 1

    async def _broke(self) -> None:
        """The watch ended: at its time it goes on, else the kind is listed, sooner or later (a row of short ones)."""
        await self._drop_stream()
        lasted_ms = self._clock.now_ms() - self._opened_ms
        if lasted_ms >= _SHORT_WATCH_MS:
            self._broken = 0
            self._backoff.succeeded()
        if 0 <= lasted_ms - WATCH_S * 1000 <= _LATE_MS:
            return
        self._version = ""
        self._broken += 1
        if self._broken > 1:
            self._backoff.failed()

    async def _too_old(self) -> bool:
        """The version is gone from the server: list again, at once the first time."""
        await self._drop_stream()
        self._version = ""
        self._expired += 1
        if self._expired > 1:
            self._backoff.failed()
        return self._expired == 1

    async def _refused(self, error: ApiError) -> bool:
        if error.status == 410:
            return await self._too_old()
        self._failed(str(error))
        self._refusals += 1
        if self._refusals > _REFUSED_MAX:
            self._refusals, self._version = 0, ""
        return False

    def _failed(self, text: str) -> None:
        self.failure = text
        self._backoff.failed()

    async def _drop_stream(self) -> None:
        stream, self._stream, self._fetched = self._stream, None, None
        self._inbox, self._ended = [], False
        if stream is not None:
            await stream.close()


def _older(version: str, than: str) -> bool:
    here, there = version_number(version), version_number(than)
    return here is not None and there is not None and here < there


def _version(item: Json) -> str:
    meta: Any = item.get("metadata")
    found = meta.get("resourceVersion") if isinstance(meta, dict) else None
    return found if isinstance(found, str) else ""
