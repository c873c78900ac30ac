"""Applying manifests as ``kubectl apply`` would: created, or merged into what exists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from adapters.cluster.port import ApiError, ClusterApi
from events.canonical import Json
from events.kinds import kind_of


class BadManifest(Exception):
    """A file that is no manifest: names file, document and what is wrong."""


def read(path: Path) -> list[Json]:
    """Return the objects of a file, Lists taken apart. Raises BadManifest."""
    try:
        documents = list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=_Loader))
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise BadManifest(f"{path}: {error}") from error
    except RecursionError as error:
        raise BadManifest(f"{path}: nested too deep to be read") from error
    found: list[Json] = []
    for number, document in enumerate(item for item in documents if item is not None):
        found += _objects(document, f"{path}: document {number + 1}")
    return found


class _Loader(yaml.SafeLoader):
    """YAML whose times stay text, as the API has them."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _objects(document: Any, where: str) -> list[Json]:
    if not isinstance(document, dict):
        raise BadManifest(f"{where}: must be a mapping")
    if document.get("kind") == "List":
        items = document.get("items")
        if not isinstance(items, list):
            raise BadManifest(f"{where} (List): items: must be a list")
        return [item for index, entry in enumerate(items) for item in _objects(entry, f"{where}: items[{index}]")]
    meta = document.get("metadata")
    name = meta.get("name") if isinstance(meta, dict) else None
    if not isinstance(name, str) or not name:
        raise BadManifest(f"{where} ({document.get('kind')}): metadata.name: must be a text")
    if kind_of(str(document.get("apiVersion")), str(document.get("kind"))) is None:
        raise BadManifest(f"{where}: apiVersion {document.get('apiVersion')}, kind {document.get('kind')}: unknown")
    return [document]


async def apply(api: ClusterApi, item: Json) -> Json:
    """Create an object, or merge it into what exists. Raises ApiError if the cluster refuses it."""
    kind = kind_of(item["apiVersion"], item["kind"])
    assert kind is not None, "read() knows every kind that it returns"
    meta = item["metadata"]
    if kind.namespaced:
        meta.setdefault("namespace", "default")
    try:
        created = await api.create(kind, item)
    except ApiError as error:
        if error.reason != "AlreadyExists":
            raise
        return await api.patch(kind, meta.get("namespace", ""), meta["name"], item)
    if "status" in item and kind.name == "Node":
        return await api.patch(kind, "", meta["name"], {"status": item["status"]}, "status")
    return created
