"""The database beside the log: read models that are projected, snapshots that are saved, commits that go wrong.

It holds nothing that the log does not hold. So at the end the tables must be what a projection from nothing gives, and
the newest snapshot must be whole, however often a commit had no answer or the disk was full.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from sqlalchemy import Connection, Engine, event, select
from sqlalchemy.exc import OperationalError

from adapters.database.engine import DatabaseError, open_database
from adapters.database.projector import Projector
from adapters.database.snapshots import Saved, Snapshots
from adapters.database.tables import PROJECTED
from adapters.log.follower import Follower
from adapters.log.memory import MemoryLog
from services.simulator.chaos.driving import at_once
from services.simulator.chaos.inspecting import Inspector
from services.simulator.chaos.network import Network

UNKNOWN: Final = "database: commit unknown"
UNKNOWN_AFTER: Final = "database: commit unknown, it took effect"
FULL: Final = "database: disk full"
FORMAT: Final = "chaos.v1"
_STEPS_MAX: Final = 1_000


class Bookkeeping:
    """A projector and its database, with faults."""

    def __init__(self, log: MemoryLog, network: Network, cluster: str, inspector: Follower[Inspector]) -> None:
        self._log, self._network, self._cluster, self._inspector = log, network, cluster, inspector
        self._engine = open_database("sqlite://")
        self._armed = ""
        self._saved: list[Saved] = []
        event.listen(self._engine, "commit", self._commit)
        event.listen(self._engine, "before_cursor_execute", self._execute)
        self._projector = Projector(log, self._engine, cluster)
        self._snapshots = Snapshots(self._engine, cluster)

    def play(self, rng: Random) -> None:
        """Let something of this happen."""
        self._armed = rng.choice(("", UNKNOWN, UNKNOWN_AFTER, FULL, FULL))
        try:
            choice = rng.random()
            if choice < 0.2:
                self._projector = Projector(self._log, self._engine, self._cluster)
            elif choice < 0.6:
                at_once(self._projector.step())
            else:
                self._save()
        except DatabaseError:
            pass  # tried again in a later step
        self._armed = ""

    def _save(self) -> None:
        fold, position = self._inspector.state, self._inspector.position
        saved = Saved(position, fold.model.incarnation, fold.sequence, self._inspector.chain, fold.digest(), FORMAT,
                      fold.digest().encode())  # fmt: skip
        self._saved.append(saved)
        self._snapshots.save(saved)

    def _fires(self, fault: str) -> bool:
        if self._armed != fault:
            return False
        self._armed = ""
        self._network.fired[fault] += 1
        return True

    def _commit(self, connection: Connection) -> None:
        if self._fires(UNKNOWN):
            raise OperationalError("COMMIT", None, sqlite3.OperationalError("no answer"))
        if self._fires(UNKNOWN_AFTER):
            connection.connection.commit()
            raise OperationalError("COMMIT", None, sqlite3.OperationalError("no answer"))

    def _execute(self, connection: Any, cursor: Any, statement: str, *_: Any) -> None:
        if statement.startswith("INSERT INTO snapshot") and self._fires(FULL):
            raise OperationalError(statement, None, sqlite3.OperationalError("database or disk is full"))

    def wrong(self) -> Iterator[str]:
        """Yield what the tables say otherwise than the log, once everything was projected."""
        try:
            self._project(self._projector)
        except DatabaseError as error:
            yield f"8: the read models cannot be written any more: {error}"
            return
        fresh = open_database("sqlite://")
        self._project(Projector(self._log, fresh, self._cluster))
        for table in PROJECTED:
            if _rows(self._engine, table) != _rows(fresh, table):
                yield f"7: table {table.__tablename__} is not what the log projects to"
        fresh.dispose()
        newest = self._snapshots.newest(FORMAT)
        if newest is not None and newest not in self._saved:
            yield "7: the newest snapshot was never saved like this"
        self._engine.dispose()

    def _project(self, projector: Projector) -> None:
        for _ in range(_STEPS_MAX):
            if not at_once(projector.step()):
                return


def _rows(engine: Engine, table: Any) -> list[tuple[Any, ...]]:
    with engine.connect() as connection:
        return sorted((tuple(row) for row in connection.execute(select(table.__table__))), key=repr)
