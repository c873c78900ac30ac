"""``gpuledger log``: the records as they stand on the log, one a line."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from adapters.log.port import Log
from events.codec import Message, SetAside, format_time, from_message
from events.records import (
    Batch,
    Body,
    Deleted,
    Genesis,
    ListChunk,
    ListEnd,
    Observed,
    Opened,
    Outcome,
    Record,
    Ticked,
    dump,
)
from services.cli import history
from services.cli.history import DATA_DEFAULT, AtOption, DataOption, LogOption, printable

_CHUNK: Final = 1_000
_WAIT_S: Final = 3600.0
_SUMMARY_MAX: Final = 200


class Output(StrEnum):
    """How records are printed."""

    TABLE = "table"
    JSON = "json"


def command(
    data: DataOption = DATA_DEFAULT,
    url: LogOption = "",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is appended.")] = False,
    kind: Annotated[str, typer.Option("--type", metavar="T", help="Only types with this in their name.")] = "",
    subject: Annotated[
        str, typer.Option("--subject", metavar="S", help="Only this Kind/namespace/name, or a beginning or end of it.")
    ] = "",
    since: Annotated[
        str, typer.Option("--since", metavar="WHEN", help="Begin at this offset or after this RFC 3339 time.")
    ] = "",
    until: AtOption = "",
    output: Annotated[Output, typer.Option("--output", "-o", help="json: one CloudEvent a line.")] = Output.TABLE,
) -> None:
    """Print the records of the log."""

    async def show(log: Log) -> None:
        first, _ = await log.bounds()
        position = await _start(log, since) if since else first
        end = await history.end_of(log, until) if until else None
        while True:
            stop = end if end is not None else (await log.bounds())[1]
            while position < stop:
                for at, message in await log.read(position, min(_CHUNK, stop - position)):
                    _print(at, message, kind, subject, output)
                    position = at + 1
            sys.stdout.flush()
            if not follow or end is not None:
                return
            await log.wait(position, _WAIT_S)

    history.run(data, url, show)


async def _start(log: Log, since: str) -> int:
    end = await history.end_of(log, since)
    return end - 1 if since.isdigit() else end


def _print(position: int, message: Message, kind: str, subject: str, output: Output) -> None:
    found = from_message(message)
    type_name = found.type if isinstance(found, SetAside) else found.body.TYPE
    if kind and kind not in type_name:
        return
    if subject and not matches(subject, "" if isinstance(found, SetAside) else found.subject):
        return
    if output is Output.JSON:
        sys.stdout.write(json.dumps(as_event(position, found, message), sort_keys=True) + "\n")
    else:
        sys.stdout.write(printable(line(position, found)) + "\n")


def matches(wanted: str, subject: str) -> bool:
    """Tell whether a subject is meant: ``Kind/namespace/name`` itself, its beginning, or its end, at a slash."""
    return f"/{wanted}/" in f"/{subject}/"


def line(position: int, found: Record | SetAside) -> str:
    """Return one record as a line for people."""
    if isinstance(found, SetAside):
        return f"{position:>8}  set aside: {found.reason} {found.type}".rstrip()
    writer = f"{found.role[0]}{found.term}.{found.number}"
    type_name = found.body.TYPE.removeprefix("gpuledger.")
    parts = (f"{position:>8}", format_time(found.time_ms), f"{writer:<8}", f"{type_name:<20}", found.subject)
    return "  ".join((*parts, summary(found.body)[:_SUMMARY_MAX])).rstrip()


def as_event(position: int, found: Record | SetAside, message: Message) -> dict[str, Any]:
    """Return one record as a CloudEvent in JSON, with its offset."""
    if isinstance(found, SetAside):
        return {"offset": position, "setaside": found.reason, "type": found.type, "bytes": len(message.value)}
    event: dict[str, Any] = {
        "offset": position,
        "specversion": "1.0",
        "id": found.id,
        "type": found.body.TYPE,
        "source": dict(message.headers)["ce_source"].decode("utf-8", "replace"),
        "time": format_time(found.time_ms),
        "role": found.role,
        "term": found.term,
        "number": found.number,
        "data": dump(found.body),
    }
    return {**event, "subject": found.subject} if found.subject else event


def summary(body: Body) -> str:
    """Return what a record says, in a few words."""
    match body:
        case Genesis():
            return f"log of cluster {body.cluster}, incarnation {body.incarnation}"
        case Opened():
            return f"{body.role} term {body.term} after {body.previous}, {body.mode}, by {body.writer}"
        case Ticked():
            return f"it is {format_time(body.time_ms)}"
        case Observed():
            return f"version {body.version}{' (listed)' if body.listed else ''}{_of_object(body)}"
        case Deleted():
            return f"uid {body.uid}{'' if body.seen else ' (missing from a list)'}"
        case ListChunk() | ListEnd():
            count = len(body.uids) if isinstance(body, ListChunk) else body.count
            return f"{body.kind} list {body.list_id}: {count}"
        case Batch():
            return _of_batch(body)
        case Outcome():
            return f"{body.verb} {body.result} {body.command} {body.node} {body.message}".rstrip()
        case _:
            return ""


def _of_object(body: Observed) -> str:
    spec, status = (body.object.get(part) for part in ("spec", "status"))
    node = spec.get("nodeName") if isinstance(spec, dict) else None
    phase = status.get("phase") if isinstance(status, dict) else None
    return "".join(f" {word}" for word in (phase, f"on {node}" if node else None) if word)


def _of_batch(body: Batch) -> str:
    counts = {
        "bind": sum(len(command.members) for command in body.binds),
        "evict": len(body.evictions),
        "groups": len(body.groups),
        "pods": sum(len(change.uids) for change in body.pods),
    }
    what = ", ".join(f"{word} {count}" for word, count in counts.items() if count)
    return f"batch {body.batch} at place {body.base}: {what or 'promises'}"
