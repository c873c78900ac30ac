"""``gpuledger up``: the whole system in one process, on a log and a cluster that live in one folder."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from adapters.cluster.port import ApiError
from services.cli import manifests
from services.cli.embedded import EmbeddedSystem
from services.cli.serving import DEFAULT_PORT, serving


def command(
    files: Annotated[list[Path] | None, typer.Option("-f", "--file", help="Manifests to apply at start.")] = None,
    data: Annotated[Path, typer.Option(help="Folder that holds the log and the cluster.")] = Path("gpuledger-data"),
    port: Annotated[int, typer.Option(help="Port of the embedded API server; 0 takes a free one.")] = DEFAULT_PORT,
) -> None:
    """Run everything in one process until Ctrl-C: embedded cluster, log, watcher, scheduler, binder, controllers."""
    try:
        items = [item for path in files or [] for item in manifests.read(path)]
    except manifests.BadManifest as error:
        typer.echo(f"gpuledger: {error}", err=True)
        raise typer.Exit(2) from error
    raise typer.Exit(asyncio.run(_main(items, data, port)))


async def _main(items: list[dict[str, object]], data: Path, port: int) -> int:
    async with serving(data, port) as system:
        typer.echo(f"API server {system.server}, what runs and where {system.page}, log {data / 'log.db'}")
        await _apply(system, items)
        typer.echo("serving until Ctrl-C")
        return await system.until_stopped()


async def _apply(system: EmbeddedSystem, items: list[dict[str, object]]) -> None:
    """Apply in order; one refused object does not stop the others."""
    api = await system.client()
    for item in items:
        try:
            done = await manifests.apply(api, item)
        except ApiError as error:
            typer.echo(f"refused: {error}", err=True)
        else:
            meta = done["metadata"]
            typer.echo(f"applied {done['kind']} {meta.get('namespace', '')}/{meta['name']}".replace(" /", " "))
