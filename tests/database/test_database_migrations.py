"""Design section 3, the database: its tables come from migrations alone, up and down, on an old file and a new one."""

from __future__ import annotations

import io
import sqlite3
from importlib.resources import files
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import Engine, event, inspect
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import OperationalError
from sqlalchemy.schema import CreateTable

from adapters.database.engine import DatabaseError, migrate, open_database
from adapters.database.tables import Table


@pytest.fixture
def engine(tmp_path: Path) -> Engine:
    return open_database(tmp_path / "data" / "gpuledger.db")


def tables(engine: Engine) -> set[str]:
    return set(inspect(engine).get_table_names()) - {"alembic_version"}


def test_up_makes_the_tables_that_the_program_knows(engine: Engine) -> None:
    migrate(engine)
    assert tables(engine) == set(Table.metadata.tables)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True})
        assert compare_metadata(context, Table.metadata) == []
    engine.dispose()


def test_down_removes_everything_and_up_works_again(engine: Engine) -> None:
    migrate(engine)
    migrate(engine, "base")
    assert tables(engine) == set()
    migrate(engine)
    migrate(engine)
    assert tables(engine) == set(Table.metadata.tables)
    engine.dispose()


def test_the_indices_carry_the_names_of_the_convention(engine: Engine) -> None:
    migrate(engine)
    for name, table in Table.metadata.tables.items():
        found = {index["name"] for index in inspect(engine).get_indexes(name)}
        assert found == {index.name for index in table.indexes}
        assert inspect(engine).get_pk_constraint(name)["name"] == f"pk_{name}"
    engine.dispose()


def test_postgresql_gets_the_same_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULEDGER_DATABASE_URL", "postgresql://host/db")
    written = io.StringIO()
    config = Config(output_buffer=written)
    config.set_main_option("script_location", str(files("migrations")))
    command.upgrade(config, "head", sql=True)
    for name, table in Table.metadata.tables.items():
        ours = str(CreateTable(table).compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
        theirs = written.getvalue().partition(f"CREATE TABLE {name} (")[2].partition(";")[0]
        assert {part.strip(" \t\n)(,") for part in ours.partition("(")[2].split("\n")} == {
            part.strip(" \t\n)(,") for part in theirs.split("\n")
        }


def test_memory_databases_live_as_long_as_their_engine() -> None:
    engine = open_database("sqlite://")
    migrate(engine)
    assert tables(engine) == set(Table.metadata.tables)
    engine.dispose()


@pytest.mark.parametrize("url", ["no url at all", "nosuchdatabase://host/db"])
def test_a_url_that_names_no_database_is_refused(url: str) -> None:
    with pytest.raises(DatabaseError, match="database"):
        open_database(url)


def test_a_password_is_never_shown() -> None:
    with pytest.raises(DatabaseError) as refusal:
        open_database("nosuchdatabase://me:secret@host/db")
    assert "secret" not in str(refusal.value)


def test_a_file_that_is_no_database_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "gpuledger.db").write_bytes(b"something else" * 100)
    engine = open_database(tmp_path / "gpuledger.db")
    with pytest.raises(DatabaseError, match=r"gpuledger\.db"):
        migrate(engine)
    engine.dispose()


def test_a_migration_without_an_answer_leaves_nothing_half_made() -> None:
    """The commit of the first tables got no answer: they come about the next time."""
    engine = open_database("sqlite://")

    def no_answer(_: object) -> None:
        event.remove(engine, "commit", no_answer)
        raise OperationalError("COMMIT", None, sqlite3.OperationalError("no answer"))

    event.listen(engine, "commit", no_answer)
    with pytest.raises(DatabaseError):
        migrate(engine)
    assert inspect(engine).get_table_names() == []
    migrate(engine)
    assert "progress" in inspect(engine).get_table_names()
