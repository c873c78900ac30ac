"""What a seed means: a setting and a list of steps, all drawn beforehand, so that a step can be left out.

A step is a verb and a number. Whatever a step chooses when it is played it draws from its own number and from the world
as it then is, so the remaining steps of a shortened list still mean what they meant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any, Final

import yaml

#: What the steps of every plan are made of, and how often (each seed varies this).
RUNS: Final = {
    "run watcher": 13, "run scheduler": 15, "run binder": 13, "run status": 6, "run controller": 7, "run agents": 6,
    "run all": 26, "advance": 10, "start": 12, "backup": 4,
}  # fmt: skip
WORK: Final = {
    "pod": 7, "gang": 4, "job": 1, "delete pod": 3, "finish pod": 6, "pod again": 2, "touch pod": 1,
    "delete gang": 1, "touch gang": 1, "cordon": 1, "node gone": 0.5, "node back": 3, "card lost": 1, "card back": 4,
    "other card form": 1, "touch node": 1, "touch queue": 1,
}  # fmt: skip
FAULTS: Final = {
    "kill": 5, "kill at": 8, "hold at": 8, "second": 2, "append fault": 6, "read fault": 2,
    "api fault": 6, "bind fault": 4, "watch fault": 6, "stale list": 1, "cut": 2, "clock": 2, "poison": 1,
    "snapshot": 3, "restore": 0.5,
}  # fmt: skip
MEMORIES: Final = (1, 3, 7, 11)


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what, and the number from which it draws everything else."""

    verb: str
    number: int


@dataclass(frozen=True)
class Setting:
    """What stays the same through a run: the shape of the cluster and the configuration.

    ``lanes`` are the requests that a binder, status writer or controller has under way at once.
    """

    nodes: int
    cards: int
    unit: int
    policy: str
    exclusive: bool
    mig: bool
    legacy: bool
    eviction: bool
    lock: bool
    queues: bool
    jobs: bool
    database: bool
    idle_ms: int
    lanes: int = 1


@dataclass(frozen=True)
class Plan:
    """A whole run. ``mutant`` is the planted fault it runs with, empty in earnest."""

    seed: int
    setting: Setting
    steps: tuple[Step, ...]

    def only(self, steps: Sequence[Step]) -> Plan:
        return replace(self, steps=tuple(steps))


def draw(seed: int, length: int) -> Plan:
    """Return the plan of a seed."""
    rng = Random(seed)
    setting = replace(_setting(rng), lanes=Random(f"lanes {seed}").choice((1, 4)))
    weights: dict[str, float] = dict(RUNS)
    for family, least, most in ((WORK, 0.5, 1.2), (FAULTS, 0.05, 0.6)):
        scale = rng.uniform(least, most)
        for verb, weight in family.items():
            # Each seed has its own mix: some faults are rare in it, some frequent, some absent.
            weights[verb] = weight * scale * rng.choice((0, 0.4, 1, 1, 2.5)) if verb != "pod" else weight * scale
    if not setting.jobs:
        weights["job"] = 0
    verbs = rng.choices(list(weights), list(weights.values()), k=length)
    return Plan(seed, setting, tuple(Step(verb, rng.getrandbits(32)) for verb in verbs))


def _setting(rng: Random) -> Setting:
    legacy = rng.random() < 0.06
    return Setting(
        nodes=rng.choice((1, 2, 3, 3, 4)),
        cards=rng.choice((1, 2, 3, 4)),
        unit=rng.choice((1, 997, 1000, 1024)),
        policy=rng.choice(("binpack", "binpack", "spread", "")),
        exclusive=not legacy and rng.random() < 0.5,
        mig=not legacy and rng.random() < 0.35,
        legacy=legacy,
        eviction=rng.random() < 0.3,
        lock=rng.random() < 0.25,
        queues=rng.random() < 0.5,
        jobs=rng.random() < 0.2,
        database=rng.random() < 0.15,
        idle_ms=rng.choice((0, 1000)),
    )


def dump(plan: Plan, why: str) -> str:
    """Return a plan as the text of a file, with what it shows."""
    body: dict[str, Any] = {"shows": why, "seed": plan.seed, "setting": asdict(plan.setting)}
    body["steps"] = [f"{step.number} {step.verb}" for step in plan.steps]
    return yaml.safe_dump(body, sort_keys=False, width=120)


def load(text: str) -> Plan:
    """Return the plan in a file. Raises ValueError, KeyError or TypeError if it is none."""
    body = yaml.safe_load(text)
    steps = [line.partition(" ") for line in body["steps"]]
    return Plan(body["seed"], Setting(**body["setting"]), tuple(Step(verb, int(number)) for number, _, verb in steps))
