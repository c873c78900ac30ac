"""Playing one plan: step by step, judged after each, then healed, then asked whether everything came to its end."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from hashlib import sha256
from random import Random
from typing import Final

from services.simulator.chaos import healing
from services.simulator.chaos.driving import at_once
from services.simulator.chaos.judge import Judge
from services.simulator.chaos.mishaps import Mishaps
from services.simulator.chaos.plan import Plan, Step
from services.simulator.chaos.world import World

#: After so many steps the living states are compared with the log.
_COMPARED_EVERY: Final = 50
_ADVANCES_MS: Final = (50, 100, 300, 300, 1000, 1000, 3000, 3000, 10_000, 60_000)


@dataclass
class Result:
    """What came of one plan. ``failures`` is empty if everything held; ``at`` is the step after which it did not."""

    seed: int
    failures: list[str] = field(default_factory=list)
    at: int = -1
    steps: int = 0
    cpu_s: float = 0.0
    faults: Counter[str] = field(default_factory=Counter)
    work: Counter[str] = field(default_factory=Counter)
    records: int = 0
    bound: int = 0
    digest: str = ""


def play(plan: Plan) -> Result:
    """Play a plan to its end or to its first failure."""
    return Player(plan).run()


class Player:
    """One run of one plan."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.world = World(plan)
        self.judge = Judge(self.world)
        self.mishaps = Mishaps(self.world)
        self.result = Result(plan.seed)

    def run(self) -> Result:
        result, world = self.result, self.world
        for number, step in enumerate(self.plan.steps):
            world.network.step = number
            self._step(step)
            result.steps += 1
            if self._failed(number):
                return self._finished()
        healing.heal(world)
        said = healing.settle(world, self.judge)
        if said:
            result.failures.append(said)
        if not self._failed(len(self.plan.steps)) and not result.failures:
            result.failures += healing.liveness(world, self.judge)
            result.failures += healing.folded_again(world, self.mishaps.tampered)
            if world.projection is not None:
                result.failures += world.projection.wrong()
            result.at = len(self.plan.steps)
        return self._finished()

    def _step(self, step: Step) -> None:
        world, rng = self.world, Random(step.number)
        world.network.deliver()
        verb = step.verb
        if verb == "run all":
            for process in list(world.processes):
                if process in world.processes:
                    world.run(process)
        elif verb.startswith("run "):
            processes = world.of(verb[4:])
            if processes:
                world.run(rng.choice(processes))
        elif verb == "advance":
            world.clock.time_ms += rng.choice(_ADVANCES_MS)
        elif verb == "backup":
            world.back_up()
        elif world.workload.knows(verb):
            world.workload.play(verb, rng)
        elif self.mishaps.knows(verb):
            self.mishaps.play(verb, rng)
        else:
            raise ValueError(f"step {verb!r} is not known")

    def _failed(self, number: int) -> bool:
        self.judge.look()
        if number % _COMPARED_EVERY == 0:
            self._compare()
        self.result.failures += self.judge.breaches + self.world.crashes + self.world.inspector.state.wrong
        self.result.at = number
        return bool(self.result.failures)

    def _compare(self) -> None:
        self.world.inspect()
        wanted = self.world.inspector.state.digest()
        for name, follower in self.world.live_folds():
            if follower.position == self.world.inspector.position and follower.state.digest() != wanted:
                self.judge.breaches.append(f"6: the state of {name} is not what the log folds to")

    def _finished(self) -> Result:
        result, world = self.result, self.world
        result.faults = world.network.fired
        result.work = world.workload.played
        result.records = at_once(world.log.bounds())[1]
        result.bound = self.judge.bound
        world.inspect()
        if world.inspector.state.evicted:
            result.work["pod evicted"] = len(world.inspector.state.evicted)
        text = f"{world.inspector.chain} {world.store.version} {sorted(result.faults.items())} {result.failures}"
        result.digest = sha256(text.encode()).hexdigest()
        return result
