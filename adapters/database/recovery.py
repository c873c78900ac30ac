"""Starting from a snapshot instead of from the beginning of the log, and keeping snapshots to start from.

A snapshot is used only if the log still covers it (it still holds what comes after) and leads to it: the last message
before its place is a batch, which names the chain's digest at its base, and from there to the snapshot's place the
messages that are on the log come to the digest that the snapshot names. Then the state is built and its own digest
compared (``scheduling.state.snapshot``), and what comes after is folded; if a batch there rests on another state, the
snapshot is thrown away like any other that is not right, and an older one or the whole log is read instead.
"""

from __future__ import annotations

import asyncio
import gc
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Engine, inspect
from sqlalchemy.exc import SQLAlchemyError

from adapters.database.errors import DatabaseError
from adapters.database.snapshots import Saved, Snapshots
from adapters.database.tables import Snapshot
from adapters.log.follower import Follower
from adapters.log.port import Log
from events import chain
from events.codec import from_message
from events.records import Batch, Record
from scheduling.state.fold import Fold
from scheduling.state.snapshot import FORMAT, Unusable, dump, load

#: No snapshot that is larger than this is unpacked.
BYTES_MAX: Final = 4 * 1024**3
_TRIES: Final = 3
_LEVEL: Final = 1
_PART: Final = 200
#: A batch whose base lies further back than this was not decided by one scheduler with one batch in flight.
_BACK_MAX: Final = 100_000

#: Who is told why a snapshot was not used.
Note = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A snapshot that the log leads to, unpacked."""

    saved: Saved
    data: bytes


class Recovery:
    """The snapshots of one cluster, for who starts and for who keeps them. ``note`` is told what was not used."""

    def __init__(self, engine: Engine, cluster: str, note: Note = lambda _: None) -> None:
        self._engine = engine
        self._snapshots = Snapshots(engine, cluster)
        self._note = note
        self._covered = -1

    # --- keeping ---

    def save(self, fold: Fold, position: int, chain_here: str) -> int:
        """Keep a snapshot of a state; return its bytes, packed. Raises NotNow, DatabaseError."""
        content = zlib.compress(dump(fold), _LEVEL)
        place, state = fold.mark()
        self._snapshots.save(Saved(position, fold.model.incarnation, place, chain_here, state, FORMAT, content))
        return len(content)

    # --- starting ---

    async def fold(self, log: Log, up_to: int | None = None) -> tuple[Fold, Saved] | None:
        """Return the newest state that can be stood on, at or before a position, and where it stands. Raises LogError.

        Raises DatabaseError only if the log's front is gone: then nobody can start without a snapshot.
        """
        async for found in self.candidates(log, up_to):
            try:
                fold = await asyncio.to_thread(_loaded, found.data)
                _same(fold, found.saved)
            except Unusable as error:
                self._note(f"snapshot at {found.saved.position} was thrown away: {error}")
                continue
            return fold, found.saved
        return None

    async def follower(self, log: Log) -> Follower[Fold]:
        """Return a follower that has read up to the end: from a snapshot if there is one, else from the front."""
        _, end = await log.bounds()
        up_to = end
        for _ in range(_TRIES):
            found = await self.fold(log, up_to)
            if found is None:
                break
            fold, saved = found
            diverged = fold.diverged
            follower = Follower(log, fold, position=saved.position, digest=bytes.fromhex(saved.chain))
            await _catch_up(follower)
            if follower.state.diverged == diverged:
                return follower
            self._note(f"snapshot at {saved.position} was thrown away: a batch after it rests on another state")
            up_to = saved.position - 1
        return Follower(log, Fold())

    async def covers(self, first: int) -> bool:
        """Tell whether there is a snapshot that what is left of a log, from ``first`` on, continues. Never raises."""
        if self._covered >= first:
            return True
        try:
            saved = await asyncio.to_thread(self._newest, None)
        except DatabaseError as error:
            self._note(str(error))
            return False
        self._covered = saved.position if saved is not None else -1
        return self._covered >= first

    async def candidates(self, log: Log, up_to: int | None = None) -> AsyncIterator[Candidate]:
        """Yield the snapshots that the log covers and leads to, the newest first."""
        first, end = await log.bounds()
        limit = end if up_to is None else min(up_to, end)
        for _ in range(_TRIES):
            try:
                saved = await asyncio.to_thread(self._newest, limit)
            except DatabaseError as error:
                if first:
                    raise
                self._note(str(error))
                return
            if saved is None or saved.position < first:
                return
            limit = saved.position - 1
            why = await self._why_not(log, saved, first)
            if not why:
                try:
                    yield Candidate(saved, await asyncio.to_thread(_unpack, saved.content))
                    continue
                except Unusable as error:
                    why = str(error)
            self._note(f"snapshot at {saved.position} was thrown away: {why}")

    def _newest(self, up_to: int | None) -> Saved | None:
        """Return the newest snapshot; a database that nobody has made tables in yet has none. Raises DatabaseError."""
        try:
            return self._snapshots.newest(FORMAT, up_to)
        except DatabaseError:
            if self._has_tables():
                raise
            return None

    def _has_tables(self) -> bool:
        try:
            return inspect(self._engine).has_table(Snapshot.__tablename__)
        except SQLAlchemyError:
            return True

    async def _why_not(self, log: Log, saved: Saved, first: int) -> str:
        """Say why the log does not lead to a snapshot, or nothing. Behind a front that was cut it cannot be asked."""
        if saved.position - 1 < first:
            return ""
        found = await log.read(saved.position - 1, 1)
        record = from_message(found[0][1]) if found else None
        if not isinstance(record, Record) or not isinstance(record.body, Batch):
            return "the record before it is not a batch"
        if not record.id.partition("/")[2].startswith(f"{saved.incarnation}/"):
            return "the record before it belongs to another incarnation of the log"
        back = saved.place - record.body.base
        if not 0 < back <= _BACK_MAX:
            return f"the batch before it is based on place {record.body.base}"
        if saved.position - back < first:
            return ""
        return await _comes_to(log, record.body.chain, saved, saved.position - back)


async def _comes_to(log: Log, base: str, saved: Saved, position: int) -> str:
    """Extend the chain from a batch's base to a snapshot's place and compare."""
    digest = bytes.fromhex(base) if len(base) == 64 else b""
    while position < saved.position:
        messages = await log.read(position, saved.position - position)
        if not messages:
            return "the log ends before it"
        for at, message in messages:
            digest, position = chain.extend(digest, message), at + 1
    return "" if digest.hex() == saved.chain else "the chain of the log does not come to it"


async def _catch_up(follower: Follower[Fold]) -> None:
    """Fold to the end in parts, so that nothing else on the event loop starves."""
    count = await follower.advance(_PART)
    while count:
        await asyncio.sleep(0)
        count = await follower.advance(_PART)


def _loaded(data: bytes) -> Fold:
    """Load a snapshot with the cyclic collector at rest: it would walk all that is built again and again for nothing.

    What was built lives as long as the process, so it is not walked later either.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        fold = load(data)
        gc.freeze()
        return fold
    finally:
        if enabled:
            gc.enable()


def _same(fold: Fold, saved: Saved) -> None:
    place, state = fold.mark()
    if (place, state, fold.model.incarnation) != (saved.place, saved.state, saved.incarnation):
        raise Unusable("it holds another place than the one under which it was kept")


def _unpack(content: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(content, BYTES_MAX)
    except zlib.error as error:
        raise Unusable(f"it cannot be unpacked: {error}") from error
    if not unpacking.eof:
        raise Unusable("it is cut short, or larger than a snapshot may be")
    return data
