"""From the state to the rows of the read models: pure functions, one for each table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from adapters.database.tables import ClaimRow, DeviceShare, Placement, Table
from events import names
from events.records import Batch, BindCommand, EvictCommand, Member, Record
from scheduling.devices.arguments import rule_id
from scheduling.devices.cards import Holder
from scheduling.nodes.view import NodeView
from scheduling.state.decisions import decision_prefix
from scheduling.state.model import Model

#: A row: its table, its primary key, and its columns (None: the row is to go).
Key: TypeAlias = tuple[type[Table], tuple[Any, ...]]
Row: TypeAlias = dict[str, Any]

_INTEGER_MAX = 2**63 - 1


def key_of(table: type[Table], row: Row) -> Key:
    """Return what identifies a row."""
    return table, tuple(row[column.name] for column in table.__table__.primary_key)


def clean(row: Row) -> Row:
    """Return the row as every database can store it: no NUL, no lone surrogate, no number above 64 bits."""
    return {name: _clean(value) for name, value in row.items()}


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, int):
        return max(-_INTEGER_MAX, min(value, _INTEGER_MAX))
    return value


def decision(model: Model, position: int, record: Record, body: Batch, verdict: str) -> Row:
    """Return the row of one batch."""
    row: Row = {
        "cluster": model.cluster,
        "position": position,
        "record_id": record.id,
        "term": record.term,
        "batch": body.batch,
        "base": body.base,
        "chain": body.chain,
        "state": body.state,
        "engine": body.engine,
        "time_ms": body.time_ms,
        "verdict": verdict,
        "binds": sum(len(command.members) for command in body.binds),
        "evictions": len(body.evictions),
    }
    return clean(row)


def commands(model: Model, position: int, record: Record, body: Batch) -> Iterator[Row]:
    """Yield the rows of a batch's commands, right after the fold has judged them."""
    prefix = decision_prefix(model, record.term, body.batch)
    effects: list[tuple[Member | EvictCommand, BindCommand | None]] = [
        (member, command) for command in body.binds for member in command.members
    ]
    effects += [(evict, None) for evict in body.evictions]
    for effect, command in effects:
        name = f"{prefix}/{effect.n}"
        row: Row = {
            "cluster": model.cluster,
            "id": name,
            "position": position,
            "verb": "bind" if command else "evict",
            "namespace": effect.namespace,
            "name": effect.name,
            "uid": effect.uid,
            "node": effect.node if isinstance(effect, Member) else "",
            "allocation": effect.allocation if isinstance(effect, Member) else "",
            "pod_group": command.group if command else getattr(effect, "for_group", ""),
            "reason": getattr(effect, "reason", ""),
            "result": "waiting" if name in model.commands else "overtaken",
            "result_position": position,
            "message": "",
        }
        yield clean(row)


def of_node(model: Model, view: NodeView) -> dict[Key, Row]:
    """Return everything that is on one node: placements, shares of its cards, and the rules that hold them."""
    rows: list[tuple[type[Table], Row]] = [(Placement, row) for row in _placements(model, view)]
    for uuid, holder in _holders(view):
        share = {"cluster": model.cluster, "node": view.name, "gpu": uuid, "uid": holder.uid, "pod": holder.key}
        rows += [(ClaimRow, {**share, "rule": rule_id(rule)}) for rule in holder.rules]
        rows.append((DeviceShare, {**share, **_amounts(holder)}))
    return {key_of(table, row): row for table, row in ((table, clean(row)) for table, row in rows)}


def _placements(model: Model, view: NodeView) -> Iterator[Row]:
    for uid in view.tasks:
        entry = model.pods.get(uid)
        if entry is None:
            continue
        pod, planned = entry.pod, entry.placement
        group = model.groups.get(pod.group_key)
        yield {
            "cluster": model.cluster,
            "uid": uid,
            "namespace": pod.namespace,
            "name": pod.name,
            "node": view.name,
            "status": entry.status.value,
            "scheduler": pod.scheduler,
            "pod_group": pod.group_key,
            "queue": group.group.queue if group else "",
            "allocation": planned.allocation if planned else pod.annotations.get(names.VGPU_IDS, ""),
            "decision": entry.placement_id or pod.annotations.get(names.DECISION, ""),
        }


def _holders(view: NodeView) -> Iterator[tuple[str, Holder]]:
    for uuid, card in view.devices.books.items():
        yield from ((uuid, holder) for holder in card.holders)
    for uuid, holders in view.devices.orphans.items():
        yield from ((uuid, holder) for holder in holders)


def _amounts(holder: Holder) -> Row:
    share = holder.share
    return {
        "container": share.container,
        "place": share.place,
        "slice": share.suffix,
        "memory": share.memory,
        "cores": share.cores,
    }
