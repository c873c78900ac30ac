"""``gpuledger state``: nodes and their cards, claims, queues and PodGroups at any moment of the past."""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from enum import StrEnum
from typing import Annotated, Any

import typer

from adapters.log.port import Log
from events.canonical import Json
from events.codec import format_time
from scheduling import waiting
from scheduling.cycle.queue_status import allocated, as_status
from scheduling.devices.arguments import rule_id
from scheduling.devices.cards import Card
from scheduling.nodes.view import NodeView
from scheduling.objects import Queue
from scheduling.resources import Vector
from scheduling.state.fold import Fold, effective_configuration
from scheduling.state.model import Model
from services.cli import history
from services.cli.history import DATA_DEFAULT, AtOption, DataOption, LogOption, table


class Output(StrEnum):
    """How the state is printed."""

    TABLE = "table"
    JSON = "json"


def command(
    data: DataOption = DATA_DEFAULT,
    url: LogOption = "",
    at: AtOption = "",
    output: Annotated[Output, typer.Option("--output", "-o", help="How to print the state.")] = Output.TABLE,
) -> None:
    """Print devices, claims, queues and PodGroups as the log folds to them, now or at a moment of the past."""

    async def show(log: Log) -> None:
        follower = await history.fold_until(log, await history.end_of(log, at))
        found = describe(follower.state.fold, follower.position, follower.chain)
        sys.stdout.write(
            as_table(found) if output is Output.TABLE else json.dumps(found, indent=2, sort_keys=True) + "\n"
        )

    history.run(data, url, show)


def describe(fold: Fold, position: int, chain: str) -> Json:
    """Return the state as plain JSON; ``position`` is the place up to which was folded."""
    model = fold.model
    return {
        "cluster": model.cluster,
        "incarnation": model.incarnation,
        "position": position,
        "time": format_time(model.time_ms),
        "chain": chain,
        "state": fold.digest(),
        "complete": fold.ready,
        "terms": {role: {"term": term.number, "writer": term.writer} for role, term in sorted(model.terms.items())},
        "configuration": effective_configuration(model),
        "nodes": [_node(model.nodes[name]) for name in sorted(model.nodes)],
        "claims": claims(model),
        "queues": _queues(model),
        "podGroups": [_group(model, key) for key in sorted(model.groups)],
        "pods": _pods(model),
        "commands": sorted(model.commands),
    }


def _node(view: NodeView) -> Json:
    return {
        "name": view.name,
        "known": view.node is not None,
        "unschedulable": bool(view.node and view.node.unschedulable),
        "used": as_status(view.used),
        "allocatable": as_status(view.room),
        "cards": [_card(card) for card in view.devices.cards],
        "pods": len(view.tasks),
        "warnings": list(view.devices.warnings),
    }


def _card(card: Card) -> Json:
    return {
        "uuid": card.uuid,
        "index": card.index,
        "type": card.type,
        "mode": card.mode,
        "healthy": card.healthy,
        "shares": {"used": card.used_shares, "total": card.shares},
        "memory": {"used": card.used_memory, "total": card.memory},
        "cores": {"used": card.used_cores, "total": 100},
        "holders": [
            {
                "pod": holder.key,
                "memory": card.booked(holder.share),
                "cores": holder.share.cores,
                "slice": holder.share.suffix,
            }
            for holder in card.holders
        ],
    }


def claims(model: Model) -> list[Json]:
    """Return the rule-to-GPU map: which cards are taken for which exclusivity rule, and by whom (devices/X-1)."""
    found: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for name, view in model.nodes.items():
        for card in view.devices.cards:
            for holder in card.holders:
                for rule in holder.rules:
                    found[(rule_id(rule), name, card.uuid)].add(holder.key)
    return [
        {"rule": rule, "node": node, "gpu": gpu, "pods": sorted(found[rule, node, gpu])}
        for rule, node, gpu in sorted(found)
    ]


def _queues(model: Model) -> list[Json]:
    held, waits = allocated(model), {item.queue: item for item in waiting.queues(model)}
    return [
        {
            "name": name,
            **queue_shown(queue, held.get(name, {})),
            "waits": {"podGroups": dict(waits[name].groups), "pods": dict(waits[name].pods)} if name in waits else {},
        }
        for name, queue in sorted(model.queues.items())
    ]


def queue_shown(queue: Queue, held: Vector) -> Json:
    """Return a queue's state, limits and what it holds."""
    return {
        "state": queue.state or "Open",
        "parent": queue.parent,
        "weight": queue.weight,
        "allocated": as_status(held),
        "capability": _quantities(queue.capability),
        "deserved": _quantities(queue.deserved),
        "guarantee": _quantities(queue.guarantee),
    }


def _quantities(found: Any) -> Json:
    return {name: str(value) for name, value in sorted((found or {}).items())}


def _group(model: Model, key: str) -> Json:
    entry = model.groups[key]
    members = [model.pods[uid] for uid in model.members.get(key, ()) if uid in model.pods]
    return {
        "name": key,
        "queue": entry.group.queue,
        "phase": entry.book.phase,
        "minMember": entry.group.min_member,
        "pods": len(members),
        "placed": sum(1 for member in members if member.node),
        "reason": entry.book.reason,
        "message": entry.book.message,
    }


def _pods(model: Model) -> list[Json]:
    entries = sorted(model.pods.values(), key=lambda entry: (entry.pod.key, entry.pod.uid))
    return [
        {
            "name": entry.pod.key,
            "uid": entry.pod.uid,
            "status": entry.status.value,
            "node": entry.node,
            "podGroup": entry.pod.group_key,
            "reason": entry.book.reason,
            "message": entry.book.message,
        }
        for entry in entries
    ]


def as_table(found: Json) -> str:
    """Return the state for people."""
    head = f"cluster {found['cluster']}, position {found['position']}, {found['time']}, state {found['state'][:16]}\n"
    if not found["complete"]:
        head += "not every kind has been listed yet: nothing is decided in this state\n"
    parts = [
        _cards_table(found),
        _claims_table(found),
        _queues_table(found),
        _groups_table(found),
        _waiting_table(found),
    ]
    return "\n".join([head, *(part for part in parts if part)])


def _cards_table(found: Json) -> str:
    rows = [["NODE", "GPU", "TYPE", "MODE", "SHARES", "MEMORY", "CORES", "PODS"]]
    for node in found["nodes"]:
        for card in node["cards"]:
            used = [f"{card[name]['used']}/{card[name]['total']}" for name in ("shares", "memory", "cores")]
            gpu = card["uuid"] + ("" if card["healthy"] else " (unhealthy)")
            pods = ",".join(sorted({holder["pod"] for holder in card["holders"]})) or "-"
            rows.append([node["name"], gpu, card["type"], card["mode"], *used, pods])
    return table(rows) if len(rows) > 1 else ""


def _claims_table(found: Json) -> str:
    rows = [[claim["rule"], claim["node"], claim["gpu"], ",".join(claim["pods"])] for claim in found["claims"]]
    return table([["RULE", "NODE", "GPU", "PODS"], *rows]) if rows else ""


def _queues_table(found: Json) -> str:
    rows = [
        [
            queue["name"],
            queue["state"],
            str(queue["weight"]),
            amounts_shown(queue["allocated"]),
            amounts_shown(queue["capability"]),
            _waits(queue["waits"].get("podGroups", {})),
        ]
        for queue in found["queues"]
    ]
    return table([["QUEUE", "STATE", "WEIGHT", "ALLOCATED", "CAPABILITY", "WAITING PODGROUPS"], *rows]) if rows else ""


def amounts_shown(quantities: Json) -> str:
    return ",".join(f"{name}={value}" for name, value in quantities.items()) or "-"


def _waits(counts: Json) -> str:
    return ", ".join(f"{count} {cause}" for cause, count in counts.items()) or "-"


def _groups_table(found: Json) -> str:
    rows = [
        [
            group["name"],
            group["queue"],
            group["phase"],
            f"{group['placed']}/{group['pods']}",
            str(group["minMember"]),
            group["message"] or "-",
        ]
        for group in found["podGroups"]
    ]
    return table([["PODGROUP", "QUEUE", "PHASE", "PLACED", "MIN", "MESSAGE"], *rows]) if rows else ""


def _waiting_table(found: Json) -> str:
    rows = [[pod["name"], pod["status"], pod["message"] or "-"] for pod in found["pods"] if not pod["node"]]
    return table([["WAITING POD", "STATUS", "MESSAGE"], *rows]) if rows else ""
