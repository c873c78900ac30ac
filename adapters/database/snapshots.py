"""Snapshots of the state: they make a rebuild faster and prove nothing. The log wins (design section 3).

A snapshot names the place that it was taken at, with the digests of chain and state there. Whoever loads one recomputes
the state's digest, and trusts it only if a batch based on that place names the same two.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Engine, delete, insert, select
from sqlalchemy.exc import SQLAlchemyError

from adapters.database.engine import DatabaseError, plainly
from adapters.database.tables import Snapshot


@dataclass(frozen=True, slots=True)
class Saved:
    """A snapshot: everything before ``position`` (an offset; ``place`` counts from the genesis) is in ``content``."""

    position: int
    incarnation: str
    place: int
    chain: str
    state: str
    format: str
    content: bytes


class Snapshots:
    """The snapshots of one cluster. Every method raises DatabaseError."""

    def __init__(self, engine: Engine, cluster: str) -> None:
        self._engine = engine
        self._cluster = cluster
        self._table = Snapshot.__table__

    def save(self, snapshot: Saved, keep: int = 3) -> None:
        """Keep a snapshot, whole or not at all, and only the newest ``keep`` of all."""
        columns = {name: getattr(snapshot, name) for name in Saved.__slots__}
        mine = self._table.c.cluster == self._cluster
        try:
            with self._engine.begin() as connection:
                connection.execute(delete(Snapshot).where(mine, self._table.c.position == snapshot.position))
                connection.execute(insert(Snapshot), {"cluster": self._cluster, **columns})
                newest = connection.scalars(
                    select(self._table.c.position).where(mine).order_by(self._table.c.position.desc()).limit(keep)
                ).all()
                connection.execute(delete(Snapshot).where(mine, self._table.c.position < newest[-1]))
        except SQLAlchemyError as error:
            raise DatabaseError(f"snapshot of {self._cluster} at {snapshot.position}: {plainly(error)}") from error

    def newest(self, format_name: str, up_to: int | None = None) -> Saved | None:
        """Return the newest snapshot in a format at or before a position; None if there is none."""
        columns = [self._table.c[name] for name in Saved.__slots__]
        query = select(*columns).where(self._table.c.cluster == self._cluster, self._table.c.format == format_name)
        if up_to is not None:
            query = query.where(self._table.c.position <= up_to)
        try:
            with self._engine.connect() as connection:
                found = connection.execute(query.order_by(self._table.c.position.desc()).limit(1)).first()
        except SQLAlchemyError as error:
            raise DatabaseError(f"snapshots of {self._cluster}: {plainly(error)}") from error
        return Saved(**found._mapping) if found else None
