"""Where a leader dies: each point is brought about, seen to be reached, and only then the leader is killed.

What is to be before or after a record of the log is made certain by stopping the process first, or right after the
record, and looking whether anything has followed. What lies between a request and its answer is made certain by a gate
before the API server, or the broker, that holds one of them.
"""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final, TypeAlias

from aiohttp import web
from parts.gate import Gate, Hold, Wanted
from parts.kafka_gate import KafkaGate
from system.killing import Tail
from system.stack import Stack

from events.records import Batch, ListEnd, Observed, Opened, Outcome, Record, Role

#: A point that does not come within this time is not waited for any longer.
POINT_S: Final = 20.0
OPENING_S: Final = 90.0

#: Brings a point about and kills there; False if it did not come.
Point: TypeAlias = Callable[[], Awaitable[bool]]


def opened(role: Role) -> Callable[[Record], bool]:
    return lambda record: isinstance(record.body, Opened) and record.role == role


def binds(record: Record) -> bool:
    return isinstance(record.body, Batch) and bool(record.body.binds)


def bound(record: Record) -> bool:
    return isinstance(record.body, Outcome) and record.body.verb == "bind"


def pod_observed(record: Record) -> bool:
    return isinstance(record.body, Observed) and record.body.kind == "Pod"


def binding(request: web.Request) -> bool:
    return request.method == "POST" and request.path.endswith("/binding")


def group_made(request: web.Request) -> bool:
    return request.method == "POST" and request.path.endswith("/podgroups")


def pod_told(request: web.Request) -> bool:
    return request.method == "PATCH" and request.path.split("/")[-2] == "pods"


def listing(plural: str) -> Wanted:
    return lambda request: (
        request.method == "GET"
        and request.path.endswith(f"/{plural}")
        and request.query.get("limit") not in (None, "1")
    )


class Points:
    """The points of each role. ``kill`` kills a process of ours by its name and starts it again.

    ``gates`` lie before the API server, ``appends`` between the schedulers and the broker.
    """

    def __init__(
        self, stack: Stack, tail: Tail, gates: dict[str, Gate], appends: KafkaGate, kill: Callable[[str], None]
    ) -> None:
        self._stack, self._tail, self._gates, self._appends, self._kill = stack, tail, gates, appends, kill
        self.of: dict[str, dict[str, Point]] = {
            "watcher": {
                "its term opened, nothing listed": self._watcher_opened,
                "within a list": self._within_a_list,
                "an observation appended": self._observation_appended,
            },
            "scheduler": {
                "its term opened, nothing decided": self._scheduler_opened,
                "an observation appended, not folded": lambda: self._behind("scheduler", pod_observed),
                "a batch sent, on the log after the next term": self._batch_late,
                "a batch appended, not bound": self._batch_not_bound,
                "an outcome appended, not folded": self._outcome_not_folded,
            },
            "binder": {
                "its term opened, nothing bound": self._binder_opened,
                "a batch appended, not read": lambda: self._behind("binder", binds),
                "a Binding asked for, not made": self._asked_for,
                "bound, not reported": self._not_reported,
                "reported in part": self._in_part,
            },
            "controller": {
                "a PodGroup asked for, not made": lambda: self._controller(group_made),
                "a PodGroup made, not answered": lambda: self._controller(group_made, after=True),
                "a PodGroup made, its pod not told": lambda: self._controller(pod_told),
            },
        }

    # --- the watcher ---

    async def _watcher_opened(self) -> bool:
        """Its lists are held, so nothing can follow its term."""
        async with self._held("watcher", listing("nodes")) as hold:
            return await self._next_term("watcher", lambda: hold.reached, ())

    async def _within_a_list(self) -> bool:
        """Some kinds are listed, the answer to another list is on its way."""
        async with self._held("watcher", listing("podgroups"), after=True) as hold:
            return await self._next_term("watcher", lambda: hold.reached, ())

    async def _observation_appended(self) -> bool:
        return await self._tail.record(pod_observed, POINT_S) and self._gone("watcher")

    # --- the scheduler ---

    async def _scheduler_opened(self) -> bool:
        return await self._next_term("scheduler", lambda: True, (Batch,))

    async def _batch_late(self) -> bool:
        """What the dead one sent arrives in a term of another one's."""
        append = self._appends.hold(binds)
        try:
            if not await self._tail.until(lambda: append.reached, POINT_S):
                return False
            start = len(self._tail.fold.seen)
            return self._gone("scheduler") and await self._tail.record(opened("scheduler"), OPENING_S, start)
        finally:
            append.release()

    async def _batch_not_bound(self) -> bool:
        """Bindings are held, so nothing of the batch can be bound."""
        async with self._held("binder", binding) as hold:
            held = await self._tail.record(binds, POINT_S) and await self._tail.until(lambda: hold.reached, POINT_S)
            return held and self._gone("scheduler")

    async def _outcome_not_folded(self) -> bool:
        """The scheduler stands still while what was bound is reported."""
        async with self._held("binder", binding, after=True) as hold:
            if not await self._tail.until(lambda: hold.reached, POINT_S):
                return False
            return await self._behind("scheduler", bound, hold.release)

    # --- the binder ---

    async def _binder_opened(self) -> bool:
        return await self._next_term("binder", lambda: True, (Outcome,))

    async def _asked_for(self) -> bool:
        async with self._held("binder", binding) as hold:
            return await self._tail.until(lambda: hold.reached, POINT_S) and self._gone("binder")

    async def _not_reported(self) -> bool:
        async with self._held("binder", binding, after=True) as hold:
            return await self._tail.until(lambda: hold.reached, POINT_S) and self._gone("binder")

    async def _in_part(self) -> bool:
        """Of one batch one Binding is held, another one is reported."""
        async with self._held("binder", binding, skip=1) as hold:
            start = len(self._tail.fold.seen)
            if not await self._tail.until(lambda: hold.reached, POINT_S):
                return False

            def partly() -> bool:
                reported = {record.body.command.rpartition("/")[0] for record, _ in self._tail.fold.seen[start:]
                            if isinstance(record.body, Outcome)}  # fmt: skip
                waiting = {command.rpartition("/")[0] for command in self._tail.fold.model.commands}
                return bool(reported & waiting)

            return await self._tail.until(partly, POINT_S) and self._gone("binder")

    # --- the controllers, of which one process runs, and which have no term ---

    async def _controller(self, wanted: Wanted, *, after: bool = False) -> bool:
        async with self._held("controller", wanted, after=after) as hold:
            if not await self._tail.until(lambda: hold.reached, POINT_S):
                return False
            self._kill("controller")
        return True

    # --- how ---

    def _gone(self, role: str) -> bool:
        name = self._tail.leader(self._stack, role)
        if name:
            self._kill(name)
        return bool(name)

    async def _next_term(self, role: Role, reached: Callable[[], bool], nothing: tuple[type, ...]) -> bool:
        """Kill the leader so that another one opens a term, and kill that one before it has done anything in it."""
        if not self._gone(role):
            return False
        start = len(self._tail.fold.seen)
        if not await self._tail.record(opened(role), OPENING_S, start):
            return False
        name = self._tail.leader(self._stack, role)
        with Stopped(self._stack.pids().get(name) if nothing else None):
            if not name or not await self._tail.until(reached, POINT_S):
                return False
            if any(isinstance(record.body, nothing or ListEnd) for record in self._tail.since_opened(role)):
                return False
            self._kill(name)
        return True

    async def _behind(self, role: str, wanted: Callable[[Record], bool], go: Callable[[], None] = lambda: None) -> bool:
        """Stop the leader, wait until there is something on the log that it has not read, kill it."""
        name = self._tail.leader(self._stack, role)
        if not name:
            return False
        with Stopped(self._stack.pids()[name]):
            start = len(self._tail.fold.seen)
            go()
            if not await self._tail.record(wanted, POINT_S, start):
                return False
            self._kill(name)
        return True

    @asynccontextmanager
    async def _held(self, role: str, wanted: Wanted, *, after: bool = False, skip: int = 0) -> AsyncIterator[Hold]:
        """Hold a request; it goes on once the point is over, so what was asked for by the dead arrives late."""
        hold = self._gates[role].hold(wanted, after=after, skip=skip)
        try:
            yield hold
        finally:
            hold.release()


class Stopped:
    """A process that stands still as long as this lasts, and goes on after it if it still lives."""

    def __init__(self, pid: int | None) -> None:
        self._pid = pid

    def __enter__(self) -> None:
        self._send(signal.SIGSTOP)

    def __exit__(self, *_: object) -> None:
        self._send(signal.SIGCONT)

    def _send(self, number: signal.Signals) -> None:
        if self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, number)
