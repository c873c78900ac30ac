"""A log as the commands that look back read it: opening it, places in time, and the state at one of them."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, TypeVar

import typer

from adapters.log.follower import Follower
from adapters.log.opening import KAFKA, open_to_read
from adapters.log.port import Damaged, Log, LogError
from events.codec import CODEC, SetAside
from events.records import Record
from scheduling.state.fold import Fold
from services.runtime.brokers import security
from services.runtime.settings import SettingsError, load_settings

T = TypeVar("T")

LOG_FILE: Final = "log.db"
_CHUNK: Final = 1_000
_DIGITS_MAX: Final = 18

DataOption = Annotated[
    Path, typer.Option("--data", metavar="DIR", help="The data folder of gpuledger.", envvar="GPULEDGER_DATA")
]
LogOption = Annotated[
    str,
    typer.Option(
        "--log",
        metavar="URL",
        help="A log elsewhere: kafka://SERVER[,SERVER]/TOPIC, or a file.",
        envvar="GPULEDGER_LOG_URL",
    ),
]
AtOption = Annotated[
    str, typer.Option("--at", metavar="WHEN", help="An offset of the log (included) or an RFC 3339 time; default: now.")
]
DATA_DEFAULT: Final = Path("gpuledger-data")


@dataclass(frozen=True, slots=True)
class Told:
    """One record at its position, and what the fold made of it."""

    position: int
    record: Record
    verdict: str


class History:
    """A fold that tells a listener of every record that it folds."""

    def __init__(self, listener: Callable[[Told, Fold], None] | None = None) -> None:
        self.fold = Fold()
        self._listener = listener

    def apply(self, position: int, record: Record, chain_before: str) -> str:
        """Fold one record."""
        verdict = self.fold.apply(position, record, chain_before)
        if self._listener is not None:
            self._listener(Told(position, record, verdict), self.fold)
        return verdict

    def set_aside(self, position: int, reason: str, chain_before: str = "") -> None:
        """Fold a message that is no record."""
        self.fold.set_aside(position, reason, chain_before)


def fail(message: str, code: int = 2) -> NoReturn:
    """End the command with a message and an exit code (1: a check failed, 2: wrong usage or input)."""
    sys.stderr.write(f"gpuledger: {message}\n")
    raise typer.Exit(code)


def run(data: Path, url: str, work: Callable[[Log], Coroutine[Any, Any, T]]) -> T:
    """Do something with a log, read-only, beside those who write it or without them.

    The log is that of a data folder, or what ``url`` names; how to prove oneself to its brokers stands in the
    environment (``GPULEDGER_KAFKA__*``).
    """

    async def session() -> T:
        proof = security(load_settings()) if url.startswith(KAFKA) else {}
        log = await open_to_read(url or str(data / LOG_FILE), proof)
        try:
            return await work(log)
        finally:
            await log.close()

    if not url and not (data / LOG_FILE).is_file():
        fail(f"{data / LOG_FILE}: no log there (--data names the folder)")
    try:
        return asyncio.run(session())
    except Damaged as error:
        fail(str(error), code=1)
    except (LogError, SettingsError) as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise typer.Exit(0) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(0) from None


async def end_of(log: Log, when: str) -> int:
    """Return the position before which everything happened at ``when``: an offset (included), a time, or empty: all.

    A time ends before the first record that was written later.
    """
    first, end = await log.bounds()
    if not when:
        return end
    if when.isascii() and when.isdigit():
        if len(when) > _DIGITS_MAX or not first <= int(when) < end:
            fail(f"--at {when}: the log holds offsets {first} to {end - 1}")
        return int(when) + 1
    time_ms = _parse(when)
    for start in range(first, end, _CHUNK):
        for position, message in await log.read(start, min(_CHUNK, end - start)):
            record = CODEC.from_message(message)
            if not isinstance(record, SetAside) and record.time_ms > time_ms:
                return position
    return end


def _parse(when: str) -> int:
    try:
        time = datetime.fromisoformat(when)
    except ValueError:
        fail(f"--at {when}: neither an offset nor an RFC 3339 time")
    if time.tzinfo is None:
        fail(f"--at {when}: a time needs its offset from UTC, as in {when}Z")
    return int(time.timestamp() * 1000)


async def fold_until(log: Log, end: int, listener: Callable[[Told, Fold], None] | None = None) -> Follower[History]:
    """Fold the log up to a position and return the follower that stands there."""
    follower = Follower(log, History(listener))
    first, _ = await log.bounds()
    if first:
        await follower.begin_at_front()
    while follower.position < end:
        await follower.advance(min(_CHUNK, end - follower.position))
    return follower


def printable(text: str) -> str:
    """Return a text that cannot move the cursor or turn the line: control and bidi characters are spelled out."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def table(rows: list[list[str]], indent: str = "") -> str:
    """Return rows as aligned columns, the first row being the heading."""
    cells = [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in cells)
    return "".join(f"{indent}{line}\n" for line in lines)
