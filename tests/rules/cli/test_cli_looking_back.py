"""Design section 10: ``log``, ``state`` and ``explain`` show what the log says, now and at any moment of the past."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import typer
from click.testing import Result
from support.log_story import Story
from typer.testing import CliRunner

from adapters.log.sqlite import SqliteLog
from events.codec import Message
from events.kinds import POD, POD_GROUP, QUEUE
from services.cli import audit, explain, log, state

app = typer.Typer(pretty_exceptions_enable=False)
app.command("log")(log.command)
app.command("state")(state.command)
app.add_typer(explain.app, name="explain")
app.add_typer(audit.app, name="audit")

Tell = Callable[[Story], Coroutine[Any, Any, None]]


def write(data: Path, tell: Tell) -> None:
    """Write a log by telling a story."""

    async def session() -> None:
        story = Story(SqliteLog(data / "log.db"))
        await tell(story)
        await story.log.close()

    asyncio.run(session())


async def two_gangs(story: Story) -> None:
    """A gang of two under a rule that is bound, one binding refused; a pod that is too large; poison."""
    await story.begin()
    await story.node("n1")
    await story.group("g1", 2)
    await story.pod("p0", "g1", rule=True)
    await story.pod("p1", "g1", rule=True)
    await story.group("g2")
    await story.pod("big", "g2", memory=90_000)
    await story.log.append([Message((("ce_type", b"\x1b[31m"),), b"poison")])
    await story.follower.catch_up()
    await story.decide()
    await story.outcome(story.command(0), "p0")
    await story.outcome(story.command(1), "p1", "refused", "no room \x1b[2J")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write(folder, two_gangs)
    return folder


def call(data: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, [*arguments, "--data", str(data)])


def shown(data: Path, *arguments: str) -> str:
    result = call(data, *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


# --- log ---


def test_log_prints_every_record_in_order(data: Path) -> None:
    lines = shown(data, "log").splitlines()
    assert [int(line.split()[0]) for line in lines] == list(range(len(lines)))
    assert "log of cluster prod, incarnation i1" in lines[0]
    assert "watcher term 1 after 0" in lines[1]


def test_log_shows_what_was_set_aside_and_no_control_character(data: Path) -> None:
    text = shown(data, "log")
    assert "set aside: type is not known \\x1b[31m" in text
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("subject", "count"), [("Pod/team-a/p0", 2), ("team-a/p0", 2), ("p0", 2), ("Pod", 5), ("Node/n1", 1), ("team", 0)]
)
def test_log_by_subject(data: Path, subject: str, count: int) -> None:
    assert len(shown(data, "log", "--subject", subject).splitlines()) == count


def test_log_by_type(data: Path) -> None:
    (line,) = shown(data, "log", "--type", "decided").splitlines()
    assert "batch 0 at place 35: bind 2, groups 2, pods 1" in line
    assert len(shown(data, "log", "--type", "gpuledger.outcome.command.v1").splitlines()) == 2


def test_log_from_and_to_a_place(data: Path) -> None:
    lines = shown(data, "log", "--since", "3", "--at", "5").splitlines()
    assert [line.split()[0] for line in lines] == ["3", "4", "5"]


def test_log_as_json_is_one_cloud_event_a_line(data: Path) -> None:
    events = [json.loads(line) for line in shown(data, "log", "-o", "json").splitlines()]
    assert events[0]["id"] == "prod/i1/w0.0"
    assert events[0]["specversion"] == "1.0"
    assert events[0]["data"] == {"cluster": "prod", "incarnation": "i1"}
    assert any(event.get("setaside") == "type is not known" for event in events)
    assert events[-1]["subject"] == "Pod/team-a/p1"


def test_log_follows_what_a_server_appends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, two_gangs)

    class Enough(KeyboardInterrupt):
        pass

    async def next_record(self: SqliteLog, position: int, timeout_s: float) -> bool:
        if position > before:
            raise Enough
        writer = SqliteLog(tmp_path / "log.db")
        await writer.append([Message((), b"news")])
        await writer.close()
        return True

    before = len(shown(tmp_path, "log").splitlines())
    monkeypatch.setattr(SqliteLog, "wait", next_record)
    assert len(shown(tmp_path, "log", "--follow").splitlines()) == before + 1


# --- state ---


def test_state_shows_cards_claims_queues_and_groups(data: Path) -> None:
    text = shown(data, "state")
    assert "GPU-n1-1  NVIDIA-A100  hami-core  1/10    1000/8000  0/100  team-a/p0" in text
    assert "workloadType=training  n1    GPU-n1-1  team-a/p0" in text
    assert "default  Open" in text
    assert "team-a/g1  default  Inqueue  1/2" in text
    assert "failed to bind to node n1: no room" in text
    assert "\x1b" not in text


def test_state_as_json_holds_everything(data: Path) -> None:
    found = json.loads(shown(data, "state", "-o", "json"))
    assert found["claims"] == [
        {"rule": "workloadType=training", "node": "n1", "gpu": "GPU-n1-1", "pods": ["team-a/p0"]}
    ]
    assert [card["memory"]["used"] for card in found["nodes"][0]["cards"]] == [0, 1_000]
    assert {pod["name"]: pod["node"] for pod in found["pods"]} == {
        "team-a/big": "",
        "team-a/p0": "n1",
        "team-a/p1": "",
    }
    assert found["terms"]["scheduler"] == {"term": 1, "writer": "s"}
    assert found["complete"]


def test_state_in_the_past(data: Path) -> None:
    batch = int(shown(data, "log", "--type", "decided").split()[0])
    after = json.loads(shown(data, "state", "--at", str(batch), "-o", "json"))
    before = json.loads(shown(data, "state", "--at", str(batch - 1), "-o", "json"))
    assert len(after["claims"]) == 2
    assert before["claims"] == []
    assert after["position"] == batch + 1


def test_a_time_means_everything_written_up_to_then(data: Path) -> None:
    events = [json.loads(line) for line in shown(data, "log", "-o", "json").splitlines()]
    batch = next(event for event in events if event["type"].endswith("batch.v1"))
    found = json.loads(shown(data, "state", "--at", batch["time"], "-o", "json"))
    assert found["position"] == batch["offset"] + 1
    zone = batch["time"].replace("Z", "+00:00")
    assert json.loads(shown(data, "state", "--at", zone, "-o", "json")) == found
    early = json.loads(shown(data, "state", "--at", "2020-01-01T00:00:00Z", "-o", "json"))
    assert early["position"] == 0
    late = json.loads(shown(data, "state", "--at", "2099-01-01T00:00:00Z", "-o", "json"))
    assert late["position"] == len(events)


@pytest.mark.parametrize(
    "when", ["yesterday", "-1", "99999", "2026-09-21T14:13:20", "٣", pytest.param("1" * 5_000, id="long")]
)
def test_a_moment_that_cannot_be_is_wrong_usage(data: Path, when: str) -> None:
    result = call(data, "state", f"--at={when}")
    assert result.exit_code == 2
    assert when in result.stderr


# --- explain ---


def test_explain_a_placed_pod(data: Path) -> None:
    text = shown(data, "explain", "pod", "team-a/p0")
    for part in (
        "status         Binding",
        "podgroup       team-a/g1",
        "node           n1",
        "allocation     GPU-n1-1,NVIDIA,1000,0:",
        "decision       prod/i1/1.0/0",
        "device         GPU-n1-1: memory 1000, cores 0, rule workloadType=training",
        "decided   bind to n1: GPU-n1-1,NVIDIA,1000,0: (prod/i1/1.0/0)",
        "outcome   bind applied on n1 (prod/i1/1.0/0)",
    ):
        assert part in text


def test_explain_a_refused_pod_gives_the_reason_word_for_word(data: Path) -> None:
    text = shown(data, "explain", "pod", "team-a/p1")
    assert "reason         SchedulerError" in text
    assert "message        failed to bind to node n1: no room \\x1b[2J" in text
    assert "refused binds  1" in text


def test_explain_a_waiting_pod_gives_the_reason_word_for_word(data: Path) -> None:
    found = json.loads(shown(data, "explain", "pod", "team-a/big", "-o", "json"))
    stated = json.loads(shown(data, "state", "-o", "json"))
    (pod,) = [pod for pod in stated["pods"] if pod["name"] == "team-a/big"]
    assert found["status"] == "Pending"
    assert found["message"] == pod["message"] != ""
    assert found["gangWaits"]["cause"] == found["cause"] == found["why"][0]["cause"]
    assert found["why"][0]["text"] == found["message"]
    assert found["node"] == ""
    assert [item["what"] for item in found["history"]] == ["observed", "decided"]


def test_explain_a_podgroup(data: Path) -> None:
    text = shown(data, "explain", "podgroup", "team-a/g1")
    for part in ("status         Inqueue", "minMember      2", "placed         1", "team-a/p0 Binding: n1"):
        assert part in text
    assert "bind p0 to n1, p1 to n1 (prod/i1/1.0/0); phase Inqueue" in text


async def a_queue_that_is_full(story: Story) -> None:
    """A queue below another one: a gang runs, a second one is beyond the limit, of a third there are no pods."""
    await story.begin()
    await story.node("n1")
    await story.observe(QUEUE, {"spec": {"weight": 1, "capability": {"volcano.sh/vgpu-memory": "1500"}}}, "default")
    await story.observe(QUEUE, {"spec": {"weight": 1, "parent": "default"}}, "lower")
    await story.gone(QUEUE, "lower")
    for name in ("g1", "g2"):
        await story.group(name)
        await story.pod(f"p-{name}", name)
    least = {"minMember": 2, "queue": "default", "minResources": {"volcano.sh/vgpu-memory": "9000"}}
    await story.observe(POD_GROUP, {"spec": least}, "job", "team-a")
    await story.decide()


def test_explain_a_queue_down_to_its_groups(tmp_path: Path) -> None:
    """scheduling/Q-24, E-7: who waits in it, in which order, and why; PodGroups without pods too"""
    write(tmp_path, a_queue_that_is_full)
    found = json.loads(shown(tmp_path, "explain", "queue", "default", "-o", "json"))
    assert found["waits"] == {"podGroups": {"queue-limit": 2}, "pods": {"queue-limit": 1}}
    text = "queue default resource quota insufficient: insufficient volcano.sh/vgpu-memory"
    waiting = {item["podGroup"]: (item["cause"], item["text"], item["pods"]) for item in found["waiting"]}
    assert waiting == {
        "team-a/g2": ("queue-limit", text, {"queue-limit": 1}),
        "team-a/job": ("queue-limit", text, {}),
    }
    assert found["phases"]["pending"] == 1
    told = shown(tmp_path, "explain", "queue", "default")
    for part in (
        "state          Open",
        "capability     volcano.sh/vgpu-memory=1500",
        "groups wait    2 queue-limit",
        "pods wait      1 queue-limit",
        f"waits          team-a/job: queue-limit: {text}",
        "observed  version 4: Open, volcano.sh/vgpu-memory at most 1500",
    ):
        assert part in told, told
    assert "default  Open   1" in shown(tmp_path, "state")
    assert "2 queue-limit" in shown(tmp_path, "state")


def test_explain_a_queue_above_others(tmp_path: Path) -> None:
    """scheduling/Q-4b: what waits below it"""

    async def tell(story: Story) -> None:
        await story.begin()
        await story.observe(QUEUE, {"spec": {"weight": 1}}, "root")
        await story.observe(QUEUE, {"spec": {"weight": 1, "parent": "root"}}, "default")
        await story.pod("p", "g")
        await story.group("g")
        await story.decide()

    write(tmp_path, tell)
    assert "queue below    default: 1 no-node" in shown(tmp_path, "explain", "queue", "root")


def test_explain_a_queue_that_is_gone_still_tells_its_history(tmp_path: Path) -> None:
    write(tmp_path, a_queue_that_is_full)
    text = shown(tmp_path, "explain", "queue", "lower")
    assert "it does not exist at this moment" in text
    assert "deleted" in text


def test_a_queue_has_no_namespace(data: Path) -> None:
    result = call(data, "explain", "queue", "team-a/default")
    assert result.exit_code == 2
    assert "name it as NAME" in result.stderr


def test_explain_in_the_past(data: Path) -> None:
    batch = int(shown(data, "log", "--type", "decided").split()[0])
    text = shown(data, "explain", "pod", "team-a/p0", "--at", str(batch - 1))
    assert "status         Pending" in text
    assert "decided" not in text


def test_explain_a_pod_that_is_gone_still_tells_its_history(tmp_path: Path) -> None:
    async def tell(story: Story) -> None:
        await two_gangs(story)
        await story.gone(POD, "p0", "team-a")

    write(tmp_path, tell)
    text = shown(tmp_path, "explain", "pod", "team-a/p0")
    assert "it does not exist at this moment" in text
    assert "deleted" in text


def test_explain_names_overtaken_and_void_records(tmp_path: Path) -> None:
    async def tell(story: Story) -> None:
        await two_gangs(story)
        await story.pod("p2", "g1")
        await story.pod("p2", "g1", memory=2_000)
        await story.bind("g1", story.member(0, "p2", "n1", "GPU-n1-0,NVIDIA,1000,0:;"), base=1)
        await story.outcome(story.command(0), "p2")

    write(tmp_path, tell)
    text = shown(tmp_path, "explain", "pod", "team-a/p2")
    assert "overtaken" in text
    assert "[no effect: no command" in text


@pytest.mark.parametrize("name", ["p0", "team-a/", "/p0", "a/b/c"])
def test_a_name_that_is_none_is_wrong_usage(data: Path, name: str) -> None:
    result = call(data, "explain", "pod", name)
    assert result.exit_code == 2
    assert "NS/NAME" in result.stderr


@pytest.mark.parametrize(("kind", "name"), [("pod", "team-a/nobody"), ("podgroup", "team-a/nobody"), ("queue", "none")])
def test_what_the_log_does_not_know_is_said(data: Path, kind: str, name: str) -> None:
    result = call(data, "explain", kind, name)
    assert result.exit_code == 1
    assert name in result.stderr


# --- the data folder ---


@pytest.mark.parametrize("command", [["log"], ["state"], ["explain", "pod", "a/b"], ["audit", "verify"]])
def test_a_folder_without_a_log_is_named_and_left_alone(tmp_path: Path, command: list[str]) -> None:
    result = call(tmp_path / "none", *command)
    assert result.exit_code == 2
    assert str(tmp_path / "none") in result.stderr
    assert not (tmp_path / "none").exists()


def test_a_log_whose_front_is_gone_can_still_be_read(tmp_path: Path) -> None:
    async def tell(story: Story) -> None:
        await two_gangs(story)
        assert isinstance(story.log, SqliteLog)
        await story.log.truncate(5)

    write(tmp_path, tell)
    assert len(shown(tmp_path, "log").splitlines()) == 5
    assert "nothing is decided in this state" in shown(tmp_path, "state")
    audit = call(tmp_path, "audit", "verify")
    assert audit.exit_code == 1, "what cannot be decided again is not passed"
    assert "cannot be decided again: the beginning of the log is gone" in audit.output
