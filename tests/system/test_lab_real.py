"""Lab 8 on Kafka, kube-apiserver and PostgreSQL, each service a process; then the same while they are killed."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from parts.broker import Broker
from parts.kube import KubeApiServer
from parts.postgres import Postgres
from system.lab import Lab
from system.real import SERVICES, Run, running
from system.stack import Stack

#: What was seen in the run that nobody disturbed.
END: dict[str, Any] = {}


@pytest.fixture
async def run(
    kube_server: KubeApiServer, kafka_broker: Broker, postgres: Postgres, tmp_path: Path
) -> AsyncIterator[Run]:
    async with running(kube_server, kafka_broker, postgres, tmp_path / "stack") as found:
        yield found


async def test_the_lab_holds_and_a_database_lost_meanwhile_costs_a_rebuild(run: Run) -> None:
    async def lose_the_database(number: int, moment: str) -> None:
        if (number, moment) == (2, "within"):
            await asyncio.to_thread(run.postgres.drop)

    lab = Lab(run.view, run.stack.ended, lose_the_database)
    await lab.play()
    assert lab.failed == []
    await run.check()
    await look_back(run.stack)
    END["seen"], END["state"] = lab.seen, await lab.end_state()
    for service in SERVICES:
        assert run.stack.terminate(service) == 0, run.stack.words(service)


async def look_back(stack: Stack) -> None:
    """The commands that look back read a log on Kafka as any other."""
    name = "volcano-demo/volcano-vgpu-single"
    done = await asyncio.gather(
        *(
            asyncio.to_thread(stack.command, *words)
            for words in (["state", "-o", "json"], ["log"], ["explain", "pod", name])
        )
    )
    assert [item.returncode for item in done] == [0, 0, 0], [item.stderr for item in done]
    assert json.loads(done[0].stdout)["cluster"] == stack.cluster
    assert done[1].stdout.count("batch") > 3
    assert "master-01" in done[2].stdout


async def test_killed_between_and_within_steps_the_end_is_the_same(run: Run) -> None:
    chance = random.Random(8)
    victims = [name for _ in range(4) for name in ("scheduler", "binder", "watcher")]
    killed: Counter[str] = Counter()

    async def kill(number: int, moment: str) -> None:
        """Between steps at once; within a step after some more records came, so somewhere in the middle of it."""
        if moment == "within":
            _, end = await run.log.bounds()
            await run.log.wait(end + chance.randrange(0, 4), 2.0)
        name = victims.pop(0)
        run.stack.kill(name)
        run.stack.start(name)
        killed[name] += 1

    lab = Lab(run.view, run.stack.ended, kill)
    await lab.play()
    assert lab.failed == []
    assert min(killed.values()) >= 3
    await run.check()
    if END:
        assert lab.seen == END["seen"]
        assert await lab.end_state() == END["state"]
