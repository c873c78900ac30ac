"""Plays files one after the other, each in its own cluster, and gathers what the command prints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from services.simulator.output import joined
from services.simulator.player import Player
from services.simulator.scenario import Play


@dataclass
class Result:
    """What a run prints and how it ends: standard output, lines for standard error, exit code."""

    output: str = ""
    problems: list[str] = field(default_factory=list)
    code: int = 0


async def play_all(plays: Sequence[Play], *, output: str, seed: int) -> Result:
    """Play all files in order; ``output`` is json, yaml or table."""
    result = Result()
    printed: list[str] = []
    for play in plays:
        outcome = await Player(play, seed).run(output)
        result.problems += outcome.lines
        printed.append(outcome.printed)
    result.output = joined(printed, output)
    result.code = 1 if result.problems else 0
    return result
