"""Secrets that stand next to what we read appear nowhere: not on the log, not in read models, not in what we print."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
import typer
from prometheus_client import CollectorRegistry, generate_latest
from typer.testing import CliRunner

from adapters.database.engine import open_database
from adapters.database.projector import Projector
from adapters.log.sqlite import SqliteLog
from events.kinds import CONFIG_MAP, NAMESPACE, NODE, POD, QUEUE, SECRET, Kind
from services.cli import log as log_command
from services.cli import state as state_command
from services.cluster import defaults
from services.runtime import logging
from services.runtime.health import health_app, serve_health
from services.runtime.model_metrics import ModelCollector
from services.simulator.system import System

TOKEN = "planted-6f1c0d9e"


def planted() -> list[tuple[Kind, dict[str, Any]]]:
    amounts = {"cpu": "8", "memory": "8Gi", "pods": "110", "volcano.sh/vgpu-number": "10",
               "volcano.sh/vgpu-memory": "8192", "volcano.sh/vgpu-cores": "100"}  # fmt: skip
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "100"}
    node = {
        "metadata": {
            "name": "n1",
            "annotations": {
                "volcano.sh/node-vgpu-register": "GPU-a,10,8192,NVIDIA-X,true,hami-core:",
                "example.com/token": TOKEN,
            },
        },
        "status": {"allocatable": amounts, "nodeInfo": {"machineID": TOKEN}},
    }
    container = {
        "name": "c",
        "image": f"registry/{TOKEN}",
        "command": ["run", TOKEN],
        "args": [TOKEN],
        "env": [{"name": "PASSWORD", "value": TOKEN}],
        "resources": {"limits": limits},
        "livenessProbe": {"httpGet": {"path": "/", "port": 1, "httpHeaders": [{"name": "X", "value": TOKEN}]}},
    }
    pod = {
        "metadata": {
            "name": "p",
            "namespace": "default",
            "annotations": {"example.com/token": TOKEN, "kubectl.kubernetes.io/last-applied-configuration": TOKEN},
        },
        "spec": {
            "schedulerName": "gpuledger",
            "containers": [container],
            "initContainers": [{"name": "i", "image": "x", "env": [{"name": "A", "value": TOKEN}]}],
            "volumes": [{"name": "v", "hostPath": {"path": TOKEN}}],
            "imagePullSecrets": [{"name": TOKEN}],
        },
    }
    return [
        (NODE, node),
        (SECRET, {"metadata": {"name": "s", "namespace": "default"}, "data": {"password": TOKEN}}),
        (CONFIG_MAP, {"metadata": {"name": "other", "namespace": "default"}, "data": {"password": TOKEN}}),
        (POD, pod),
    ]


async def played() -> System:
    system = System()
    beginning: list[tuple[Kind, dict[str, Any]]] = [
        (NAMESPACE, {"metadata": {"name": "default"}}),
        (QUEUE, {"metadata": {"name": "default"}, "spec": {"weight": 1}, "status": {"state": "Open"}}),
    ]
    for kind, item in (*beginning, *planted()):
        item = {"apiVersion": kind.api_version, "kind": kind.name, **item}
        defaults.apply(kind, item)
        system.store.put(kind, item)
    await system.settle()
    await system.deliver()
    return system


async def test_nothing_of_it_is_on_the_log_or_in_what_is_made_of_it(tmp_path: Path) -> None:
    system = await played()
    bound = [entry for entry in system.model.pods.values() if entry.pod.node == "n1"]
    assert bound, "the pod was seen, decided and bound"
    messages = [message for _, message in await system.log.read(0, 10_000)]
    for message in messages:
        assert TOKEN.encode() not in message.value
        assert not [value for _, value in message.headers if TOKEN.encode() in value]

    log = SqliteLog(tmp_path / "log.db")
    await log.append(messages)
    engine = open_database(tmp_path / "read.db")
    projector = Projector(log, engine, system.model.cluster)
    while await projector.step():
        pass
    await log.close()
    engine.dispose()
    assert TOKEN.encode() not in (tmp_path / "read.db").read_bytes()

    registry = CollectorRegistry()
    registry.register(ModelCollector(lambda: system.model))
    assert TOKEN not in generate_latest(registry).decode()


@pytest.mark.parametrize("command", [log_command.command, state_command.command])
async def test_the_commands_that_look_back_print_nothing_of_it(tmp_path: Path, command: Any) -> None:
    system = await played()
    log = SqliteLog(tmp_path / "log.db")
    await log.append([message for _, message in await system.log.read(0, 10_000)])
    await log.close()
    app = typer.Typer()
    app.command()(command)
    result = await asyncio.to_thread(CliRunner().invoke, app, ["--data", str(tmp_path), "-o", "json"])
    assert result.exit_code == 0, result.output
    assert "n1" in result.output
    assert TOKEN not in result.output


async def test_the_token_would_be_found() -> None:
    """The search is no empty one: the cluster itself does hold it."""
    system = await played()
    stored = system.store.get(POD, "default", "p")
    assert stored is not None
    assert TOKEN in str(stored)


@pytest.mark.parametrize(
    "request_text",
    [
        f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\0\r\n\r\n",
        f"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN * 1000}\r\n\r\n",
        f"GET /metrics?token={TOKEN * 1000} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
)
async def test_a_request_that_is_no_http_is_not_quoted_in_the_log(
    request_text: str, capfd: pytest.CaptureFixture[str]
) -> None:
    logging.configure("debug", "json")
    runner, port = await serve_health(health_app(CollectorRegistry()), "127.0.0.1", 0)
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(request_text.encode())
        assert b" 400 " in await reader.readline()
        writer.close()
    finally:
        await runner.cleanup()
    told = capfd.readouterr().err
    assert "Error handling request from 127.0.0.1: " in told
    assert TOKEN not in told
