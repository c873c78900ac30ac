"""One run of our services on a real API server, Kafka and PostgreSQL: set up, checked at its end, and cleared away."""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import yaml
from parts.broker import Broker
from parts.kube import TOKEN, KubeApiServer
from parts.postgres import Postgres
from sqlalchemy import select
from system.lab import PATIENCE_S, OutsideView, insisting, until
from system.stack import ROOT, Stack

from adapters.cluster.http import KubernetesApi, kubeconfig_configuration
from adapters.cluster.port import ApiError, pages
from adapters.database.engine import open_database
from adapters.database.tables import Decision, Progress
from adapters.log.checkpoints import make_key
from adapters.log.kafka import KafkaLog
from events.canonical import Json
from events.codec import from_message
from events.kinds import CONFIG_MAP, NAMESPACE, NODE, POD, POD_GROUP, QUEUE, VOLCANO_JOB, Kind
from events.records import Batch, Outcome, Record
from services.cli.labscript import NAMESPACE as LAB

KEY, CHECKPOINTS = "checkpoint.key", "checkpoints.jsonl"
#: So often that whoever is started again begins at a snapshot, with a good part of the log behind it.
SNAPSHOT_EVERY = 1_000
SERVICES = ("watcher", "scheduler", "binder", "controller")
CRD = Kind("CustomResourceDefinition", "apiextensions.k8s.io", "v1", "customresourcedefinitions", False)


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
        await self.audited()
        await self.tables()

    async def audited(self, *more: str) -> str:
        """The audit passes, and the checkpoints that the binders have signed agree; return what it says."""
        home = self.stack.home
        proof = ("--checkpoints", str(home / CHECKPOINTS), "--public-key", str((home / KEY).with_suffix(".pub")))
        audit = await asyncio.to_thread(self.stack.command, "audit", "verify", *proof, *more)
        assert audit.returncode == 0, audit.stdout + audit.stderr
        assert "signed checkpoints agree" in audit.stdout
        return audit.stdout

    async def tables(self) -> None:
        """The read models follow to the end of the log and hold every batch.

        Both are seen in one transaction: a binder that finds the tables written by another makes them anew, which
        takes a moment after the last takeover.
        """
        engine = open_database(self.postgres.url())
        seen: tuple[Any, Any] = None, None

        def there() -> tuple[int, Counter[str]]:
            with engine.connect().execution_options(isolation_level="REPEATABLE READ") as connection:
                position = connection.execute(select(Progress.position)).scalar() or 0
                return position, Counter(connection.execute(select(Decision.record_id)).scalars())

        async def whole() -> bool:
            nonlocal seen
            position, decisions = await asyncio.to_thread(there)
            records = await self.records()
            batches = Counter(record.id for record in records if isinstance(record.body, Batch))
            seen = (position, len(records)), (decisions - batches, batches - decisions)
            return position == len(records) and decisions == batches

        held = await until(whole, PATIENCE_S)
        engine.dispose()
        assert held, f"(read up to, end of the log), (too many, missing): {seen}"


@asynccontextmanager
async def running(
    kube: KubeApiServer, broker: Broker, postgres: Postgres, home: Path, gates: dict[str, str] | None = None
) -> AsyncIterator[Run]:
    """Run everything for a new cluster name with an empty database; the API server is emptied afterwards.

    ``gates`` names for some services the address by which they reach the API server.
    """
    postgres.drop()
    kubeconfig = str(kube.kubeconfig)
    stack = Stack(
        home,
        broker,
        f"lab-{random.randrange(16**8):08x}",
        kubernetes={"kubeconfig": kubeconfig},
        controllers={"garbage": True},
        database=postgres.url(),
        status_interval_s=1,
        snapshot_every=SNAPSHOT_EVERY,
        checkpoints={"key_file": str(home / KEY), "file": str(home / CHECKPOINTS)},
    )
    for service, address in (gates or {}).items():
        stack.configure(service, kubernetes={"server": address, "token": TOKEN})
    make_key(home / KEY)
    api = await KubernetesApi.connect(kubeconfig_configuration(kubeconfig))
    await prepare(api)
    stack.spawn("agents", [sys.executable, str(ROOT / "tests/system/cluster_parts.py"), kubeconfig])
    stack.start(*SERVICES)
    log = await KafkaLog.open(stack.kafka)
    try:
        yield Run(stack, api, log, postgres)
    except BaseException:
        for name in (*SERVICES, "agents"):
            print(f"--- {name}\n{stack.words(name)}")
        raise
    finally:
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
        for item in await everything(api, kind):
            meta = item["metadata"]
            if kind.namespaced and meta["namespace"] not in (LAB, "volcano-system"):
                continue
            with suppress(ApiError):
                await api.delete(kind, meta.get("namespace", ""), meta["name"], grace_s=0)


async def everything(api: KubernetesApi, kind: Kind, namespace: str = "") -> list[Json]:
    """Return the objects of a kind, all pages of them."""
    return [item async for page in pages(api, kind, namespace=namespace) for item in page.items]
