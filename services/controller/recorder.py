"""Events of the controllers (scheduling/E-9 to E-13): one per text, counted."""

from __future__ import annotations

from adapters.cluster.port import ApiError, ApiUnknown, ClusterApi
from events.kinds import EVENT
from services.controller.actions import Emit
from services.runtime.kube_events import Subject, counted_again, event_about


class Recorder:
    """Writes Events through the API."""

    def __init__(self, api: ClusterApi, component: str) -> None:
        self._api = api
        self._component = component
        #: The last text by uid and reason.
        self._last: dict[str, dict[str, str]] = {}

    async def record(self, emit: Emit, now_ms: int) -> None:
        """Write one Event. A failure is only an Event lost, and stops nothing."""
        last = self._last.setdefault(emit.uid, {})
        if emit.once and last.get(emit.reason) == emit.message:
            return
        last[emit.reason] = emit.message
        try:
            await self._write(emit, now_ms)
        except (ApiError, ApiUnknown):
            last.pop(emit.reason, None)

    async def _write(self, emit: Emit, now_ms: int) -> None:
        subject = Subject(*emit.ref, emit.uid)
        item = event_about(subject, emit.type, emit.reason, emit.message, component=self._component, at_ms=now_ms)
        try:
            await self._api.create(EVENT, item)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            namespace, name = item["metadata"]["namespace"], item["metadata"]["name"]
            known = await self._api.get(EVENT, namespace, name)
            await self._api.patch(EVENT, namespace, name, counted_again(known, now_ms))

    def forget(self, uid: str) -> None:
        """Drop what is remembered of an object that is gone."""
        self._last.pop(uid, None)
