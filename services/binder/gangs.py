"""Whether a gang is still the one that was decided on, when its bindings are due (scheduling section 9, row 19).

The fold judges a command at its place on the log; members and PodGroup may change between that place and the first
Binding. As long as nothing of the gang is bound the whole block is then refused, and decided anew as a whole. Once a
member is bound the rest follows: a gang that lost members after binding is the scheduler's matter (F-2, F-9).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduling.config.model import SchedulerConfig
from scheduling.state.model import Command, Model, PodEntry
from scheduling.status import VALID


class Gangs:
    """Remembers the minMember that a command was decided on; after a restart that of the first look counts."""

    def __init__(self) -> None:
        self._minimum: dict[str, int] = {}
        self._model = Model()

    def begin(self, commands: Mapping[str, Command], model: Model) -> None:
        """A step begins."""
        self._model = model
        self._minimum = {key: minimum for key, minimum in self._minimum.items() if key in commands}
        for key, command in commands.items():
            group = model.groups.get(command.group) if command.bind and command.group else None
            if group is not None:
                self._minimum.setdefault(key, group.group.min_member)

    def refusal(self, command: Command) -> str:
        """Say why a binding of a gang's block must not be made, empty if it may."""
        if not command.group or not _holds_back(self._model.config):
            return ""
        pods = self._model.pods
        members = [pods[uid] for uid in self._model.members.get(command.group, ()) if uid in pods]
        if _bound(members):
            return ""
        group = self._model.groups.get(command.group)
        if group is None:
            return f"PodGroup {command.group} does not exist any more"
        minimum = group.group.min_member
        if minimum > self._minimum.get(command.id, minimum):
            return f"PodGroup {command.group} was changed after the decision"
        valid = sum(entry.status in VALID for entry in members)
        return f"PodGroup {command.group} has {valid} of {minimum} members left" if valid < minimum else ""


def _bound(members: Iterable[PodEntry]) -> bool:
    return any(entry.pod.node or entry.applied_version for entry in members)


def _holds_back(config: SchedulerConfig | None) -> bool:
    """Tell whether gangs are bound as a whole at all (PG-10); so it is in the built-in configuration (CFG-4a)."""
    if config is None:
        return True
    gang = config.plugin("gang")
    return gang is not None and gang.on("enableJobReady")
