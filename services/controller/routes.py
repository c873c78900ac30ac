"""Which objects have to be looked at when another one changes: the wiring of the controllers, as one function."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from adapters.cluster.mirror import Change
from events.canonical import Json
from events.kinds import COMMAND, POD, POD_GROUP, QUEUE, VOLCANO_JOB, Kind
from events.reading import deleting, items, mapping, meta, namespace_of, text, uid_of
from services.controller import commands, podgroups, queues
from services.controller.objects import Ref, controller_of, ref_of
from services.controller.world import World, parent_of, queue_of

Controller = Literal["command", "queue", "job", "workload", "podgroup", "garbage"]
Key: TypeAlias = tuple[Controller, Ref]

#: In this order the controllers work off what is marked.
ORDER: tuple[Controller, ...] = ("command", "queue", "job", "workload", "podgroup", "garbage")


@dataclass(frozen=True)
class Switches:
    """Which controllers run: where Volcano's run, theirs stay theirs; ``garbage`` is for the embedded cluster."""

    podgroups: bool = True
    jobs: bool = True
    queues: bool = True
    garbage: bool = True

    def commands(self, target: Kind) -> bool:
        """Whether commands for this kind are ours."""
        return self.queues if target == QUEUE else self.jobs


def routes(world: World, change: Change, switches: Switches) -> Iterator[Key]:
    """Yield what has to be looked at after ``change``, which the world has taken already."""
    ref = ref_of(change.kind, change.object)
    yield from _commands(world, change, ref, switches)
    if switches.queues:
        yield from _queues(world, change, ref)
    if switches.jobs:
        yield from _jobs(change, ref)
    if switches.podgroups:
        yield from _podgroups(world, change, ref)
    if switches.garbage:
        yield from _garbage(world, change, ref)


def _commands(world: World, change: Change, ref: Ref, switches: Switches) -> Iterator[Key]:
    if change.kind == COMMAND:
        target = commands.target_of(change.object)
        if target is not None and switches.commands(target.kind):
            yield "command", ref
    elif change.kind in commands.ACTIONS and change.old is None and switches.commands(change.kind):
        for command in commands.waiting_for(world, ref):
            yield "command", command


def _queues(world: World, change: Change, ref: Ref) -> Iterator[Key]:
    if change.kind == QUEUE:
        for touched in queues.touched_by(world, ref.name):
            yield "queue", touched
        parent = parent_of(change.object)
        if parent:
            yield "queue", Ref(QUEUE, "", parent)
    elif change.kind == POD_GROUP:
        for group in (change.old, change.new):
            if group is not None:
                yield "queue", Ref(QUEUE, "", queue_of(group))


def _jobs(change: Change, ref: Ref) -> Iterator[Key]:
    if change.kind == VOLCANO_JOB:
        yield "job", ref
    elif change.kind in (POD, POD_GROUP):
        owner = mapping(controller_of(change.object))
        if owner.get("kind") == VOLCANO_JOB.name and owner.get("apiVersion") == VOLCANO_JOB.api_version:
            yield "job", Ref(VOLCANO_JOB, ref.namespace, text(owner.get("name")))


def _podgroups(world: World, change: Change, ref: Ref) -> Iterator[Key]:
    if change.kind == POD:
        yield "podgroup", ref
    elif change.kind == POD_GROUP and _there(change.old) != _there(change.new):
        for owner in items(meta(change.object).get("ownerReferences")):
            uid = text(owner.get("uid"))
            if owner.get("kind") == POD.name:
                yield "podgroup", Ref(POD, namespace_of(change.object), text(owner.get("name")))
            for pod in world.owned(uid, POD):
                yield "podgroup", ref_of(POD, pod)
    elif change.kind in podgroups.SCALED:
        yield "workload", ref


def _there(item: Json | None) -> bool:
    """Whether an object is there to stay."""
    return item is not None and not deleting(item)


def _garbage(world: World, change: Change, ref: Ref) -> Iterator[Key]:
    if change.new is not None and meta(change.new).get("ownerReferences"):
        yield "garbage", ref
    if change.new is None:
        for dependent, _ in world.owned_refs(uid_of(change.old)):
            yield "garbage", dependent
