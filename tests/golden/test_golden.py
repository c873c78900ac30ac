"""Recorded logs fold to their digests for ever, on any machine; published record types stay what they are."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from logs import read

from adapters.log.catalogue import files
from events import upcasting
from events.catalogue import HEADERS, schemas, shape
from events.codec import CODEC, from_message
from events.records import Record

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@pytest.mark.parametrize("hash_seed", ["0", "1", "2"])
def test_recorded_logs_fold_to_their_digests(hash_seed: str) -> None:
    """Design section 3: equal bytes give equal state; decided again, every batch is the same."""
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, str(HERE / "logs.py"), "fold"], env=environment, capture_output=True, check=True, cwd=ROOT
    )
    assert json.loads(done.stdout) == json.loads((HERE / "digests.json").read_text())


def test_the_catalogue_is_what_the_types_say() -> None:
    """``python -m adapters.log.catalogue docs/events`` writes it."""
    there = {path.name: path.read_text() for path in sorted((ROOT / "docs" / "events").glob("*.json"))}
    assert there == files()


@pytest.mark.parametrize("path", sorted((HERE / "released").glob("*.json")), ids=lambda path: path.name)
def test_a_published_type_is_never_changed(path: Path) -> None:
    """Readers of the last release accept exactly these fields: one more, or one less, is a new version of the type."""
    released = json.loads(path.read_text())
    name = path.name.removesuffix(".schema.json")
    now = schemas().get(name)
    if now is not None:
        assert shape(now) == shape(released)
    else:
        base, _, version = name.rpartition(".v")
        newest = CODEC.versions().get(base, 0)
        assert newest > int(version), "the type is gone"
        missing = [step for step in range(int(version), newest) if (base, step) not in upcasting.STEPS]
        assert not missing, "what is on the logs out there could not be read any more"


@pytest.mark.parametrize("path", sorted(HERE.glob("*.jsonl.gz")), ids=lambda path: path.name)
def test_recorded_logs_bear_the_headers_that_the_catalogue_says(path: Path) -> None:
    for _, message in asyncio.run(read(path).read(0, 1_000_000)):
        headers = {name: value.decode() for name, value in message.headers}
        if not isinstance(from_message(message), Record):
            continue
        assert set(HEADERS["required"]) <= headers.keys() <= HEADERS["properties"].keys()
        for name, value in headers.items():
            said = HEADERS["properties"][name]
            assert value == said.get("const", value)
            assert re.search(said.get("pattern", ""), value), name
