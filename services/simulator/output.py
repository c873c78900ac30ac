"""The final cluster as text: Kubernetes lists for machines, a table for people."""

from __future__ import annotations

import json
from collections.abc import Sequence

import yaml

from events import names
from events.canonical import Json
from events.kinds import POD, POD_GROUP, QUEUE
from services.cluster.store import Store
from services.simulator import truth

Row = tuple[str, ...]


def listing(store: Store) -> Json:
    """Return every object of the cluster as one List, sorted by kind, namespace and name."""
    items = [item for kind in store.kinds() for item in store.items(kind)]
    items.sort(key=_place)
    return {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}


def _place(item: Json) -> tuple[str, str, str, str]:
    meta = item["metadata"]
    return item.get("kind") or "", meta.get("namespace") or "", meta["name"], item.get("apiVersion") or ""


def render(file: str, store: Store, form: str) -> str:
    """Return the text of one file's final cluster; ``form`` is json, yaml or table."""
    if form == "json":
        return json.dumps(listing(store), indent=2, sort_keys=True) + "\n"
    return _yaml(listing(store)) if form == "yaml" else _table(file, store)


def joined(texts: Sequence[str], form: str) -> str:
    """Return the texts of several files as one: JSON documents on end, YAML documents separated, tables apart."""
    return {"json": "", "yaml": "---\n", "table": "\n"}[form].join(texts)


def _yaml(value: Json) -> str:
    text: str = yaml.dump(value, Dumper=_Dumper, sort_keys=True, default_flow_style=False, width=2**20)
    return text


class _Dumper(yaml.CSafeDumper):
    """Writes shared values out in full, as an API server does."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def _table(file: str, store: Store) -> str:
    pods: list[Row] = [("POD", "PHASE", "NODE", "CARDS")]
    for pod in store.items(POD):
        held = ", ".join(f"{share.uuid}{share.suffix} {share.memory}" for share in truth.shares(pod))
        held = held or truth.notes(pod).get(names.GPU_INDEX, "")
        phase = (pod.get("status") or {}).get("phase") or ""
        pods.append((_key(pod), phase, truth.node_of(pod) or "-", held or "-"))
    groups: list[Row] = [("PODGROUP", "PHASE", "MIN", "QUEUE")]
    for group in store.items(POD_GROUP):
        spec = group.get("spec") or {}
        phase = (group.get("status") or {}).get("phase") or ""
        groups.append((_key(group), phase, str(spec.get("minMember", "")), str(spec.get("queue", ""))))
    queues: list[Row] = [("QUEUE", "STATE", "ALLOCATED")]
    for queue in store.items(QUEUE):
        status = queue.get("status") or {}
        allocated = ", ".join(f"{name} {amount}" for name, amount in sorted((status.get("allocated") or {}).items()))
        queues.append((_key(queue), status.get("state") or "", allocated or "-"))
    return f"{file}\n" + "\n".join(_columns(rows) for rows in (pods, groups, queues) if len(rows) > 1)


def _key(item: Json) -> str:
    meta = item["metadata"]
    return f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])


def _columns(rows: list[Row]) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "".join(f"{line}\n" for line in lines)
