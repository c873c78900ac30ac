"""``gpuledger simulate``: plays scenario files to rest and says what did not hold.

Exit codes: 0 everything held, 1 an assertion or invariant failed or a manifest was refused, 2 malformed files or wrong
usage. Standard output carries the result alone; everything else goes to standard error.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from services.runtime import logging
from services.simulator import crashpoints
from services.simulator.chaos import run
from services.simulator.chaos.playing import Result
from services.simulator.run import play_all
from services.simulator.scenario import Malformed, read_plays


class Output(StrEnum):
    """How the final cluster is printed."""

    JSON = "json"
    YAML = "yaml"
    TABLE = "table"


def simulate(
    files: Annotated[list[str] | None, typer.Argument(metavar="FILE...", show_default=False)] = None,
    together: Annotated[bool, typer.Option("--together", help="Play all files as one.")] = False,
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print the final cluster.")] = Output.TABLE,
    seed: Annotated[int, typer.Option("--seed", help="Varies the order of events of different kinds.")] = 0,
    crash_points: Annotated[bool, typer.Option("--crash-points", help="List the points of a crash step.")] = False,
    chaos: Annotated[bool, typer.Option("--chaos", help="Play random workloads with faults, from --seed on.")] = False,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="With --chaos: how many seeds.")] = 1,
    steps: Annotated[int, typer.Option("--steps", min=1, help="With --chaos: how many steps each.")] = 1500,
    processes: Annotated[int, typer.Option("--processes", min=0, help="With --chaos: 0 is one a core.")] = 0,
    keep: Annotated[str, typer.Option("--keep", help="With --chaos: reduce what fails and keep it here.")] = "",
) -> None:
    """Play scenario files or plain manifests against the embedded system, deterministically, and check them."""
    if crash_points:
        sys.stdout.write(crashpoints.listing())
        return
    if chaos:
        if files:
            raise typer.BadParameter("takes no files", param_hint="--chaos")
        raise typer.Exit(run_chaos(seed, seeds, steps, processes, keep))
    if not files:
        raise typer.BadParameter("name at least one file", param_hint="FILE")
    try:
        plays = read_plays(files, together=together)
    except Malformed as problem:
        sys.stderr.write("".join(f"{line}\n" for line in problem.lines))
        raise typer.Exit(2) from None
    logging.configure("critical")
    result = asyncio.run(play_all(plays, output=output.value, seed=seed))
    sys.stdout.write(result.output)
    sys.stdout.flush()
    sys.stderr.write("".join(f"{line}\n" for line in result.problems))
    raise typer.Exit(result.code)


def _commit() -> str:
    """Return at which commit the same seed gives the same bytes, empty if this is no checkout."""
    git = ["git", "-C", str(Path(__file__).parents[2]), "describe", "--always", "--dirty=, with local changes"]
    try:
        found = subprocess.run(git, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return f" at commit {found.stdout.strip()}" if found.returncode == 0 else ""


def run_chaos(first: int, count: int, steps: int, processes: int, folder: str) -> int:
    """Play seeds with faults and tell what came of them; return the exit code."""

    def told(result: Result) -> None:
        sys.stderr.write("".join(f"seed {result.seed}: after step {result.at}: {text}\n" for text in result.failures))
        sys.stderr.write(f"again{_commit()}: gpuledger simulate --chaos --seed {result.seed} --steps {steps}\n")

    report = run.run(first, count, steps, processes=processes, told=told)
    sys.stdout.write(run.text_of(report))
    for result in report.failed if folder else ():
        path, left, failures = run.keep(result.seed, steps, Path(folder))
        sys.stderr.write(f"{path}: {left} steps are left: {'; '.join(failures)}\n")
    return 0 if report.passed else 1


if __name__ == "__main__":
    typer.run(simulate)
