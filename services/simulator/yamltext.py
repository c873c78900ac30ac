"""YAML text to plain values, for files that strangers wrote.

Values are built from the parser's events, one at a time, so that depth and size are limits of ours and not of the
interpreter's stack: an alias is a copy whose values count towards the limit, and a document that would grow beyond it
is refused. Scalars become what the API machinery makes of them (null, booleans, whole numbers, decimals); times and
everything else stay the text that was written. A key that is there twice is an error, since one of the two would be
lost in silence.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml

SIZE_MAX_BYTES = 64 * 1024 * 1024
DEPTH_MAX = 100
VALUES_MAX = 4_000_000
DIGITS_MAX = 400

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"})
_FALSE = frozenset({"false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"})
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*|0[0-7]+|0o[0-7]+|0x[0-9a-fA-F]+|0b[01]+)")
_DECIMAL = re.compile(r"[-+]?(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
_STANDARD = "tag:yaml.org,2002:"


class YamlProblem(Exception):
    """The text is no YAML that can be read: what is wrong, and in which line (from 1)."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(f"line {line}: {message}")


@dataclass(slots=True)
class _Open:
    """A collection that is being read. ``key`` is the key whose value comes next (None: a key comes next)."""

    value: Any
    anchor: str | None
    line: int
    key: str | None = None
    size: int = 1
    merged: dict[str, Any] = field(default_factory=dict)


def documents(text: str) -> Iterator[Any]:
    """Yield the value of each document in order, None for an empty one. Raises YamlProblem."""
    builder = _Builder()
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            if builder.take(event):
                yield builder.finished
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise YamlProblem(
            " ".join(str(error.problem or error.context).split()), mark.line + 1 if mark else 1
        ) from error
    except yaml.YAMLError as error:
        raise YamlProblem(" ".join(str(error).split()), 1) from error


class _Builder:
    """Builds one document after the other from events."""

    def __init__(self) -> None:
        self.finished: Any = None
        self._stack: list[_Open] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._values = 0

    def take(self, event: Any) -> bool:
        """Take the next event; True when a document is complete (then ``finished`` holds it)."""
        line = event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent):
            self.finished, self._stack, self._anchors = None, [], {}
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor, line)
        elif isinstance(event, yaml.ScalarEvent):
            self._put(_scalar(event, line), event.anchor, 1, line)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._open(event, line)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._close()
        return isinstance(event, yaml.DocumentEndEvent)

    def _open(self, event: Any, line: int) -> None:
        kind = "map" if isinstance(event, yaml.MappingStartEvent) else "seq"
        if event.tag not in (None, "!", _STANDARD + kind):
            raise YamlProblem(f"tag {event.tag} is not known", line)
        if len(self._stack) >= DEPTH_MAX:
            raise YamlProblem(f"nested deeper than {DEPTH_MAX} levels", line)
        if self._stack and isinstance(self._stack[-1].value, dict) and self._stack[-1].key is None:
            raise YamlProblem("a key must be text", line)
        self._stack.append(_Open({} if kind == "map" else [], event.anchor, line))

    def _close(self) -> None:
        done = self._stack.pop()
        if done.merged:
            done.value = {**done.merged, **done.value}
        self._put(done.value, done.anchor, done.size, done.line)

    def _alias(self, anchor: str | None, line: int) -> None:
        if anchor is None or anchor not in self._anchors:
            raise YamlProblem(f"alias *{anchor} has no anchor before it", line)
        value, size = self._anchors[anchor]
        self._count(size, line)
        self._put(copy.deepcopy(value), None, size, line, counted=True)

    def _count(self, size: int, line: int) -> None:
        self._values += size
        if self._values > VALUES_MAX:
            raise YamlProblem(f"more than {VALUES_MAX} values, aliases counted", line)

    def _put(self, value: Any, anchor: str | None, size: int, line: int, *, counted: bool = False) -> None:
        if not counted:
            self._count(1, line)
        if anchor:
            self._anchors[anchor] = (value, size)
        if not self._stack:
            self.finished = value
            return
        into = self._stack[-1]
        into.size += size
        if isinstance(into.value, list):
            into.value.append(value)
        elif into.key is None:
            into.key = _key(value, line)
            if into.key in into.value:
                raise YamlProblem(f"key {into.key!r} is there twice", line)
        elif into.key == "<<":
            into.key = None
            self._merge(into, value, line)
        else:
            into.value[into.key] = value
            into.key = None

    def _merge(self, into: _Open, value: Any, line: int) -> None:
        """Merge keys: what the mapping says itself wins, then the earlier of several merged mappings."""
        for source in value if isinstance(value, list) else [value]:
            if not isinstance(source, dict):
                raise YamlProblem("<< must be a mapping or a list of mappings", line)
            into.merged = {**source, **into.merged}


def _key(value: Any, line: int) -> str:
    """Keys are text; whole numbers and booleans become the text that JSON has for them."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise YamlProblem("a key must be text", line)


def _scalar(event: Any, line: int) -> Any:
    tag = event.tag
    if tag in (None, "!"):
        return _plain(event.value) if event.implicit[0] and tag is None else event.value
    wanted = {"str": str, "int": int, "float": float | int, "bool": bool, "null": type(None)}
    name = tag.removeprefix(_STANDARD)
    if name == "str":
        return event.value
    value = _plain(event.value)
    if name not in wanted or not isinstance(value, wanted[name]):
        raise YamlProblem(f"tag {tag} does not go with {event.value[:40]!r}", line)
    return value


def _plain(text: str) -> Any:
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    if len(text) <= DIGITS_MAX and _INTEGER.fullmatch(text):
        return _whole(text)
    if len(text) <= DIGITS_MAX and _DECIMAL.fullmatch(text) and math.isfinite(float(text)):
        return float(text)
    return text


def _whole(text: str) -> int:
    digits = text.lstrip("+-")
    if len(digits) > 1 and digits[0] == "0" and digits[1] in "01234567":
        text = text.replace(digits, "0o" + digits[1:], 1)
    return int(text, 0)
