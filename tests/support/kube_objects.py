"""Paths and small objects for tests of API servers."""

from __future__ import annotations

import itertools
from typing import Any

QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
_number = itertools.count(1)


def fresh(word: str) -> str:
    """Return a name that no other test has."""
    return f"{word}-{next(_number)}"


def maps(space: str, name: str = "") -> str:
    return f"/api/v1/namespaces/{space}/configmaps" + (f"/{name}" if name else "")


def pods(space: str, name: str = "", sub: str = "") -> str:
    return f"/api/v1/namespaces/{space}/pods" + (f"/{name}" if name else "") + (f"/{sub}" if sub else "")


def groups(space: str, name: str = "", sub: str = "") -> str:
    path = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{space}/podgroups"
    return path + (f"/{name}" if name else "") + (f"/{sub}" if sub else "")


def config(name: str, **data: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def pod(name: str, **limits: str) -> dict[str, Any]:
    container = {"name": "main", "image": "app:1", "resources": {"limits": limits}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


def binding(name: str, node: str, **meta: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, **meta},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }  # fmt: skip


def group(name: str, **spec: Any) -> dict[str, Any]:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def columns(table: Any) -> list[str]:
    """Return the names of a table's narrow columns."""
    return [column["name"] for column in table["columnDefinitions"] if column["priority"] == 0]
