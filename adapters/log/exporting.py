"""A copy of a log in a file of its own, from any home: to keep before a front is cut, to audit elsewhere, to hand over.

Messages and positions stay what they are, so signed checkpoints hold for the copy too. Under its name the file is whole
or not there: it is written in a folder beside it first.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from adapters.log.port import Log, LogError
from adapters.log.sqlite import SqliteLog

_CHUNK: Final = 1_000


async def export(log: Log, path: Path) -> tuple[int, int]:
    """Copy everything that is on a log now to a new file; return its bounds. Raises LogError."""
    _refuse_old(path)
    try:
        with TemporaryDirectory(dir=path.parent, prefix=f"{path.name}.") as folder:
            part = Path(folder) / path.name
            bounds = await _copy(log, part)
            _settle(part)
            _refuse_old(path)
            part.rename(path)
    except OSError as error:
        raise LogError(f"{path}: {error.strerror}", known_lost=True) from error
    return bounds


def _refuse_old(path: Path) -> None:
    if path.exists():
        raise LogError(f"{path}: is there already", known_lost=True)


def _settle(path: Path) -> None:
    """End the write-ahead mode: who reads the copy need not write beside it, as on a medium that is read-only."""
    try:
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA journal_mode = DELETE")
        path.chmod(0o600)
    except sqlite3.Error as error:
        raise LogError(f"{path}: {error}", known_lost=True) from error


async def _copy(log: Log, path: Path) -> tuple[int, int]:
    first, end = await log.bounds()
    copy = SqliteLog(path, begin=first)
    try:
        position = first
        while position < end:
            found = await log.read(position, min(_CHUNK, end - position))
            await copy.append([message for _, message in found])
            position += len(found)
    finally:
        await copy.close()
    return first, end
