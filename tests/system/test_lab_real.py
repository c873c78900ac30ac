"""Lab 8 on Kafka, kube-apiserver and PostgreSQL, each service a process; then the same while they are killed."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml
from parts.broker import Broker
from parts.kube import KubeApiServer
from parts.postgres import Postgres
from sqlalchemy import func, select
from system.lab import PATIENCE_S, Lab, OutsideView, insisting, until
from system.stack import ROOT, Stack

from adapters.cluster.http import KubernetesApi, kubeconfig_configuration
from adapters.cluster.port import ApiError
from adapters.database.engine import open_database
from adapters.database.tables import Decision, Progress
from adapters.log.kafka import KafkaLog
from events.codec import from_message
from events.kinds import CONFIG_MAP, NAMESPACE, NODE, POD, POD_GROUP, QUEUE, VOLCANO_JOB, Kind
from events.records import Batch, Outcome, Record
from services.cli.labscript import NAMESPACE as LAB

SERVICES = ("watcher", "scheduler", "binder", "controller")
CRD = Kind("CustomResourceDefinition", "apiextensions.k8s.io", "v1", "customresourcedefinitions", False)


@pytest.fixture(scope="module")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KubeApiServer]:
    server = KubeApiServer(tmp_path_factory.mktemp("kube"))
    asyncio.run(server.start())
    yield server
    server.stop()


class Run:
    """One run on a fresh cluster name and an empty database; the API server is emptied after it."""

    def __init__(self, stack: Stack, api: KubernetesApi, log: KafkaLog, postgres: Postgres) -> None:
        self.stack, self.api, self.log, self.postgres = stack, api, log, postgres
        self.view = OutsideView(api, log)

    async def records(self) -> list[Record]:
        first, end = await self.log.bounds()
        found: list[Record] = []
        while first + len(found) < end:
            for _, message in await self.log.read(first + len(found)):
                record = from_message(message)
                assert isinstance(record, Record), record
                found.append(record)
        return found

    async def check(self) -> None:
        """What holds after every run: no process ended, nothing was bound twice, the audit passes, tables are whole."""
        assert self.stack.ended() == []
        records = await self.records()
        bound = Counter(
            record.body.uid
            for record in records
            if isinstance(record.body, Outcome) and record.body.verb == "bind" and record.body.result == "applied"
        )
        assert bound
        assert max(bound.values()) == 1, f"bound twice: {bound}"
        audit = await asyncio.to_thread(self.stack.command, "audit", "verify", "-o", "json")
        assert audit.returncode == 0, audit.stdout + audit.stderr
        await self.tables(records)

    async def tables(self, records: list[Record]) -> None:
        """The read models follow to the end of the log and hold every batch."""
        engine = open_database(self.postgres.url())
        end = (await self.log.bounds())[1]

        def followed() -> bool:
            with engine.connect() as connection:
                return connection.execute(select(Progress.position)).scalar() == end

        assert await until(lambda: asyncio.to_thread(followed), PATIENCE_S)
        with engine.connect() as connection:
            decisions = connection.execute(select(func.count()).select_from(Decision)).scalar()
        engine.dispose()
        assert decisions == sum(isinstance(record.body, Batch) for record in records)


@pytest.fixture
async def run(
    kube: KubeApiServer, kafka_broker: Broker, postgres: Postgres, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Run]:
    postgres.drop()
    cluster = f"lab-{random.randrange(16**8):08x}"
    stack = Stack(
        tmp_path / "stack",
        kafka_broker,
        cluster,
        kubernetes={"kubeconfig": str(kube.kubeconfig)},
        controllers={"garbage": True},
        database=postgres.url(),
        status_interval_s=1,
    )
    api = await KubernetesApi.connect(kubeconfig_configuration(str(kube.kubeconfig)))
    await prepare(api)
    stack.spawn("agents", [sys.executable, str(ROOT / "tests/system/cluster_parts.py"), str(kube.kubeconfig)])
    stack.start(*SERVICES)
    log = await KafkaLog.open(stack.kafka)
    try:
        yield Run(stack, api, log, postgres)
    finally:
        for name in (*SERVICES, "agents") if request.session.testsfailed else ():
            print(f"--- {name}\n{stack.words(name)}")
        stack.stop()
        await log.close()
        await empty(api)
        await api.close()


async def prepare(api: KubernetesApi) -> None:
    """What an administrator installs: the custom resources, the namespace of the configuration, the default queue."""
    for path in sorted((ROOT / "deploy" / "crds").glob("*.yaml")):
        for item in yaml.safe_load_all(path.read_text()):
            if item:
                await _there(api, CRD, item)
    await _there(api, NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "volcano-system"}})
    queue: dict[str, Any] = {"apiVersion": QUEUE.api_version, "kind": "Queue", "metadata": {"name": "default"}}
    await _there(api, QUEUE, {**queue, "spec": {"weight": 1}})


async def _there(api: KubernetesApi, kind: Kind, item: dict[str, Any]) -> None:
    async def create() -> None:
        try:
            await api.create(kind, item)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    await insisting(create)


async def empty(api: KubernetesApi) -> None:
    """Leave nothing of the lab behind for the next run."""
    for kind in (VOLCANO_JOB, POD_GROUP, POD, NODE, QUEUE, CONFIG_MAP):
        for item in (await api.list(kind)).items:
            meta = item["metadata"]
            if kind.namespaced and meta["namespace"] not in (LAB, "volcano-system"):
                continue
            with suppress(ApiError):
                await api.delete(kind, meta.get("namespace", ""), meta["name"], grace_s=0)


END: dict[str, Any] = {}


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
