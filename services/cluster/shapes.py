"""Shapes: whether an object has the fields of its kind, each of its type.

It stands before everything else at the front door, so that what comes after may take types for granted. A null counts
as absent and is taken away, and so does an empty list or map of a typed kind; a field that the kind does not have is
dropped. What an update leaves as it was is not judged, since it may have come in past the door.
"""

from __future__ import annotations

import re
from typing import Any

from events.canonical import Json
from events.kinds import Kind
from scheduling import quantity
from services.cluster import schema
from services.cluster.refusal import Problems, Refused, bad_request
from services.cluster.routes import CUSTOM

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)", re.ASCII)
_INTEGER_MAX = 2**63 - 1
_UNKNOWN_SHOWN_MAX = 20


def check(kind: Kind, item: Json, *, strict: bool, old: Json | None = None) -> None:
    """Judge an object's shape, and leave out what the server would not keep.

    Raises Refused (400), also for unknown fields if ``strict``.
    """
    walk = _Walk(kind)
    walk.mapping(item, schema.definitions()[schema.name_of(kind)], old, "")
    if "spec" in schema.definitions()[schema.name_of(kind)]:
        item.setdefault("spec", {})
    if strict and walk.unknown:
        shown = ", ".join(f'unknown field "{field}"' for field in walk.unknown[:_UNKNOWN_SHOWN_MAX])
        raise bad_request(f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: strict '
                          f"decoding error: {shown}")  # fmt: skip


class _Walk:
    def __init__(self, kind: Kind) -> None:
        self.kind = kind
        self.unknown: list[str] = []

    def mapping(self, value: Json, definition: schema.Definition, old: Any, path: str) -> None:
        before = old if isinstance(old, dict) else {}
        typed = self.kind not in CUSTOM or path == "metadata"
        for key, item in list(value.items()):
            where = f"{path}.{key}" if path else key
            if item is None:
                del value[key]
            elif key not in definition:
                self.unknown.append(where)
                del value[key]
            elif typed and item in ([], {}) and definition[key].startswith(("[]", "{}")):
                self.value(item, definition[key], before.get(key), where)
                del value[key]
            elif key not in before or before[key] != item:
                self.value(item, definition[key], before.get(key), where)

    def value(self, item: Any, type_: str, old: Any, path: str) -> None:
        if type_.startswith("&"):
            self._expect(isinstance(item, dict), path, schema_type(type_), item)
            self.mapping(item, schema.definitions()[type_[1:]], old, path)
        elif type_.startswith("[]"):
            self._expect(isinstance(item, list), path, schema_type(type_), item)
            for place, inner in enumerate(item):
                before = old[place] if isinstance(old, list) and place < len(old) else None
                if inner is None or inner != before:
                    self.value(inner, type_[2:], before, f"{path}[{place}]")
        elif type_.startswith("{}"):
            self._expect(isinstance(item, dict), path, schema_type(type_), item)
            before = old if isinstance(old, dict) else {}
            for key in [key for key, inner in item.items() if inner is None]:
                if type_.startswith("{}[]") or type_ == "{}string":
                    item[key] = [] if type_.startswith("{}[]") else ""  # such a map keeps its keys
                else:
                    del item[key]
            for key, inner in item.items():
                if key not in before or before[key] != inner:
                    self.value(inner, type_[2:], before.get(key), f"{path}[{key}]")
        elif type_ != "any":
            self._scalar(item, type_, path)

    def _scalar(self, item: Any, type_: str, path: str) -> None:
        number = isinstance(item, int) and not isinstance(item, bool)
        if type_ == "string":
            self._expect(isinstance(item, str), path, "string", item)
        elif type_ == "integer":
            self._expect(number and abs(item) <= _INTEGER_MAX, path, "int64", item)
        elif type_ == "number":
            self._expect(number or isinstance(item, float), path, "float64", item)
        elif type_ == "boolean":
            self._expect(isinstance(item, bool), path, "bool", item)
        elif type_ == "intstr":
            self._expect(number or isinstance(item, str), path, "intstr.IntOrString", item)
        elif type_ == "time":
            self._expect(isinstance(item, str) and _TIME.fullmatch(item) is not None, path, "v1.Time", item)
        elif type_ == "quantity":
            self._quantity(item, path)

    def _quantity(self, item: Any, path: str) -> None:
        scalar = isinstance(item, str | int | float) and not isinstance(item, bool)
        self._expect(scalar, path, "resource.Quantity", item)
        text = repr(item) if isinstance(item, float) else item
        if self.kind not in CUSTOM and quantity.parse(text) is None:
            raise bad_request(f'{self.kind.name} in version "{self.kind.version}" cannot be handled as a '
                              f"{self.kind.name}: {path}: quantities must match the regular expression "
                              f"'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$', not {item!r:.80}")  # fmt: skip

    def _expect(self, holds: bool, path: str, wanted: str, found: Any) -> None:
        if not holds:
            raise wrong_type(self.kind, path, wanted, found)


def schema_type(type_: str) -> str:
    """Return a type in the words of the real server's messages."""
    if type_.startswith("&"):
        return f"v1.{type_[1:].rpartition('.')[2]}"
    if type_.startswith("[]"):
        return f"[]{schema_type(type_[2:])}"
    return f"map[string]{schema_type(type_[2:])}" if type_.startswith("{}") else type_


def wrong_type(kind: Kind, path: str, wanted: str, found: Any) -> Refused:
    """Return the refusal of a value of the wrong type: 400 for a core kind, 422 for a custom resource."""
    names = {dict: "object", list: "array", str: "string", bool: "bool", type(None): "null"}
    shown = names.get(type(found), "number")
    if kind in CUSTOM:
        return _wrong_custom(kind, path, wanted, "boolean" if shown == "bool" else shown)
    if not isinstance(found, dict | list):
        shown += f" {found!r:.80}" if not isinstance(found, str) else f" {found[:80]!r}"
    return bad_request(f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: json: cannot '
                       f"unmarshal {shown} into Go struct field {kind.name}.{path} of type {wanted}")  # fmt: skip


def _wrong_custom(kind: Kind, path: str, wanted: str, found: str) -> Refused:
    names = {"int64": "integer", "bool": "boolean", "resource.Quantity": "integer,string", "v1.Time": "date-time"}
    type_ = "array" if wanted.startswith("[]") else "object" if wanted.startswith(("v1.", "map")) else wanted
    problems = Problems()
    problems.invalid(path, found, f'{path} in body must be of type {names.get(wanted, type_)}: "{found}"')
    return problems.refusal(kind, "")
