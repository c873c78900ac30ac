"""When the faults stop: within so much simulated time everything that fits is bound and nothing is left half done.

What "fits" means is asked of a scheduler that begins from nothing: it lists the cluster as it is and decides on an
empty log. If it would still bind or evict something, the living one has forgotten or is holding on to something.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from adapters.log import audit
from adapters.log.follower import Follower
from adapters.log.memory import MemoryLog
from events.kinds import OBSERVED_KINDS
from events.records import Batch
from scheduling.decide import decide
from scheduling.state.fold import Fold
from services.cluster.direct import DirectApi
from services.simulator.chaos import agreeing
from services.simulator.chaos.driving import at_once
from services.simulator.chaos.judge import Judge
from services.simulator.chaos.world import CLUSTER, ROLES, World
from services.watcher.watcher import Watcher

#: How the 300 seconds are spent: after each pause everybody works until all is quiet. A node lock lasts as long.
PAUSES_S: Final = (0, 1, 1, 3, 5, 10, 20, 30, 45, 60, 60, 59, 1, 5)
LOCK_PAUSES_S: Final = (*PAUSES_S, 10, 5)
#: A lock with a time in the future is held (devices/A-20): one that was taken by a fast clock lasts that much longer.
AHEAD_PAUSE_S: Final = 3_600
#: Then a text that was written a moment ago, and is another by now, may be written again (scheduling/POD-2).
TEXT_PAUSE_S: Final = 11
ROUNDS_MAX: Final = 400
_FRESH_DECISIONS: Final = 4


def heal(world: World) -> None:
    """Faults stop: what was under way arrives, clocks are right, every service lives, nobody is held."""
    world.network.heal()
    for process in world.processes:
        process.clock.offset_ms, process.clock.frozen_ms = 0, None
    for role in ROLES:
        if not world.of(role):
            world.start(role)


def settle(world: World, judge: Judge) -> str:
    """Let the time pass; return what did not come to rest, empty if all is quiet at the end."""
    for pause in _pauses(world):
        world.clock.time_ms += pause * 1000
        busy = _quiet(world, judge)
        if busy:
            return f"8: not at rest after {ROUNDS_MAX} rounds: {busy} went round"
        if judge.breaches or world.crashes:
            return ""
    return ""


def _pauses(world: World) -> tuple[int, ...]:
    if not world.plan.setting.lock:
        return (*PAUSES_S, TEXT_PAUSE_S)
    ahead = (AHEAD_PAUSE_S, 1, 5) if world.network.fired["clock: an hour ahead"] else ()
    return (*LOCK_PAUSES_S, *ahead, TEXT_PAUSE_S)


def _quiet(world: World, judge: Judge) -> str:
    idle = 0
    for _ in range(ROUNDS_MAX):
        before = _trace(world)
        busy = [process.name for process in list(world.processes) if world.run(process)]
        judge.look()
        if not busy or judge.breaches:
            return ""
        # A reader that says "more" without any trace of it, several times, waits for the clock.
        idle = idle + 1 if _trace(world) == before else 0
        if idle >= 3:
            return ""
    return ", ".join(busy)


def _trace(world: World) -> tuple[int, int]:
    return world.store.version, at_once(world.log.bounds())[1]


def liveness(world: World, judge: Judge) -> Iterator[str]:
    """Yield what is not as it should be at rest."""
    world.inspect()
    model = world.inspector.state.model
    for name in ("scheduler", "watcher", "binder"):
        if not any(getattr(process.instance, "leading", True) for process in world.of(name)):
            yield f"8: no {name} leads"
    for command in model.commands.values():
        effect = command.bind or command.evict
        yield f"8: command {command.id} for {effect.name if effect else ''} has no outcome"
    yield from judge.torn_gangs()
    yield from agreeing.left_undone(world)
    yield from agreeing.told_otherwise(world)
    if not model.commands:
        fresh = listed_anew(world)
        yield from agreeing.known_otherwise(world.inspector.state, fresh.state)
        yield from agreeing.shown_otherwise(world)
        yield from _left_waiting(world, fresh)


def listed_anew(world: World) -> Follower[Fold]:
    """Return what a watcher that begins from nothing tells of the cluster as it is, folded."""
    log = MemoryLog()
    watcher = Watcher(
        DirectApi(world.api, "fresh"), log, world.clock, CLUSTER, "fresh", incarnation=lambda: "fresh",
        kinds=OBSERVED_KINDS,
    )  # fmt: skip
    while at_once(watcher.step()):
        pass
    follower = Follower(log, Fold())
    at_once(follower.catch_up())
    at_once(watcher.close())
    return follower


def _left_waiting(world: World, follower: Follower[Fold]) -> Iterator[str]:
    state = follower.state
    state.model.terms = dict(world.inspector.state.model.terms)
    now = max(world.clock.time_ms, world.inspector.state.model.time_ms)
    state.model.time_ms = now
    for number in range(_FRESH_DECISIONS):
        batch = decide(state, now, follower.chain, number)
        if batch is None:
            return
        found = list(_effects(batch))
        if found:
            yield f"8: a scheduler that begins from nothing would {', '.join(found)}"
            return
        state._decisions.new_term()
        for change in batch.groups:
            state.model.groups[change.group].book = change.book
            state.model.changes.group(change.group)
        for pods in batch.pods:
            for uid in pods.uids:
                state.model.pods[uid].book = pods.book
                state.model.changes.group(state.model.pods[uid].pod.group_key)


def _effects(batch: Batch) -> Iterator[str]:
    for command in batch.binds:
        for member in command.members:
            yield f"bind {member.namespace}/{member.name} to {member.node}"
    for evict in batch.evictions:
        yield f"evict {evict.namespace}/{evict.name} for {evict.for_group} ({evict.reason})"


def folded_again(world: World, tampered: list[int]) -> Iterator[str]:
    """Yield how the log folded afresh differs from the living states, and what an audit finds."""
    world.inspect()
    wanted = world.inspector.state.digest()
    for name, follower in world.live_folds():
        if follower.position == world.inspector.position and follower.state.digest() != wanted:
            yield f"6: the state of {name} is not what the log folds to"
    report = at_once(audit.verify(world.log))
    if report.state != wanted or report.chain != world.inspector.chain:
        yield "6: the log folded afresh gives another state"
    for finding in report.findings:
        if finding.position not in tampered:
            yield f"6: audit: position {finding.position} {finding.record}: {finding.problem}"
    if missed := sorted(set(tampered) - {finding.position for finding in report.findings}):
        yield f"6: audit: the forged batches at {missed} were not found"
