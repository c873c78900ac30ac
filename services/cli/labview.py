"""How the lab looks at the system: objects and container logs through the API, cards from the scheduler's state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import aiohttp

from adapters.cluster.port import ApiError
from events.canonical import Json
from events.kinds import POD, Kind
from services.cli.embedded import EmbeddedSystem


@dataclass
class LabView:
    """Answers the lab's questions."""

    system: EmbeddedSystem
    api: Any

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        """Return an object, or an empty one if it does not exist."""
        try:
            found: Json = await self.api.get(kind, namespace, name)
        except ApiError as error:
            if error.status != 404:
                raise
            return {}
        return found

    async def container_log(self, namespace: str, name: str) -> str:
        """Return what ``kubectl logs`` shows, empty while there is none."""
        url = self.system.server + POD.path(namespace, name, "log")
        async with aiohttp.ClientSession() as session, session.get(url) as reply:
            return await reply.text() if reply.status == 200 else ""

    async def pods_left(self, namespace: str) -> int:
        """Return how many pods a namespace still has."""
        return len((await self.api.list(POD, namespace=namespace)).items)

    def cards(self) -> str:
        """Return every card with what is held on it."""
        views = self.system.model.nodes
        return "; ".join(
            f"{card.uuid} {card.used_memory}/{card.memory} MiB, {card.used_cores}/100 cores, "
            f"{card.used_shares}/{card.shares} shares"
            for name in sorted(views)
            for card in views[name].devices.cards
        )
