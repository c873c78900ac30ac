"""OpenAPI, generated from the schema table: v3 for ``kubectl apply`` and ``kubectl explain``, v2 for older clients.

Strategic merge is left out of the offered patch types: kubectl then takes the merge keys of the core kinds from what
it was built with, which is complete, and merges custom resources plainly, as it does with a real server.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from events.canonical import Json
from events.kinds import ALL_KINDS, Kind
from services.cluster import patches, schema
from services.cluster.discovery import VERSION, groups

_INFO = {"title": "gpuledger embedded cluster", "version": VERSION["gitVersion"]}
_SCALARS: dict[str, Json] = {
    "string": {"type": "string"}, "integer": {"type": "integer", "format": "int64"}, "number": {"type": "number"},
    "boolean": {"type": "boolean"}, "time": {"type": "string", "format": "date-time"}, "any": {},
    "quantity": {"x-kubernetes-int-or-string": True}, "intstr": {"x-kubernetes-int-or-string": True},
}  # fmt: skip
_V2_SCALARS: dict[str, Json] = {
    "quantity": {"type": "string"}, "intstr": {"type": "string", "format": "int-or-string"}, "any": {"type": "object"},
}  # fmt: skip
_DESCRIPTIONS = {
    "apiVersion": "Version of the schema that this object follows.",
    "kind": "Name of the resource that this object is.",
    "metadata": "Name, namespace, labels, annotations and what the server keeps about the object.",
    "spec": "What is wanted.",
    "status": "What is, as the system last saw it.",
}


def document(path: str) -> Json | None:
    """Return the OpenAPI document at a path, None if there is none."""
    if path == "/openapi/v2":
        return _v2()
    if path == "/openapi/v3":
        return {"paths": {kinds[0].prefix[1:]: {"serverRelativeURL": f"/openapi/v3{kinds[0].prefix}?hash=1"}
                          for _, _, kinds in groups()}}  # fmt: skip
    for _, _, kinds in groups():
        if path == f"/openapi/v3{kinds[0].prefix}":
            return _v3(kinds[0].group)
    return None


@cache
def _v3(group: str) -> Json:
    kinds = [kind for kind in ALL_KINDS if kind.group == group]
    schemas = {name: _definition(name, "#/components/schemas/", {}) for name in _closure(kinds)}
    return {"openapi": "3.0.0", "info": _INFO, "paths": _paths(kinds, 3), "components": {"schemas": schemas}}


@cache
def _v2() -> Json:
    kinds = list(ALL_KINDS)
    definitions = {name: _definition(name, "#/definitions/", _V2_SCALARS) for name in _closure(kinds)}
    return {"swagger": "2.0", "info": _INFO, "paths": _paths(kinds, 2), "definitions": definitions}


def _closure(kinds: list[Kind]) -> list[str]:
    """Return the names of the kinds' definitions and of all that they refer to."""
    known, todo = schema.definitions(), [schema.name_of(kind) for kind in kinds]
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += [type_.rpartition("&")[2] for type_ in known[name].values() if "&" in type_]
    return sorted(found)


def _definition(name: str, refs: str, scalars: dict[str, Json]) -> Json:
    properties = {}
    for field, type_ in schema.definitions()[name].items():
        properties[field] = _type(type_, refs, scalars)
        if field in _DESCRIPTIONS and "$ref" not in properties[field]:
            properties[field] = {**properties[field], "description": _DESCRIPTIONS[field]}
    found: Json = {"type": "object", "description": f"{name.rpartition('.')[2]}.", "properties": properties}
    kind = next((kind for kind in ALL_KINDS if schema.name_of(kind) == name), None)
    if kind is not None:
        found["x-kubernetes-group-version-kind"] = [_gvk(kind)]
    return found


def _type(type_: str, refs: str, scalars: dict[str, Json]) -> Json:
    if type_.startswith("&"):
        return {"$ref": refs + type_[1:]}
    if type_.startswith("[]"):
        return {"type": "array", "items": _type(type_[2:], refs, scalars)}
    if type_.startswith("{}"):
        return {"type": "object", "additionalProperties": _type(type_[2:], refs, scalars)}
    return scalars.get(type_, _SCALARS[type_])


def _gvk(kind: Kind) -> Json:
    return {"group": kind.group, "version": kind.version, "kind": kind.name}


def _paths(kinds: list[Kind], version: int) -> Json:
    paths: Json = {}
    for kind in kinds:
        collection = kind.path("{namespace}" if kind.namespaced else "")
        within = ["namespace"] if kind.namespaced else []
        paths[collection] = {
            "parameters": [_place(name, version) for name in within],
            "get": _operation(kind, "list", version),
            "post": _operation(kind, "post", version),
        }
        paths[f"{collection}/{{name}}"] = {
            "parameters": [_place(name, version) for name in (*within, "name")],
            **{verb: _operation(kind, verb, version) for verb in ("get", "put", "patch", "delete")},
        }
    return paths


def _operation(kind: Kind, action: str, version: int) -> Json:
    refs = "#/components/schemas/" if version == 3 else "#/definitions/"
    reference = {"$ref": refs + schema.name_of(kind)}
    answer: Json = {"description": "OK"}
    if version == 3:
        answer["content"] = {"application/json": {"schema": reference}}
    else:
        answer["schema"] = reference
    operation: Json = {"operationId": f"{action}{kind.group.replace('.', '')}{kind.name}",
                       "x-kubernetes-action": action, "x-kubernetes-group-version-kind": _gvk(kind),
                       "responses": {"200": answer}}  # fmt: skip
    if action in ("post", "put", "patch"):
        operation["parameters"] = [_parameter(name, version) for name in ("dryRun", "fieldManager", "fieldValidation")]
        types = [patches.JSON_PATCH, patches.MERGE_PATCH] if action == "patch" else ["application/json"]
        if version == 3:
            operation["requestBody"] = {"content": {type_: {"schema": reference} for type_ in types}}
        else:
            operation["consumes"] = types
    return operation


def _place(name: str, version: int) -> Json:
    """Return a parameter of a path."""
    parameter: Json = {"name": name, "in": "path", "required": True, "description": f"The {name} of the object."}
    return parameter | ({"schema": {"type": "string"}} if version == 3 else {"type": "string"})


def _parameter(name: str, version: int) -> Json:
    parameter: dict[str, Any] = {"name": name, "in": "query", "description": f"The option {name}."}
    return parameter | ({"schema": {"type": "string"}} if version == 3 else {"type": "string"})
