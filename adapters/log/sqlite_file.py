"""The SQLite file of a log and the lock beside it, without an event loop: what ``adapters.log.sqlite`` runs on threads.

A group of messages is one transaction, and it is synced to the disk before it counts (write-ahead log,
``synchronous=FULL``): what was acknowledged outlives the process and the machine, and a group is there whole or not at
all. What fails before the commit is undone and certainly not there; a commit that fails leaves that open.
"""

from __future__ import annotations

import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from adapters.log.port import Damaged, LogError, OutOfRange
from events.codec import Message

_APPLICATION: Final = 0x67707531
_VERSION: Final = 1
_BUSY_TIMEOUT_MS: Final = 5_000
#: One reading ends after so many bytes, whatever the limit: messages may be large.
READ_BYTES_MAX: Final = 16 * 1024 * 1024
_SCHEMA: Final = (
    "CREATE TABLE messages (position INTEGER PRIMARY KEY, headers TEXT NOT NULL, value BLOB NOT NULL)",
    "CREATE TABLE bounds (first INTEGER NOT NULL, next INTEGER NOT NULL)",
    f"PRAGMA application_id = {_APPLICATION}",
    f"PRAGMA user_version = {_VERSION}",
)


class WriterLock:
    """The right to write a log file: a lock on ``<file>.lock`` that ends with the process, however it ends."""

    def __init__(self, path: Path) -> None:
        lock_path = path.with_name(path.name + ".lock")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise LogError(f"{lock_path}: {error.strerror}", known_lost=True) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(self._file, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._file)
            raise LogError(f"{path}: in use by another process (pid {holder})", known_lost=True) from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let others write."""
        os.ftruncate(self._file, 0)
        os.close(self._file)


class LogFile:
    """One connection to a log file. Every method raises LogError, which names the file."""

    def __init__(self, path: Path, *, read_only: bool, begin: int = 0) -> None:
        self.path = path
        self._begin = begin
        mode = "ro" if read_only else "rwc"
        with self._errors():
            self._database = sqlite3.connect(
                f"{path.absolute().as_uri()}?mode={mode}", uri=True, isolation_level=None, check_same_thread=False
            )
            try:
                self._set_up(read_only)
            except BaseException:
                self._database.close()
                raise

    def append(self, messages: Sequence[Message]) -> int:
        """Append messages in one transaction and return the position of the first."""
        with self._errors(), self._writing():
            position = self._bounds()[1]
            rows = [(at, _pack(message.headers), message.value) for at, message in enumerate(messages, position)]
            self._database.executemany("INSERT INTO messages VALUES (?, ?, ?)", rows)
            self._database.execute("UPDATE bounds SET next = ?", (position + len(rows),))
        return position

    def read(self, position: int, limit: int) -> list[tuple[int, Message]]:
        """Return at most ``limit`` messages from a position on."""
        with self._errors(), self._reading():
            first, end = self._bounds()
            if not first <= position <= end:
                raise OutOfRange(f"{self.path}: position {position} is not on the log: it holds {first} to {end - 1}")
            rows = self._database.execute(
                "SELECT position, headers, value FROM messages WHERE position >= ? ORDER BY position LIMIT ?",
                (position, limit),
            )
            found: list[tuple[int, Message]] = []
            bytes_read = 0
            for at, headers, value in rows:
                if at != position + len(found):
                    break
                found.append((at, self._message(at, headers, value)))
                bytes_read += len(value)
                if bytes_read > READ_BYTES_MAX:
                    return found
        if len(found) != min(end - position, limit):
            raise Damaged(f"{self.path}: damaged: the message at position {position + len(found)} is missing")
        return found

    def _message(self, position: int, headers: object, value: object) -> Message:
        try:
            if isinstance(headers, str) and isinstance(value, bytes):
                return Message(_unpack(headers), value)
        except (ValueError, TypeError, AttributeError, RecursionError):
            pass
        raise Damaged(f"{self.path}: damaged: what stands at position {position} is no message")

    def bounds(self) -> tuple[int, int]:
        """Return the first position that is there and the next one to be written."""
        with self._errors():
            return self._bounds()

    def truncate(self, keep_last: int) -> None:
        """Drop all but the last ``keep_last`` messages."""
        with self._errors(), self._writing():
            first, end = self._bounds()
            front = max(first, end - keep_last)
            self._database.execute("DELETE FROM messages WHERE position < ?", (front,))
            self._database.execute("UPDATE bounds SET first = ?", (front,))

    def close(self) -> None:
        """Close the connection."""
        self._database.close()

    def _set_up(self, read_only: bool) -> None:
        self._database.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT_MS}")
        if not read_only:
            self._database.execute("PRAGMA synchronous = FULL")
            if not self._database.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                with self._writing():
                    for statement in _SCHEMA:
                        self._database.execute(statement)
                    self._database.execute("INSERT INTO bounds VALUES (?, ?)", (self._begin, self._begin))
        application = self._database.execute("PRAGMA application_id").fetchone()[0]
        version = self._database.execute("PRAGMA user_version").fetchone()[0]
        if application != _APPLICATION:
            raise LogError(f"{self.path}: not a log of gpuledger", known_lost=True)
        if version != _VERSION:
            raise LogError(f"{self.path}: format {version}, this program reads {_VERSION}", known_lost=True)
        if not read_only:
            self._database.execute("PRAGMA journal_mode = WAL")

    def _bounds(self) -> tuple[int, int]:
        found = self._database.execute("SELECT first, next FROM bounds").fetchall()
        if len(found) != 1 or not all(isinstance(place, int) for place in found[0]):
            raise Damaged(f"{self.path}: damaged: where the log begins and ends is not known")
        first, end = found[0]
        if not 0 <= first <= end:
            raise Damaged(f"{self.path}: damaged: it says that it holds positions {first} to {end - 1}")
        return first, end

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn what SQLite says into a LogError; of a write nothing is known then."""
        try:
            yield
        except sqlite3.Error as error:
            raise LogError(self._explain(error)) from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction. What fails before its commit is undone and certainly not there."""
        try:
            self._database.execute("BEGIN IMMEDIATE")
            yield
        except sqlite3.Error as error:
            self._roll_back()
            raise LogError(f"{self._explain(error)}; nothing was written", known_lost=True) from error
        except BaseException:
            self._roll_back()
            raise
        try:
            self._database.execute("COMMIT")
        except sqlite3.Error:
            self._roll_back()
            raise

    def _explain(self, error: sqlite3.Error) -> str:
        return f"{self.path}: {error} ({getattr(error, 'sqlite_errorname', type(error).__name__)})"

    def _roll_back(self) -> None:
        """Undo; an error that SQLite has answered by undoing already leaves no transaction to roll back."""
        if self._database.in_transaction:
            self._database.execute("ROLLBACK")

    @contextmanager
    def _reading(self) -> Iterator[None]:
        self._database.execute("BEGIN")
        try:
            yield
        finally:
            self._database.execute("COMMIT")


def _pack(headers: tuple[tuple[str, bytes], ...]) -> str:
    """Spell headers as JSON, any byte kept: what is no UTF-8 becomes a lone surrogate and back."""
    return json.dumps([[name, value.decode("utf-8", "surrogateescape")] for name, value in headers])


def _unpack(text: str) -> tuple[tuple[str, bytes], ...]:
    return tuple((name, value.encode("utf-8", "surrogateescape")) for name, value in json.loads(text))
