"""Design section 3, snapshots: kept whole, newest first, and only in a format that the reader knows."""

from __future__ import annotations

import pytest
from sqlalchemy import Engine

from adapters.database.engine import DatabaseError, migrate, open_database
from adapters.database.snapshots import Saved, Snapshots


@pytest.fixture
def engine() -> Engine:
    database = open_database("sqlite://")
    migrate(database)
    return database


def saved(position: int, format_name: str = "1", content: bytes = b"\0\xff") -> Saved:
    return Saved(position, "i1", position - 1, "chain", "state", format_name, content)


def test_the_newest_at_or_before_a_place_comes_back(engine: Engine) -> None:
    snapshots = Snapshots(engine, "prod")
    for position in (10, 30, 20):
        snapshots.save(saved(position))
    assert snapshots.newest("1") == saved(30)
    assert snapshots.newest("1", up_to=29) == saved(20)
    assert snapshots.newest("1", up_to=9) is None
    assert snapshots.newest("2") is None
    assert Snapshots(engine, "lab").newest("1") is None


def test_only_the_newest_few_are_kept(engine: Engine) -> None:
    snapshots = Snapshots(engine, "prod")
    Snapshots(engine, "lab").save(saved(1))
    for position in range(10):
        snapshots.save(saved(position), keep=2)
    assert snapshots.newest("1", up_to=8) == saved(8)
    assert snapshots.newest("1", up_to=7) is None
    assert Snapshots(engine, "lab").newest("1") == saved(1)


def test_the_same_place_is_saved_anew(engine: Engine) -> None:
    snapshots = Snapshots(engine, "prod")
    snapshots.save(saved(5))
    snapshots.save(saved(5, content=b"new"))
    assert snapshots.newest("1") == saved(5, content=b"new")


def test_a_database_that_refuses_is_an_error_of_ours(engine: Engine) -> None:
    migrate(engine, "base")
    with pytest.raises(DatabaseError) as refused:
        Snapshots(engine, "prod").save(saved(1))
    assert str(refused.value) == "snapshot of prod at 1: no such table: snapshots", "neither statement nor content"
    with pytest.raises(DatabaseError) as refused:
        Snapshots(engine, "prod").newest("1")
    assert str(refused.value) == "snapshots of prod: no such table: snapshots"
