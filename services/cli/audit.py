"""``gpuledger audit verify``: the chain is intact, and every decision decided again is equal, byte for byte."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from adapters.cluster.port import ApiError, ApiUnknown
from adapters.log.audit import AuditReport, Finding, verify
from adapters.log.checkpoints import Checkpoint, key_name, make_key, read, read_public
from adapters.log.drift import DriftReport, compare
from adapters.log.errors import CheckpointError
from adapters.log.port import Log
from events.codec import format_time
from services.cli import history
from services.cli.history import DATA_DEFAULT, DataOption, LogOption, printable
from services.runtime.settings import load_settings

_LISTED_MAX: Final = 100

app = typer.Typer(name="audit", help="Check the log.", no_args_is_help=True)


class Output(StrEnum):
    """How the report is printed."""

    TEXT = "text"
    JSON = "json"


@app.callback()
def group() -> None:
    """Check the log."""


@app.command("verify")
def command(
    data: DataOption = DATA_DEFAULT,
    url: LogOption = "",
    checkpoints: Annotated[Path | None, typer.Option(help="File of signed checkpoints to compare with.")] = None,
    public_key: Annotated[
        list[Path] | None, typer.Option(help="Public key of the checkpoints, PEM; again for an older key.")
    ] = None,
    kubernetes: Annotated[
        str, typer.Option(metavar="WHERE", help="Compare with this API server too: a kubeconfig file, or a URL.")
    ] = "",
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print the report.")] = Output.TEXT,
) -> None:
    """Fold the whole log, check its chain, and decide every batch again. Exit code 1 if anything differs."""
    vouched = _checkpoints(checkpoints, public_key)

    async def session(log: Log) -> AuditReport:
        report = await verify(log, vouched)
        if kubernetes:
            report.add_drift(await _drift(log, kubernetes))
        return report

    if kubernetes and not (_is_url(kubernetes) or Path(kubernetes).is_file()):
        history.fail(f"--kubernetes {kubernetes}: neither a file nor a URL")
    try:
        report = history.run(data, url, session)
    except (ApiError, ApiUnknown) as error:
        where = "" if "@" in kubernetes else f" {kubernetes}"
        history.fail(f"--kubernetes{where}: {error}")
    sys.stdout.write(as_json(report) if output is Output.JSON else as_text(report))
    raise typer.Exit(0 if report.passed else 1)


@app.command("key")
def key(path: Annotated[Path, typer.Argument(help="Where the private key is written; .pub beside it.")]) -> None:
    """Make a key for signed checkpoints."""
    try:
        made = make_key(path)
    except CheckpointError as error:
        history.fail(str(error))
    sys.stdout.write(f"{key_name(made.public_key())}  {path}  {path.with_suffix('.pub')}\n")


def _checkpoints(path: Path | None, public_keys: list[Path] | None) -> list[Checkpoint]:
    if path is None and not public_keys:
        return []
    if path is None or not public_keys:
        raise typer.BadParameter("--checkpoints and --public-key go together")
    try:
        return read(path, *map(read_public, public_keys), note=_note)
    except CheckpointError as error:
        history.fail(str(error))


def _note(text: str) -> None:
    sys.stderr.write(f"gpuledger: {printable(text)}\n")


async def _drift(log: Log, where: str) -> DriftReport:
    """Compare with the API server at a URL, with the token of the settings, or with that of a kubeconfig file."""
    from adapters.cluster.http import KubernetesApi, kubeconfig_configuration, server_configuration

    if _is_url(where):
        configure = server_configuration(where, load_settings().kubernetes.token.get_secret_value())
    else:
        configure = kubeconfig_configuration(where)
    api = await KubernetesApi.connect(configure)
    try:
        return await compare(log, api)
    finally:
        await api.close()


def _is_url(where: str) -> bool:
    return where.startswith(("http://", "https://"))


def as_json(report: AuditReport) -> str:
    """Return the report as JSON."""
    content = {"passed": report.passed, **asdict(report), "void": dict(sorted(report.void.items()))}
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def as_text(report: AuditReport) -> str:
    """Return the report for people: the first record that differs comes first."""
    lines = [f"audit: {'passed' if report.passed else 'FAILED'}"]
    lines += [_finding(finding) for finding in report.findings[:_LISTED_MAX]]
    if (more := len(report.findings) - _LISTED_MAX) > 0:
        lines.append(f"  and {more} more (-o json lists them)")
    where = f" (positions {report.first} to {report.end - 1})" if report.end > report.first else ""
    lines.append(f"  records    {report.end - report.first}{where}")
    lines.append(f"  chain      {report.chain}")
    lines.append(f"  state      {report.state}")
    lines.append(f"  decisions  {report.decisions} decided again and equal")
    lines += _vouched(report)
    if report.drift is not None:
        same = "" if report.drift.differences else " agree"
        lines.append(f"  cluster    {report.drift.objects} objects, {report.drift.placements} placements{same}")
        if report.drift.unchecked:
            lines.append(f"  unchecked  {report.drift.unchecked} pods bear decisions from before the log's front")
    for reason, count in sorted(report.void.items()):
        lines.append(f"  void       {count}: {reason}")
    if report.set_aside_count:
        lines.append(f"  set aside  {report.set_aside_count}")
        lines += [_finding(finding) for finding in report.set_aside]
    return "".join(printable(line) + "\n" for line in lines)


def _vouched(report: AuditReport) -> list[str]:
    """Say how far somebody outside the log vouches for it: an old file of checkpoints says nothing of what is newer."""
    lines = []
    if report.checkpoints:
        last = f"the last of {format_time(report.vouched_ms)} at position {report.vouched_to}"
        lines.append(f"  vouched    {report.checkpoints} signed checkpoints agree, {last}")
    if report.checkpoints and report.end > report.vouched_to:
        lines.append(f"  unvouched  {report.end - report.vouched_to} records after it")
    if report.unreachable:
        lines.append(f"  unvouched  {report.unreachable} signed checkpoints are of places before the log's front")
    return lines


def _finding(finding: Finding) -> str:
    record = f" {finding.record}" if finding.record else ""
    return f"  position {finding.position}{record}: {finding.problem}"
