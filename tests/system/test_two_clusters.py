"""Two clusters on one Kafka, two schedulers that serve both, one of them killed half-way: the lab holds on both.

Each cluster is a kube-apiserver with an etcd of its own.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from parts.broker import Broker
from parts.kube import KubeApiServer
from system.lab import PATIENCE_S, Lab, OutsideView, until
from system.real import empty, prepare
from system.stack import ROOT, Stack

from adapters.cluster.http import KubernetesApi, kubeconfig_configuration
from adapters.log.audit import verify
from adapters.log.kafka import KafkaLog
from events.codec import from_message
from events.records import Batch, Observed, Opened, Record


class Cluster:
    """One cluster: an API server with its agents and controllers, a watcher and a binder, and its log."""

    def __init__(self, stack: Stack, api: KubernetesApi, log: KafkaLog) -> None:
        self.stack, self.log = stack, log
        self.lab = Lab(OutsideView(api, log), stack.ended)

    async def records(self) -> list[Record]:
        """Return everything that is on the log."""
        reader = await KafkaLog.open(self.stack.kafka, read_only=True)
        first, end = await reader.bounds()
        messages = []
        while first + len(messages) < end:
            messages += [message for _, message in await reader.read(first + len(messages))]
        await reader.close()
        found = [from_message(message) for message in messages]
        assert all(isinstance(record, Record) for record in found)
        return [record for record in found if isinstance(record, Record)]

    async def leader(self) -> str:
        """Return the process (host and pid) that opened the newest scheduler term."""
        terms = [item.body for item in await self.records() if isinstance(item.body, Opened)]
        writer = next((body.writer for body in reversed(terms) if body.role == "scheduler"), "")
        return writer.rpartition("/")[0]


@pytest.fixture
async def other_server(tmp_path: Path) -> AsyncIterator[KubeApiServer]:
    server = KubeApiServer(tmp_path / "other")
    await server.start()
    yield server
    server.stop()


@pytest.fixture
async def clusters(
    kube_server: KubeApiServer, other_server: KubeApiServer, kafka_broker: Broker, tmp_path: Path
) -> AsyncIterator[list[Cluster]]:
    mark = f"{random.randrange(16**6):06x}"
    servers = {f"east-{mark}": kube_server, f"west-{mark}": other_server}
    async with AsyncExitStack() as closing:
        yield [await start(closing, kafka_broker, server, tmp_path / name, name) for name, server in servers.items()]


async def start(closing: AsyncExitStack, broker: Broker, server: KubeApiServer, home: Path, name: str) -> Cluster:
    kubeconfig = str(server.kubeconfig)
    api = await KubernetesApi.connect(kubeconfig_configuration(kubeconfig))
    closing.push_async_callback(api.close)
    await prepare(api)
    closing.push_async_callback(empty, api)
    stack = Stack(
        home, broker, name,
        kubernetes={"kubeconfig": kubeconfig}, controllers={"garbage": True}, status_interval_s=1,
    )  # fmt: skip
    closing.callback(stack.stop)
    log = await KafkaLog.open(stack.kafka)
    closing.push_async_callback(log.close)
    stack.spawn("agents", [sys.executable, str(ROOT / "tests/system/cluster_parts.py"), kubeconfig])
    stack.start("watcher", "binder", "controller")
    return Cluster(stack, api, log)


@pytest.fixture
def schedulers(clusters: list[Cluster], kafka_broker: Broker, tmp_path: Path) -> Iterator[Stack]:
    names = [cluster.stack.cluster for cluster in clusters]
    stack = Stack(tmp_path / "schedulers", kafka_broker, names[0], clusters=names)
    stack.start("scheduler-1", "scheduler-2")
    yield stack
    stack.stop()


async def test_one_of_two_shared_schedulers_is_killed_half_way(clusters: list[Cluster], schedulers: Stack) -> None:
    assert await until(lambda: both_lead(clusters), PATIENCE_S), "each scheduler leads one of the clusters"

    async def kill(number: int, moment: str) -> None:
        if (number, moment) == (2, "within"):
            schedulers.kill("scheduler-1")

    clusters[0].lab.disturb = kill
    await asyncio.gather(*(cluster.lab.play() for cluster in clusters))
    for cluster in clusters:
        assert cluster.lab.failed == []
        assert (await verify(cluster.log)).passed
    assert (await clusters[0].leader()) == (await clusters[1].leader()), "the one that is left leads both"
    assert schedulers.ended() == []
    assert clusters[0].lab.seen == clusters[1].lab.seen
    await nothing_crosses(clusters)


async def both_lead(clusters: list[Cluster]) -> bool:
    leaders = {await cluster.leader() for cluster in clusters}
    return len(leaders) == len(clusters) and "" not in leaders


async def nothing_crosses(clusters: list[Cluster]) -> None:
    """Every uid that a cluster's decisions name was observed in that cluster, and in no other."""
    seen, decided = [], []
    for cluster in clusters:
        records = await cluster.records()
        assert {record.id.split("/")[0] for record in records} == {cluster.stack.cluster}
        seen.append({r.body.object["metadata"]["uid"] for r in records if isinstance(r.body, Observed)})
        batches = [record.body for record in records if isinstance(record.body, Batch)]
        decided.append({m.uid for batch in batches for command in batch.binds for m in command.members})
    assert not seen[0] & seen[1]
    for own, named in zip(seen, decided, strict=True):
        assert named
        assert named <= own
