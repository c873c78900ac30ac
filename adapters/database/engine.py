"""Opening the database and bringing its tables to the version that this program has.

Any SQLAlchemy URL will do; SQLite is the embedded one. Alembic's migrations (folder ``migrations``) are the only way in
which tables come about and change, so a new database and an old one end up the same.
"""

from __future__ import annotations

import sqlite3
import ssl
from collections.abc import Sequence
from contextlib import closing
from importlib.resources import files
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Dialect, Engine, create_engine, event, make_url
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import StaticPool

from adapters.database.errors import DatabaseError
from adapters.database.tls import secured

__all__ = ["DatabaseError", "migrate", "open_database", "plainly", "set_aside_if_damaged"]


def open_database(url: str | Path) -> Engine:
    """Return an engine for a URL, or for the file of an embedded database. Raises DatabaseError for a bad URL."""
    try:
        parsed = _with_driver(URL.create("sqlite", database=str(url)) if isinstance(url, Path) else make_url(url))
        if parsed.get_backend_name() != "sqlite":
            plain, arguments = secured(parsed) if parsed.get_backend_name() == "postgresql" else (parsed, {})
            engine = create_engine(plain, pool_pre_ping=True, connect_args=arguments)
            event.listen(engine, "do_connect", _connect)
            return engine
        if parsed.database in (None, "", ":memory:"):
            engine = create_engine(parsed, poolclass=StaticPool, connect_args={"check_same_thread": False})
            return _with_whole_transactions(engine)
        Path(str(parsed.database)).parent.mkdir(parents=True, exist_ok=True)
        engine = create_engine(parsed)
    except (SQLAlchemyError, OSError, ImportError) as error:
        raise DatabaseError(f"database {_named(url)}: {error}") from error
    except ValueError:  # its text may quote a part of the URL
        raise DatabaseError("database URL: host or port cannot be read") from None
    event.listen(engine, "connect", _tune)
    return _with_whole_transactions(engine)


def set_aside_if_damaged(path: Path) -> Path | None:
    """Move a file away that SQLite cannot read, so that it is made anew; return where it went, None if it is sound.

    Only for what can be rebuilt. Raises DatabaseError if it cannot be moved.
    """
    if not path.is_file():
        return None
    try:
        with closing(sqlite3.connect(path)) as connection:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    except sqlite3.DatabaseError as error:
        if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return None
        found = str(error)
    if found == "ok":
        return None
    aside = path.with_name(f"{path.name}.damaged")
    try:
        for end in ("", "-wal", "-shm"):
            if path.with_name(path.name + end).exists():
                path.with_name(path.name + end).replace(aside.with_name(aside.name + end))
    except OSError as error:
        raise DatabaseError(f"database {path}: damaged ({found}), and cannot be moved away: {error}") from error
    return aside


def _with_whole_transactions(engine: Engine) -> Engine:
    """SQLite: tables come about within the transaction too, so a migration that was cut short leaves nothing behind.

    Left to itself the driver begins a transaction only before the first change of a row.
    """
    event.listen(engine, "connect", lambda connection, _: setattr(connection, "isolation_level", None))
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


def migrate(engine: Engine, revision: str = "head") -> None:
    """Bring the tables to a revision, up or down (``base``: no tables). Raises DatabaseError."""
    # Who only reads what is there starts without it: it takes as long to load as SQLAlchemy's core.
    from alembic import command
    from alembic.config import Config

    try:
        with engine.begin() as connection:
            config = Config()
            config.set_main_option("script_location", str(files("migrations")))
            config.attributes["connection"] = connection
            if revision == "base" or revision.startswith("-"):
                command.downgrade(config, revision)
            else:
                command.upgrade(config, revision)
    except SQLAlchemyError as error:
        raise DatabaseError(f"database {_named(engine.url)}: {plainly(error)}") from error


def plainly(error: Exception) -> str:
    """Return what the database said, without the statement and the link that SQLAlchemy puts around it."""
    return str(error.orig) if isinstance(error, DBAPIError) and error.orig is not None else str(error)


def _with_driver(url: URL) -> URL:
    """PostgreSQL is spoken by pg8000 unless the URL names another driver."""
    return url.set(drivername="postgresql+pg8000") if url.drivername in ("postgresql", "postgres") else url


def _connect(dialect: Dialect, _: object, arguments: Sequence[Any], words: dict[str, Any]) -> Any:
    """Connect; what TLS refuses is an error of the connection like others, which the driver leaves as it is."""
    try:
        return dialect.connect(*arguments, **words)
    except ssl.SSLError as error:
        raise dialect.loaded_dbapi.InterfaceError(str(error)) from error


def _tune(connection: Any, _: object) -> None:
    """SQLite: readers beside the writer. What is here can be rebuilt, so not every commit is worth a sync."""
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")


def _named(url: str | Path | URL) -> str:
    """Return a URL as it may be shown, without its password."""
    if isinstance(url, Path):
        return str(url)
    try:
        return make_url(url).render_as_string(hide_password=True)
    except SQLAlchemyError:
        return "URL"
