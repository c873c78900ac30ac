"""Looks for seeds that catch the planted faults: ``python tests/simulation/mutants/search.py [NAME...]``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

SEEDS_MAX: Final = 600
STEPS: Final = 1500
KNOWN: Final = Path(__file__).parent / "caught.json"

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from simulation.mutants.planted import ABOUT, MUTANTS, planted  # noqa: E402 (run as a script it has to find its neighbours)

from services.runtime import logging  # noqa: E402
from services.simulator.chaos.plan import draw  # noqa: E402
from services.simulator.chaos.playing import play  # noqa: E402


def caught_by(name: str, first: int | None = None, start: int = 1) -> tuple[int, list[str]]:
    """Return the first seed that fails with a planted fault only, and what it says; nothing if none does.

    ``first`` is tried first, then those with the most steps that matter for this fault (``ABOUT``).
    """
    for seed in (*([] if first is None else [first]), *_likely(name, start)):
        with planted(name):
            failures = play(draw(seed, STEPS)).failures
        if failures and not play(draw(seed, STEPS)).failures:
            return seed, failures
    return SEEDS_MAX + 1, []


def _likely(name: str, start: int) -> Iterator[int]:
    about, seeds = ABOUT.get(name, ()), range(start, SEEDS_MAX + 1)

    def steps(seed: int) -> int:
        return sum(step.verb in about for step in draw(seed, STEPS).steps)

    yield from sorted(seeds, key=lambda seed: -steps(seed)) if about else seeds


def main(names: list[str]) -> None:
    """Find a seed for each and keep it."""
    logging.configure("critical")
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    for name in names or MUTANTS:
        seed, failures = caught_by(name, known.get(name))
        sys.stdout.write(f"{name}: seed {seed}: {failures[:1]}\n")
        sys.stdout.flush()
        if failures:
            known[name] = seed
            KNOWN.write_text(json.dumps(known, indent=2, sort_keys=True) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
