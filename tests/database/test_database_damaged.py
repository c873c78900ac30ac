"""A damaged database of read models makes room for a new one: losing it loses nothing (design section 3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from adapters.database.engine import migrate, open_database, set_aside_if_damaged


def database(path: Path) -> bytearray:
    engine = open_database(path)
    migrate(engine)
    engine.dispose()
    return bytearray(path.read_bytes())


def test_a_sound_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "read.db"
    before = database(path)
    assert set_aside_if_damaged(path) is None
    assert path.read_bytes() == before
    assert set_aside_if_damaged(tmp_path / "none.db") is None


@pytest.mark.parametrize("how", ["text", "zeros", "middle", "short"])
def test_a_damaged_one_is_kept_beside_and_made_anew(tmp_path: Path, how: str) -> None:
    path = tmp_path / "read.db"
    content = database(path)
    half = len(content) // 2
    damaged = {
        "text": b"no database at all\n" * 500,
        "zeros": bytes(len(content)),
        "middle": bytes(content[:half]) + bytes(byte ^ 0x55 for byte in content[half:]),
        "short": bytes(content[:half]),
    }[how]
    path.write_bytes(damaged)
    aside = set_aside_if_damaged(path)
    assert aside is not None
    assert aside.read_bytes() == damaged
    database(path)
    assert set_aside_if_damaged(path) is None
