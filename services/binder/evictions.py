"""One eviction (scheduling/F-7): say on the pod why it goes, then delete it, both only if it is still that pod."""

from __future__ import annotations

from typing import Literal

from adapters.clock import Clock, rfc3339
from adapters.cluster.port import ApiError, ApiUnknown, ClusterApi
from events.canonical import Json
from events.kinds import POD
from events.records import EvictCommand, Outcome
from scheduling import objects
from scheduling.state.model import Command
from services.binder.answers import Answer
from services.binder.conditions import with_conditions

Result = Literal["applied", "refused", "gone"]


class Evictions:
    """Carries out evict commands; every step can be repeated."""

    def __init__(self, api: ClusterApi, clock: Clock) -> None:
        self._api, self._clock = api, clock

    async def carry_out(self, command: Command, evict: EvictCommand) -> Answer:
        """Do what can be done now for one command. Raises nothing."""
        try:
            return await self._evict(command, evict)
        except (ApiError, ApiUnknown) as error:
            if isinstance(error, ApiError) and error.status == 404:
                return Answer(self._outcome(command, evict, "gone", error))
            if isinstance(error, ApiError) and error.status not in (409, 429):
                return Answer(self._outcome(command, evict, "refused", error))
            return Answer(None, waits_for=str(error))

    async def _evict(self, command: Command, evict: EvictCommand) -> Answer:
        item = await self._api.get(POD, evict.namespace, evict.name)
        pod = objects.pod(item)
        if pod.uid != evict.uid:
            return Answer(self._outcome(command, evict, "gone"))
        if pod.deleting:
            return Answer(self._outcome(command, evict, "applied", version=pod.version))
        await self._explain(item, pod, evict)
        await self._api.delete(POD, evict.namespace, evict.name, uid=evict.uid)
        return Answer(self._outcome(command, evict, "applied"))

    async def _explain(self, item: Json, pod: objects.Pod, evict: EvictCommand) -> None:
        now = rfc3339(self._clock.now_ms())
        scheduler = pod.scheduler or "gpuledger"
        wanted = [
            {"type": "Ready", "status": "False", "reason": "Evict", "message": eviction_text(evict.reason)},
            {
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "PreemptionByScheduler",
                "message": f"{scheduler}: preempting to accommodate a higher priority pod",
            },
        ]
        conditions = with_conditions(item, wanted, now)
        if conditions is None:
            return
        merge = {"metadata": {"uid": evict.uid, "resourceVersion": pod.version}, "status": {"conditions": conditions}}
        await self._api.patch(POD, evict.namespace, evict.name, merge, "status")

    def _outcome(
        self, command: Command, evict: EvictCommand, result: Result, error: ApiError | None = None, version: str = ""
    ) -> Outcome:
        return Outcome(
            command=command.id,
            verb="evict",
            namespace=evict.namespace,
            name=evict.name,
            uid=evict.uid,
            result=result,
            version=version,
            status=error.status if error else 0,
            message=error.message if error else "",
            time_ms=self._clock.now_ms(),
        )


def eviction_text(reason: str) -> str:
    """Return the text of E-3, which is the message of the Ready condition too."""
    return f"Pod is evicted, because of {reason}"
