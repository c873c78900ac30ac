"""What tests of several folders share: the real parts, each started once a session and only if a test asks for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from parts.broker import Broker
from parts.postgres import Postgres


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
