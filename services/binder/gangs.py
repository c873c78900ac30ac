"""Whether a gang is still the one that was decided on, when its bindings are due (scheduling section 9, row 19).

The fold judges a command at its place on the log; members, nodes and PodGroup may change between that place and the
first Binding. As long as nothing of the gang is bound the whole block is then refused, and decided anew as a whole.
Once a member is bound the rest follows: a gang that lost members after binding is the scheduler's matter (F-2, F-9).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from events import names
from events.records import Member
from scheduling.config.model import SchedulerConfig
from scheduling.devices import record, register
from scheduling.objects import Node
from scheduling.resources import is_best_effort
from scheduling.state.model import Command, GroupEntry, Model, PodEntry
from scheduling.status import READY, TaskStatus
from services.binder.crowding import no_room


@dataclass(frozen=True, slots=True)
class _Found:
    """What was found of a gang: whether a member is bound, minMember, what became of it, which places are lost.

    A place that is lost stops the others; its own command is refused for its own node (``Bindings``).
    """

    bound: bool
    minimum: int
    changed: str
    lost: list[tuple[str, str]]


class Gangs:
    """Remembers what a command was decided on: minMember, and whether its node was cordoned then.

    After a restart the first look counts as the decision's. What is found out of a gang holds for all its members as
    long as the state stays at its place on the log.
    """

    def __init__(self) -> None:
        self._minimum: dict[str, int] = {}
        self._cordoned: dict[str, bool] = {}
        self._blocks: dict[str, list[Command]] = {}
        self._model = Model()
        self._place: Callable[[], int] = lambda: -1
        self._found_at = -1
        self._found: dict[str, _Found] = {}

    def begin(self, commands: Mapping[str, Command], model: Model, place: Callable[[], int]) -> None:
        """A step begins. ``place`` is where the model stands on the log."""
        self._model, self._place, self._found_at = model, place, -1
        self._blocks = {}
        self._minimum = {key: minimum for key, minimum in self._minimum.items() if key in commands}
        self._cordoned = {key: cordoned for key, cordoned in self._cordoned.items() if key in commands}
        for command in commands.values():
            if command.bind and command.group:
                self._look_at(command, command.bind)

    def _look_at(self, command: Command, member: Member) -> None:
        self._blocks.setdefault(command.group, []).append(command)
        group = self._model.groups.get(command.group)
        if group is not None:
            self._minimum.setdefault(command.id, group.group.min_member)
        node = self._node(member)
        if node is not None:
            self._cordoned.setdefault(command.id, node.unschedulable)

    def refusal(self, command: Command) -> str:
        """Say why a binding of a gang's block must not be made, empty if it may."""
        if not command.group or not _holds_back(self._model.config):
            return ""
        found = self._look(command.group)
        if found.bound:
            return ""
        minimum = self._minimum.get(command.id, found.minimum)
        if found.minimum > minimum:
            return f"PodGroup {command.group} was changed after the decision"
        return found.changed or next((why for other, why in found.lost if other != command.id), "")

    def _look(self, group: str) -> _Found:
        """Return what there is to say of a gang now."""
        if self._found_at != self._place():
            self._found_at = self._place()
            self._found.clear()
        if group not in self._found:
            pods = self._model.pods
            members = [pods[uid] for uid in self._model.members.get(group, ()) if uid in pods]
            entry = self._model.groups.get(group)
            minimum = entry.group.min_member if entry is not None else 0
            bound = _bound(members)
            changed = "" if bound else _changed(group, entry, members)
            lost = [] if bound or changed else list(self._lost_places(group))
            self._found[group] = _Found(bound, minimum, changed, lost)
        return self._found[group]

    def _lost_places(self, group: str) -> Iterator[tuple[str, str]]:
        """Yield the commands of the block whose pod cannot be bound where it was placed, and why."""
        for command in self._blocks.get(group, ()):
            if command.bind and command.id in self._model.commands:
                why = self._lost(command, command.bind)
                if why:
                    yield command.id, why

    def _lost(self, command: Command, member: Member) -> str:
        node = self._node(member)
        if node is None:
            return f"node {member.node}, where {member.name} of its gang was placed, does not exist any more"
        if node.unschedulable and not self._cordoned.get(command.id, True):
            return f"node {member.node}, where {member.name} of its gang was placed, was cordoned"
        lost = lost_cards(node.annotations.get(names.NODE_REGISTER, ""), member.allocation)
        if lost:
            return f"node {member.node} does not register {', '.join(lost)} of {member.name} of its gang any more"
        crowded = no_room(self._model, command, member)
        return f"{crowded} for {member.name} of its gang" if crowded else ""

    def _node(self, member: Member) -> Node | None:
        view = self._model.nodes.get(member.node)
        node = view.node if view else None
        return node if node is not None and node.uid == (member.node_uid or node.uid) else None


def _changed(group: str, entry: GroupEntry | None, members: Sequence[PodEntry]) -> str:
    """Say what became of the PodGroup or its members."""
    if entry is None:
        return f"PodGroup {group} does not exist any more"
    minimum = entry.group.min_member
    left = sum(_counts(member) for member in members)
    return f"PodGroup {group} has {left} of {minimum} members left" if left < minimum else ""


def lost_cards(registered: str, allocation: str) -> list[str]:
    """Return the cards of an allocation that a register text does not name (devices/N-21)."""
    if not allocation:
        return []
    return sorted({share.uuid for share in record.decode(allocation).shares} - _registered(registered))


@lru_cache(maxsize=1024)
def _registered(text: str) -> frozenset[str]:
    return frozenset(card.uuid for card in register.read_cards(text)[0])


def _counts(entry: PodEntry) -> bool:
    """Tell whether a member is of the gang as it was decided on: one that came since, under a lost one's name, is not.

    Placed, refused and to be placed anew (F-2), or asking for nothing (PG-10).
    """
    if entry.status in READY:
        return True
    return entry.status is TaskStatus.PENDING and (entry.bind_failures > 0 or is_best_effort(entry.pod.request))


def _bound(members: Iterable[PodEntry]) -> bool:
    return any(entry.pod.node or entry.applied_version for entry in members)


def _holds_back(config: SchedulerConfig | None) -> bool:
    """Tell whether gangs are bound as a whole at all (PG-10); so it is in the built-in configuration (CFG-4a)."""
    if config is None:
        return True
    gang = config.plugin("gang")
    return gang is not None and gang.on("enableJobReady")
