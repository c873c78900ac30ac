"""Design section 3, the database: read models follow the log, and losing them loses nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Engine, event, text
from sqlalchemy.exc import OperationalError
from support.log_story import Story
from support.read_models import everything, fresh, project, rows

from adapters.database import projector as projector_module
from adapters.database.engine import DatabaseError, migrate, open_database
from adapters.database.projector import Projector
from adapters.database.rows import clean
from adapters.database.tables import PROJECTED, ClaimRow, CommandRow, Decision, DeviceShare, Placement, Progress
from adapters.log.memory import MemoryLog
from events.kinds import NODE, POD

SHARE = "GPU-n1-0,NVIDIA,1000,0:;"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    database = open_database(tmp_path / "gpuledger.db")
    yield database
    database.dispose()


async def told() -> Story:
    """A gang of two is bound under a rule, one of them is refused, one command is overtaken, and a pod ends."""
    story = Story(MemoryLog())
    await story.begin()
    await story.node("n1")
    await story.group("g1", 2)
    for name in ("p0", "p1", "p2"):
        await story.pod(name, "g1", rule=True)
    await story.bind("g1", story.member(0, "p0", "n1", SHARE), story.member(1, "p1", "n1", SHARE.replace("-0", "-1")))
    await story.outcome(story.command(0), "p0")
    await story.outcome(story.command(1), "p1", "refused", "no room")
    await story.pod("p2", "g1", rule=True, memory=2_000)
    await story.bind("g1", story.member(0, "p2", "n1", SHARE), base=1)
    return story


async def test_the_tables_say_what_was_decided_and_what_became_of_it(engine: Engine) -> None:
    story = await told()
    await project(Projector(story.log, engine, "prod"))
    decisions = rows(engine, Decision)
    assert [(row["batch"], row["binds"], row["verdict"]) for row in decisions] == [
        (0, 2, "applied"),
        (1, 1, "applied; overtaken: Pod team-a/p2"),
    ]
    found = {(row["name"], row["result"], row["message"]) for row in rows(engine, CommandRow)}
    assert found == {("p0", "applied", ""), ("p1", "refused", "no room"), ("p2", "overtaken", "")}


async def test_the_rule_to_gpu_map_is_a_table(engine: Engine) -> None:
    story = await told()
    await project(Projector(story.log, engine, "prod"))
    claims = [(row["rule"], row["node"], row["gpu"], row["pod"]) for row in rows(engine, ClaimRow)]
    assert claims == [("workloadType=training", "n1", "GPU-n1-0", "team-a/p0")]
    shares = [(row["gpu"], row["pod"], row["memory"]) for row in rows(engine, DeviceShare)]
    assert shares == [("GPU-n1-0", "team-a/p0", 1_000)]
    placements = [(row["name"], row["node"], row["pod_group"], row["queue"]) for row in rows(engine, Placement)]
    assert placements == [("p0", "n1", "team-a/g1", "default")]
    assert rows(engine, Placement)[0]["decision"] == story.command(0, batch=0)


async def test_what_has_ended_leaves_the_tables_of_what_is(engine: Engine) -> None:
    story = await told()
    projector = Projector(story.log, engine, "prod")
    await project(projector)
    await story.gone(POD, "p0", "team-a")
    await project(projector)
    assert rows(engine, Placement) == rows(engine, DeviceShare) == rows(engine, ClaimRow) == []
    assert len(rows(engine, CommandRow)) == 3
    assert everything(engine) == await fresh(story)


async def test_a_command_whose_pod_is_gone_is_dropped(engine: Engine) -> None:
    story = await told()
    await story.pod("p3", "g1")
    await story.bind("g1", story.member(0, "p3", "n1", SHARE))
    projector = Projector(story.log, engine, "prod")
    await project(projector)
    assert [row["result"] for row in rows(engine, CommandRow) if row["name"] == "p3"] == ["waiting"]
    await story.gone(POD, "p3", "team-a")
    await project(projector)
    assert [row["result"] for row in rows(engine, CommandRow) if row["name"] == "p3"] == ["dropped"]


async def test_step_by_step_and_all_at_once_are_the_same_tables(engine: Engine) -> None:
    story = Story(MemoryLog())
    projector = Projector(story.log, engine, "prod")
    write = story.write

    async def write_and_project(*arguments: Any) -> int:
        position = await write(*arguments)
        await project(projector)
        return position

    story.write = write_and_project  # type: ignore[method-assign]
    await story.begin()
    await story.node("n1")
    await story.node("n2")
    await story.pod("p0", "g1", rule=True)
    await story.group("g1")
    await story.bind("g1", story.member(0, "p0", "n1", SHARE))
    await story.outcome(story.command(0), "p0")
    await story.gone(NODE, "n1")
    await story.node("n1", cards=1)
    assert everything(engine) == await fresh(story)


async def test_a_restarted_projector_goes_on_where_the_tables_are(engine: Engine) -> None:
    story = await told()
    await project(Projector(story.log, engine, "prod"))
    written: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *call: written.append(call[2]))
    again = Projector(story.log, engine, "prod")
    await project(again)
    assert not [statement for statement in written if statement.startswith(("INSERT", "DELETE"))]
    await story.gone(POD, "p0", "team-a")
    await project(again)
    assert everything(engine) == await fresh(story)


@pytest.mark.parametrize("loss", ["tables", "rows", "progress", "database"])
async def test_losing_the_database_loses_nothing(tmp_path: Path, loss: str) -> None:
    story = await told()
    engine = open_database(tmp_path / "gpuledger.db")
    await project(Projector(story.log, engine, "prod"))
    before = everything(engine)
    if loss == "tables":
        migrate(engine, "base")
    elif loss == "database":
        engine.dispose()
        for file in tmp_path.iterdir():
            file.unlink()
    else:
        with engine.begin() as connection:
            for table in PROJECTED if loss == "rows" else ():
                connection.execute(text(f"DELETE FROM {table.__tablename__}"))
            connection.execute(text("DELETE FROM progress"))
    await project(Projector(story.log, engine, "prod"))
    assert everything(engine) == before
    engine.dispose()


async def test_tables_that_vanish_under_a_running_projector_are_made_anew(engine: Engine) -> None:
    story = await told()
    projector = Projector(story.log, engine, "prod")
    await project(projector)
    migrate(engine, "base")
    await story.gone(POD, "p0", "team-a")
    with pytest.raises(DatabaseError, match="read models of prod"):
        await projector.step()
    await project(projector)
    assert everything(engine) == await fresh(story)


async def test_two_that_write_at_once_do_not_undo_each_other(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each finds that the other one has written, again and again; the tables only ever go on, and come to the end."""
    monkeypatch.setattr(projector_module, "CHUNK", 3)
    story = await told()
    both = [Projector(story.log, engine, "prod") for _ in range(2)]
    places = [0]
    for turn in range(200):
        await both[turn % 2].step()
        places += [row["position"] for row in rows(engine, Progress)]
    assert places == sorted(places)
    assert everything(engine) == await fresh(story)


async def test_who_does_not_lead_writes_nothing_and_takes_over_what_it_finds(engine: Engine) -> None:
    story = await told()
    leader = [0]
    first, second = (
        Projector(story.log, engine, "prod", leads=lambda number=number: leader == [number]) for number in range(2)
    )
    await project(second)
    await project(first)
    assert everything(engine) == await fresh(story)
    leader[0] = 1
    await story.outcome(story.command(0, batch=1), "p2")
    before = everything(engine)
    await project(first)
    assert everything(engine) == before
    await project(second)
    assert everything(engine) == await fresh(story)
    leader[0] = 0
    await story.gone(POD, "p0", "team-a")
    await project(first)
    assert everything(engine) == await fresh(story)


async def test_it_can_be_made_anew_at_any_time(engine: Engine) -> None:
    story = await told()
    projector = Projector(story.log, engine, "prod")
    await project(projector)
    before = everything(engine)
    with engine.begin() as connection:
        connection.execute(text("UPDATE placements SET node = 'elsewhere'"))
    projector.rebuild()
    await project(projector)
    assert everything(engine) == before


async def test_tables_of_another_history_are_made_anew(engine: Engine) -> None:
    one, other = await told(), Story(MemoryLog())
    await project(Projector(one.log, engine, "prod"))
    await other.begin("i2")
    await other.node("n9")
    await project(Projector(other.log, engine, "prod"))
    assert everything(engine) == await fresh(other)


async def test_clusters_share_a_database_and_do_not_meet(engine: Engine) -> None:
    one, other = await told(), Story(MemoryLog(), "lab")
    await other.begin()
    await project(Projector(one.log, engine, "prod"))
    await project(Projector(other.log, engine, "lab"))
    assert {row["cluster"] for row in rows(engine, Progress)} == {"lab", "prod"}
    lab = Projector(other.log, engine, "lab")
    lab.rebuild()
    await project(lab)
    assert {row["cluster"] for row in rows(engine, Placement)} == {"prod"}


@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_commit_without_an_answer_is_made_again(engine: Engine, when: str) -> None:
    story = await told()
    projector = Projector(story.log, engine, "prod")
    await project(projector)
    await story.gone(POD, "p0", "team-a")
    real = projector._write
    failures = [OperationalError("COMMIT", {}, Exception("connection lost"))]

    def unsure() -> bool:
        if failures and when == "before":
            raise failures.pop()
        done = real_write(projector)
        if failures:
            raise failures.pop()
        return done

    def real_write(_: Projector) -> bool:
        pending, written = projector._pending, projector._written
        done = real()
        if failures:
            projector._pending, projector._written = pending, written
        return done

    projector._write = unsure  # type: ignore[method-assign]
    with pytest.raises(DatabaseError, match="connection lost"):
        await projector.step()
    await story.node("n5")
    await project(projector)
    assert everything(engine) == await fresh(story)


async def test_a_log_without_its_front_is_projected_from_what_is_left(engine: Engine) -> None:
    story = await told()
    assert isinstance(story.log, MemoryLog)
    story.log.truncate(3)
    await project(Projector(story.log, engine, "prod"))
    assert [row["position"] for row in rows(engine, Progress)] == [(await story.log.bounds())[1]]
    assert rows(engine, Placement) == []


async def test_a_log_that_begins_anew_drops_what_was_on_its_way(engine: Engine) -> None:
    """scheduling/F-11b: a new genesis ends everything before it; what happened stays told."""
    story = await told()
    await story.pod("p3", "g1")
    await story.bind("g1", story.member(0, "p3", "n1", SHARE))
    projector = Projector(story.log, engine, "prod")
    await project(projector)
    again = Story(story.log)
    await again.watcher.open(0, "i2", {}, begin=True)
    await project(projector)
    assert rows(engine, Placement) == rows(engine, ClaimRow) == []
    assert {(row["name"], row["result"]) for row in rows(engine, CommandRow)} >= {("p3", "dropped"), ("p0", "applied")}
    assert rows(engine, Progress)[0]["incarnation"] == "i2"
    assert everything(engine) == await fresh(story)


async def test_an_empty_log_is_no_trouble(engine: Engine) -> None:
    await project(Projector(MemoryLog(), engine, "prod"))
    assert rows(engine, Progress)[0]["position"] == 0


async def test_writing_off_the_loop_makes_the_same_tables(engine: Engine) -> None:
    story = await told()
    await project(Projector(story.log, engine, "prod", threaded=True))
    assert everything(engine) == await fresh(story)


async def test_hostile_texts_and_numbers_are_stored_in_a_form_that_every_database_takes(engine: Engine) -> None:
    story = Story(MemoryLog())
    await story.begin()
    await story.node("n1\0\ud800")
    bound = {"spec": {"nodeName": "n1\0\ud800", "schedulerName": "\udfff"}, "status": {"phase": "Running"}}
    await story.observe(POD, bound, "p\0", "team-a")
    await project(Projector(story.log, engine, "prod"))
    assert [(row["name"], row["node"], row["scheduler"]) for row in rows(engine, Placement)] == [
        ("p\\0", "n1\\0\\ud800", "\\udfff")
    ]
    assert clean({"a": 2**70, "b": -(2**70), "c": b"\0"}) == {"a": 2**63 - 1, "b": -(2**63 - 1), "c": b"\0"}
