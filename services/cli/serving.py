"""Running the embedded system from the command line: start, serve, stop in order, and clear words when it cannot."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import typer

from adapters.database.engine import DatabaseError
from adapters.log.errors import CheckpointError
from adapters.log.port import LogError
from services.cli.embedded import EmbeddedSystem
from services.cluster.http import PortInUse

DEFAULT_PORT = 8001
#: The page is served on the port after the API server's.
PORT_MAX = 65_534


@asynccontextmanager
async def serving(data: Path, port: int, database: str = "") -> AsyncIterator[EmbeddedSystem]:
    """Run the system while the block runs; exits with 2 and one line if it cannot start."""
    system = EmbeddedSystem(data, port, database)
    try:
        await system.start()
    except (LogError, PortInUse, DatabaseError, CheckpointError, OSError) as error:
        await system.stop()
        typer.echo(f"gpuledger: {error}", err=True)
        raise typer.Exit(2) from error
    try:
        yield system
    finally:
        await system.stop()
