"""Every planted fault is caught by the simulation, within 600 seeds.

``caught.json`` names a seed that is known to catch each: it is tried first. Another seed takes its place if it does not
any more (``python tests/simulation/mutants/search.py`` finds one).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from simulation.mutants.planted import MUTANTS
from simulation.mutants.search import caught_by

KNOWN: dict[str, int] = json.loads((Path(__file__).parent / "caught.json").read_text())


@pytest.mark.parametrize("name", MUTANTS)
def test_a_planted_fault_is_caught(name: str) -> None:
    seed, failures = caught_by(name, first=KNOWN.get(name))
    assert failures, f"{name}: not caught within 600 seeds"
    assert seed <= 600
