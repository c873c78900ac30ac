"""The same input gives the same bytes, on any machine, at any time (scenario format, *Output*)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
FILES = [
    ROOT / "tests/scenarios/field/F106-replay-gives-the-same-decisions.yaml",
    ROOT / "tests/scenarios/oracle/102-gang-fits.yaml",
]


def play(hash_seed: str, *options: str) -> bytes:
    """Return what a process of its own prints of the files."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed}
    command = [sys.executable, "-m", "services.cli.simulate", *map(str, FILES), *options]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=False).stdout


@pytest.fixture(scope="module")
def reference() -> bytes:
    return play("0", "-o", "json")


@pytest.mark.parametrize("hash_seed", ["0", "1", "2"])
def test_equal_bytes_whatever_the_hash_seed(reference: bytes, hash_seed: str) -> None:
    assert reference
    assert play(hash_seed, "-o", "json") == reference


def test_a_seed_is_itself_reproducible() -> None:
    assert play("1", "-o", "yaml", "--seed", "7") == play("2", "-o", "yaml", "--seed", "7")
