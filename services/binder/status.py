"""The status writer: what the state says of PodGroups, waiting pods and queues is brought to the API server.

It is level-triggered: it compares what the state says now with what was last written, and writes the difference, the
newest only. What was written is remembered and, where nothing is remembered (a start, a new object), read first. While
only a text keeps changing an object is written at most once in ten seconds; a change of phase, reason or count goes out
at once (scheduling/POD-2), and at rest the newest text is there. In production two things come before it: bindings, for
which waiting pods and groups with pods wait while some are under way, and the moment that it takes until a new pod has
its place and is seen there, so that of the forms that an object goes through only the last is written.

Each kind of object has its own module that says what is wanted; this one says when it is written.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from adapters.clock import Clock
from adapters.cluster.port import ApiError, ApiUnknown, ClusterApi
from adapters.log.follower import Follower
from scheduling.state.fold import Fold
from scheduling.state.model import Term
from services.binder.recorder import Recorder
from services.binder.status_config import ConfigStatus
from services.binder.status_groups import GroupStatus
from services.binder.status_nodes import NodeStatus
from services.binder.status_pods import PodStatus
from services.binder.status_queue_warnings import QueueWarnings
from services.binder.status_queues import QueueStatus
from services.binder.written import Due, Pace
from services.runtime.following import catch_up

INTERVAL_MS: Final = 10_000
#: Even if nothing is new, what is to be repeated while it holds (EV-1) is looked for this often.
REPEAT_MS: Final = 60_000
#: As often, so many objects of each kind are read again, in turn.
DOUBTED: Final = 100


class StatusWriter:
    """Writes status and events of one cluster.

    ``leads`` says whether it is its turn to write at all, ``pressed`` whether bindings are under way, ``settle_ms`` how
    long what is new is given to become another. Whoever gives a ``recorder`` flushes it.
    """

    def __init__(
        self,
        api: ClusterApi,
        follower: Follower[Fold],
        clock: Clock,
        *,
        recorder: Recorder | None = None,
        interval_ms: int = INTERVAL_MS,
        settle_ms: int = 0,
        parallel: int = 1,
        leads: Callable[[], bool] = lambda: True,
        pressed: Callable[[], bool] = lambda: False,
    ) -> None:
        self.follower = follower
        self.recorder = recorder or Recorder(api, clock, parallel=parallel)
        self._flushes = recorder is None
        self._leads, self._pressed = leads, pressed
        self._parallel = parallel
        self._pace = Pace(clock, interval_ms, settle_ms)
        self._written = (
            GroupStatus(api, self.recorder, self._pace),
            PodStatus(api, self.recorder, self._pace),
            QueueStatus(api, self._pace),
        )
        self._parts = (
            *self._written,
            QueueWarnings(self.recorder),
            NodeStatus(self.recorder),
            ConfigStatus(self.recorder),
        )
        self._seen = -1
        self._terms = (-1, -1)
        self._passed_ms = self._doubted_ms = 0
        self._unfinished = False

    async def step(self, *, rest: bool = False) -> bool:
        """Write what differs; True if anything was done. ``rest``: nothing else moves, so nothing is held back."""
        done = await catch_up(self.follower)
        fold = self.follower.state
        if not fold.anchored or not self._leads():
            return done
        aged = self._pace.now_ms - self._passed_ms >= REPEAT_MS
        if fold.sequence != self._seen or self._unfinished or self._pace.held or aged:
            self._seen, self._passed_ms = fold.sequence, self._pace.now_ms
            done |= await self._write(rest)
        return (self._flushes and await self.recorder.flush()) or done

    async def _write(self, rest: bool) -> bool:
        self._pace.begin(rest, self._pressed())
        self._distrust()
        due: list[Due] = []
        for part in self._parts:
            due += part.due(self.follower.state.model)
        self._unfinished = True  # whatever comes in between
        results = await self._all(due)
        self._unfinished = not all(results)
        return any(results)

    def _distrust(self) -> None:
        """What was written may not be there any more: it is read again.

        A new watcher's term may follow an API server that was restored without it; before a new term of our own
        somebody else may have led, and written. And a restore may come about that nobody noticed: of what went back
        with it the watcher had seen nothing, or only status, which it does not tell.
        """
        terms, now_ms = self.follower.state.model.terms, self._pace.now_ms
        now = terms.get("watcher", Term()).number, terms.get("binder", Term()).number
        anew = now != self._terms
        if anew or not 0 <= now_ms - self._doubted_ms < REPEAT_MS:
            self._terms, self._doubted_ms = now, now_ms
            for part in self._written:
                part.forget(None if anew else DOUBTED)

    async def _all(self, writes: Sequence[Due]) -> list[bool]:
        if self._parallel == 1:
            return [await _tried(write) for write in writes]
        free = asyncio.Semaphore(self._parallel)

        async def run(write: Due) -> bool:
            async with free:
                return await _tried(write)

        return list(await asyncio.gather(*(run(write) for write in writes)))


async def _tried(write: Due) -> bool:
    """Do one write; False if it is to be tried again in a later step.

    So it is after a conflict too: who slept and writes late must not read anew and write what is long past.
    """
    try:
        return await write()
    except (ApiError, ApiUnknown):
        return False
