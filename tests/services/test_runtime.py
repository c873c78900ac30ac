"""What the services are run with: settings, metrics, health, logging."""

from __future__ import annotations

import asyncio
import io
import json
import logging
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import aiohttp
import pytest
import structlog
from prometheus_client import generate_latest
from support.service_world import World

from adapters.cluster.port import ApiUnknown
from adapters.log.memory import MemoryLog
from events.kinds import POD
from services.runtime import logging as runtime_logging
from services.runtime import process as process_module
from services.runtime.driving import Driven, close_all, drive
from services.runtime.health import health_app, serve_health
from services.runtime.metrics import MeteredLog, Metrics
from services.runtime.model_metrics import ModelCollector
from services.runtime.process import Process
from services.runtime.settings import SettingsError, load_settings
from services.scheduler.scheduler import Scheduler

CARD = "GPU-1,10,8192,NVIDIA-Tesla T4,true,hami-core:"
LIMITS = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1000", "volcano.sh/vgpu-cores": "30"}


# --- settings -------------------------------------------------------------------------------------------------------


def test_the_environment_wins_over_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text("cluster: blue\nhttp: {port: 9000}\nstatus_interval_s: 3\n")
    monkeypatch.setenv("GPULEDGER_HTTP__PORT", "9001")
    found = load_settings(path)
    assert (found.cluster, found.http.port, found.status_interval_s) == ("blue", 9001, 3)
    assert found.scheduler_names == ("gpuledger",)


def test_secrets_are_masked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULEDGER_KAFKA__SASL_PASSWORD", "hunter2")
    monkeypatch.setenv("GPULEDGER_DATABASE", "postgresql://u:hunter2@db/x")
    monkeypatch.setenv("GPULEDGER_KUBERNETES__TOKEN", "hunter2")
    found = load_settings()
    assert "hunter2" not in json.dumps(found.shown())
    assert "hunter2" not in repr(found)
    assert found.kafka.sasl_password.get_secret_value() == "hunter2"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("nonsense: 1", "nonsense"),
        ("http: {port: many}", "http.port"),
        ("http: {port: 99999}", "http.port"),
        ("cluster: 'Not Valid'", "cluster"),
        ("- a list", "must be a mapping"),
        ("a: [", "settings.yaml"),
        ("log: {home: kafka}", "kafka.servers"),
        ("log: {home: kafka}\nkafka: {servers: 'broker.example:9092'}", "PLAINTEXT is refused off loopback"),
        ("scheduler_names: []", "at least one"),
    ],
)
def test_bad_settings_are_named(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError) as error:
        load_settings(path)
    assert words in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        "kafka: {sasl_password: [hunter2]}",
        "kafka: {sasl_pasword: hunter2}",
        "kafka: hunter2",
        "databse: hunter2",
        "databse: {url: hunter2}",
        "kafka: {sasl_password: hunter2: x}",
        "kafka: {sasl_password: 'hunter2}",
        "log: {home: kafka}\nkafka: {servers: 'u:hunter2@localhost:9092'}",
        "kubernetes: {server: 'https://u:hunter2@k8s.example'}",
    ],
)
def test_a_bad_secret_is_not_shown(tmp_path: Path, text: str) -> None:
    """Nor one at a place where nobody expects it."""
    path = tmp_path / "settings.yaml"
    path.write_text(text)
    with pytest.raises(SettingsError) as error:
        load_settings(path)
    assert "hunter2" not in str(error.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.yaml"):
        load_settings(tmp_path / "none.yaml")


def test_plain_text_on_loopback_and_encrypted_brokers_are_fine(tmp_path: Path) -> None:
    path = tmp_path / "settings.yaml"
    for servers, protocol in (("localhost:9092,127.0.0.1:9093", "PLAINTEXT"), ("broker.example:9092", "SASL_SSL")):
        path.write_text(f"log: {{home: kafka}}\nkafka: {{servers: '{servers}', protocol: {protocol}}}")
        assert load_settings(path).kafka.servers == servers


def test_configured_config_maps_make_the_scope(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPULEDGER_DEVICE_CONFIG", '{"namespace": "gpu", "name": "cards", "key": "k"}')
    assert load_settings().scope.config_maps[1] == ("gpu", "cards", "k")


# --- metrics --------------------------------------------------------------------------------------------------------


async def metered_world() -> tuple[World, Metrics]:
    world, metrics = World(), Metrics()
    world.scheduler = Scheduler(MeteredLog(world.log, metrics), world.clock, "c1", "s", observer=metrics)
    metrics.registry.register(ModelCollector(lambda: world.scheduler.model))
    world.node("n1", register=CARD)
    world.single("one", limits=LIMITS)
    world.single("waits", cpu="1000")
    await world.settle()
    return world, metrics


async def test_devices_are_shown_from_the_ledger_m1_m2_m4() -> None:
    world, metrics = await metered_world()
    text = generate_latest(metrics.registry).decode()
    card = 'NodeName="n1",devID="GPU-1"'
    for name, value in (
        ("shared_number", 1),
        ("allocated_memory", 1000),
        ("allocated_cores", 30),
        ("memory_limit", 8192),
    ):
        assert f"volcano_vgpu_device_{name}{{{card}}} {value}.0" in text
    pod = f'{card},podName="one",podNamespace="team-a"'
    assert f"volcano_vgpu_device_memory_allocation_for_a_certain_pod{{{pod}}} 1000.0" in text
    assert f"volcano_vgpu_utilization{{{card}}} 0.3" in text
    world.store.remove(POD, "team-a", "one")
    await world.settle()
    text = generate_latest(metrics.registry).decode()
    assert "podName" not in text
    assert f"volcano_vgpu_device_shared_number{{{card}}} 0.0" in text


async def test_pods_that_ended_well_are_counted_once_m4() -> None:
    world, metrics = await metered_world()
    await world.api.patch(POD, "team-a", "one", {"status": {"phase": "Succeeded"}}, "status")
    await world.settle()
    for _ in range(2):
        text = generate_latest(metrics.registry).decode()
        assert 'volcano_vgpu_tasks_completed{NodeName="n1",devID="GPU-1"} 1.0' in text


async def test_queues_groups_and_decisions_are_shown() -> None:
    _, metrics = await metered_world()
    text = generate_latest(metrics.registry).decode()
    assert 'volcano_queue_allocated_milli_cpu{queue_name="default"} 1000.0' in text
    assert 'volcano_queue_pod_group_running_count{queue_name="default"} 1.0' in text
    assert 'volcano_unschedule_task_count{job_id="waits"} 1.0' in text
    assert "volcano_unschedule_job_count 1.0" in text
    assert "gpuledger_placements_total 1.0" in text
    assert 'gpuledger_log_records_total{type="gpuledger.decided.batch.v1"}' in text


# --- health ---------------------------------------------------------------------------------------------------------


async def test_health_and_readiness_say_why() -> None:
    metrics, problems = Metrics(), {"why": ""}
    app = health_app(metrics.registry, {"log": lambda: ""}, {"leading": lambda: problems["why"]})
    runner, port = await serve_health(app, "127.0.0.1", 0)
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        for why, status in (("", 200), ("another has the term", 503)):
            problems["why"] = why
            async with session.get("/readyz") as answer:
                assert answer.status == status
                assert f"leading: {why or 'ok'}" in await answer.text()
        async with session.get("/healthz") as answer:
            assert answer.status == 200
        async with session.get("/metrics") as answer:
            assert "volcano_schedule_attempts_total" in await answer.text()
        async with session.post("/metrics", data=b"x") as answer:
            assert answer.status == 405
        async with session.get("/else") as answer:
            assert answer.status == 404
    await runner.cleanup()


async def test_a_group_is_joined_once_the_log_was_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that was started in place of a dead one is not given the lead before one that waits, ready for it."""
    path = tmp_path / "settings.yaml"
    path.write_text("{log: {home: kafka}, kafka: {servers: '127.0.0.1:1'}}")
    joined: list[dict[str, Any]] = []
    monkeypatch.setattr(process_module, "Membership", lambda *_, **how: joined.append(how) or Mock())
    process = Process("scheduler", load_settings(path))
    read = asyncio.Event()

    async def step() -> bool:
        await read.wait()
        return False

    async def news(_: float) -> None:
        stepped.set()
        await asyncio.Event().wait()

    stepped = asyncio.Event()
    process.join("group", ["cluster"])
    process.drive("scheduler", step, news)
    assert not joined[0]["alive"]()
    read.set()
    await stepped.wait()
    assert joined[0]["alive"]()
    for task in process._tasks:
        task.cancel()


async def test_steps_that_fail_are_counted_by_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """The operating guide names the series, which is there from the start."""
    monkeypatch.setattr("services.runtime.driving._PAUSE_FIRST_S", 0.0)
    metrics = Metrics()
    service = Driven("binder", failed=metrics.failures.labels("binder").inc)

    def counted() -> float | None:
        return metrics.registry.get_sample_value("gpuledger_service_failures_total", {"service": "binder"})

    async def step() -> bool:
        if counted() == 0:
            raise ApiUnknown("the API server is away")
        return False

    async def nothing(_: float) -> None:
        await asyncio.sleep(0)

    assert counted() == 0
    await drive(service, step, nothing, ended=lambda: service.steps == 2)
    assert (counted(), service.failure) == (1, "")


async def test_what_cannot_be_closed_keeps_nothing_else_open() -> None:
    """A checkpoint that cannot be written at the end must not hold back that the group is left."""
    closed: list[str] = []

    def closing(name: str, error: Exception | None = None) -> Callable[[], Awaitable[None]]:
        async def close() -> None:
            closed.append(name)
            if error is not None:
                raise error

        return close

    with structlog.testing.capture_logs() as told:
        await close_all(
            [closing("log"), closing("membership"), closing("checkpoint", OSError(28, "No space left on device"))],
            structlog.get_logger("binder"),
        )
    assert closed == ["checkpoint", "membership", "log"]
    assert [line["error"] for line in told] == ["OSError(28, 'No space left on device')"]


def test_a_log_line_is_one_json_object() -> None:
    out = io.StringIO()
    runtime_logging.configure("info", stream=out, service="binder", cluster="c1")
    structlog.get_logger().info("bound", pod="a/b")
    structlog.get_logger().debug("hidden")
    (line,) = out.getvalue().splitlines()
    found = json.loads(line)
    assert (found["event"], found["pod"], found["service"], found["level"]) == ("bound", "a/b", "binder", "info")
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


def test_a_line_of_a_library_is_one_json_object_too() -> None:
    out = io.StringIO()
    runtime_logging.configure("info", stream=out, service="binder")
    try:
        raise ConnectionError("gone\naway")
    except ConnectionError:
        logging.getLogger("aiokafka.conn").exception("unable to connect to %s", "kafka-1")
    logging.getLogger("aiokafka.conn").info("hidden")
    member = threading.Thread(target=logging.getLogger("aiokafka").warning, args=("rebalancing",))
    member.start()
    member.join()
    line, other = out.getvalue().splitlines()
    assert json.loads(other)["service"] == "binder"
    found = json.loads(line)
    expected = ("unable to connect to kafka-1", "aiokafka.conn", "binder", "error")
    assert (found["event"], found["logger"], found["service"], found["level"]) == expected
    assert "ConnectionError: gone" in found["exception"]
    logging.getLogger().handlers.clear()
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


async def test_a_metered_log_is_a_log() -> None:
    metered = MeteredLog(MemoryLog(), Metrics())
    assert await metered.bounds() == (0, 0)
    assert await metered.read(0) == []
    assert not await metered.wait(0, 0)
    await metered.close()
