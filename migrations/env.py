"""Alembic's way in: on a connection that the program hands over, or on the URL in ``GPULEDGER_DATABASE_URL``."""

from __future__ import annotations

import os

from alembic import context
from sqlalchemy import Connection, create_engine, make_url

from adapters.database.tables import Table


def run(connection: Connection) -> None:
    context.configure(connection=connection, target_metadata=Table.metadata, render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()


def print_statements(url: str) -> None:
    """Offline (``--sql``): say what would be done, in the dialect of a URL."""
    dialect = make_url(url).get_backend_name()
    context.configure(dialect_name=dialect, target_metadata=Table.metadata, literal_binds=True)
    with context.begin_transaction():
        context.run_migrations()


def main() -> None:
    url = os.environ.get("GPULEDGER_DATABASE_URL", "sqlite:///gpuledger.db")
    if context.is_offline_mode():
        print_statements(url)
        return
    connection = context.config.attributes.get("connection")
    if connection is not None:
        run(connection)
        return
    engine = create_engine(url)
    with engine.connect() as own:
        run(own)
    engine.dispose()


main()
