"""One process a service: settings, health over HTTP, an end in good order, and a membership that outlives long work."""

from __future__ import annotations

import asyncio
import json
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from aiokafka.consumer import subscription_state
from aiokafka.consumer.group_coordinator import CoordinatorGroupRebalance
from aiokafka.errors import KafkaError
from parts.broker import Broker
from parts.cache import free_port
from system.lab import PATIENCE_S, until
from system.stack import Stack, run_gpuledger

from adapters.log.kafka_topic import KafkaSettings, ensure_topic
from adapters.log.membership import Membership
from services.runtime.process import Process
from services.runtime.settings import load_settings

SESSION_MS = 1_500


# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "separate services share a log on kafka"),
        ("log: {home: kafka}", "kafka.servers"),
        ("nonsense: 1", "nonsense"),
        ("log: {home: kafka}\nkafka: {servers: 'kafka.example:9092'}", "PLAINTEXT is refused off loopback"),
        ("clusters: [a, b]\nkafka: {topic: one}", "kafka.topic: must hold {cluster}"),
        ("clusters: ['Not Valid']", "is no name of a cluster"),
        ("checkpoints: {file: proof}", "key_file and file go together"),
    ],
)
def test_settings_that_cannot_be_used_end_a_service_with_2_and_say_why(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    done = run_gpuledger("scheduler", "--config", str(path))
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert all(line.startswith("gpuledger: ") for line in done.stderr.splitlines())


def test_a_key_for_checkpoints_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(
        "{log: {home: kafka}, kafka: {servers: '127.0.0.1:1'}, http: {port: 0},"
        " checkpoints: {key_file: /nowhere/key, file: x}}"
    )
    done = run_gpuledger("binder", "--config", str(path))
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("gpuledger: /nowhere/key: no private key")


def test_the_effective_settings_are_shown_with_secrets_masked(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("cluster: blue\ndatabase: postgresql://u:hunter2@db/x\n")
    done = run_gpuledger("binder", "--config", str(path), "--show-config", GPULEDGER_HTTP__PORT="9001")
    assert done.returncode == 0, done.stderr
    assert "cluster: blue" in done.stdout
    assert "port: 9001" in done.stdout
    assert "hunter2" not in done.stdout


def test_a_kubeconfig_that_is_not_there_is_said_in_one_line(kafka_broker: Broker, tmp_path: Path) -> None:
    stack = Stack(tmp_path, kafka_broker, "nowhere", kubernetes={"kubeconfig": "/no/such/file"})
    done = run_gpuledger("controller", "--config", str(stack.config))
    assert done.returncode == 2, done.stderr
    assert "/no/such/file" in done.stderr
    assert "Traceback" not in done.stderr


# --- health and end --------------------------------------------------------------------------------------------------


@pytest.fixture
def stack(kafka_broker: Broker, tmp_path: Path) -> Iterator[Stack]:
    found = Stack(tmp_path / "stack", kafka_broker, f"c-{uuid.uuid4().hex[:8]}")
    yield found
    found.stop()


def get(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


async def started(stack: Stack, name: str) -> int:
    """Wait until a process says that it has started, and return its port."""

    def port() -> int:
        for line in stack.words(name).splitlines():
            if '"event": "started"' in line:
                return int(json.loads(line)["port"])
        assert stack.ended() == [], stack.words(name)
        return 0

    assert await until(port, PATIENCE_S), stack.words(name)
    return port()


async def test_health_and_metrics_are_served_and_sigterm_ends_it_with_0(stack: Stack) -> None:
    stack.start("scheduler")
    port = await started(stack, "scheduler")
    assert await until(lambda: get(port, "/readyz")[0] == 200, PATIENCE_S), get(port, "/readyz")
    assert get(port, "/healthz") == (200, "services: ok\n")
    assert "gpuledger_commands_pending 0.0" in get(port, "/metrics")[1]
    assert stack.terminate("scheduler") == 0, stack.words("scheduler")


async def test_without_a_broker_a_service_lives_is_not_ready_and_still_ends_at_once(
    tmp_path: Path, kafka_broker: Broker
) -> None:
    stack = Stack(tmp_path, kafka_broker, "alone", kafka={"servers": "127.0.0.1:1"}, http={"port": free_port()})
    port = int(stack.settings["http"]["port"])
    stack.start("scheduler")

    def says_why() -> bool:
        try:
            return "127.0.0.1:1" in get(port, "/readyz")[1]
        except OSError:
            return False

    try:
        assert await until(says_why, PATIENCE_S), stack.words("scheduler")
        assert get(port, "/healthz")[0] == 200
        assert get(port, "/readyz")[0] == 503
        assert stack.terminate("scheduler") == 0, stack.words("scheduler")
    finally:
        stack.stop()


# --- membership ------------------------------------------------------------------------------------------------------

Join = Callable[..., Membership]


@pytest.fixture
async def join(kafka_broker: Broker) -> AsyncIterator[Join]:
    """Makes members of one group over two topics; they leave after the test."""
    mark = uuid.uuid4().hex[:8]
    topics = [f"share-{mark}-{name}" for name in "ab"]
    for topic in topics:
        await ensure_topic(KafkaSettings(kafka_broker.address, topic))
    async with AsyncExitStack() as leaving:

        def make(**more: object) -> Membership:
            settings = KafkaSettings(kafka_broker.address, topics[0])
            member = Membership(settings, topics, f"group-{mark}", session_ms=SESSION_MS, **more)  # type: ignore[arg-type]  # passed through
            leaving.push_async_callback(member.close)
            member.start()
            return member

        yield make


def held(member: Membership) -> int:
    return len(member._held)


async def test_members_share_the_topics_and_who_leaves_gives_its_own_away(join: Join) -> None:
    first = join()
    assert await until(lambda: held(first) == 2, PATIENCE_S)
    second = join()
    assert await until(lambda: (held(first), held(second)) == (1, 1), PATIENCE_S)
    assert not first._held & second._held
    await first.close()
    assert await until(lambda: held(second) == 2, PATIENCE_S)
    assert held(first) == 0


async def test_long_work_on_the_event_loop_does_not_cost_the_membership(join: Join) -> None:
    first = join()
    assert await until(lambda: held(first) == 2, PATIENCE_S)
    kept = []
    until_then = time.monotonic() + 3 * SESSION_MS / 1000
    while time.monotonic() < until_then:  # a decision or a fold that never gives the loop back
        kept.append(held(first))
    assert set(kept) == {2}


async def test_who_waits_for_hours_still_takes_over(join: Join, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client takes a consumer that fetches nothing for idle after five minutes, and leaves the group for it."""
    first, second = join(), join()
    assert await until(lambda: (held(first), held(second)) == (1, 1), PATIENCE_S)
    hours_later = SimpleNamespace(monotonic=lambda: time.monotonic() + 10_000)
    monkeypatch.setattr(subscription_state, "time", hours_later)
    await first.close()
    assert await until(lambda: held(second) == 2, PATIENCE_S)


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Groups refuse who joins, in a way that the client cannot go on after, as long as this says why."""
    why: list[str] = []
    perform = CoordinatorGroupRebalance.perform_group_join

    async def join(self: CoordinatorGroupRebalance) -> object:
        if why:
            raise KafkaError(why[0])
        return await perform(self)

    monkeypatch.setattr(CoordinatorGroupRebalance, "perform_group_join", join)
    return why


async def test_a_membership_that_the_client_gave_up_is_begun_anew(join: Join, refusing: list[str]) -> None:
    """What the client cannot go on after it keeps until somebody asks; until then it neither joins nor leaves."""
    first, second = join(), join()
    assert await until(lambda: (held(first), held(second)) == (1, 1), PATIENCE_S)
    refusing.append("nobody is taken")
    await first.close()
    assert await until(lambda: "nobody is taken" in second.failure, PATIENCE_S)
    refusing.clear()
    assert await until(lambda: held(second) == 2, PATIENCE_S)
    assert second.failure == ""


async def test_a_process_that_its_group_does_not_take_says_so(
    kafka_broker: Broker, tmp_path: Path, refusing: list[str]
) -> None:
    refusing.append("nobody is taken")
    stack = Stack(tmp_path, kafka_broker, f"c-{uuid.uuid4().hex[:8]}")
    process = Process("scheduler", load_settings(stack.config))
    await ensure_topic(stack.kafka)

    async def idle() -> bool:
        return False

    async def build(process: Process) -> None:
        process.join("gpuledger-scheduler", [stack.cluster])
        process.drive("scheduler", idle, asyncio.sleep)

    async def ready() -> tuple[int, str]:
        return await asyncio.to_thread(get, process.port, "/readyz") if process.port else (0, "")

    async def refused() -> bool:
        return "group gpuledger-scheduler: " in (await ready())[1]

    async def taken() -> bool:
        return (await ready())[0] == 200

    running = asyncio.create_task(process.run(build))
    assert await until(refused, PATIENCE_S)
    refusing.clear()
    assert await until(taken, PATIENCE_S)
    process._stop.set()
    assert await running == 0


async def test_who_stands_still_gives_its_clusters_up(join: Join) -> None:
    well = [True]
    first, second = join(alive=lambda: well[0]), join()
    assert await until(lambda: held(first) + held(second) == 2, PATIENCE_S)
    well[0] = False
    assert await until(lambda: (held(first), held(second)) == (0, 2), PATIENCE_S)
    well[0] = True
    assert await until(lambda: (held(first), held(second)) == (1, 1), PATIENCE_S)
