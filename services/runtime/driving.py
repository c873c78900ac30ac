"""The production shell of a service: step while there is something to do, then wait for news.

A service is an object with ``step`` that does all that can be done now and never waits. What is news differs: the log
has grown, a watch has brought something, or time has passed. A step that fails because the world failed (the log, the
API server, the database) is tried again later, with a growing pause; the failure is shown, not swallowed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import structlog

from adapters.cluster.port import ApiError, ApiUnknown
from adapters.cluster.reflector import Reflector
from adapters.database.errors import DatabaseError
from adapters.log.port import Log, LogError, OutOfRange

News = Callable[[float], Awaitable[None]]

#: Read models may be a second old, and status a moment: larger steps cost the others less.
READ_MODELS_S: Final = 1.0
STATUS_S: Final = 0.5
#: What watches bring within this time is worked off together.
GATHER_S: Final = 0.025

#: Where no watch is open this soon is soon enough: whoever leads has just polled, whoever does not has none.
_UNOPENED_S: Final = 0.25
_PAUSE_FIRST_S: Final = 0.2
_PAUSE_LAST_S: Final = 10.0
_REST_LAST_S: Final = 0.2
_WORLD = (LogError, ApiError, ApiUnknown, DatabaseError, OSError, TimeoutError)


@dataclass
class Driven:
    """One service that is being driven: for health pages, what it last failed at, and how often it has stepped.

    ``failed`` is told of each step that the world made fail, for who counts them.
    """

    name: str
    failure: str = ""
    steps: int = 0
    failed: Callable[[], None] = lambda: None


class LogNews:
    """News of the log: something stands at the position up to which a service has read."""

    def __init__(self, log: Log, position: Callable[[], int]) -> None:
        self._log, self._position = log, position

    async def __call__(self, timeout_s: float) -> None:
        await self._log.wait(self._position(), timeout_s)


class SharedNews:
    """News of the log for one of several services that share a follower.

    Another one may have read on in between; so what counts is where the follower stood when this service's last step
    began. ``around`` makes of a step one that remembers that.
    """

    def __init__(self, log: Log, position: Callable[[], int]) -> None:
        self._log, self._position = log, position
        self._begun = 0

    def around(self, step: Callable[[], Awaitable[bool]]) -> Callable[[], Awaitable[bool]]:
        async def noted() -> bool:
            self._begun = self._position()
            return await step()

        return noted

    async def __call__(self, timeout_s: float) -> None:
        await self._log.wait(self._begun, timeout_s)


class WatchNews:
    """News of the API server: one of the reflectors has something for its next poll."""

    def __init__(self, reflectors: Callable[[], Sequence[Reflector]]) -> None:
        self._reflectors = reflectors
        self._fetching: dict[Reflector, asyncio.Task[None]] = {}

    async def __call__(self, timeout_s: float) -> None:
        # What ended since is no news any more; of one that backs off it would be news again and again.
        self._fetching = {reflector: task for reflector, task in self._fetching.items() if not task.done()}
        for reflector in self._reflectors():
            if reflector.idle_ms:
                timeout_s = min(timeout_s, reflector.idle_ms / 1000)
            elif not reflector.watching:
                timeout_s = min(timeout_s, _UNOPENED_S)
            elif reflector not in self._fetching:
                self._fetching[reflector] = asyncio.create_task(reflector.fetch())
        if self._fetching:
            await asyncio.wait(self._fetching.values(), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(timeout_s)

    async def close(self) -> None:
        """Stop waiting."""
        for task in self._fetching.values():
            task.cancel()
        await asyncio.gather(*self._fetching.values(), return_exceptions=True)


async def close_all(closers: Sequence[Callable[[], Awaitable[Any]]], log: Any) -> None:
    """Close what was opened, the newest first: what cannot be closed is told, and keeps nothing else open."""
    for close in reversed(closers):
        try:
            await close()
        except Exception as error:
            log.error("could not be closed", error=repr(error))


async def drive(
    service: Driven,
    step: Callable[[], Awaitable[bool]],
    news: News,
    idle_s: float = 1.0,
    *,
    pace_s: float = 0.0,
    rests: bool = False,
    ended: Callable[[], bool] = lambda: False,
) -> None:
    """Step for ever: at once while there is work, after news or ``idle_s`` otherwise; ``pace_s`` after each step.

    ``rests``: after each step as long as it took, so that what comes meanwhile is worked off in one step, not in many.

    Ends when it is cancelled, and between two steps when ``ended`` says so. Raises OutOfRange: what was folded belongs
    to a log that is not there any more, and only a new start builds it anew.
    """
    log = structlog.get_logger(service.name)
    pause = _PAUSE_FIRST_S
    now = asyncio.get_running_loop().time
    while not ended():
        try:
            began = now()
            busy = await step()
            pause_s = max(pace_s, min(now() - began, _REST_LAST_S)) if rests else pace_s
            service.steps += 1
            service.failure, pause = "", _PAUSE_FIRST_S
            if pause_s or busy:
                await asyncio.sleep(pause_s)
            if not busy:
                await news(idle_s)
        except OutOfRange as error:
            service.failure = str(error)
            log.critical("the log is not the one that was read; this service must be rebuilt", error=str(error))
            raise
        except _WORLD as error:
            service.failure = str(error)
            service.failed()
            log.warning("step failed, will try again", error=str(error), pause_s=pause)
            await asyncio.sleep(pause)
            pause = min(pause * 2, _PAUSE_LAST_S)
