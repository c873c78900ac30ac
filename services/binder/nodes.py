"""Nodes as the API server has them, each read once in a step however many pods are bound to it."""

from __future__ import annotations

import asyncio

from adapters.cluster.port import ApiError, ClusterApi
from events.canonical import Json
from events.kinds import NODE


class NodeReads:
    """What was read of nodes since the step began."""

    def __init__(self, api: ClusterApi) -> None:
        self._api = api
        self.begin()

    def begin(self) -> None:
        """A step begins: what was read before may be old."""
        self._found: dict[str, Json | None] = {}
        self._reading: dict[str, asyncio.Lock] = {}

    async def get(self, name: str) -> Json | None:
        """Return a node, None if it does not exist. Raises ApiError, ApiUnknown."""
        async with self._reading.setdefault(name, asyncio.Lock()):
            if name not in self._found:
                self._found[name] = await self._read(name)
            return self._found[name]

    async def _read(self, name: str) -> Json | None:
        try:
            return await self._api.get(NODE, "", name)
        except ApiError as error:
            if error.status != 404:
                raise
            return None
