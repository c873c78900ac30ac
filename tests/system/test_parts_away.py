"""The lab while its parts go away: the broker for a minute, then the API server, each in the middle of a step."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from parts.broker import Broker
from parts.kube import KubeApiServer
from parts.postgres import Postgres
from system.lab import Lab
from system.real import running

AWAY_S = 60.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker of this test alone, which may be killed."""
    found = Broker(tmp_path / "broker")
    found.start_blocking()
    yield found
    found.kill()


async def test_a_broker_away_for_a_minute_and_an_api_server_that_restarts(
    kube_server: KubeApiServer, broker: Broker, postgres: Postgres, tmp_path: Path
) -> None:
    async with running(kube_server, broker, postgres, tmp_path / "stack") as run:

        async def away(number: int, moment: str) -> None:
            if (number, moment) == (1, "within"):
                broker.kill()
                begun = time.monotonic()
                while time.monotonic() - begun < AWAY_S:  # the minute is the subject
                    assert run.stack.ended() == []
                    await asyncio.sleep(1)
                await broker.start()
            if (number, moment) == (3, "within"):
                kube_server.kill_server()
                await kube_server.start()

        lab = Lab(run.view, run.stack.ended, away)
        await lab.play()
        assert lab.failed == []
        await run.check()
