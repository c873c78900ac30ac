"""``gpuledger up``: the whole system in one process, on a log and a cluster that live in one folder.

Configured like the other services, by a YAML file and ``GPULEDGER_*`` variables; the command line comes before both.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer
import yaml
from pydantic import Field, SecretStr

from adapters.cluster.port import ApiError, ApiUnknown
from services.cli import manifests
from services.cli.embedded import EmbeddedSystem
from services.cli.processes import ConfigOption, ShowOption
from services.cli.serving import DEFAULT_PORT, PORT_MAX, serving
from services.runtime.settings import Configured, SettingsError, load


class UpSettings(Configured):
    """What ``up`` can be told. ``database``: URL of the read models, by default a file in the data folder."""

    data: Path = Path("gpuledger-data")
    port: int = Field(default=DEFAULT_PORT, ge=0, le=PORT_MAX)
    manifests: tuple[Path, ...] = ()
    database: SecretStr = SecretStr("")


def command(
    files: Annotated[list[Path] | None, typer.Option("-f", "--file", help="Manifests to apply at start.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder that holds the log and the cluster.", show_default="gpuledger-data")
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            help="Port of the embedded API server, the page is on the next one; 0 takes free ones.",
            show_default=str(DEFAULT_PORT), min=0, max=PORT_MAX,
        ),
    ] = None,
    config: ConfigOption = None,
    show_config: ShowOption = False,
) -> None:  # fmt: skip
    """Run everything in one process until Ctrl-C: embedded cluster, log, watcher, scheduler, binder, controllers."""
    try:
        settings = load(UpSettings, config)
        given = {"data": data, "port": port, "manifests": tuple(files or ()) or None}
        settings = settings.model_copy(update={name: value for name, value in given.items() if value is not None})
        if show_config:
            sys.stdout.write(yaml.safe_dump(settings.shown(), sort_keys=True))
            raise typer.Exit(0)
        items = [item for path in settings.manifests for item in manifests.read(path)]
    except (manifests.BadManifest, SettingsError) as error:
        typer.echo("".join(f"gpuledger: {line}\n" for line in str(error).splitlines()), err=True, nl=False)
        raise typer.Exit(2) from error
    raise typer.Exit(asyncio.run(_main(items, settings)))


async def _main(items: list[dict[str, object]], settings: UpSettings) -> int:
    async with serving(settings.data, settings.port, settings.database.get_secret_value()) as system:
        where = f"API server {system.server}, what runs and where {system.page}, log {settings.data / 'log.db'}"
        typer.echo(where)
        await _apply(system, items)
        typer.echo("serving until Ctrl-C")
        return await system.until_stopped()


async def _apply(system: EmbeddedSystem, items: list[dict[str, object]]) -> None:
    """Apply in order; one refused object does not stop the others."""
    api = await system.client()
    for item in items:
        try:
            done = await manifests.apply(api, item)
        except (ApiError, ApiUnknown) as error:
            typer.echo(f"refused: {error}", err=True)
        else:
            meta = done["metadata"]
            typer.echo(f"applied {done['kind']} {meta.get('namespace', '')}/{meta['name']}".replace(" /", " "))
