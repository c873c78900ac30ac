"""Several lanes in one process: its requests are under way at the same time, and the seed says who goes on next.

In production some services make their requests from several tasks of an event loop. Here that loop is turned by hand,
as a single step is (``driving``). Each request gives the others a turn before it is sent and after it was answered; of
those that could go on one is drawn. Where a fault holds a request, the others go on without it, or the whole process
stands still. A kill ends all of them.
"""

from __future__ import annotations

import asyncio
from asyncio.events import _get_running_loop, _set_running_loop
from collections.abc import Callable, Coroutine
from contextvars import Context
from random import Random
from typing import Any

from services.simulator.chaos import driving
from services.simulator.chaos.driving import Killed


class Lanes(asyncio.AbstractEventLoop):
    """The event loop of one process. It has no time and waits for nothing but its own requests."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._ready: list[asyncio.Handle] = []
        self._held: list[asyncio.Future[None]] = []
        self._tasks: dict[asyncio.Task[Any], Coroutine[Any, Any, Any]] = {}
        self._still = False
        self._killed: Killed | None = None

    def begin(self, step: Coroutine[Any, Any, bool]) -> Lane:
        """Begin a step of the process."""
        return Lane(self, self.create_task(step))

    async def hold(self) -> None:
        """Suspend the request that asks for it until the process is driven again."""
        self._still = self._rng.random() < 0.5
        held = self.create_future()
        self._held.append(held)
        await held

    def turn(self) -> None:
        """Let everybody go on until all are done or held. Raises Killed."""
        held, self._held, self._still = self._held, [], False
        for future in held:
            future.set_result(None)
        outer = _get_running_loop()
        _set_running_loop(self)
        try:
            while self._ready and not self._still:
                self._ready.pop(self._rng.randrange(len(self._ready)))._run()
                if self._killed:
                    raise self._killed
        finally:
            _set_running_loop(outer)
            self._tasks = {task: work for task, work in self._tasks.items() if not task.done()}

    def drop(self) -> None:
        """The process is gone: nothing of what is under way happens any more."""
        for task, work in self._tasks.items():
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # nobody is told of an end like this
            task.get_coro().close()
            work.close()  # it may not have begun
        self._tasks.clear()
        self._ready.clear()
        self._held.clear()
        self._killed = None  # it holds the frames of the whole world

    async def _watched(self, work: Coroutine[Any, Any, Any]) -> Any:
        try:
            return await work
        except Killed as killed:
            self._killed = killed
            raise

    # --- what tasks, futures and locks ask of an event loop ---

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, Any], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Any]:
        task = asyncio.Task(self._watched(coro), loop=self, name=name, context=context)
        self._tasks[task] = coro
        return task

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Nobody is told what became of a task that was dropped."""


class Lane:
    """One step of a process with lanes, driven as ``driving.Task`` is."""

    def __init__(self, loop: Lanes, step: asyncio.Task[bool]) -> None:
        self._loop, self._step = loop, step
        self.result = False

    def drive(self) -> bool:
        """Go on until the step ends (True) or is held (False). Raises whatever the step raises."""
        try:
            self._loop.turn()
        except Killed:
            self.drop()
            raise
        if self._step.done():
            self.result = bool(self._step.result())
        return self._step.done()

    def drop(self) -> None:
        self._loop.drop()


async def hold() -> None:
    """Suspend the request that asks for it: its lane, if its process has lanes."""
    loop = _get_running_loop()
    if isinstance(loop, Lanes):
        await loop.hold()
    else:
        await driving.hold()
