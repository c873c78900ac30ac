"""Owner-reference deletion, in the background: what belongs to an object goes when the object has gone.

Only for clusters that have no garbage collector of their own (the embedded one). An owner counts as gone when it was
seen and is not there any more, or another object has its name: an owner that was never seen may be of a kind, or in a
place, that nobody tells us about, and what it owns is left alone. A dependent stays while one of its owners lives.
"""

from __future__ import annotations

from collections.abc import Container

from services.controller.actions import Action, Delete
from services.controller.world import Ref, World, deleting, items, meta, text, uid_of


def reconcile(world: World, ref: Ref, gone: Container[str]) -> list[Action]:
    """Delete an object all of whose owners are gone. ``gone`` holds the uids whose end was seen."""
    item = world.at(ref)
    if item is None or deleting(item):
        return []
    owners = [text(owner.get("uid")) for owner in items(meta(item).get("ownerReferences"))]
    if owners and all(uid in gone and not world.alive(uid) for uid in owners):
        return [Delete(ref, uid_of(item))]
    return []
