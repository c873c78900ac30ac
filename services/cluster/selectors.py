"""Label and field selectors: parsed once, then a predicate over objects."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from events.canonical import Json
from events.kinds import EVENT, NAMESPACE, NODE, POD, REPLICA_SET, SECRET, Kind
from services.cluster.refusal import bad_request

Predicate = Callable[[Json], bool]

_KEY = r"[A-Za-z0-9](?:[-A-Za-z0-9_./]*[A-Za-z0-9])?"
_VALUE = r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]*[A-Za-z0-9])?)?"
_SET = re.compile(rf"\s*({_KEY})\s+(in|notin)\s*\(([^)]*)\)\s*")
_EQUAL = re.compile(rf"\s*({_KEY})\s*(==|=|!=)\s*({_VALUE})\s*")
_ORDER = re.compile(rf"\s*({_KEY})\s*([<>])\s*([0-9]+)\s*")
_EXISTS = re.compile(rf"\s*(!?)\s*({_KEY})\s*")
_VALUE_ONLY = re.compile(_VALUE)

#: Fields that may be selected by, beyond metadata.name and metadata.namespace.
_FIELDS: dict[Kind, tuple[str, ...]] = {
    POD: ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase",
          "status.podIP", "status.nominatedNodeName"),
    NODE: ("spec.unschedulable",),
    NAMESPACE: ("status.phase",),
    SECRET: ("type",),
    REPLICA_SET: ("status.replicas",),
    EVENT: ("involvedObject.kind", "involvedObject.namespace", "involvedObject.name", "involvedObject.uid",
            "involvedObject.apiVersion", "involvedObject.resourceVersion", "involvedObject.fieldPath", "reason",
            "reportingComponent", "source", "type"),
}  # fmt: skip


def _everything(item: Json) -> bool:
    return True


def labels(text: str) -> Predicate:
    """Return the predicate of a label selector (``a=b,c!=d,e in (f,g),!h``). Raises Refused (400) if it is none."""
    terms = [_term(part, text) for part in _split(text)] if text.strip() else []
    if not terms:
        return _everything

    def matches(item: Json) -> bool:
        found = item["metadata"].get("labels")
        return all(term(found if isinstance(found, dict) else {}) for term in terms)

    return matches


def _split(text: str) -> list[str]:
    return re.split(r",(?![^(]*\))", text)


def _term(part: str, text: str) -> Callable[[dict[str, Any]], bool]:
    if match := _SET.fullmatch(part):
        key, operator, listed = match.groups()
        values = {value.strip() for value in listed.split(",")}
        if all(_VALUE_ONLY.fullmatch(value) for value in values):
            inside = operator == "in"
            return lambda found: (key in found and found[key] in values) if inside else found.get(key) not in values
    elif match := _EQUAL.fullmatch(part):
        key, operator, value = match.groups()
        return (lambda found: found.get(key) != value) if operator == "!=" else (lambda found: found.get(key) == value)
    elif match := _ORDER.fullmatch(part):
        key, operator, bound = match.groups()
        return lambda found: _compare(found.get(key), operator, int(bound))
    elif match := _EXISTS.fullmatch(part):
        wanted = not match.group(1)
        name = match.group(2)
        return lambda found: (name in found) == wanted
    raise bad_request(f"unable to parse requirement: {part.strip()!r} in label selector {text!r}")


def _compare(value: Any, operator: str, bound: int) -> bool:
    if not isinstance(value, str) or not value.isascii() or not value.isdigit():
        return False
    return int(value) > bound if operator == ">" else int(value) < bound


def fields(kind: Kind, text: str) -> Predicate:
    """Return the predicate of a field selector (``spec.nodeName=n,status.phase!=Failed``). Raises Refused (400)."""
    terms = [_field(kind, part, text) for part in text.split(",") if part.strip()]
    if not terms:
        return _everything
    return lambda item: all(term(item) for term in terms)


def _field(kind: Kind, part: str, text: str) -> Predicate:
    match = re.fullmatch(r"\s*([^=!\s]+)\s*(==|=|!=)\s*(.*?)\s*", part)
    if match is None:
        raise bad_request(f"invalid selector: {text!r}; can't understand {part!r}")
    path, operator, value = match.groups()
    if path not in ("metadata.name", "metadata.namespace", *_FIELDS.get(kind, ())):
        raise bad_request(f"field label not supported: {path}")
    wanted = operator != "!="
    return lambda item: (_at(item, path) == value) == wanted


def _at(item: Json, path: str) -> str:
    value: Any = item
    if path == "source":
        path = "source.component"
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    if path == "spec.unschedulable":
        return str(bool(value)).lower()
    return "" if value is None else str(value)
