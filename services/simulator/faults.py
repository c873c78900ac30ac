"""What goes wrong in a simulation, and where: refused bindings, crashes at named points, messages given twice.

A fault is armed by a step and fires when a service comes to its point: the binder's way to the API server, or a
service's way to the log. ``Crashed`` is no ordinary exception, so that no service takes it for an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from adapters.cluster.port import ApiError, ApiUnknown, Page
from adapters.log.port import Log
from events import names
from events.canonical import Json
from events.codec import Message, from_message
from events.kinds import NODE, POD, Kind
from events.records import Batch, Outcome, Record
from services.cluster.api import EmbeddedApi
from services.cluster.direct import DirectApi
from services.cluster.store import Store
from services.simulator import truth

#: What only a Binding may write (devices/A-6, A-9a).
CLAIM_KEYS = (
    names.VGPU_NODE, names.VGPU_TIME, names.VGPU_IDS, names.DEVICES_TO_ALLOCATE, names.BIND_PHASE, names.BIND_TIME,
    names.DECISION,
)  # fmt: skip


class Crashed(BaseException):
    """A service was killed at an armed point."""


@dataclass
class BindFault:
    """The next ``times`` binding calls for a pod end like this."""

    result: str
    times: int
    cordon: bool


@dataclass
class Faults:
    """What is armed, and how often something fired (``fired`` counts, so that a retry is seen as progress)."""

    bindings: dict[str, list[BindFault]] = field(default_factory=dict)
    crashes: list[tuple[str, str]] = field(default_factory=list)
    fired: int = 0

    def crash_at(self, who: str, point: str) -> None:
        """Crash if this service is to be killed at this point."""
        if (who, point) in self.crashes:
            self.crashes.remove((who, point))
            self.fired += 1
            raise Crashed(f"{who} at {point}")

    def binding(self, pod: str) -> BindFault | None:
        """Return how the next binding call for a pod is to end, None if it goes through."""
        waiting = self.bindings.get(pod)
        if not waiting:
            return None
        fault = waiting[0]
        fault.times -= 1
        if fault.times <= 0:
            waiting.pop(0)
        self.fired += 1
        return fault


class WatcherApi(DirectApi):
    """The watcher's way to the API server: lists of the kinds in ``held`` get no answer for now."""

    def __init__(self, api: EmbeddedApi) -> None:
        super().__init__(api, "watcher")
        self.held: set[Kind] = set()

    async def list(
        self, kind: Kind, *, namespace: str = "", limit: int = 500, token: str = "", selector: str = "",
        fields: str = "",
    ) -> Page:  # fmt: skip
        if kind in self.held:
            raise ApiUnknown(f"no answer to the list of {kind.plural}")
        return await super().list(kind, namespace=namespace, limit=limit, token=token, selector=selector, fields=fields)


class BinderApi(DirectApi):
    """The binder's way to the API server: faults on it, and notes of what invariants need to know later."""

    def __init__(self, api: EmbeddedApi, store: Store, faults: Faults) -> None:
        super().__init__(api, "binder")
        self._store, self._faults = store, faults
        self.cards_at_binding: dict[str, frozenset[str]] = {}
        self.claims_written: list[str] = []
        self.bound: list[Json] = []

    async def bind(self, namespace: str, name: str, binding: dict[str, Any]) -> None:
        self._faults.crash_at("binder", "before-bind")
        node = binding["target"]["name"]
        fault = self._faults.binding(f"{namespace}/{name}")
        if fault is not None:
            if fault.cordon:
                self._cordon(node)
            raise _error(fault.result, name)
        cards = frozenset(truth.card_specs(self._store.get(NODE, "", node)))
        await super().bind(namespace, name, binding)
        self.cards_at_binding.setdefault(binding["metadata"].get("uid", ""), cards)
        self.bound.append(binding)
        self._faults.crash_at("binder", "after-bind")

    def _cordon(self, name: str) -> None:
        node = self._store.get(NODE, "", name)
        if node is not None:
            self._store.write(NODE, {**node, "spec": {**(node.get("spec") or {}), "unschedulable": True}})

    async def patch(self, kind: Kind, namespace: str, name: str, merge: Json, subresource: str = "") -> Json:
        if kind == POD:
            keys = [key for key, value in ((merge.get("metadata") or {}).get("annotations") or {}).items() if value]
            pod = self._store.get(POD, namespace, name)
            for key in sorted(set(keys) & set(CLAIM_KEYS)):
                if not truth.node_of(pod):
                    self.claims_written.append(f"pod {namespace}/{name} waits and was given {key}")
        return await super().patch(kind, namespace, name, merge, subresource)


def _error(result: str, name: str) -> Exception:
    if result == "conflict":
        why = f'Operation cannot be fulfilled on pods/binding "{name}": the object has been modified'
        return ApiError(409, "Conflict", why)
    if result == "notfound":
        return ApiError(404, "NotFound", f'pods "{name}" not found')
    if result == "timeout":
        return ApiUnknown(f"no answer to the binding of pod {name}")
    return ApiError(500, "InternalError", f"Internal error occurred: the binding of pod {name} failed")


class ServiceLog:
    """One service's way to the log: crash points on appends, and the last messages given once more on request."""

    def __init__(self, log: Log, who: str, faults: Faults) -> None:
        self._log, self._who, self._faults = log, who, faults
        self._again: list[tuple[int, Message]] = []
        self.on_batch: Callable[[], None] = lambda: None

    async def append(self, messages: Sequence[Message]) -> int:
        bodies = [found.body for message in messages if isinstance(found := from_message(message), Record)]
        commands = any(isinstance(body, Batch) and (body.binds or body.evictions) for body in bodies)
        if commands:
            self._faults.crash_at(self._who, "before-command")
        position = await self._log.append(messages)
        if any(isinstance(body, Batch) for body in bodies):
            self.on_batch()
        if commands:
            self._faults.crash_at(self._who, "after-command")
        if any(isinstance(body, Outcome) for body in bodies):
            self._faults.crash_at(self._who, "after-outcome")
        return position

    async def give_again(self, count: int) -> None:
        """Let the next read begin with the last messages of the log, as after a rebalance."""
        first, end = await self._log.bounds()
        start = max(first, end - count)
        self._again = await self._log.read(start, end - start)

    async def read(self, position: int, limit: int = 1000) -> list[tuple[int, Message]]:
        again, self._again = self._again, []
        return [*again, *await self._log.read(position, limit)]

    async def bounds(self) -> tuple[int, int]:
        return await self._log.bounds()

    async def wait(self, position: int, timeout_s: float) -> bool:
        return await self._log.wait(position, timeout_s)

    async def close(self) -> None:
        """The log belongs to the simulation, not to one service."""
