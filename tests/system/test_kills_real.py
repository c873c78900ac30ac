"""Services killed at named points and at random on Kafka, kube-apiserver and PostgreSQL, which are killed too.

``GPULEDGER_KILLS`` kills (60) while ``GPULEDGER_KILL_PODS`` pods (200; ``make soak`` takes 2,000) come in slices: gangs
of awkward sizes, exclusive ones and MIG slices among them. Two processes of each role run, so there are always two
watchers; a scheduler and a binder are stopped in the middle of their work and wake after their successors took over.
At the end every pod is bound, once; no card was ever given twice; when the pods are gone nothing is held; the audit
passes.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from parts.broker import Broker
from parts.kube import KubeApiServer
from parts.postgres import Postgres
from system.killing import Tail, cluster, misgiven, workload
from system.lab import insisting, until
from system.real import Run, running

from adapters.cluster.port import ApiError
from adapters.log.kafka import KafkaLog
from events import names
from events.canonical import Json
from events.kinds import CONFIG_MAP, POD, POD_GROUP
from events.records import Batch, ListEnd, Observed, Opened, Outcome, Record, Role
from services.cli import manifests
from services.cli.labscript import NAMESPACE

KILLS = int(os.environ.get("GPULEDGER_KILLS", "60"))
PODS = int(os.environ.get("GPULEDGER_KILL_PODS", "200"))
SEED = int(os.environ.get("GPULEDGER_KILL_SEED", "7"))
ROLES: tuple[Role, ...] = ("watcher", "scheduler", "binder")
#: A point that does not come within this time is not waited for any longer: the kill comes at random.
POINT_S = 5.0
PATIENCE_S = 120.0
#: Each role once, and once more where a term has to open first: about as many as that.
KILLS_A_ROUND = 4
OPENED = "its term opened, nothing done in it"


def opened(role: Role) -> Callable[[Record], bool]:
    return lambda record: isinstance(record.body, Opened) and record.role == role


def binds(record: Record) -> bool:
    return isinstance(record.body, Batch) and bool(record.body.binds)


#: Right after which record on the log the leader of a role dies.
POINTS: dict[str, dict[str, Callable[[Record], bool]]] = {
    "watcher": {
        OPENED: opened("watcher"),
        "within a list": lambda record: isinstance(record.body, ListEnd),
        "an observation appended": lambda record: isinstance(record.body, Observed) and record.body.kind == "Pod",
    },
    "scheduler": {
        OPENED: opened("scheduler"),
        "a batch appended, not bound": binds,
        "an outcome appended, not folded": lambda record: isinstance(record.body, Outcome),
    },
    "binder": {
        OPENED: opened("binder"),
        "a batch read, not bound": binds,
        "bound in part, reported in part": lambda record: isinstance(record.body, Outcome),
    },
}


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A broker of this test alone, which may be killed."""
    found = Broker(tmp_path / "broker")
    found.start_blocking()
    yield found
    found.kill()


@pytest.fixture
async def run(kube_server: KubeApiServer, broker: Broker, postgres: Postgres, tmp_path: Path) -> AsyncIterator[Run]:
    async with running(kube_server, broker, postgres, tmp_path / "stack") as found:
        found.stack.start(*(f"{role}-2" for role in ROLES))
        yield found
        with suppress(ApiError):
            await found.api.delete(CONFIG_MAP, *names.DEVICE_CONFIG[:2])


class Kills:
    """One run: who was killed where, and what else happened to the parts."""

    def __init__(self, run: Run, tail: Tail, kube: KubeApiServer, broker: Broker) -> None:
        self.run, self.tail, self.kube, self.broker = run, tail, kube, broker
        self.chance = random.Random(SEED)
        self.count: Counter[tuple[str, str]] = Counter()
        self.led_again: list[float] = []
        self.woken: list[str] = []
        self.killing: list[asyncio.Task[None]] = []

    async def rounds(self) -> None:
        work = list(workload(PODS, self.chance))
        rounds = -(-KILLS // KILLS_A_ROUND)
        mishaps = self._mishaps(rounds)
        number = -1
        while (number := number + 1) < rounds or sum(self.count.values()) < KILLS:
            part = work[number * len(work) // rounds : (number + 1) * len(work) // rounds]
            self.killing = [asyncio.create_task(self._kill(role)) for role in ROLES]
            for item in (item for items in part for item in items):
                await insisting(partial(manifests.apply, self.run.api, item))
            for mishap in mishaps.get(number, ()):
                await mishap()
            await asyncio.gather(*self.killing)
            for role in ROLES:
                assert await self._led(role), f"nobody leads as {role}"
            assert self.run.stack.ended() == []
            assert self.tail.fold.over_given == []

    def _mishaps(self, rounds: int) -> dict[int, list[Callable[[], Awaitable[None]]]]:
        """What happens besides, each in a round of its own if there are enough."""
        these = (self._pause_scheduler, self._broker_dies, self._api_server_dies, self._database_dies,
                 self._pause_binder, self._broker_dies, self._api_server_dies)  # fmt: skip
        found: dict[int, list[Callable[[], Awaitable[None]]]] = {}
        for index, what in enumerate(these):
            found.setdefault((index + 1) * rounds // (len(these) + 1), []).append(what)
        return found

    async def _kill(self, role: str) -> None:
        """Kill the leader of a role at a point, or after a while, and start it again."""
        point = self.chance.choice((*POINTS[role], "at random"))
        if point == OPENED:
            # Somebody must go for somebody else to come.
            self._kill_now(role, "at random")
        if point == "at random":
            await asyncio.sleep(self.chance.random())
        elif not await self.tail.record(POINTS[role][point], PATIENCE_S if point == OPENED else POINT_S):
            point = "at random"
        killed = time.monotonic()
        self._kill_now(role, point)
        if await self._led(role):
            self.led_again.append(time.monotonic() - killed)

    def _kill_now(self, role: str, point: str) -> None:
        name = self.tail.leader(self.run.stack, role) or role
        self.run.stack.kill(name)
        self.run.stack.start(name)
        self.count[(role, point)] += 1

    async def _led(self, role: str) -> bool:
        return await self.tail.until(lambda: bool(self.tail.leader(self.run.stack, role)), PATIENCE_S)

    async def _pause(self, role: str) -> None:
        """Stop a leader within its work; it wakes when another one has taken over and done something."""
        await asyncio.gather(*self.killing)
        await self._led(role)
        name = self.tail.leader(self.run.stack, role)
        pid = self.run.stack.pids()[name]
        os.kill(pid, signal.SIGSTOP)
        taken = await self.tail.until(lambda: self.tail.leader(self.run.stack, role) not in (name, ""), PATIENCE_S)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
        assert taken, f"nobody took over from the {role} that stood still"
        self.woken.append(role)

    async def _pause_scheduler(self) -> None:
        await self._pause("scheduler")

    async def _pause_binder(self) -> None:
        await self._pause("binder")

    async def _broker_dies(self) -> None:
        self.broker.kill()
        await self.broker.start()

    async def _api_server_dies(self) -> None:
        self.kube.kill_server()
        await self.kube.start()

    async def _database_dies(self) -> None:
        await asyncio.to_thread(self.run.postgres.kill)
        await asyncio.to_thread(self.run.postgres.start)


async def test_nothing_is_lost_and_nothing_is_done_twice(run: Run, kube_server: KubeApiServer, broker: Broker) -> None:
    for item in cluster(PODS):
        await insisting(partial(manifests.apply, run.api, item))
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    log = await KafkaLog.open(run.stack.kafka)
    tail = Tail(log)
    began = time.monotonic()
    try:
        kills = Kills(run, tail, kube_server, broker)
        await kills.rounds()
        killed = time.monotonic()
        pods = await all_bound(run)
        total, settled = sum(kills.count.values()), time.monotonic()
        print(f"{total} kills in {killed - began:.0f} s, {PODS} pods bound {settled - killed:.1f} s later")
        again = sorted(kills.led_again)
        print(f"somebody led again after {again[len(again) // 2]:.1f} s (median), {again[-1]:.1f} s (longest)")
        for (role, point), count in sorted(kills.count.items()):
            print(f"  {role}: {point}: {count}")
        assert total >= KILLS
        assert sorted(kills.woken) == ["binder", "scheduler"]
        assert misgiven(pods) == []
        await once(tail, pods)
        await nothing_left(run, tail)
        assert tail.fold.over_given == []
        assert tail.fold.diverged == 0
        audit = await asyncio.to_thread(run.stack.command, "audit", "verify", "-o", "json")
        assert audit.returncode == 0, audit.stdout + audit.stderr
        await run.tables(await run.records())
    finally:
        await tail.close()
        await log.close()


async def all_bound(run: Run) -> list[Json]:
    """Wait until every pod has a node, and return them."""
    pods: list[Json] = []

    async def look() -> bool:
        pods[:] = (await run.api.list(POD, namespace=NAMESPACE)).items
        return len(pods) == PODS and all(pod["spec"].get("nodeName") for pod in pods)

    held = await until(look, PATIENCE_S)
    waiting = [pod["metadata"]["name"] for pod in pods if not pod["spec"].get("nodeName")]
    assert held, f"{len(pods)} of {PODS} pods, waiting: {waiting}"
    return pods


async def once(tail: Tail, pods: list[Json]) -> None:
    """Every binding was reported by a record that counts, or seen on the pod; none twice; by the decision it bears."""
    uids = {pod["metadata"]["uid"] for pod in pods}
    assert await tail.until(
        lambda: all((entry := tail.fold.model.pods.get(uid)) is not None and entry.pod.node for uid in uids), PATIENCE_S
    )
    bound = tail.bound()
    assert set(bound) <= uids
    assert max(bound.values()) == 1, bound


async def nothing_left(run: Run, tail: Tail) -> None:
    """When all pods are gone, nothing is held, promised or under way."""
    for kind in (POD, POD_GROUP):
        for item in (await run.api.list(kind, namespace=NAMESPACE)).items:
            with suppress(ApiError):
                await run.api.delete(kind, NAMESPACE, item["metadata"]["name"], grace_s=0)

    def free() -> bool:
        model = tail.fold.model
        held = any(view.tasks or view.devices.claims for view in model.nodes.values())
        return not (held or model.commands or model.promises or model.pods)

    assert await tail.until(free, PATIENCE_S), "something is still held"
