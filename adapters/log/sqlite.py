"""The log in one SQLite file: the embedded home.

One process writes; a second one that tries is told who does. Writing and reading have a thread and a connection each,
so that nobody waits for a sync but those who append, and appends that come while one is under way share the next. The
writing process keeps the newest messages, so its readers ask the file only for older ones.
Readers in other processes open the file with ``read_only`` and look again from time to time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Final, ParamSpec, TypeAlias, TypeVar

from adapters.log.port import LogError, check_sizes
from adapters.log.sqlite_file import LogFile, WriterLock
from adapters.log.tail import Tail
from adapters.log.waiting import Waiters
from events.codec import Message

T = TypeVar("T")
P = ParamSpec("P")

_POLL_S: Final = 0.1

_Pending: TypeAlias = tuple[Sequence[Message], "asyncio.Future[int]"]


class SqliteLog:
    """A SQLite file behind the port ``Log``.

    Opening creates the file and its folder if need be (not with ``read_only``) and raises LogError if it cannot be
    used: not there, not ours, damaged, or written by another process. The positions of a new file start at ``begin``.
    """

    def __init__(self, path: Path | str, *, read_only: bool = False, begin: int = 0) -> None:
        self.path = Path(path)
        self._lock = None if read_only else WriterLock(self.path)
        try:
            self._writer = None if read_only else LogFile(self.path, read_only=False, begin=begin)
            self._reader = LogFile(self.path, read_only=True)
            self._tail = None if read_only else Tail(*self._reader.bounds())
        except BaseException:
            if self._lock is not None:
                self._lock.release()
            raise
        self._write_thread = ThreadPoolExecutor(1, "log-write")
        self._read_thread = ThreadPoolExecutor(1, "log-read")
        self._waiters = Waiters()
        self._pending: list[_Pending] = []
        self._flushing: asyncio.Task[None] | None = None
        self._closed = False

    async def append(self, messages: Sequence[Message]) -> int:
        self._writable()
        check_sizes(messages)
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._pending.append((messages, answer))
        if self._flushing is None:
            self._flushing = asyncio.create_task(self._flush())
        return await answer

    async def read(self, position: int, limit: int = 1000) -> list[tuple[int, Message]]:
        self._check_open()
        found = self._tail.read(position, limit) if self._tail else None
        return await self._in_thread(self._reader.read, position, limit) if found is None else found

    async def bounds(self) -> tuple[int, int]:
        self._check_open()
        if self._tail:
            return self._tail.first, self._tail.end
        return await self._in_thread(self._reader.bounds)

    async def wait(self, position: int, timeout_s: float) -> bool:
        now = asyncio.get_running_loop().time
        deadline = now() + timeout_s
        while True:
            seen = self._waiters.wakes
            _, end = await self.bounds()
            if position < end:
                return True
            left = deadline - now()
            if left <= 0:
                return False
            await self._waiters.wait(seen, min(left, _POLL_S) if self._writer is None else left)

    async def truncate(self, keep_last: int) -> None:
        """Cut the front of the log: only the last ``keep_last`` messages stay, at the positions that they have."""
        writer = self._writable()
        await asyncio.get_running_loop().run_in_executor(self._write_thread, writer.truncate, keep_last)
        if self._tail:
            self._tail.first, _ = await self._in_thread(self._reader.bounds)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._flushing is not None:
            await asyncio.wait([self._flushing])
        self._waiters.wake()
        self._write_thread.shutdown()
        self._read_thread.shutdown()
        self._reader.close()
        if self._writer is not None:
            self._writer.close()
        if self._lock is not None:
            self._lock.release()

    async def _flush(self) -> None:
        """Write what is pending, one transaction after another, until nothing is."""
        writer = self._writer
        assert writer is not None, "only a writer flushes"
        while self._pending:
            group, self._pending = self._pending, []
            messages = [message for part, _ in group for message in part]
            try:
                position = await asyncio.get_running_loop().run_in_executor(self._write_thread, writer.append, messages)
            except Exception as error:
                _refuse(group, error)
                continue
            if self._tail:
                self._tail.extend(messages)
            for part, answer in group:
                if not answer.done():
                    answer.set_result(position)
                position += len(part)
            self._waiters.wake()
        self._flushing = None

    async def _in_thread(self, work: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._read_thread, partial(work, *arguments, **named))

    def _writable(self) -> LogFile:
        self._check_open()
        if self._writer is None:
            raise LogError(f"{self.path}: opened for reading only", known_lost=True)
        return self._writer

    def _check_open(self) -> None:
        if self._closed:
            raise LogError(f"{self.path}: the log is closed", known_lost=True)


def _refuse(group: Sequence[_Pending], error: Exception) -> None:
    """Give everyone whose messages were in a failed transaction an error of their own: nobody waits for ever."""
    known_lost = isinstance(error, LogError) and error.known_lost
    for _, answer in group:
        if not answer.done():
            refusal = LogError(str(error) or type(error).__name__, known_lost=known_lost)
            refusal.__cause__ = error
            answer.set_exception(refusal)
