"""The projector: it follows the log and keeps the read models, so that they can be lost and made again at any time.

Rows and the place up to which they are true are written in one transaction, so the tables always tell the truth about
one place on the log. At its start the projector folds up to the place that the tables name: if the chain's digest
there is theirs, they are taken over, and else they belong to another history and are made anew. A transaction whose
answer never came is simply made again: the rows that it writes are absolute, not differences.

One of a cluster's projectors writes at a time, that of the binder that leads. Should two do so for a while, neither
undoes what the other wrote: who finds the tables elsewhere than it left them takes them over from there.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from sqlalchemy import Connection, Engine, delete, insert, select, tuple_
from sqlalchemy.exc import SQLAlchemyError

from adapters.database.engine import DatabaseError, migrate, plainly
from adapters.database.projection import Projection
from adapters.database.recovery import Note, Recovery
from adapters.database.rows import Key, Row, clean
from adapters.database.tables import PROJECTED, CommandRow, Progress, Table
from adapters.log.follower import Follower
from adapters.log.port import Log, OutOfRange
from events import chain
from scheduling.state.fold import Fold
from scheduling.state.snapshot import NotNow

CHUNK: Final = 2_000
_ROWS: Final = 1_000  # a statement; databases take some ten thousand parameters
T = TypeVar("T")

_OWNED: Final[tuple[type[Table], ...]] = (*PROJECTED, Progress)
#: A place on the log: position and chain digest before it.
Place: TypeAlias = tuple[int, str]


class Projector:
    """Keeps one cluster's read models, and its snapshots. ``threaded`` writes off the event loop's thread.

    It folds for itself, so a snapshot of its state holds up nobody's decision. One is taken after the first batch that
    counts ``snapshot_every`` records behind the last one (0: none); ``note`` is told of one that was not used or taken.
    ``leads`` says whether it is its turn at all.

    ``step`` raises LogError and DatabaseError; after either the next step goes on where it can.
    """

    def __init__(
        self,
        log: Log,
        engine: Engine,
        cluster: str,
        *,
        threaded: bool = False,
        snapshot_every: int = 0,
        note: Note = lambda _: None,
        leads: Callable[[], bool] = lambda: True,
    ) -> None:
        self.cluster = cluster
        self.snapshots = 0
        self._recovery = Recovery(engine, cluster, note)
        self._every, self._note, self._snapshot_at = snapshot_every, note, 0
        self._log = log
        self._engine = engine
        self._threaded = threaded
        self._leads = leads
        self._begun = self._migrated = False
        self._begin()

    def _begin(self, fold: Fold | None = None, position: int = 0, digest: bytes = chain.GENESIS) -> None:
        """Stand before the log with nothing folded, or at a snapshot."""
        self.follower = Follower(self._log, Projection(fold), position=position, digest=digest)
        self._snapshot_at = position
        self._stored: Row | None = None
        self._written: Place | None = None
        self._attempted: Place | None = None
        self._pending: dict[Key, Row | None] = {}
        self._wipe = False

    async def step(self) -> bool:
        """Fold what is there, at most ``CHUNK`` records, and write what it changes; True if anything was done."""
        if not self._leads():
            self._let_go()
            return False
        if not self._migrated:
            await self._run(lambda: migrate(self._engine))
            self._migrated = True
        if not self._begun:
            await self._take_up()
        count = await self._advance()
        if self._stored is not None:
            return await self._compare(self._stored)
        if not count and not self._pending and self._written == self._place():
            return False
        self._pending.update(self.follower.state.take())
        if not await self._run(self._write):
            self._let_go()
            return True
        await self._keep_snapshot()
        return True

    def rebuild(self) -> None:
        """Let the next steps empty the cluster's tables and make them anew."""
        self._begin()
        self._begun = self._wipe = True

    def _let_go(self) -> None:
        """Somebody else may write, or has written: what the tables say is looked at before the next write."""
        if self._begun:
            self._begin()
            self._begun = False

    async def _take_up(self) -> None:
        """See what the tables say, and whether the log still has the place that they name."""
        stored = await self._run(self._read_progress)
        first, end = await self._log.bounds()
        if stored is None or not first <= stored["position"] <= end:
            self.rebuild()
            return
        found = await self._recovery.fold(self._log, stored["position"]) if self._every else None
        if found is None:
            self._begin()
        else:
            fold, saved = found
            self._begin(fold, saved.position, bytes.fromhex(saved.chain))
        self._stored, self._begun = stored, True

    async def _advance(self) -> int:
        limit = CHUNK if self._stored is None else min(CHUNK, self._stored["position"] - self.follower.position)
        try:
            return await self.follower.advance(limit, self._due if self._every and self._stored is None else None)
        except OutOfRange:
            if self.follower.position:
                self.rebuild()
            await self.follower.begin_at_front()
            return 0

    def _due(self) -> bool:
        """Tell whether a snapshot is due and may be taken here."""
        return self.follower.position - self._snapshot_at >= self._every and self._fold.after_batch

    async def _keep_snapshot(self) -> None:
        """Take a snapshot if one is due; one that fails costs nothing but a longer rebuild."""
        if not self._every or not self._due() or self.follower.blocked is not None:
            return
        self._snapshot_at = self.follower.position
        try:
            await self._run(lambda: self._recovery.save(self._fold, self.follower.position, self.follower.chain))
            self.snapshots += 1
        except (NotNow, DatabaseError) as error:
            self._note(f"no snapshot at {self.follower.position}: {error}")

    @property
    def _fold(self) -> Fold:
        return self.follower.state.fold

    async def _compare(self, stored: Row) -> bool:
        """At the place that the tables name: take them over, or make them anew."""
        self.follower.state.take()
        if self.follower.position < stored["position"]:
            return True
        if (self.follower.chain, self.follower.state.fold.digest()) != (stored["chain"], stored["state"]):
            self.rebuild()
            return True
        self.follower.state.resume(await self._run(self._read_waiting))
        self._stored, self._written = None, self._place()
        return True

    def _place(self) -> Place:
        return self.follower.position, self.follower.chain

    def _read_progress(self) -> Row | None:
        with self._engine.connect() as connection:
            return _progress(connection, self.cluster)

    def _read_waiting(self) -> list[Row]:
        core = CommandRow.__table__
        query = select(core).where(core.c.cluster == self.cluster, core.c.result == "waiting")
        with self._engine.connect() as connection:
            return [dict(row._mapping) for row in connection.execute(query)]

    def _write(self) -> bool:
        """Write the pending rows and the place in one transaction; False if the tables are not as we left them."""
        place = self._place()
        with self._engine.begin() as connection:
            if self._wipe:
                for table in _OWNED:
                    connection.execute(delete(table).where(table.__table__.c.cluster == self.cluster))
            else:
                found = _progress(connection, self.cluster, lock=True)
                if ((found["position"], found["chain"]) if found else None) not in (self._written, self._attempted):
                    return False
            self._attempted = place
            _replace(connection, {**self._pending, (Progress, (self.cluster,)): self._progress_row()})
        self._pending, self._written, self._wipe = {}, place, False
        return True

    def _progress_row(self) -> Row:
        fold = self.follower.state.fold
        row: Row = {
            "cluster": self.cluster,
            "incarnation": fold.model.incarnation,
            "position": self.follower.position,
            "chain": self.follower.chain,
            "state": fold.digest(),
            "records_set_aside": self.follower.set_aside_count,
        }
        return clean(row)

    async def _run(self, work: Callable[[], T]) -> T:
        """Do something with the database; after a failure its tables are looked after again."""
        try:
            return await asyncio.to_thread(work) if self._threaded else work()
        except (SQLAlchemyError, DatabaseError) as error:
            self._migrated = False
            raise DatabaseError(f"read models of {self.cluster}: {plainly(error)}") from error


def _progress(connection: Connection, cluster: str, *, lock: bool = False) -> Row | None:
    """Return where the tables are; ``lock``: nobody else may move them on until the transaction ends."""
    query = select(Progress.__table__).where(Progress.__table__.c.cluster == cluster)
    found = connection.execute(query.with_for_update() if lock else query).first()
    return dict(found._mapping) if found else None


def _replace(connection: Connection, changes: Mapping[Key, Row | None]) -> None:
    """Make the rows what the changes say: remove by key, then insert what is to be there.

    Many rows a statement, since each statement costs a round trip: an insert is only packed if it returns something.
    """
    tables: dict[type[Table], list[tuple[tuple[Any, ...], Row | None]]] = defaultdict(list)
    for (table, key), row in changes.items():
        tables[table].append((key, row))
    for table, items in tables.items():
        core = table.__table__
        columns = list(core.primary_key)
        keys = [key for key, _ in items]
        for start in range(0, len(keys), _ROWS):
            connection.execute(delete(table).where(tuple_(*columns).in_(keys[start : start + _ROWS])))
        if new := [row for _, row in items if row is not None]:
            connection.execute(insert(table).returning(*columns), new)
