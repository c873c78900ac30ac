"""Label selectors and node selector terms, parsed once and matched often (scheduling/AL-20).

A selector that the API server would not take (an unknown operator, values of another shape) raises ``Invalid`` with
the place and the value; who reads the rules of a pod decides what that means for the pod.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)
Labels: TypeAlias = Mapping[str, str]


class Invalid(Exception):
    """A placement rule that cannot be read; the message names field and value."""


def mapping(value: Any, where: str) -> dict[str, Any]:
    """Return a map of the API, an empty one if it is absent. Raises Invalid for anything else."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Invalid(f"{where}: must be a map, got {value!r:.60}")
    return value


def items(value: Any, where: str) -> list[dict[str, Any]]:
    """Return a list of maps of the API, an empty one if it is absent. Raises Invalid for anything else."""
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise Invalid(f"{where}: must be a list of maps, got {value!r:.60}")
    return value


def texts(value: Any, where: str) -> tuple[str, ...]:
    """Return a list of strings of the API, an empty one if it is absent. Raises Invalid for anything else."""
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Invalid(f"{where}: must be a list of strings, got {value!r:.60}")
    return tuple(value)


def text(value: Any, where: str) -> str:
    """Return a string of the API that must be there. Raises Invalid for anything else."""
    if not isinstance(value, str) or not value:
        raise Invalid(f"{where}: must be a string, got {value!r:.60}")
    return value


def _whole(value: str | None) -> int | None:
    return int(value) if value is not None and _INTEGER.fullmatch(value) else None


def _greater(have: str | None, values: tuple[str, ...]) -> bool:
    left, right = _whole(have), _whole(values[0])
    return left is not None and right is not None and left > right


def _less(have: str | None, values: tuple[str, ...]) -> bool:
    left, right = _whole(have), _whole(values[0])
    return left is not None and right is not None and left < right


_OPERATORS: Final[Mapping[str, Callable[[str | None, tuple[str, ...]], bool]]] = {
    "In": lambda have, values: have is not None and have in values,
    "NotIn": lambda have, values: have is None or have not in values,
    "Exists": lambda have, _values: have is not None,
    "DoesNotExist": lambda have, _values: have is None,
    "Gt": _greater,
    "Lt": _less,
}
_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")


@dataclass(frozen=True, slots=True)
class Requirement:
    """One requirement on one label."""

    key: str
    operator: str
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        return _OPERATORS[self.operator](labels.get(self.key), self.values)


@dataclass(frozen=True, slots=True)
class Selector:
    """All of these requirements; none at all matches everything, ``nothing`` matches nothing."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Labels) -> bool:
        return not self.nothing and all(item.matches(labels) for item in self.requirements)

    def with_requirements(self, more: tuple[Requirement, ...]) -> Selector:
        return Selector(self.requirements + more, self.nothing)


NOTHING: Final = Selector(nothing=True)


def _requirement(item: Mapping[str, Any], where: str, allowed: tuple[str, ...]) -> Requirement:
    key = text(item.get("key"), f"{where}.key")
    operator = item.get("operator")
    values = texts(item.get("values"), f"{where}.values")
    if operator not in allowed:
        raise Invalid(f"{where}.operator: {operator!r:.60} is not a valid label selector operator")
    if operator in ("In", "NotIn") and not values:
        raise Invalid(f"{where}.values: must be specified when operator is {operator}")
    if operator in ("Gt", "Lt") and (len(values) != 1 or _whole(values[0]) is None):
        raise Invalid(f"{where}.values: must be one integer when operator is {operator}")
    return Requirement(key, operator, values)


def label_selector(value: Any, where: str) -> Selector:
    """Parse a LabelSelector: absent matches nothing, an empty one everything. Raises Invalid."""
    if value is None:
        return NOTHING
    fields = mapping(value, where)
    labels = mapping(fields.get("matchLabels"), f"{where}.matchLabels")
    equal = tuple(
        Requirement(key, "In", (text(labels[key], f"{where}.matchLabels[{key}]") if labels[key] != "" else "",))
        for key in sorted(labels)
    )
    place = f"{where}.matchExpressions"
    found = items(fields.get("matchExpressions"), place)
    return Selector(equal + tuple(_requirement(item, place, _LABEL_OPERATORS) for item in found))


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """One node selector term: all its label expressions and all its field expressions; without any it matches none."""

    labels: tuple[Requirement, ...]
    fields: tuple[Requirement, ...]

    @property
    def empty(self) -> bool:
        return not self.labels and not self.fields

    def matches(self, name: str, labels: Labels) -> bool:
        if self.empty:
            return False
        own = {"metadata.name": name}
        return all(item.matches(labels) for item in self.labels) and all(item.matches(own) for item in self.fields)


def node_term(value: Mapping[str, Any], where: str) -> NodeTerm:
    """Parse a NodeSelectorTerm. Raises Invalid."""
    labels = items(value.get("matchExpressions"), f"{where}.matchExpressions")
    fields = items(value.get("matchFields"), f"{where}.matchFields")
    return NodeTerm(
        tuple(_requirement(item, f"{where}.matchExpressions", tuple(_OPERATORS)) for item in labels),
        tuple(_requirement(item, f"{where}.matchFields", ("In", "NotIn")) for item in fields),
    )


@dataclass(frozen=True, slots=True)
class NodeSelector:
    """Any of these terms."""

    terms: tuple[NodeTerm, ...]

    def matches(self, name: str, labels: Labels) -> bool:
        return any(term.matches(name, labels) for term in self.terms)


def node_selector(value: Any, where: str) -> NodeSelector | None:
    """Parse a NodeSelector, None if it is absent. Raises Invalid."""
    if value is None:
        return None
    place = f"{where}.nodeSelectorTerms"
    found = items(mapping(value, where).get("nodeSelectorTerms"), place)
    return NodeSelector(tuple(node_term(item, place) for item in found))
