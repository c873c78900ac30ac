"""MIG geometries and the choice of a slice on one card (devices/N-13, F-16 to F-22).

A *geometry* lists, for some card models, the *groups* a card may be cut into. A group is an ordered list of instance
types with a count each. Positions number the slices of a group from 0, type after type in the order of the file, so
group and position together are a slice's identity. Which group a card is cut into is never stored: it is the group of
the slices in use, and with the last of them it is forgotten (F-18). Memory here is always MiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

_INDEX_LONGEST = 18  # digits; no card has a position that needs more


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance type of a group: memory in MiB and how many of it the group has."""

    name: str
    memory: int
    count: int


@dataclass(frozen=True)
class Group:
    """One way to cut a card."""

    name: str
    instances: tuple[Instance, ...]

    @cached_property
    def total(self) -> int:
        """How many slices the group has."""
        return sum(item.count for item in self.instances)

    def at(self, position: int) -> Instance | None:
        """Return the instance type at a position (F-20), None outside the group."""
        if position < 0:
            return None
        for item in self.instances:
            if position < item.count:
                return item
            position -= item.count
        return None


@dataclass(frozen=True)
class Geometry:
    """The groups of some card models, in the order of the file."""

    models: tuple[str, ...]
    groups: tuple[Group, ...]


@dataclass(frozen=True, slots=True)
class Slice:
    """One slice of a card: ``memory`` is its size in MiB."""

    group: str
    position: int
    memory: int

    @property
    def suffix(self) -> str:
        """What stands behind the card's UUID in a device id (F-20)."""
        return f"[{self.group}-{self.position}]"


class SliceError(ValueError):
    """A device id whose bracket names no slice (F-20)."""


def groups_of(geometries: tuple[Geometry, ...], model: str) -> tuple[Group, ...]:
    """Return the groups for a card type: of the first entry one of whose models is part of it, else none (N-13)."""
    for geometry in geometries:
        if any(name in model for name in geometry.models):
            return geometry.groups
    return ()


def decode(device_id: str) -> tuple[str, int]:
    """Return group and position of a device id ``<uuid>[<group>-<position>]``; SliceError says what is wrong."""
    start, end = device_id.find("["), device_id.find("]")
    if start < 0 or end < start:
        raise SliceError("invalid format")
    parts = device_id[start + 1 : end].split("-")
    if len(parts) != 2:
        raise SliceError("invalid format inside brackets")
    group, index = parts
    if not (index.isascii() and index.isdigit() and len(index) <= _INDEX_LONGEST):
        raise SliceError(f'invalid index: "{index}" is not a whole number')
    return group, int(index)


def find(groups: tuple[Group, ...], device_id: str) -> Slice | None:
    """Return the slice that a device id names on a card with these groups, None if it names none of them (N-22)."""
    try:
        name, position = decode(device_id)
    except SliceError:
        return None
    group = next((item for item in groups if item.name == name), None)
    instance = group.at(position) if group else None
    return Slice(name, position, instance.memory) if instance else None


def choose(groups: tuple[Group, ...], active: str | None, used: frozenset[int], asked: int) -> Slice | None:
    """Choose a slice of at least ``asked`` MiB.

    ``active`` is the group in use, then only it counts and ``used`` are its taken positions (F-17); on an empty card
    (None) the first group that has a fitting type is taken (F-16). Inside a group the fitting type with the least
    memory wins, ties by order of the file, and of it the lowest free number.
    """
    if active is not None:
        return next((_best(group, used, asked) for group in groups if group.name == active), None)
    return next(filter(None, (_best(group, frozenset(), asked) for group in groups)), None)


def _best(group: Group, used: frozenset[int], asked: int) -> Slice | None:
    best: Slice | None = None
    first = 0
    for item in group.instances:
        if item.memory >= asked and (best is None or item.memory < best.memory):
            number = next((n for n in range(first, first + item.count) if n not in used), None)
            if number is not None:
                best = Slice(group.name, number, item.memory)
        first += item.count
    return best


def largest(groups: tuple[Group, ...]) -> int:
    """Return the memory of the largest instance of all groups in MiB, 0 without any (F-22)."""
    return max((item.memory for group in groups for item in group.instances), default=0)
