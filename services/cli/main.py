"""The command line: one command a module, put together here (design section 10).

Exit codes: 0 done, 1 a check failed, 2 wrong usage or input.
"""

from __future__ import annotations

import typer

from services.cli import lab, up

app = typer.Typer(
    name="gpuledger",
    help="A scheduler for shared GPUs on Kubernetes whose every decision is on a log.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
app.command("up")(up.command)
app.command("lab")(lab.command)


def main() -> None:
    """Run the command that the arguments name."""
    app()
