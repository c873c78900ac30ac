"""A real PostgreSQL 15: migrations up and down, the same rows as everywhere, and a loss costs a rebuild."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from parts.postgres import Postgres
from sqlalchemy import Engine, inspect
from support.log_story import Story
from support.read_models import everything, fresh, project

from adapters.database.engine import DatabaseError, migrate, open_database
from adapters.database.projector import Projector
from adapters.database.snapshots import Saved, Snapshots
from adapters.database.tables import Table
from adapters.log.memory import MemoryLog

SHARE = "GPU-n1-0,NVIDIA,1000,0:;"


@pytest.fixture
def engine(postgres: Postgres) -> Iterator[Engine]:
    """An engine on an empty database."""
    postgres.drop()
    found = open_database(postgres.url())
    yield found
    found.dispose()


async def told() -> Story:
    story = Story(MemoryLog())
    await story.begin()
    await story.node("n1")
    await story.group("g1", 2)
    for name in ("p0", "p1"):
        await story.pod(name, "g1", rule=True)
    await story.bind("g1", story.member(0, "p0", "n1", SHARE), story.member(1, "p1", "n1", SHARE.replace("-0", "-1")))
    await story.outcome(story.command(0), "p0")
    return story


def test_migrations_go_up_and_down_and_give_what_the_program_knows(engine: Engine) -> None:
    for _ in range(2):
        migrate(engine)
        assert set(inspect(engine).get_table_names()) - {"alembic_version"} == set(Table.metadata.tables)
        with engine.connect() as connection:
            context = MigrationContext.configure(connection, opts={"compare_type": True})
            assert compare_metadata(context, Table.metadata) == []
        migrate(engine, "base")
        assert set(inspect(engine).get_table_names()) - {"alembic_version"} == set()


async def test_the_rows_are_those_of_every_other_database(engine: Engine) -> None:
    story = await told()
    await project(Projector(story.log, engine, "prod", threaded=True))
    assert everything(engine) == await fresh(story)


async def test_hostile_texts_do_not_stop_it(engine: Engine) -> None:
    story = await told()
    await story.outcome(story.command(1), "p1", "refused", "nul \x00, quote ', bidi \u202e")
    await project(Projector(story.log, engine, "prod"))
    assert everything(engine) == await fresh(story)


async def test_a_database_dropped_while_it_runs_costs_a_rebuild_and_nothing_else(
    postgres: Postgres, engine: Engine
) -> None:
    story = await told()
    projector = Projector(story.log, engine, "prod", threaded=True)
    await project(projector)
    postgres.drop()
    await story.outcome(story.command(1), "p1")
    failures = 0
    while failures < 10:
        try:
            await project(projector)
            break
        except DatabaseError:
            failures += 1
    assert everything(engine) == await fresh(story)


async def test_a_server_that_crashes_is_used_again_when_it_is_back(postgres: Postgres, engine: Engine) -> None:
    story = await told()
    projector = Projector(story.log, engine, "prod", threaded=True)
    await project(projector)
    postgres.kill()
    try:
        await story.outcome(story.command(1), "p1")
        with pytest.raises(DatabaseError):
            await project(projector)
    finally:
        postgres.start()
    await project(projector)
    assert everything(engine) == await fresh(story)


def test_snapshots_are_kept_byte_for_byte(engine: Engine) -> None:
    migrate(engine)
    snapshots = Snapshots(engine, "prod")
    saved = Saved(7, "i1", 7, "c" * 64, "s" * 64, "f1", bytes(range(256)) * 4_000)
    snapshots.save(saved)
    assert snapshots.newest("f1") == saved


def test_a_url_that_cannot_be_used_is_an_error_without_its_password() -> None:
    engine = open_database("postgresql://user:hunter2@127.0.0.1:1/db")
    with pytest.raises(DatabaseError) as refusal:
        migrate(engine)
    assert "hunter2" not in str(refusal.value)
