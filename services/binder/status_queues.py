"""``status.allocated`` of queues (scheduling/Q-6, Q-7): what is charged to each, written where it differs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Final

from adapters.cluster.port import ApiError, ClusterApi
from events.canonical import Json
from events.kinds import QUEUE
from scheduling.cycle.queue_status import allocated, as_status
from scheduling.objects import Queue
from scheduling.state.model import Model
from services.binder.written import Due, Pace, Written, forget

#: A queue's amounts move with every placement; once a second is enough for people.
INTERVAL_MS: Final = 1_000


class QueueStatus:
    """Brings the allocated amounts of queues up to date."""

    def __init__(self, api: ClusterApi, pace: Pace) -> None:
        self._api, self._pace = api, pace
        self._written: dict[str, Written] = {}

    def due(self, model: Model) -> Iterator[Due]:
        """Yield the writes that are due."""
        self._written = {key: written for key, written in self._written.items() if key in model.queues}
        found = allocated(model)
        for key, queue in model.queues.items():
            wanted = as_status(found.get(key, {}))
            written = self._written.setdefault(key, Written())
            content = (queue.uid, wanted)
            if self._pace.due(written, content, None, INTERVAL_MS):
                yield partial(self._write, queue, wanted, written, content)

    def forget(self, count: int | None = None) -> None:
        """What was written of so many may not be there any more: it is read before it is written again."""
        forget(self._written, count)

    async def _write(self, queue: Queue, wanted: Json, written: Written, content: tuple[str, Json]) -> bool:
        try:
            item = await self._api.get(QUEUE, "", queue.name)
            if item["metadata"].get("uid") == queue.uid:
                await self._patch(item, wanted)
        except ApiError as error:
            if error.status != 404:
                raise
        self._pace.note(written, content, None)
        return True

    async def _patch(self, item: Json, wanted: Json) -> None:
        status = item.get("status")
        found = status.get("allocated") if isinstance(status, dict) else None
        old = found if isinstance(found, dict) else {}
        if old == wanted:
            return
        merge = {**{key: None for key in old if key not in wanted}, **wanted}
        meta = item["metadata"]
        version = meta.get("resourceVersion", "")
        body = {"metadata": {"uid": meta["uid"], "resourceVersion": version}, "status": {"allocated": merge}}
        await self._api.patch(QUEUE, "", meta["name"], body, "status")
