"""The read models of a database, as tests compare them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Engine, select
from support.log_story import Story

from adapters.database.engine import open_database
from adapters.database.projector import Projector
from adapters.database.tables import PROJECTED, Progress, Table

Rows = list[dict[str, Any]]


def rows(engine: Engine, table: type[Table]) -> Rows:
    """Return a table's rows by their keys, in Python's order: each database has one of its own for texts."""
    core = table.__table__
    with engine.connect() as connection:
        found = [dict(row._mapping) for row in connection.execute(select(core))]
    return sorted(found, key=lambda row: [row[column.name] for column in core.primary_key])


def everything(engine: Engine) -> dict[str, Rows]:
    """Return all read models, and how far they are."""
    return {table.__tablename__: rows(engine, table) for table in (*PROJECTED, Progress)}


async def project(projector: Projector) -> None:
    """Let a projector do all that it can."""
    while await projector.step():
        pass


async def fresh(story: Story) -> dict[str, Rows]:
    """Return what a projector makes of the whole log in an empty database."""
    engine = open_database("sqlite://")
    await project(Projector(story.log, engine, "prod"))
    found = everything(engine)
    engine.dispose()
    return found
