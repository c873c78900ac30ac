"""A leader that stands still with something under way, and wakes after its successor took over and did its work.

A gate holds what is under way: the scheduler's batch on its way to the log, the binder's Binding on its way to the API
server. Both arrive when the one that sent them is awake again and does not lead any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from parts.gate import Gate
from parts.kafka_gate import KafkaGate
from system.killing import Tail
from system.points import Stopped, binding, binds, bound
from system.stack import Stack

from events.records import Batch, Outcome, Record, Role
from scheduling.state.fold import APPLIED

PATIENCE_S: Final = 300.0
#: Workloads come and go this often, at most, until there is something under way.
_TRIES: Final = 60
_TRY_S: Final = 0.5


class _Held(Protocol):
    @property
    def reached(self) -> bool: ...
    def release(self) -> None: ...


class Pauses:
    """``come_and_go`` brings work about. ``told`` says of each pause what came of it."""

    def __init__(
        self,
        stack: Stack,
        tail: Tail,
        bindings: Gate,
        appends: KafkaGate,
        come_and_go: Callable[[], Awaitable[None]],
    ) -> None:
        self._stack, self._tail, self._bindings, self._appends = stack, tail, bindings, appends
        self._come_and_go = come_and_go
        self.told: dict[Role, str] = {}
        self._woken: list[tuple[Role, int]] = []

    def late(self) -> dict[str, int]:
        """Return how many records of each role came from a term that was over when its writer woke: all are void."""
        return {role: len(self._late(role, term)) for role, term in self._woken}

    async def scheduler(self) -> None:
        """Its batch comes behind a batch of its successor's, and is void."""
        append = self._appends.hold(binds)
        name, term = await self._stands_still("scheduler", append, lambda: binds)
        assert await self._tail.until(lambda: any(map(binds, self._late("scheduler", term))), PATIENCE_S)
        self._stands_back("scheduler", name)
        late = self._late("scheduler", term)
        count = sum(len(record.body.binds) for record in late if isinstance(record.body, Batch))
        self.told["scheduler"] = f"{count} binds of its last batch were void"

    async def binder(self) -> None:
        """Its Binding comes after its successor has made and reported it, and is refused."""
        hold = self._bindings.hold(binding)

        def reported() -> Callable[[Record], bool]:
            pod = hold.path.split("/")[-2]
            return lambda record: (
                bound(record)
                and isinstance(record.body, Outcome)
                and (record.body.name, record.body.result) == (pod, "applied")
            )

        name, _ = await self._stands_still("binder", hold, reported)
        assert await self._tail.until(lambda: bool(hold.status), PATIENCE_S)
        assert hold.status == 409, f"a Binding that was made already was answered {hold.status}"
        self._stands_back("binder", name)
        self.told["binder"] = f"its Binding was answered {hold.status}"

    async def _stands_still(
        self, role: Role, held: _Held, did: Callable[[], Callable[[Record], bool]]
    ) -> tuple[str, int]:
        """Stop the leader once something of its is held, wake it when another did that; return its name and term."""
        try:
            name = await self._under_way(role, held)
            term = self._tail.fold.model.terms[role].number
            with Stopped(self._stack.pids()[name]):
                wanted = did()
                assert await self._tail.until(lambda: self._done(role, term, wanted), PATIENCE_S), (
                    f"nobody did the work of the {role} that stood still"
                )
                assert self._tail.leader(self._stack, role) not in (name, "")
        finally:
            held.release()
        self._woken.append((role, term))
        return name, term

    async def _under_way(self, role: Role, held: _Held) -> str:
        """Bring about that something of the leader's is held; return its name."""
        for _ in range(_TRIES):
            await self._come_and_go()
            if await self._tail.until(lambda: held.reached, _TRY_S):
                break
        assert held.reached, f"the {role} has nothing to do"
        name = self._tail.leader(self._stack, role)
        assert name, f"nobody leads as {role}"
        return name

    def _done(self, role: Role, term: int, wanted: Callable[[Record], bool]) -> bool:
        """Tell whether a later term has appended what is wanted, and it counts."""
        return any(
            record.role == role and record.term > term and verdict.startswith(APPLIED) and wanted(record)
            for record, verdict in self._tail.fold.seen
        )

    def _stands_back(self, role: Role, name: str) -> None:
        """Whoever woke lives, and another one leads."""
        assert name not in self._stack.ended()
        assert self._tail.leader(self._stack, role) not in (name, "")

    def _late(self, role: Role, term: int) -> list[Record]:
        """Return what a superseded term has appended after the next one was opened: nothing of it counts."""
        found: list[Record] = []
        superseded = False
        for record, verdict in self._tail.fold.seen:
            if record.role != role:
                continue
            if record.term > term:
                superseded = superseded or verdict.startswith(APPLIED)
            elif superseded and record.term == term:
                assert verdict.startswith("void"), f"{record.id}: {verdict}"
                found.append(record)
        return found
