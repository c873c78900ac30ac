"""What a binder did to pods, noted where it takes effect: whom it deleted, and what it knew of those that it bound.

A request may take effect late, its sender may be held or killed before it reports, and the log moves on: what nobody
had told the binder by the time it asked is not its fault.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from adapters.log.follower import Follower
from events import names
from events.kinds import POD
from scheduling.state.fold import Fold
from services.cluster.store import Store

Send: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


@dataclass
class Noted:
    """What all binders did. ``known`` are the members of a bound pod's gang that its binder knew, by the pod's uid.

    ``deleted`` are the names and uids of the pods that were there and were deleted.
    """

    known: dict[str, frozenset[str]] = field(default_factory=dict)
    deleted: list[tuple[str, str]] = field(default_factory=list)


class Witness:
    """Notes what one binder does."""

    def __init__(self, follower: Follower[Fold], store: Store, noted: Noted) -> None:
        self._follower, self._store, self._noted = follower, store, noted

    def deleting(self, namespace: str, name: str, send: Send) -> Send:
        """A pod is to be deleted; return the request, which notes who it was."""

        async def noting() -> None:
            there = self._store.get(POD, namespace, name)
            await send()
            if there is not None:
                self._noted.deleted.append((f"{namespace}/{name}", there["metadata"]["uid"]))

        return noting

    def asked(self, binding: dict[str, Any], send: Send) -> Send:
        """A Binding is asked for now; return the request, which notes what was known now if it takes effect."""
        members = self._members(binding)

        async def noting() -> None:
            await send()
            self._noted.known[binding["metadata"]["uid"]] = members

        return noting

    def _members(self, binding: dict[str, Any]) -> frozenset[str]:
        model = self._follower.state.model
        command = model.commands.get(binding["metadata"]["annotations"][names.DECISION])
        return frozenset(model.members.get(command.group, ())) if command else frozenset()
