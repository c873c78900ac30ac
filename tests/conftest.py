"""What tests of several folders share: the real parts, each started once a session and only if a test asks for it."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterator

import pytest
import structlog
from parts.broker import Broker
from parts.kube import KubeApiServer
from parts.postgres import Postgres


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """A command that is run in this process configures logging; the next test begins without that."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A real broker for tests that leave it running; topics are theirs to name."""
    broker = Broker(tmp_path_factory.mktemp("kafka") / "broker")
    broker.start_blocking()
    yield broker
    broker.kill()


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A real PostgreSQL with an empty database ``gpuledger``; tests leave it running."""
    server = Postgres()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def kube_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiServer]:
    """A real kube-apiserver for system tests, which clear away what they make."""
    server = KubeApiServer(tmp_path_factory.mktemp("kube") / "server")
    asyncio.run(server.start())
    yield server
    server.stop()


#: Left out by ``make test FAST=1``: real parts, whole processes, long simulations.
_SLOW_FIXTURES = frozenset({"kafka_broker", "postgres", "kube_server"})
_SLOW_PLACES = (
    "tests/system/", "tests/simulation/", "tests/contract/test_kube_api", "tests/contract/test_takeover",
    "tests/contract/test_log_kafka", "tests/contract/test_webhook_real", "tests/database/test_database_tls",
    "tests/cluster/test_kubectl", "tests/scenarios/test_collection_bad_days", "tests/properties/",
)  # fmt: skip


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what is slow where only a quick look is wanted."""
    if os.environ.get("GPULEDGER_FAST") != "1":
        return
    slow = [item for item in items if _is_slow(item)]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in set(slow)]


def _is_slow(item: pytest.Item) -> bool:
    uses = set(getattr(item, "fixturenames", ()))
    on_kafka = "kafka" in getattr(getattr(item, "callspec", None), "params", {}).values()
    return on_kafka or bool(uses & _SLOW_FIXTURES) or item.nodeid.startswith(_SLOW_PLACES)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say where the minutes went: seconds by folder, and by file where a file took more than ten."""
    spent: dict[str, float] = defaultdict(float)
    for report in (item for kind in ("passed", "failed", "") for item in terminalreporter.stats.get(kind, ())):
        path = report.nodeid.partition("::")[0]
        spent[path] += report.duration
        spent[path.rpartition("/")[0] + "/"] += report.duration
    terminalreporter.section("seconds", sep="-")
    for path, seconds in sorted(spent.items(), key=lambda item: -item[1]):
        if seconds > 10:
            terminalreporter.line(f"{seconds:7.0f} {path}")
