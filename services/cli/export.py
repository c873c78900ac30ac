"""``gpuledger export``: a copy of the log in a file, from any home."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from adapters.log.exporting import export
from adapters.log.port import Log
from services.cli import history
from services.cli.history import DATA_DEFAULT, DataOption, LogOption


def command(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The new file.")],
    data: DataOption = DATA_DEFAULT,
    url: LogOption = "",
) -> None:
    """Copy the log to a file, which every command reads with --log; its positions and its chain stay the same."""

    async def copy(log: Log) -> tuple[int, int]:
        return await export(log, path)

    first, end = history.run(data, url, copy)
    where = f" (positions {first} to {end - 1})" if end > first else ""
    sys.stdout.write(f"exported {end - first} records{where} to {history.printable(str(path))}\n")
