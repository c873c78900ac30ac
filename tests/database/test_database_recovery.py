"""Design section 3, snapshots: who starts takes the newest that the log leads to, and reads the whole log otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import Engine, delete, select
from support.log_story import Story

from adapters.database.engine import DatabaseError, migrate, open_database
from adapters.database.projector import Projector
from adapters.database.recovery import Recovery
from adapters.database.snapshots import Saved, Snapshots
from adapters.database.tables import PROJECTED, Progress, Snapshot
from adapters.log.follower import Follower
from adapters.log.memory import MemoryLog
from adapters.log.port import OutOfRange
from scheduling.decide import decide
from scheduling.state.fold import Fold
from scheduling.state.snapshot import FORMAT
from services.watcher.beginning import remembered
from services.watcher.memory import Memory


class CutLog(MemoryLog):
    """A log whose front may be cut."""

    first = 0
    reads = 0

    async def read(self, position: int, limit: int = 1000):  # type: ignore[no-untyped-def]
        if position < self.first:
            raise OutOfRange(f"position {position} is gone")
        found = await super().read(position, limit)
        self.reads += len(found)
        return found

    async def bounds(self) -> tuple[int, int]:
        return self.first, (await super().bounds())[1]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    database = open_database(tmp_path / "gpuledger.db")
    migrate(database)
    yield database
    database.dispose()


async def told(turns: int = 12) -> Story:
    """Gangs that come one after another, are placed, and partly settled."""
    story = Story(CutLog())
    await story.begin()
    for name in ("n1", "n2"):
        await story.node(name)
    for turn in range(turns):
        await story.group(f"g{turn}", 2)
        for index in range(2):
            await story.pod(f"p{turn}-{index}", f"g{turn}", rule=turn % 3 == 0, memory=500)
        while (batch := await story.decide()) is not None:
            for number, member in enumerate(member for bind in batch.binds for member in bind.members):
                if (turn + number) % 3:
                    await story.outcome(story.command(member.n), member.name)
    return story


async def kept(engine: Engine, story: Story, every: int = 20) -> Projector:
    """Let a projector follow to the end and keep snapshots on its way."""
    projector = Projector(story.log, engine, "prod", snapshot_every=every)
    while await projector.step():
        pass
    return projector


def stored(engine: Engine) -> list[Saved]:
    found, snapshots, up_to = [], Snapshots(engine, "prod"), 10**9
    while (one := snapshots.newest(FORMAT, up_to)) is not None:
        found.append(one)
        up_to = one.position - 1
    return found


async def same(follower: Follower[Fold], story: Story) -> None:
    await follower.catch_up()
    assert (follower.position, follower.chain) == (story.follower.position, story.follower.chain)
    assert follower.state.mark() == story.fold.mark()
    for ahead in (0, 60_000):
        arguments = (story.clock.time_ms + ahead, follower.chain, story.batches)
        assert decide(follower.state, *arguments) == decide(story.fold, *arguments)


async def test_a_start_reads_only_what_comes_after_the_newest_snapshot(engine: Engine) -> None:
    story = await told()
    assert (await kept(engine, story)).snapshots >= 3
    story.log.reads = 0  # type: ignore[attr-defined]
    follower = await Recovery(engine, "prod").follower(story.log)
    assert story.log.reads < story.follower.position - stored(engine)[0].position + 30  # type: ignore[attr-defined]
    await same(follower, story)


async def test_without_snapshots_or_without_a_database_everything_is_read(engine: Engine) -> None:
    story, notes = await told(3), []
    await same(await Recovery(engine, "prod", notes.append).follower(story.log), story)
    assert notes == []
    await same(await Recovery(open_database("sqlite://"), "prod", notes.append).follower(story.log), story)
    assert notes == []
    nowhere = open_database("postgresql://nobody@127.0.0.1:1/none")
    await same(await Recovery(nowhere, "prod", notes.append).follower(story.log), story)
    assert len(notes) == 1
    assert "snapshots of prod" in notes[0]


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("content", b"nonsense", "cannot be unpacked"),
        ("content", b"", "cut short"),
        ("chain", "ab" * 32, "chain"),
        ("state", "ab" * 32, "another place"),
        ("incarnation", "other", "incarnation"),
        ("place", 3, "based on place"),
    ],
)
async def test_one_that_is_not_right_is_thrown_away_with_a_word_and_an_older_one_serves(
    engine: Engine, field: str, value: object, words: str
) -> None:
    story, notes = await told(), []
    await kept(engine, story)
    newest, older, *_ = stored(engine)
    Snapshots(engine, "prod").save(replace(newest, **{field: value}))  # type: ignore[arg-type]
    found = await Recovery(engine, "prod", notes.append).fold(story.log)
    assert found is not None
    assert found[1] == older
    assert words in notes[0]
    await same(await Recovery(engine, "prod").follower(story.log), story)


async def test_one_of_another_log_is_thrown_away(engine: Engine) -> None:
    notes: list[str] = []
    await kept(engine, await told())
    other = await told(14)
    other.clock.time_ms += 5
    await same(await Recovery(engine, "prod", notes.append).follower(other.log), other)
    fresh = Story(CutLog())
    await fresh.begin("i2")
    await same(await Recovery(engine, "prod", notes.append).follower(fresh.log), fresh)


async def test_one_that_a_later_batch_contradicts_is_thrown_away(engine: Engine) -> None:
    story, notes = await told(), []
    await kept(engine, story)
    newest = stored(engine)[-1]
    fold = Fold()
    follower = Follower(story.log, fold)
    while follower.position < newest.position:
        await follower.advance(1)
    fold.model.last_vgpu_time["n1"] = 7
    fold._digest.set("vgpu-time", "n1", 7)
    with engine.begin() as connection:
        connection.execute(delete(Snapshot))
    Recovery(engine, "prod").save(fold, follower.position, follower.chain)
    await same(await Recovery(engine, "prod", notes.append).follower(story.log), story)
    assert "rests on another state" in notes[0]


async def test_a_log_whose_front_is_gone_is_continued_by_a_snapshot_and_by_nothing_else(engine: Engine) -> None:
    story = await told()
    await kept(engine, story)
    newest = stored(engine)[0]
    story.log.first = newest.position  # type: ignore[attr-defined]
    await same(await Recovery(engine, "prod").follower(story.log), story)
    assert await Recovery(engine, "prod").covers(newest.position)
    assert not await Recovery(engine, "prod").covers(newest.position + 1)
    story.log.first = newest.position + 1  # type: ignore[attr-defined]
    assert await Recovery(engine, "prod").fold(story.log) is None
    with pytest.raises(DatabaseError):
        await Recovery(open_database("postgresql://nobody@127.0.0.1:1/none"), "prod").follower(story.log)


async def test_a_projector_goes_on_from_a_snapshot_with_the_tables_that_reading_everything_makes(
    engine: Engine,
) -> None:
    story = await told()
    await kept(engine, story)
    story.log.reads = 0  # type: ignore[attr-defined]
    again = Projector(story.log, engine, "prod", snapshot_every=20)
    while await again.step():
        pass
    assert story.log.reads < story.follower.position // 2  # type: ignore[attr-defined]
    for name in sorted(story.fold.model.commands)[:2]:
        member = story.fold.model.commands[name].bind
        assert member is not None
        await story.outcome(name, member.name)
    while await again.step():
        pass
    whole = open_database("sqlite://")
    alone = Projector(story.log, whole, "prod")
    while await alone.step():
        pass
    assert tables(engine) == tables(whole)
    whole.dispose()


def tables(engine: Engine) -> dict[str, list[dict[str, object]]]:
    found = {}
    with engine.connect() as connection:
        for table in (*PROJECTED, Progress):
            core = table.__table__
            rows = connection.execute(select(core).order_by(*core.primary_key))
            found[table.__tablename__] = [dict(row._mapping) for row in rows]
    return found


async def test_a_watcher_remembers_from_a_snapshot_what_it_would_from_the_whole_log(engine: Engine) -> None:
    story = await told()
    await kept(engine, story)
    story.log.reads = 0  # type: ignore[attr-defined]
    found = await remembered(Recovery(engine, "prod"), story.log)
    assert found is not None
    await found.catch_up()
    assert story.log.reads < story.follower.position // 2  # type: ignore[attr-defined]
    whole = Follower(story.log, Memory())
    await whole.catch_up()
    assert (found.position, found.chain, found.state.begins) == (whole.position, whole.chain, whole.state.begins)
    assert found.state._objects == whole.state._objects
    assert found.state._reports == whole.state._reports
    assert found.state.model.terms["watcher"] == whole.state.model.terms["watcher"]
