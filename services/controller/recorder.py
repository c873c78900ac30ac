"""Events of the controllers (scheduling/E-9 to E-13): core/v1 Event objects, one per text, counted.

The name of an Event is made of its object, type, reason and message, so that the same again is the same Event with a
higher count, on any instance and after any restart.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

from adapters.cluster.port import ApiError, ClusterApi
from events.canonical import Json
from events.kinds import EVENT
from events.reading import integer
from services.controller.actions import Emit

_MESSAGE_MAX = 1024  # what the API server takes


class Recorder:
    """Writes Events through the API."""

    def __init__(self, api: ClusterApi, component: str) -> None:
        self._api = api
        self._component = component
        self._last: dict[tuple[str, str], str] = {}

    async def record(self, emit: Emit, now_ms: int) -> None:
        """Write one Event. A failure is only an Event lost, and stops nothing."""
        key = (emit.uid, emit.reason)
        if emit.once and self._last.get(key) == emit.message:
            return
        self._last[key] = emit.message
        item = self._event(emit, now_ms)
        name, namespace = item["metadata"]["name"], item["metadata"]["namespace"]
        try:
            try:
                await self._api.create(EVENT, item)
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
                known = await self._api.get(EVENT, namespace, name)
                again = {"count": integer(known.get("count"), 1) + 1, "lastTimestamp": item["lastTimestamp"]}
                await self._api.patch(EVENT, namespace, name, again)
        except ApiError:
            self._last.pop(key, None)

    def forget(self, uid: str) -> None:
        """Drop what is remembered of an object that is gone."""
        for key in [key for key in self._last if key[0] == uid]:
            del self._last[key]

    def _event(self, emit: Emit, now_ms: int) -> Json:
        ref, message = emit.ref, emit.message[:_MESSAGE_MAX]
        namespace = ref.namespace or "default"
        text = "\x00".join((emit.uid, emit.type, emit.reason, message))
        time = datetime.fromtimestamp(now_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        about: Json = {"apiVersion": ref.kind.api_version, "kind": ref.kind.name, "name": ref.name, "uid": emit.uid}
        if ref.namespace:
            about["namespace"] = ref.namespace
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.name,
            "metadata": {
                "name": f"{ref.name}.{hashlib.sha256(text.encode()).hexdigest()[:16]}",
                "namespace": namespace,
            },
            "involvedObject": about,
            "type": emit.type,
            "reason": emit.reason,
            "message": message,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "count": 1,
            "firstTimestamp": time,
            "lastTimestamp": time,
        }
