"""Folding the log once more: does it give the live state, and would every decision be the same again?

A fresh instance reads the whole log with nothing to send to. At every place that a batch is based on it decides again,
with the time that the batch names, and the batches must be equal byte for byte.
"""

from __future__ import annotations

from adapters.log.follower import Follower
from adapters.log.memory import MemoryLog
from events import canonical
from events.records import Batch, Record, dump
from scheduling.decide import decide
from scheduling.state.fold import Fold
from services.scheduler.scheduler import Scheduler
from services.simulator.facts import ReplayOutcome
from services.simulator.system import System


async def _fresh(log: MemoryLog) -> Follower[Fold]:
    first, _ = await log.bounds()
    return Follower(log, Fold(), position=first)


async def refold(system: System) -> str:
    """Fold the log afresh and compare with the live states; return what differs, empty if nothing does."""
    fresh = await _fresh(system.log)
    await fresh.catch_up()
    if not fresh.state.anchored:
        return ""
    for name, position, digest in _live(system):
        if position == fresh.position and digest != fresh.state.digest():
            return f"the {name}'s state is not what its log folds to"
    return ""


def _live(system: System) -> list[tuple[str, int, str]]:
    """Return who holds a live state: the name, the place up to which it was folded, and its digest."""
    found = [("inspector", system.inspector.position, system.inspector.state.digest())]
    scheduler = system.roles["scheduler"].instance
    if isinstance(scheduler, Scheduler):
        found.append(("scheduler", scheduler.follower.position, scheduler.follower.state.digest()))
    return found


async def replay(system: System, time_ms: int) -> ReplayOutcome:
    """Read the whole log into a fresh instance whose clock shows a time, and decide every batch again."""
    fresh = await _fresh(system.log)
    waiting = await _batches(system.log, fresh.position)
    equal = True
    while True:
        for batch in waiting.pop(fresh.state.sequence, []):
            again = decide(fresh.state, batch.time_ms, fresh.chain, batch.batch, batch.stuck)
            equal &= again is not None and canonical.encode(dump(again)) == canonical.encode(dump(batch))
        if not await fresh.advance(1):
            break
    same = fresh.state.digest() == system.inspector.state.digest()
    return ReplayOutcome(equal and not any(waiting.values()), same, 0)


async def _batches(log: MemoryLog, position: int) -> dict[int, list[Batch]]:
    """Return the batches that count, by the place that they are based on."""
    judge: Follower[_Judge] = Follower(log, _Judge(), position=position)
    await judge.catch_up()
    return judge.state.batches


class _Judge(Fold):
    """A fold that keeps the batches which had effect."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: dict[int, list[Batch]] = {}

    def apply(self, position: int, record: Record, chain_before: str) -> str:
        verdict = super().apply(position, record, chain_before)
        if isinstance(record.body, Batch) and verdict.startswith("applied"):
            self.batches.setdefault(record.body.base, []).append(record.body)
        return verdict
