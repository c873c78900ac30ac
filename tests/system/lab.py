"""Lab 8 played on a running stack: the same steps and answers as ``gpuledger lab``, asked through API and log alone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from adapters.cluster.port import ApiError, ApiUnknown
from adapters.log.follower import Follower
from adapters.log.port import Log
from events.canonical import Json
from events.kinds import POD, POD_GROUP, QUEUE, VOLCANO_JOB, Kind
from events.names import BIND_PHASE, VGPU_IDS
from scheduling.state.fold import Fold
from services.cli import manifests
from services.cli.lab import lab_folder
from services.cli.labscript import NAMESPACE, STEPS, Check, Step
from services.cli.labview import LabView

#: A process that is started takes three seconds of processor, of which a machine with forty others gives it little.
PATIENCE_S = 180.0
_LOOK_EVERY_S = 0.1


class OutsideView(LabView):
    """Answers the lab's questions from outside: objects through the API, cards from a fold of the log of its own."""

    def __init__(self, api: Any, log: Log) -> None:
        self.api = api
        self.log = log
        self.follower: Follower[Fold] = Follower(log, Fold())

    @property
    def model(self) -> Any:
        return self.follower.state.model

    async def look(self) -> None:
        """Fold what is on the log by now."""
        await self.follower.catch_up()

    def cards(self) -> str:
        return "; ".join(
            f"{card.uuid} {card.used_memory}/{card.memory} MiB, {card.used_cores}/100 cores, "
            f"{card.used_shares}/{card.shares} shares"
            for name in sorted(self.model.nodes)
            for card in self.model.nodes[name].devices.cards
        )

    async def container_log(self, namespace: str, name: str) -> str:
        """No kubelet serves logs here; what the container would print follows from the pod's devices."""
        pod = await self.get(POD, namespace, name)
        record = pod.get("metadata", {}).get("annotations", {}).get(VGPU_IDS, "")
        if not record:
            return ""
        _, _, memory, cores = record.rstrip(":;").split(",")
        return f"CUDA_DEVICE_MEMORY_LIMIT_0={memory}m\nCUDA_DEVICE_SM_LIMIT={cores}\n"


@dataclass
class Lab:
    """One run. ``ended`` names processes that ended by themselves, which ends the run too.

    ``disturb`` is awaited with a step's number and moment: ``before`` it, and ``within`` it once all is applied.
    """

    view: OutsideView
    ended: Callable[[], list[str]]
    disturb: Callable[[int, str], Awaitable[None]] | None = None
    seen: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    async def play(self) -> None:
        """Play all steps; what was seen and what failed is kept."""
        for number, step in enumerate(STEPS):
            await self._play(number, step)

    async def _play(self, number: int, step: Step) -> None:
        await self._disturbed(number, "before")
        for name in step.manifests:
            for item in manifests.read(lab_folder() / name):
                await insisting(partial(manifests.apply, self.view.api, item))
        disturbing = asyncio.create_task(self._disturbed(number, "within"))
        await until(disturbing.done, PATIENCE_S)
        await disturbing
        for check in step.checks:
            await self._see(step, check)
            assert not self.ended(), self.ended()
        for kind, name in step.deletes:
            await insisting(partial(self.view.api.delete, kind, NAMESPACE, name))
        if step.deletes:
            await until(self._nothing_left, PATIENCE_S)

    async def _disturbed(self, number: int, moment: str) -> None:
        if self.disturb is not None:
            await self.disturb(number, moment)

    async def _see(self, step: Step, check: Check) -> None:
        seen = ""

        async def look() -> bool:
            nonlocal seen
            assert not self.ended(), self.ended()
            await self.view.look()
            seen = await check.question(self.view)
            return check.holds(seen)

        held = await until(look, PATIENCE_S)
        self.seen.append(f"{step.title}: {check.label}: {seen if not check.begins else check.expected}")
        if not held:
            self.failed.append(f"{step.title}: {check.label}: expected {check.expected}, seen {seen}")

    async def _nothing_left(self) -> bool:
        return not await self.view.pods_left(NAMESPACE)

    async def end_state(self) -> dict[str, Any]:
        """Return what the cluster holds at the end, without what differs from run to run (uids, times)."""
        found: dict[str, Any] = {}
        for kind in (POD, POD_GROUP, VOLCANO_JOB, QUEUE):
            page = await self.view.api.list(kind, namespace=NAMESPACE if kind.namespaced else "")
            for item in page.items:
                meta = item["metadata"]
                owner = next((ref["name"] for ref in meta.get("ownerReferences", [])), "")
                name = owner if kind == POD_GROUP and owner else meta["name"]
                found[f"{kind.name}/{name}"] = _essence(kind, item)
        return found


def _essence(kind: Kind, item: Json) -> Json:
    notes, status = item["metadata"].get("annotations", {}), item.get("status", {})
    if kind == POD:
        bound = {name: notes.get(name, "") for name in (VGPU_IDS, BIND_PHASE)}
        return {"node": item["spec"].get("nodeName", ""), "phase": status.get("phase"), **bound}
    if kind == VOLCANO_JOB:
        return {"phase": status.get("state", {}).get("phase"), "pending": status.get("pending", 0)}
    if kind == POD_GROUP:
        return {"phase": status.get("phase"), "running": status.get("running", 0)}
    return {"allocated": {k: v for k, v in status.get("allocated", {}).items() if v not in ("0", 0)}}


async def until(holds: Callable[[], Any], patience_s: float) -> bool:
    """Look until a condition holds; False if patience ended before. An API server that is away is asked again."""
    deadline = time.monotonic() + patience_s
    while True:
        try:
            answer = holds()
            if await answer if asyncio.iscoroutine(answer) else answer:
                return True
        except (ApiUnknown, ApiError) as error:
            if isinstance(error, ApiError) and error.status not in (429, 404, 409):
                raise
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(_LOOK_EVERY_S)


async def insisting(call: Callable[[], Awaitable[Any]]) -> None:
    """Do a request until it has a final answer that is a yes; a webhook or a CRD may need a moment after a start."""

    async def tried() -> bool:
        await call()
        return True

    assert await until(tried, PATIENCE_S), f"the API server takes it within {PATIENCE_S:.0f} s"
