"""What is wrong with a decision by itself, whatever becomes of it: with whom it places where, together, and who goes.

A binder that refuses such a command hides it, and what it gives too little of nobody ever finds too much of.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from events.names import NODE_REGISTER
from events.records import Batch, EvictCommand, Member
from scheduling import resources
from scheduling.devices.record import decode
from scheduling.devices.register import CardSpec, read_cards
from scheduling.state.model import Model
from scheduling.status import READY, TaskStatus

#: The number of the invariant that is broken, and how.
Wrong: TypeAlias = tuple[int, str]

#: Evictions that leave a gang what it needs; others undo one that has lost it (scheduling/F-2).
_SPARING: Final = ("preempt", "reclaim")


def wrong(model: Model, batch: Batch, place: int, times: dict[str, int]) -> Iterator[Wrong]:
    """Yield what is wrong with a batch that has just been folded at a place of the log.

    ``times`` are the newest that were given to pods, by node; they are kept here.
    """
    placed = [member for command in batch.binds for member in command.members if _stands(model, member)]
    yield from _places(model, placed)
    yield from _times(placed, times)
    if batch.base == place:  # nothing came between: gangs are as they were decided on
        uids = {member.uid for member in placed}
        for command in batch.binds:
            if any(member.uid in uids for member in command.members):
                yield from _too_few(model, command.group, "are decided to be bound")
        yield from _victims(model, batch)


def cards_of(model: Model, name: str) -> dict[str, CardSpec]:
    """Return what a node was known to register."""
    view = model.nodes.get(name)
    text = view.node.annotations.get(NODE_REGISTER, "") if view and view.node else ""
    return {card.uuid: card for card in read_cards(text)[0]}


def evictions(model: Model, batch: Batch) -> list[EvictCommand]:
    """Return those of a batch's evictions that took effect."""
    found = ((evict, model.pods.get(evict.uid)) for evict in batch.evictions)
    return [evict for evict, entry in found if entry is not None and entry.evicting is evict]


def _stands(model: Model, member: Member) -> bool:
    entry = model.pods.get(member.uid)
    return entry is not None and entry.placement is member


def _places(model: Model, placed: list[Member]) -> Iterator[Wrong]:
    """Nobody is placed on a node, or on a card, that takes nobody (devices/F-2)."""
    for member in placed:
        view = model.nodes[member.node]
        if view.node is not None and view.node.unschedulable:
            yield 1, f"{member.name} was placed on {member.node}, which is cordoned"
        cards = cards_of(model, member.node)
        for uuid in sorted({share.uuid for share in decode(member.allocation).shares}):
            if uuid not in cards or not cards[uuid].healthy:
                yield 1, f"{member.name} was placed on {uuid}, which is lost or ill"


def _times(placed: list[Member], times: dict[str, int]) -> Iterator[Wrong]:
    """The times on a node's pods rise: node agents go by them (devices/A-8)."""
    for member in placed:
        if member.allocation:
            if member.vgpu_time <= times.get(member.node, 0):
                yield 7, f"{member.name} has no later time than another pod on {member.node}"
            times[member.node] = max(times.get(member.node, 0), member.vgpu_time)


def _victims(model: Model, batch: Batch) -> Iterator[Wrong]:
    """Nobody makes way for a lower one, nor so that too little of its gang is left (scheduling/PG-11a, PG-11b)."""
    for evict in evictions(model, batch):
        if evict.reason not in _SPARING:
            continue
        own = model.pods[evict.uid].pod.group_key
        yield from _too_few(model, own, "are left")
        mine, theirs = _priority(model, own), _priority(model, evict.for_group)
        if evict.reason == "preempt" and mine > theirs:
            yield 3, f"{evict.name} of priority {mine} makes way for {evict.for_group} of {theirs}"


def _too_few(model: Model, group: str, what: str) -> Iterator[Wrong]:
    """A gang is placed as a whole, and keeps what it needs."""
    entry = model.groups.get(group)
    members = [model.pods[uid] for uid in model.members.get(group, ())]
    count = sum(
        member.status in READY or (member.status is TaskStatus.PENDING and resources.is_best_effort(member.pod.request))
        for member in members
    )
    if entry is not None and count < entry.group.min_member:
        yield 3, f"{count} of {entry.group.min_member} members of {group} {what}"


def _priority(model: Model, group: str) -> int:
    entry = model.groups.get(group)
    known = model.priority_classes.get(entry.group.priority_class) if entry is not None else None
    return known.value if known is not None else 0
