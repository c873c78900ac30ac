"""Tables: objects as the columns that ``kubectl get`` prints, each kind's own. And objects as their metadata alone.

The columns are those of the real server (and of Volcano's custom resources), wide ones with priority 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from events.canonical import Json
from events.kinds import Kind
from services.cluster.columns import COLUMNS, Column, Row, default_columns


def table(kind: Kind, body: Json, now_ms: int, included: str, *, head: bool = True, rows: bool = True) -> Json:
    """Return an object or a list as a Table. ``included`` says what each row carries: Metadata, Object or None."""
    columns = COLUMNS.get(kind, default_columns())
    items = body["items"] if "items" in body and body.get("kind") == f"{kind.name}List" else [body]
    meta = body.get("metadata") or {}
    kept = ("resourceVersion", "continue", "remainingItemCount")
    return {
        "kind": "Table",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {key: meta[key] for key in kept if key in meta},
        "columnDefinitions": [_definition(column) for column in columns] if head else [],
        "rows": [_row(kind, columns, item, now_ms, included) for item in items] if rows else [],
    }


def _definition(column: Column) -> Json:
    form = "name" if column.name == "Name" else ""
    return {"name": column.name, "type": column.type, "format": form, "description": f"{column.name}.",
            "priority": 1 if column.wide else 0}  # fmt: skip


def _row(kind: Kind, columns: tuple[Column, ...], item: Json, now_ms: int, included: str) -> Json:
    row: Json = {"cells": [_cell(column.value, Row(item, now_ms)) for column in columns]}
    if included == "Object":
        row["object"] = {"apiVersion": kind.api_version, "kind": kind.name, **item}
    elif included != "None":
        row["object"] = partial(item)
    return row


def partial(item: Json) -> Json:
    """Return an object's metadata alone, for clients that ask for no more."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}


def partial_list(body: Json) -> Json:
    """Return a list as the metadata of what is in it."""
    items = [partial(item) for item in body["items"]]
    kind = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
    return {**kind, "metadata": body["metadata"], "items": items}


def _cell(value: Callable[[Row], Any], row: Row) -> Any:
    """Return a cell; what cannot be shown, because the object holds something odd there, is unknown."""
    try:
        return value(row)
    except (AttributeError, TypeError, ValueError, KeyError, IndexError, OverflowError):
        return "<unknown>"
