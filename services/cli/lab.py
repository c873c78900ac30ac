"""``gpuledger lab``: play lab 8 on the embedded system and show, step by step, what was expected and what was seen."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated

import typer

from services.cli import manifests
from services.cli.embedded import EmbeddedSystem
from services.cli.labscript import NAMESPACE, STEPS, Check, Step
from services.cli.labview import LabView
from services.cli.serving import DEFAULT_PORT, PORT_MAX, serving

_PATIENCE_S = 20.0
_LOOK_EVERY_S = 0.02


def lab_folder() -> Path:
    """Return the folder of the lab's manifests: beside this module when installed, in the tests of a checkout."""
    installed = Path(__file__).parent / "lab8"
    return installed if installed.exists() else Path(__file__).parents[2] / "tests" / "scenarios" / "labs" / "lab8"


def command(
    leave: Annotated[bool, typer.Option("--exit", help="End after the last step; 0 only if every step held.")] = False,
    port: Annotated[
        int, typer.Option(help="Port of the embedded API server; 0 takes a free one.", min=0, max=PORT_MAX)
    ] = DEFAULT_PORT,
    data: Annotated[Path | None, typer.Option(help="Folder for log and cluster; by default a new one.")] = None,
) -> None:
    """Play lab 8 (one pod, a gang, a gang that must not start, a queue limit) and go on serving until Ctrl-C."""
    with tempfile.TemporaryDirectory(prefix="gpuledger-lab-") as fresh:
        raise typer.Exit(asyncio.run(_main(data or Path(fresh), port, leave)))


async def _main(data: Path, port: int, leave: bool) -> int:
    started = time.monotonic()
    async with serving(data, port) as system:
        typer.echo(f"everything runs: API server {system.server}, log {data / 'log.db'}\n")
        held = await _play(system, started)
        if leave:
            return 0 if held else 1
        typer.echo(f"\nserving until Ctrl-C; try: kubectl --server {system.server} get pods,podgroups,queues,vcjob -A")
        await system.until_stopped()
        return 0 if held else 1


async def _play(system: EmbeddedSystem, started: float) -> bool:
    view = LabView(system, await system.client())
    failures = 0
    for number, step in enumerate(STEPS):
        typer.echo(f"{step.title}  ({', '.join(step.manifests)})")
        for name in step.manifests:
            for item in manifests.read(lab_folder() / name):
                await manifests.apply(view.api, item)
        for index, check in enumerate(step.checks):
            failures += not await _see(view, check)
            if number == index == 0:
                typer.echo(f"        (first placement {time.monotonic() - started:.2f} s after the start)")
        await _clear(view, step)
        typer.echo("")
    checks = sum(len(step.checks) for step in STEPS)
    typer.echo(f"{checks - failures} of {checks} held" + ("" if not failures else f", {failures} failed"))
    return not failures


async def _see(view: LabView, check: Check) -> bool:
    """Ask until the expected answer comes, or patience ends; show both."""
    seen = ""

    async def look() -> bool:
        nonlocal seen
        seen = await check.question(view)
        return check.holds(seen)

    holds = await _until(look)
    typer.echo(f"  {'ok    ' if holds else 'FAILED'}  {check.label}")
    typer.echo(f"          expected  {check.expected}{' ...' if check.begins else ''}")
    typer.echo(f"          seen      {seen}")
    return holds


async def _clear(view: LabView, step: Step) -> None:
    """Delete the step's workload; its share must be free at once, so nothing is waited for but the pods' end."""
    for kind, name in step.deletes:
        await view.api.delete(kind, NAMESPACE, name)
    if step.deletes:
        await _until(lambda: _nothing_left(view))


async def _nothing_left(view: LabView) -> bool:
    return not await view.pods_left(NAMESPACE)


async def _until(holds: Callable[[], Awaitable[bool]]) -> bool:
    """Look until a condition holds; False if patience ended before."""
    deadline = time.monotonic() + _PATIENCE_S
    held = await holds()
    while not held and time.monotonic() < deadline:
        await asyncio.sleep(_LOOK_EVERY_S)
        held = await holds()
    return held
