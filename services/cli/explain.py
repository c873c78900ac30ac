"""``gpuledger explain``: why a pod or PodGroup is where it is, or why it waits, now or at any moment of the past.

Everything comes from folding the log: the state says where it is and what is said of it, word for word; the records
that concern it, with what the fold made of each, are its history.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from adapters.log.port import Log
from events import names
from events.canonical import Json
from events.codec import format_time
from scheduling.cycle.queue_status import allocated, group_counts
from scheduling.devices.arguments import rule_id
from scheduling.devices.cards import Holder
from scheduling.state.model import Model, PodEntry
from services.cli import history, waits
from services.cli.biography import Biography, GroupLens, Happening, Lens, PodLens, QueueLens
from services.cli.history import DATA_DEFAULT, AtOption, DataOption, LogOption, printable
from services.cli.state import amounts_shown, queue_shown

app = typer.Typer(name="explain", help="Why something is where it is, or why it waits.", no_args_is_help=True)


class Output(StrEnum):
    """How the explanation is printed."""

    TEXT = "text"
    JSON = "json"


OutputOption = Annotated[Output, typer.Option("--output", "-o", help="How to print the explanation.")]
NameArgument = Annotated[str, typer.Argument(metavar="NS/NAME", show_default=False)]


@app.command("pod")
def pod(
    name: NameArgument,
    data: DataOption = DATA_DEFAULT,
    url: LogOption = "",
    at: AtOption = "",
    output: OutputOption = Output.TEXT,
) -> None:
    """Explain a pod: its phase, node and devices, the reason word for word, the decision, and its history."""
    _explain("pod", name, data, url, at, output, PodLens, describe_pod)


@app.command("podgroup")
def podgroup(
    name: NameArgument,
    data: DataOption = DATA_DEFAULT,
    url: LogOption = "",
    at: AtOption = "",
    output: OutputOption = Output.TEXT,
) -> None:
    """Explain a PodGroup: its phase, its members, the reason word for word, and its history."""
    _explain("podgroup", name, data, url, at, output, GroupLens, describe_group)


@app.command("queue")
def queue(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    data: DataOption = DATA_DEFAULT,
    url: LogOption = "",
    at: AtOption = "",
    output: OutputOption = Output.TEXT,
) -> None:
    """Explain a queue: what it holds and may hold, who waits in it in which order and why, and its history."""
    _explain("queue", name, data, url, at, output, QueueLens, describe_queue)


def _explain(
    kind: str,
    name: str,
    data: Path,
    url: str,
    at: str,
    output: Output,
    lens: Callable[[str], Lens],
    describe: Callable[[Model, str], Json],
) -> None:
    if kind == "queue":
        if not name or "/" in name:
            history.fail(f"queue {name}: name it as NAME")
    elif name.count("/") != 1 or not all(name.split("/")):
        history.fail(f"{kind} {name}: name it as NS/NAME")

    async def show(log: Log) -> Json | None:
        biography = Biography(lens(name))
        follower = await history.fold_until(log, await history.end_of(log, at), biography.hear)
        model = follower.state.fold.model
        found = describe(model, name)
        if not found and not biography.happenings:
            return None
        moment = {"kind": kind, "name": name, "position": follower.position - 1, "time": format_time(model.time_ms)}
        return {**moment, "exists": bool(found), **found, "history": [_as_json(item) for item in biography.happenings]}

    explanation = history.run(data, url, show)
    if explanation is None:
        history.fail(f"{kind} {name}: the log knows nothing of it{f' at {at}' if at else ''}", code=1)
    sys.stdout.write(as_text(explanation) if output is Output.TEXT else json.dumps(explanation, indent=2) + "\n")


def _as_json(item: Happening) -> Json:
    found = {"position": item.position, "time": format_time(item.time_ms), "what": item.what, "text": item.text}
    return {**found, "void": item.void} if item.void else found


# --- what is ---------------------------------------------------------------------------------------------------------


def describe_pod(model: Model, key: str) -> Json:
    """Return what the state says of a pod; empty if there is none of this name."""
    entry = model.pods.get(model.pod_uids.get(key, ""))
    if entry is None:
        return {}
    pod_, group = entry.pod, model.groups.get(entry.pod.group_key)
    found: Json = {
        "uid": pod_.uid,
        "status": entry.status.value,
        "scheduler": pod_.scheduler,
        "podGroup": pod_.group_key,
        "queue": group.group.queue if group else "",
        "podGroupPhase": group.book.phase if group else "",
        "node": entry.node,
        "devices": _devices(model, entry),
        "allocation": entry.placement.allocation if entry.placement else pod_.annotations.get(names.VGPU_IDS, ""),
        "decision": entry.placement_id or pod_.annotations.get(names.DECISION, ""),
        "reason": entry.book.reason,
        "message": entry.book.message,
        "cause": entry.book.cause,
        "warnings": list(entry.book.warnings),
        "bindFailures": entry.bind_failures,
    }
    if group and not entry.node:
        found["podGroupMessage"] = group.book.message
        found["podGroupEvent"] = _if_other(group.book.event_message, group.book.message)
        found |= waits.outlook(model, pod_.group_key)
    return found


def _if_other(text: str, said: str) -> str:
    return text if text != said else ""


def _devices(model: Model, entry: PodEntry) -> list[Json]:
    view = model.nodes.get(entry.node)
    if view is None:
        return []
    held: list[tuple[str, bool, Holder]] = [
        (card.uuid, True, holder) for card in view.devices.cards for holder in card.holders
    ]
    held += [(uuid, False, holder) for uuid, holders in view.devices.orphans.items() for holder in holders]
    return [
        {
            "gpu": uuid,
            "registered": registered,
            "container": holder.share.container,
            "memory": holder.share.memory,
            "cores": holder.share.cores,
            "slice": holder.share.suffix,
            "rules": [rule_id(rule) for rule in holder.rules],
        }
        for uuid, registered, holder in held
        if holder.uid == entry.pod.uid
    ]


def describe_group(model: Model, key: str) -> Json:
    """Return what the state says of a PodGroup; empty if there is none of this name."""
    entry = model.groups.get(key)
    members = sorted(
        (model.pods[uid] for uid in model.members.get(key, ()) if uid in model.pods), key=lambda member: member.pod.key
    )
    pods = [
        {
            "name": member.pod.key,
            "status": member.status.value,
            "node": member.node,
            "reason": member.book.reason,
            "message": member.book.message,
        }
        for member in members
    ]
    if entry is None:
        return {"status": "no such PodGroup, but pods that name it", "members": pods} if pods else {}
    queue = model.queues.get(entry.group.queue)
    return {
        "uid": entry.group.uid,
        "status": entry.book.phase,
        "phaseSince": format_time(entry.book.phase_since_ms) if entry.book.phase_since_ms else "",
        "queue": entry.group.queue,
        "queueState": (queue.state or "Open") if queue else "not found",
        "minMember": entry.group.min_member,
        "placed": sum(1 for member in members if member.node),
        "unschedulable": entry.book.unschedulable,
        "reason": entry.book.reason,
        "message": entry.book.message,
        "cause": entry.book.cause,
        "event": _if_other(entry.book.event_message, entry.book.message),
        "attempts": entry.attempts,
        "members": pods,
        **(waits.outlook(model, key) if entry.book.cause else {}),
    }


def describe_queue(model: Model, name: str) -> Json:
    """Return what the state says of a queue; empty if there is none of this name."""
    found = model.queues.get(name)
    if found is None:
        return {}
    below = sorted(queue.name for queue in model.queues.values() if queue.parent == name and queue.name != name)
    return {
        "uid": found.uid,
        **queue_shown(found, allocated(model).get(name, {})),
        "phases": group_counts(model)[name],
        "waits": waits.counts(model, name),
        "below": {child: waits.counts(model, child) for child in below},
        "waiting": waits.in_queue(model, name),
    }


# --- for people ------------------------------------------------------------------------------------------------------

_HEADINGS = (
    ("uid", "uid"), ("status", "status"), ("state", "state"), ("phaseSince", "since"), ("scheduler", "scheduler"),
    ("podGroup", "podgroup"), ("podGroupPhase", "its phase"), ("queue", "queue"), ("queueState", "its state"),
    ("parent", "parent"), ("weight", "weight"), ("minMember", "minMember"), ("placed", "placed"), ("node", "node"),
    ("allocation", "allocation"), ("decision", "decision"), ("reason", "reason"), ("message", "message"),
    ("cause", "cause"), ("event", "event"), ("podGroupMessage", "podgroup says"), ("podGroupEvent", "its event"),
    ("wouldRunIf", "would run if"), ("bindFailures", "refused binds"), ("attempts", "attempts"),
)  # fmt: skip


def as_text(found: Json) -> str:
    """Return an explanation for people."""
    lines = [f"{found['kind']} {found['name']} at position {found['position']} ({found['time']})"]
    if not found["exists"]:
        lines.append("  it does not exist at this moment")
    lines += [f"  {label:<14} {found[name]}" for name, label in _HEADINGS if found.get(name)]
    amounts = ("allocated", "capability", "deserved", "guarantee")
    lines += [f"  {name:<14} {amounts_shown(found[name])}" for name in amounts if found.get(name)]
    for device in found.get("devices", ()):
        rules = f", rule {' and '.join(device['rules'])}" if device["rules"] else ""
        lost = "" if device["registered"] else " (not registered)"
        amount = f"memory {device['memory']}, cores {device['cores']}"
        lines.append(f"  {'device':<14} {device['gpu']}{device['slice']}{lost}: {amount}{rules}")
    lines += [f"  {'warning':<14} {warning}" for warning in found.get("warnings", ())]
    lines += waits.lines(found)
    for member in found.get("members", ()):
        where = member["node"] or member["message"] or "-"
        lines.append(f"  {'member':<14} {member['name']} {member['status']}: {where}")
    lines.append("  history")
    for item in found["history"]:
        void = f"  [no effect: {item['void']}]" if item.get("void") else ""
        lines.append(f"    {item['position']:>6}  {item['time']}  {item['what']:<8}  {item['text']}{void}")
    return "".join(printable(line) + "\n" for line in lines)
