"""The command line: one command a module, put together here (design section 10).

Only the module of the command that is asked for is loaded, since a service's start would else wait for what it never
uses. Exit codes: 0 done, 1 a check failed, 2 wrong usage or input.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Annotated, Final

import typer

from services.runtime import logging
from services.runtime.memory import collect_rarely

#: By command, in the order of the help: its module and the name in it, a function or (``app``) a group of commands.
_COMMANDS: Final = {
    "up": ("up", "command"),
    "lab": ("lab", "command"),
    "simulate": ("simulate", "simulate"),
    "watcher": ("processes", "watcher"),
    "scheduler": ("processes", "scheduler"),
    "binder": ("processes", "binder"),
    "controller": ("processes", "controller"),
    "log": ("log", "command"),
    "export": ("export", "command"),
    "state": ("state", "command"),
    "explain": ("explain", "app"),
    "audit": ("audit", "app"),
}
_LEVELS: Final = ("debug", "info", "warning", "error")

app = typer.Typer(
    name="gpuledger",
    help="A scheduler for shared GPUs on Kubernetes whose every decision is on a log.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)


@app.callback()
def _prepare(
    level: Annotated[
        str, typer.Option("--log-level", envvar="GPULEDGER_LOG_LEVEL", help="Least level that is logged.")
    ] = "warning",
) -> None:
    if level.lower() not in _LEVELS:
        raise typer.BadParameter(f"{level!r} is none of {', '.join(_LEVELS)}", param_hint="--log-level")
    logging.configure(level.lower(), "console" if sys.stderr.isatty() else "json")


def _add(command: str) -> None:
    module, name = _COMMANDS[command]
    found = getattr(import_module(f"services.cli.{module}"), name)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=command)
    else:
        app.command(command)(found)


def main() -> None:
    """Run the command that the arguments name; without one that is known, all are there to be shown."""
    asked = [word for word in sys.argv[1:2] if word in _COMMANDS]
    for command in asked or _COMMANDS:
        _add(command)
    collect_rarely()
    app()
