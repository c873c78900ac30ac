"""Command objects: one action for one job or queue, as ``vcctl`` makes them (scheduling/E-11, E-13).

A command is deleted first and carried out when its end is seen, by whoever asked for that; so it is carried out at most
once. One whose job or queue is not there yet waits for it. One that is meant for an earlier object of that name, or
names an action that its target does not know, is cleared away and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from adapters.cluster.mirror import version_of
from events.canonical import Json
from events.kinds import COMMAND, QUEUE, VOLCANO_JOB, Kind
from events.reading import deleting, mapping, meta, name_of, namespace_of, text, uid_of
from scheduling.objects import seconds
from services.controller import queues
from services.controller.actions import Action, Delete, Emit
from services.controller.jobs import policies
from services.controller.jobs.policies import Request
from services.controller.objects import Ref, ref_of
from services.controller.world import World

#: What a command may ask for. The restarts of single tasks need to know which, and a command cannot say.
ACTIONS: dict[Kind, tuple[str, ...]] = {
    VOLCANO_JOB: (*(action for action in policies.ACTIONS if action not in policies.TARGETED), policies.SYNC),
    QUEUE: (queues.OPEN, queues.CLOSE, queues.SYNC),
}


@dataclass(frozen=True)
class Issue:
    """What a command that is gone asks for: the request, if there is one, and what is told of it."""

    target: Ref
    request: Request | None
    told: Emit | None


def target_of(command: Json) -> Ref | None:
    """Return the job (of the command's namespace) or queue that a command names, None if it names neither."""
    target = mapping(command.get("target"))
    for kind in ACTIONS:
        if (target.get("apiVersion"), target.get("kind")) == (kind.api_version, kind.name):
            return Ref(kind, namespace_of(command) if kind.namespaced else "", text(target.get("name")))
    return None


def waiting_for(world: World, target: Ref) -> list[Ref]:
    """Return the commands for an object."""
    return [ref_of(COMMAND, command) for command in world.all(COMMAND) if target_of(command) == target]


def order(world: World, ref: Ref) -> tuple[int, int, str]:
    """What sorts commands as they came."""
    command = world.at(ref) or {}
    return seconds(meta(command).get("creationTimestamp")), version_of(command), ref.name


def reconcile(world: World, ref: Ref) -> list[Action]:
    """Clear a command away once its target is there."""
    command = world.at(ref)
    target = target_of(command) if command is not None else None
    if command is None or deleting(command) or target is None or world.at(target) is None:
        return []
    return [Delete(ref, uid_of(command))]


def issued(world: World, command: Json) -> Issue | None:
    """Return what a command asks for whose deletion was ours, None if it is not for what has its target's name now."""
    target = target_of(command)
    found = world.at(target) if target is not None else None
    if target is None or found is None or uid_of(found) != text(mapping(command.get("target")).get("uid")):
        return None
    action = text(command.get("action"))
    if action not in ACTIONS[target.kind]:
        known = ", ".join(ACTIONS[target.kind])
        name = f"{namespace_of(command)}/{name_of(command)}"
        why = f'Command {name}: action "{action}" is none of {known}: nothing is done.'
        return Issue(target, None, Emit(target, uid_of(found), "Warning", "CommandIssued", why))
    request = Request("CommandIssued", uid_of(found), action=action)
    if target.kind == QUEUE:
        return Issue(target, request, None)
    message = f"Start to execute command {action}, and clean it up to make sure executed not more than once."
    return Issue(target, request, Emit(target, uid_of(found), "Normal", "CommandIssued", message))
