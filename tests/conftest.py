"""What tests of several folders share: the real parts, each started once a session and only if a test asks for it."""

from __future__ import annotations

import asyncio
import os
from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import structlog
from hypothesis import HealthCheck, settings
from parts.broker import Broker
from parts.kube import KubeApiServer
from parts.postgres import Postgres
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from parts.container import ContainerBroker


# How long an example takes says something about the machine, not about what is tested.
settings.register_profile("gpuledger", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("gpuledger")


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """A command that is run in this process configures logging; the next test begins without that."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def kafka_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker | ContainerBroker]:
    """A real broker for tests that leave it running; topics are theirs to name. A container where one can be had."""
    from parts.container import ContainerBroker, engine_has  # takes a second to load

    broker = ContainerBroker() if engine_has() else Broker(tmp_path_factory.mktemp("kafka") / "broker")
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


#: Folders whose tests stay in one process, one after the other: they share real parts. The longest is first.
_TOGETHER = ("tests/system/", "tests/contract/", "tests/database/", "tests/cluster/")


class Shares(LoadScopeScheduling):
    """Tests are shared out by file among the processes of ``pytest -n``, but for the folders that stay together."""

    def _split_scope(self, nodeid: str) -> str:
        return next((folder for folder in _TOGETHER if nodeid.startswith(folder)), nodeid.partition("::")[0])


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Shares:
    config.option.loadscopereorder = False
    return Shares(config, log)


_PARTS = frozenset({"kafka_broker", "postgres", "kube_server"})
#: Where tests start real parts or whole processes by themselves.
_ON_PARTS = (
    "tests/system/", "tests/contract/test_kube_api", "tests/contract/test_takeover", "tests/contract/test_log_kafka",
    "tests/contract/test_webhook_real", "tests/database/test_database_tls", "tests/cluster/test_kubectl",
)  # fmt: skip
_LONG = ("tests/simulation/", "tests/scenarios/test_collection_bad_days", "tests/properties/")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what is slow where only a quick look is wanted; begin with the longest where many work."""
    if os.environ.get("GPULEDGER_FAST") == "1":
        left_out = [item for item in items if _on_parts(item) or item.nodeid.startswith(_LONG)]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in set(left_out)]
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: not item.nodeid.startswith(_TOGETHER[0]))


def _on_parts(item: pytest.Item) -> bool:
    on_kafka = "kafka" in getattr(getattr(item, "callspec", None), "params", {}).values()
    uses = _PARTS.intersection(getattr(item, "fixturenames", ()))
    return on_kafka or bool(uses) or item.nodeid.startswith(_ON_PARTS)


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
