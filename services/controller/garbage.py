"""Owner-reference deletion, in the background: what belongs to an object goes when the object has gone.

Only for clusters that have no garbage collector of their own (the embedded one). An owner counts as gone when it was
seen and is not there any more, or another object has its name. One that was never seen may be of a kind, or in a place,
that nobody tells us about, and what it owns is left alone; but it may also have gone while nobody looked (a controller
that was down). And one whose end was seen may be back, if the API server was restored to an older state and its kind is
not listed again yet. So the API server is asked for the owners that our own controllers give to what they make, pods
and jobs, before anything of theirs is deleted; if one is there, again later, since it may go before we hear that it is
back. A dependent stays while one of its owners lives.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from events.canonical import Json
from events.kinds import POD, POD_GROUP, VOLCANO_JOB, Kind, kind_of
from events.reading import deleting, items, meta, text, uid_of
from services.controller.actions import Action, Delete
from services.controller.objects import Ref
from services.controller.world import World

#: What our controllers make for a pod, and for a job.
_MADE_FOR: Final[dict[Kind, tuple[Kind, ...]]] = {POD: (POD_GROUP,), VOLCANO_JOB: (POD_GROUP, POD)}


def reconcile(world: World, ref: Ref, gone: Container[str]) -> list[Action]:
    """Delete an object all of whose owners are gone. ``gone`` holds the uids whose end was seen."""
    item = world.at(ref)
    if item is None or deleting(item):
        return []
    owners = items(meta(item).get("ownerReferences"))
    if not owners or any(world.alive(text(owner.get("uid"))) for owner in owners):
        return []
    asked = [(owner, _maker(ref, owner)) for owner in owners]
    if any(maker is None and text(owner.get("uid")) not in gone for owner, maker in asked):
        return []
    return [Delete(ref, uid_of(item), outlived=tuple(maker for _, maker in asked if maker is not None))]


def _maker(ref: Ref, owner: Json) -> tuple[Ref, str] | None:
    """Return the owner that the API server can be asked for, None if it is not of those that we know to own this."""
    kind = kind_of(text(owner.get("apiVersion")), text(owner.get("kind")))
    if kind is None or ref.kind not in _MADE_FOR.get(kind, ()):
        return None
    return Ref(kind, ref.namespace, text(owner.get("name"))), text(owner.get("uid"))
