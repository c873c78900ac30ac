"""YAML as plain values: text, whole numbers, numbers, booleans, null, lists and maps with text keys, nothing else.

The text comes from a ConfigMap that anybody may have written, so reading it is bounded in length, depth and number of
values (aliases count every time they are used, which is what makes an alias bomb big). Only the core scalar forms are
recognised: no dates, no base-60 numbers, no tags that make objects.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import yaml

#: None, bool, int, float, str, list of these, dict from str to these.
Plain: TypeAlias = Any

LENGTH_MAX: Final = 512 * 1024  # characters; an API server takes 1 MiB for a whole ConfigMap
DEPTH_MAX: Final = 32
VALUES_MAX: Final = 50_000

_TAG = "tag:yaml.org,2002:"
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0o?[0-7_]+|0x[0-9a-fA-F_]+|0b[01_]+)", re.ASCII)
_FLOAT = re.compile(
    r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)"
    r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
    re.ASCII,
)
_DIGITS_MAX = 400  # far beyond any argument, and far below what turning text into a number takes long for
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
_WORD_ENDS = "fFnN"  # of .inf and .nan, which Python writes without the dot


class Unreadable(Exception):
    """The text is no YAML that we take; the message says where and why."""


class _Reader(yaml.SafeLoader):
    """A loader whose scalars are only the core ones, bounded in depth and number of nodes."""

    depth = 0
    composed = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.depth += 1
        self.composed += 1
        if self.depth > DEPTH_MAX:
            raise Unreadable(f"yaml: nested deeper than {DEPTH_MAX}")
        if self.composed > VALUES_MAX:
            raise Unreadable(f"yaml: more than {VALUES_MAX} values")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


_CORE = (f"{_TAG}bool", f"{_TAG}null", f"{_TAG}merge")
_Reader.yaml_implicit_resolvers = {
    first: [item for item in found if item[0] in _CORE]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
for _kind, _form in (("int", _INTEGER), ("float", _FLOAT)):
    _Reader.add_implicit_resolver(f"{_TAG}{_kind}", re.compile(f"^(?:{_form.pattern})$", re.ASCII), None)


def load(text: str) -> tuple[Plain, list[str]]:
    """Return the document in the text and warnings about keys that are given twice.

    Raises Unreadable, and nothing else, for what is no YAML, is too big, or holds more than one document.
    """
    if len(text) > LENGTH_MAX:
        raise Unreadable(f"yaml: longer than {LENGTH_MAX} characters")
    try:
        node = _document(text)
    except yaml.MarkedYAMLError as error:
        raise Unreadable(_place(error)) from error
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        # The reader trips over an escape beyond Unicode ("\\UFFFFFFFF") instead of refusing it.
        raise Unreadable("yaml: " + " ".join(str(error).split())) from error
    maker = _Maker()
    return (None if node is None else maker.value(node, 0)), maker.warnings


def _document(text: str) -> yaml.Node | None:
    reader = _Reader(text)
    try:
        documents = _documents(reader)
        first = next(documents, None)
        for other in documents:
            if other is not None and other.tag != f"{_TAG}null":
                raise Unreadable(f"yaml: line {other.start_mark.line + 1}: a second document")
        return first
    finally:
        reader.dispose()


def _documents(reader: _Reader) -> Iterator[yaml.Node | None]:
    while reader.check_node():
        yield reader.get_node()


def _place(error: yaml.MarkedYAMLError) -> str:
    mark = error.problem_mark or error.context_mark
    line = f"line {mark.line + 1}: " if mark else ""
    return f"yaml: {line}{error.problem or error.context or 'malformed'}"


class _Maker:
    """Turns nodes into values and counts what it makes."""

    def __init__(self) -> None:
        self.made = 0
        self.warnings: list[str] = []

    def value(self, node: yaml.Node, depth: int) -> Plain:
        self.made += 1
        if self.made > VALUES_MAX or depth > DEPTH_MAX:
            raise Unreadable(f"yaml: more than {VALUES_MAX} values or nested deeper than {DEPTH_MAX}")
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self.value(item, depth + 1) for item in node.value]
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._mapping(node, depth)
        raise Unreadable(f"yaml: line {node.start_mark.line + 1}: tag {node.tag} is not taken")

    def _mapping(self, node: yaml.MappingNode, depth: int) -> dict[str, Plain]:
        found: dict[str, Plain] = {}
        merged: dict[str, Plain] = {}
        for key_node, value_node in node.value:
            value = self.value(value_node, depth + 1)
            if key_node.tag == f"{_TAG}merge":
                merged = {**_merged(value, key_node), **merged}
                continue
            key = _key(self.value(key_node, depth + 1), key_node)
            if key in found:
                self.warnings.append(
                    f"line {key_node.start_mark.line + 1}: key {key} is given twice, the last one counts"
                )
            found[key] = value
        return {**merged, **found}


def _merged(value: Plain, node: yaml.Node) -> dict[str, Plain]:
    """Return what ``<<`` brings in: of several maps the earlier one wins."""
    maps = value if isinstance(value, list) else [value]
    result: dict[str, Plain] = {}
    for item in reversed(maps):
        if not isinstance(item, dict):
            raise Unreadable(f"yaml: line {node.start_mark.line + 1}: << needs a map")
        result.update(item)
    return result


def _key(value: Plain, node: yaml.Node) -> str:
    if isinstance(value, dict | list):
        raise Unreadable(f"yaml: line {node.start_mark.line + 1}: a key must be a scalar")
    return shown(value)


def _scalar(node: yaml.ScalarNode) -> Plain:
    kind = node.tag.removeprefix(_TAG)
    text: str = node.value
    if kind == "null":
        return None
    if kind in ("str", "!"):
        return text
    found = _BOOLEANS.get(text.lower()) if kind == "bool" else _number(kind, text.replace("_", ""))
    if found is None:
        raise Unreadable(f"yaml: line {node.start_mark.line + 1}: {text[:40]} is no {node.tag}")
    return found


def _number(kind: str, text: str) -> int | float | None:
    """Return a number of the core forms, None if it is none or of absurd length."""
    if len(text) > _DIGITS_MAX:
        return None
    if kind == "int" and _INTEGER.fullmatch(text):
        digits = text.lstrip("+-")
        base = {"0x": 16, "0o": 8, "0b": 2}.get(digits[:2], 8 if digits.startswith("0") else 10)
        return int(text, base)
    if kind == "float" and _FLOAT.fullmatch(text):
        return float(text.replace(".", "") if text[-1] in _WORD_ENDS else text)
    return None


def shown(value: Plain) -> str:
    """Return a value as messages show it: ``true``, ``null``, a number as it is, text without quotes."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


def type_name(value: Plain) -> str:
    """Return the word for the type of a value: string, integer, number, boolean, list, map or null."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    words = ((str, "string"), (int, "integer"), (float, "number"), (list, "list"))
    return next((word for kind, word in words if isinstance(value, kind)), "map")
