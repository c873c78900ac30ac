"""The three kinds of patch: JSON (RFC 6902), merge (RFC 7386) and strategic merge, as Kubernetes applies them.

A strategic merge patch knows which lists of the core kinds are maps in disguise: their items are merged by a key.
``$patch``, ``$deleteFromPrimitiveList``, ``$setElementOrder`` and ``$retainKeys`` are honoured, since ``kubectl
apply`` and ``kubectl edit`` send them.
"""

from __future__ import annotations

import json
import marshal
from typing import Any

from events.canonical import Json
from services.cluster.refusal import Refused, bad_request

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

OPERATIONS_MAX = 10_000
#: A copy of a copy of a copy grows without bound, however short the patch.
COPY_BYTES_MAX = 3 * 1024 * 1024
_MARSHAL_PLAIN = 2  # the format without references: what is shared in a value is not shared in its copy

#: Field name -> merge key of its items, wherever the field stands in a core kind.
_MERGE_KEYS: dict[str, str] = {
    "containers": "name", "initContainers": "name", "ephemeralContainers": "name", "env": "name", "volumes": "name",
    "volumeMounts": "mountPath", "volumeDevices": "devicePath", "imagePullSecrets": "name", "hostAliases": "ip",
    "conditions": "type", "ownerReferences": "uid", "addresses": "type", "secrets": "name", "schedulingGates": "name",
    "topologySpreadConstraints": "topologyKey", "resourceClaims": "name", "podIPs": "ip", "hostIPs": "ip",
}  # fmt: skip
_PRIMITIVE_SETS = {"finalizers", "podCIDRs"}


def copied(value: Any) -> Any:
    """Return a deep copy of a JSON value."""
    try:
        return marshal.loads(marshal.dumps(value, _MARSHAL_PLAIN))
    except ValueError:  # a value of a class of its own, as a parser may give it
        return _copied(value)


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value


def merge(target: Any, patch: Any) -> Any:
    """Return ``target`` with a JSON merge patch applied; None removes a key."""
    if not isinstance(patch, dict):
        return copied(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


# JSON patch.


def json_patch(target: Any, operations: Any) -> Any:
    """Return ``target`` with RFC 6902 operations applied. Raises Refused: 400 if it is bad, 422 if it does not fit."""
    if not isinstance(operations, list):
        raise bad_request("json: a JSON patch must be a list of operations")
    if len(operations) > OPERATIONS_MAX:
        message = f"The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}"
        raise Refused(413, "RequestEntityTooLarge", message)
    result, copies_bytes = copied(target), 0
    for operation in operations:
        if not isinstance(operation, dict) or not isinstance(operation.get("path"), str):
            raise bad_request(f"json: an operation of a JSON patch must be a mapping with a path: {operation!r:.200}")
        copies_bytes += _copy_bytes(result, operation)
        if copies_bytes > COPY_BYTES_MAX:
            message = ("Request entity too large: Unable to complete the copy, the accumulated size increase of copy "
                       f"is {copies_bytes}, exceeding the limit {COPY_BYTES_MAX}")  # fmt: skip
            raise Refused(413, "RequestEntityTooLarge", message)
        result = _operate(result, operation)
    return result


def _copy_bytes(document: Any, operation: Json) -> int:
    """Return by how much an operation makes the document larger without having brought that along."""
    if operation.get("op") != "copy" or not isinstance(operation.get("from"), str):
        return 0
    return len(json.dumps(_get(document, operation["from"]), separators=(",", ":")))


def _operate(document: Any, operation: Json) -> Any:
    name, path = operation.get("op"), operation["path"]
    if name in ("add", "replace", "test") and "value" not in operation:
        raise bad_request(f"json: operation {name} on {path!r} has no value")
    if name == "add":
        return _set(document, path, copied(operation["value"]), insert=True)
    if name == "replace":
        _get(document, path)
        return _set(document, path, copied(operation["value"]), insert=False)
    if name == "remove":
        return _unset(document, path)
    if name in ("move", "copy"):
        source = operation.get("from")
        if not isinstance(source, str):
            raise bad_request(f"json: operation {name} on {path!r} has no from")
        value = copied(_get(document, source))
        if name == "move":
            if path.startswith(source + "/"):
                raise _unfit(f"cannot move {source!r} into itself")
            document = _unset(document, source)
        return _set(document, path, value, insert=True)
    if name == "test":
        if not _equal(_get(document, path), operation["value"]):
            raise _unfit(f"testing value {path} failed")
        return document
    raise bad_request(f"json: unexpected kind of operation: {name!r}")


def _equal(left: Any, right: Any) -> bool:
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def _unfit(why: str) -> Refused:
    message = f"the server rejected our request due to an error in our request: {why}"
    return Refused(422, "Invalid", message)


def _steps(path: str) -> list[str]:
    if path and not path.startswith("/"):
        raise bad_request(f"json: {path!r} is no JSON pointer")
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")[1:]]


def _index(step: str, size: int, path: str) -> int:
    if not (step.isascii() and step.isdigit() and len(step) < 10) or int(step) >= size:
        raise _unfit(f"index {step!r} of {path!r} is out of bounds")
    return int(step)


def _get(document: Any, path: str) -> Any:
    for step in _steps(path):
        if isinstance(document, dict) and step in document:
            document = document[step]
        elif isinstance(document, list):
            document = document[_index(step, len(document), path)]
        else:
            raise _unfit(f"path {path!r} does not exist")
    return document


def _parent(document: Any, path: str) -> tuple[Any, str]:
    head, _, last = path.rpartition("/")
    return _get(document, head), last.replace("~1", "/").replace("~0", "~")


def _set(document: Any, path: str, value: Any, *, insert: bool) -> Any:
    if not _steps(path):
        return value
    parent, last = _parent(document, path)
    if isinstance(parent, dict):
        parent[last] = value
    elif isinstance(parent, list):
        if insert:
            parent.insert(len(parent) if last == "-" else _index(last, len(parent) + 1, path), value)
        else:
            parent[_index(last, len(parent), path)] = value
    else:
        raise _unfit(f"path {path!r} does not exist")
    return document


def _unset(document: Any, path: str) -> Any:
    if not _steps(path):
        raise _unfit("the whole document cannot be removed")
    parent, last = _parent(document, path)
    if isinstance(parent, dict) and last in parent:
        del parent[last]
    elif isinstance(parent, list):
        del parent[_index(last, len(parent), path)]
    else:
        raise _unfit(f"path {path!r} does not exist")
    return document


# Strategic merge patch.


def strategic(target: Any, patch: Any) -> Any:
    """Return ``target`` with a strategic merge patch applied."""
    return _map(target if isinstance(target, dict) else {}, patch)


def _map(target: Json, patch: Any) -> Any:
    if not isinstance(patch, dict):
        raise bad_request(f"a strategic merge patch must be a mapping, not {type(patch).__name__}")
    directive = patch.get("$patch")
    if directive == "replace":
        return _clean({key: value for key, value in patch.items() if key != "$patch"})
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise bad_request(f"invalid value for $patch: {directive!r}")
    result = dict(target)
    retained = patch.get("$retainKeys")
    if isinstance(retained, list):
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if not key.startswith("$"):
            _field(result, key, value, patch)
        elif key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            if isinstance(result.get(name), list) and isinstance(value, list):
                result[name] = [item for item in result[name] if item not in value]
    return result


def _field(result: Json, key: str, value: Any, patch: Json) -> None:
    if value is None:
        result.pop(key, None)
    elif isinstance(value, dict):
        old = result.get(key)
        result[key] = _map(old if isinstance(old, dict) else {}, value)
    elif isinstance(value, list):
        old = result.get(key)
        result[key] = _list(old if isinstance(old, list) else [], value, patch.get(f"$setElementOrder/{key}"), key)
    else:
        result[key] = value


def _merge_key(field: str, items: list[Any]) -> str:
    if field == "ports":
        mappings = [item for item in items if isinstance(item, dict)]
        return "containerPort" if any("containerPort" in item for item in mappings) else "port"
    return _MERGE_KEYS.get(field, "")


def _list(old: list[Any], new: list[Any], order: Any, field: str) -> list[Any]:
    if field in _PRIMITIVE_SETS:
        return old + [item for item in new if item not in old]
    key = _merge_key(field, old + new)
    if not key:
        return [_clean(value) for value in new]
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in new):
        return [_clean(item) for item in new if isinstance(item, dict) and "$patch" not in item]
    kept, added = list(old), []
    for item in new:
        if not isinstance(item, dict) or key not in item:
            raise bad_request(f"{field}: map: {item!r:.200} does not contain declared merge key: {key}")
        if not _merged(kept, item, key):
            added.append(_map({}, item))
    result = added + kept  # what is new comes first, as with the real server
    return _ordered(result, order, key) if isinstance(order, list) else result


def _merged(kept: list[Any], item: Json, key: str) -> bool:
    """Merge an item into the one with its key, or delete that; return False if the item is new."""
    place = next((n for n, old in enumerate(kept) if isinstance(old, dict) and old.get(key) == item[key]), None)
    if item.get("$patch") == "delete":
        kept[:] = [old for old in kept if not (isinstance(old, dict) and old.get(key) == item[key])]
        return True
    if place is None:
        return False
    kept[place] = _map(kept[place], item)
    return True


def _ordered(items: list[Any], order: list[Any], key: str) -> list[Any]:
    """Return the items in the order that the patch asks for; those that it does not name keep their place after."""
    wanted = [entry.get(key) if isinstance(entry, dict) else entry for entry in order]
    ranked = [item for item in items if isinstance(item, dict) and item.get(key) in wanted]
    ranked.sort(key=lambda item: wanted.index(item.get(key)))
    return ranked + [item for item in items if not (isinstance(item, dict) and item.get(key) in wanted)]


def _clean(value: Any) -> Any:
    """Return what a directive leaves as plain content: without directives and nulls."""
    if isinstance(value, dict):
        return {key: _clean(item) for key, item in value.items() if not key.startswith("$") and item is not None}
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return copied(value)
