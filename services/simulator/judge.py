"""What a value must look like, said in small checks that name the field and what is wrong with it.

A check takes a value, the path of its field and a ``Judge``, which collects the problems; it never raises. The checks
for objects, steps and assertions are tables built from these (``objectshapes``, ``stepshapes``, ``itemshapes``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

from services.simulator import possible
from services.simulator.document import Document, holders


@dataclass
class Judge:
    """Collects problems (field path, text) of one document, and knows the documents that steps may name."""

    documents: tuple[Document, ...] = ()
    problems: list[tuple[str, str]] = field(default_factory=list)
    used: set[int] = field(default_factory=set)

    @cached_property
    def numbers(self) -> frozenset[int]:
        """The numbers that steps may use."""
        return frozenset(document.number for document in self.documents if document.number)

    @cached_property
    def holders(self) -> dict[str, list[int]]:
        """Which documents hold the object of a name."""
        return holders(self.documents)

    @cached_property
    def possible(self) -> frozenset[str]:
        """The names of all objects that documents hold or controllers make from them."""
        return frozenset(possible.references(self.documents))

    def say(self, at: str, text: str) -> None:
        self.problems.append((at, text))


Check: TypeAlias = Callable[[Any, str, Judge], None]


def join(at: str, key: str) -> str:
    """Return the path of a key below a field."""
    return f"{at}.{key}" if at else key


def anything(value: Any, at: str, judge: Judge) -> None:
    """Accept every value."""


def text(value: Any, at: str, judge: Judge) -> None:
    if not isinstance(value, str):
        judge.say(at, "must be text")


def filled(value: Any, at: str, judge: Judge) -> None:
    if not isinstance(value, str) or not value:
        judge.say(at, "must be a text that is not empty")


def flag(value: Any, at: str, judge: Judge) -> None:
    if not isinstance(value, bool):
        judge.say(at, "must be true or false")


def yes(value: Any, at: str, judge: Judge) -> None:
    if value is not True:
        judge.say(at, "must be true")


def scalar(value: Any, at: str, judge: Judge) -> None:
    """A single value: what it means is for the cluster to judge (a quantity)."""
    if isinstance(value, dict | list):
        judge.say(at, "must be a single value")


def is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def whole(minimum: int | None = None) -> Check:
    """A whole number, not below a minimum."""

    def check(value: Any, at: str, judge: Judge) -> None:
        if not is_whole(value):
            judge.say(at, "must be a whole number")
        elif minimum is not None and value < minimum:
            judge.say(at, f"must not be below {minimum}")

    return check


def one_of(*words: str) -> Check:
    def check(value: Any, at: str, judge: Judge) -> None:
        if value not in words:
            judge.say(at, f"must be one of {', '.join(words)}")

    return check


def either(what: str, *accepts: Callable[[Any], bool]) -> Check:
    def check(value: Any, at: str, judge: Judge) -> None:
        if not any(accept(value) for accept in accepts):
            judge.say(at, f"must be {what}")

    return check


def optional(check: Check) -> Check:
    """Null is as if the field were absent."""

    def checked(value: Any, at: str, judge: Judge) -> None:
        if value is not None:
            check(value, at, judge)

    return checked


def list_of(item: Check, *, filled_list: bool = False) -> Check:
    def check(value: Any, at: str, judge: Judge) -> None:
        if not isinstance(value, list):
            judge.say(at, "must be a list")
            return
        if filled_list and not value:
            judge.say(at, "must not be empty")
        for index, entry in enumerate(value):
            item(entry, f"{at}[{index}]", judge)

    return check


def map_of(item: Check) -> Check:
    def check(value: Any, at: str, judge: Judge) -> None:
        if not isinstance(value, dict):
            judge.say(at, "must be a mapping")
            return
        for key, entry in value.items():
            item(entry, join(at, key), judge)

    return check


def shape(required: Mapping[str, Check], more: Mapping[str, Check] | None = None, *, closed: bool = True) -> Check:
    """A mapping with these keys; ``closed``: an unknown key is a problem, else it is none of our business."""
    known = {**required, **(more or {})}

    def check(value: Any, at: str, judge: Judge) -> None:
        if not isinstance(value, dict):
            judge.say(at, "must be a mapping")
            return
        for key in required:
            if key not in value:
                judge.say(join(at, key), "is missing")
        for key, entry in value.items():
            if key in known:
                known[key](entry, join(at, key), judge)
            elif closed:
                judge.say(join(at, key), "unknown key")

    return check


def open_shape(**fields: Check) -> Check:
    """A mapping of the API: the fields named here have a type, null is absence, others are not looked at."""
    return shape({}, {key: optional(check) for key, check in fields.items()}, closed=False)
