"""The command line: one command a module, put together here (design section 10).

Exit codes: 0 done, 1 a check failed, 2 wrong usage or input.
"""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from services.cli import audit, explain, lab, log, processes, simulate, state, up
from services.runtime import logging

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


app.command("up")(up.command)
app.command("lab")(lab.command)
app.command("simulate")(simulate.simulate)
for service in (processes.watcher, processes.scheduler, processes.binder, processes.controller):
    app.command(service.__name__)(service)
app.command("log")(log.command)
app.command("state")(state.command)
app.add_typer(explain.app, name="explain")
app.add_typer(audit.app, name="audit")


def main() -> None:
    """Run the command that the arguments name."""
    app()
