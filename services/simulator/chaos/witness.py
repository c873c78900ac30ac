"""What a binder had read of a gang when it asked for the Binding that took effect.

The request may take effect late, its sender may be held or killed before it reports, and the log moves on: what nobody
had told the binder by the time it asked is not its fault.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeAlias

from adapters.log.follower import Follower
from events import names
from scheduling.state.fold import Fold

Bind: TypeAlias = Callable[[], Coroutine[Any, Any, None]]


class Witness:
    """Notes, for one binder, the members of a pod's gang that it knew, in ``known`` by the pod's uid."""

    def __init__(self, follower: Follower[Fold], known: dict[str, frozenset[str]]) -> None:
        self._follower, self._known = follower, known

    def asked(self, binding: dict[str, Any], send: Bind) -> Bind:
        """A Binding is asked for now; return the request, which notes what was known now if it takes effect."""
        members = self._members(binding)

        async def noting() -> None:
            await send()
            self._known[binding["metadata"]["uid"]] = members

        return noting

    def _members(self, binding: dict[str, Any]) -> frozenset[str]:
        model = self._follower.state.model
        command = model.commands.get(binding["metadata"]["annotations"][names.DECISION])
        return frozenset(model.members.get(command.group, ())) if command else frozenset()
