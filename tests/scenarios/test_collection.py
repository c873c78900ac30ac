"""Every scenario file of the collections is played; those that held once (``holding.txt``) must go on holding."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from services.simulator.report import failures_of, files_below, read_list

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HOLDING = HERE / "holding.txt"
FOLDERS = [HERE / "field", HERE / "oracle", HERE / "own"]
#: Where the originals of the copies are kept, and which of our folders is the copy of which of theirs.
SOURCE = os.environ.get("GPULEDGER_SPEC_SOURCE", "")
COPIES = {
    "field": HERE / "field",
    "oracle": HERE / "oracle",
    "labs": HERE / "labs",
    "spec": ROOT / "docs" / "spec",
    "scenario-format.md": ROOT / "docs" / "spec" / "scenario-format.md",
}


@pytest.mark.parametrize("name", read_list(HOLDING))
def test_a_file_that_held_goes_on_holding(name: str) -> None:
    assert failures_of(HERE / name) == []


def test_the_list_names_files_of_the_collections() -> None:
    names = {path.relative_to(HERE).as_posix() for path in files_below(FOLDERS)}
    assert set(read_list(HOLDING)) <= names


def test_every_file_of_the_collections_holds() -> None:
    """Only what is not listed yet is played here; the rest is played above."""
    listed = set(read_list(HOLDING))
    rest = [path for path in files_below(FOLDERS) if path.relative_to(HERE).as_posix() not in listed]
    holding = [path for path in rest if not failures_of(path)]
    failing = [path.name for path in rest if path not in holding]
    assert not failing, f"{len(listed) + len(holding)} of {len(listed) + len(rest)} hold; not yet: {failing}"


@pytest.mark.skipif(not SOURCE, reason="GPULEDGER_SPEC_SOURCE does not name the originals")
@pytest.mark.parametrize("folder", COPIES)
def test_copies_are_up_to_date(folder: str) -> None:
    original, copy = Path(SOURCE) / folder, COPIES[folder]
    if original.is_file():
        assert not _differs(original, copy), f"the copy of {folder} lags behind"
        return
    theirs = {path.relative_to(original) for path in original.rglob("*") if path.suffix == ".yaml" or folder == "spec"}
    lagging = [str(name) for name in sorted(theirs) if _differs(original / name, copy / name)]
    assert not lagging, f"the copies of these lag behind: {lagging}"


def _differs(original: Path, copy: Path) -> bool:
    return not copy.exists() or copy.read_bytes() != original.read_bytes()
