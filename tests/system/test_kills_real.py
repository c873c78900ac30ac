"""Services killed at named points and at random on Kafka, kube-apiserver and PostgreSQL, which are killed too.

``GPULEDGER_KILLS`` kills (60) while ``GPULEDGER_KILL_PODS`` pods (200; ``make soak`` takes 2,000) come in slices: gangs
of awkward sizes, exclusive ones and MIG slices among them; some go and come back under their names. Two processes of
each role run, so there are always two watchers, and one with the controllers. A scheduler with a batch under way and a
binder with a Binding under way stand still and wake after their successors did that work. Once the API server is
restored to an older state: pods bound since are unbound or gone, deleted ones are back, versions go back, and whoever
made the pods makes them again.

After each round no card is over-given, as the log and as the API server says. At the end every named point was hit,
every pod is bound, once in each history; when the pods are gone nothing is held; the audit passes.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from parts.broker import Broker
from parts.gate import Gate
from parts.kafka_gate import KafkaGate
from parts.kube import KubeApiServer
from parts.postgres import Postgres
from system.killing import (
    ALIKE,
    EXCLUSIVE,
    MIXED,
    SHARED,
    SLICE,
    WHOLE,
    Tail,
    cards_of,
    cluster,
    given,
    kinds,
    misgiven,
    workload,
)
from system.lab import insisting, until
from system.pauses import Pauses
from system.points import Points
from system.real import Run, everything, running
from system.takeovers import Lead, spread, takeovers

from adapters.cluster.port import ApiError
from adapters.log.kafka import KafkaLog
from events import names
from events.canonical import Json
from events.kinds import POD, POD_GROUP, QUEUE, Kind, kind_of
from events.records import Genesis, Role
from scheduling.cycle.queue_status import allocated, as_status
from services.binder.status_groups import status_of, wanted_status
from services.cli import manifests
from services.cli.labscript import NAMESPACE

KILLS = int(os.environ.get("GPULEDGER_KILLS", "60"))
PODS = int(os.environ.get("GPULEDGER_KILL_PODS", "200"))
SEED = int(os.environ.get("GPULEDGER_KILL_SEED", "7"))
ROLES: tuple[Role, ...] = ("watcher", "scheduler", "binder")
KILLED = (*ROLES, "controller")
PATIENCE_S = 300.0
#: Each once, and once more where a term has to open first: about as many as that.
KILLS_A_ROUND = 5
#: Within a round workloads come and go this often, so that there is always something to do.
COME_AND_GO_S = 0.5
AT_RANDOM = "at random"


@pytest.fixture
async def appends() -> AsyncIterator[KafkaGate]:
    """By which schedulers reach the broker."""
    found = KafkaGate()
    await found.start()
    yield found
    await found.close()


@pytest.fixture
def broker(tmp_path: Path, appends: KafkaGate) -> Iterator[Broker]:
    """A broker of this test alone, which may be killed."""
    found = Broker(tmp_path / "broker", gate=appends)
    found.start_blocking()
    yield found
    found.kill()


@pytest.fixture
async def kube(tmp_path: Path) -> AsyncIterator[KubeApiServer]:
    """An API server of this test alone, which may be killed and restored."""
    found = KubeApiServer(tmp_path / "kube")
    await found.start()
    yield found
    found.stop()


@pytest.fixture
async def gates(kube: KubeApiServer) -> AsyncIterator[dict[str, Gate]]:
    """By which watchers, binders and controllers reach the API server."""
    found = {role: Gate(kube.address) for role in ("watcher", "binder", "controller")}
    for gate in found.values():
        await gate.start()
    yield found
    for gate in found.values():
        await gate.close()


@pytest.fixture
async def run(
    kube: KubeApiServer,
    gates: dict[str, Gate],
    appends: KafkaGate,
    broker: Broker,
    postgres: Postgres,
    tmp_path: Path,
) -> AsyncIterator[Run]:
    addresses = {role: gate.address for role, gate in gates.items()}
    async with running(kube, broker, postgres, tmp_path / "stack", addresses) as found:
        stack = found.stack
        stack.configure("scheduler", kafka=stack.settings["kafka"] | {"servers": appends.address})
        stack.kill("scheduler")
        stack.start("scheduler", *(f"{role}-2" for role in ROLES))
        yield found


class Kills:
    """One run: who was killed where, and what else happened to the parts."""

    def __init__(
        self, run: Run, tail: Tail, kube: KubeApiServer, broker: Broker, gates: dict[str, Gate], appends: KafkaGate
    ) -> None:
        self.run, self.tail, self.kube, self.broker = run, tail, kube, broker
        self.chance = random.Random(SEED)
        self.points = Points(run.stack, tail, gates, appends, self._kill_process)
        self.pauses = Pauses(run.stack, tail, gates["binder"], appends, self._come_and_go)
        #: What was applied, by workload, and who was not bound when the API server was backed up.
        self.made: list[list[Json]] = []
        self.backup: Path | None = None
        self.unbound: set[str] = set()
        self.restored: list[str] = []
        #: Who came back with that, perhaps to a card that was another one's by then.
        self.back: set[str] = set()
        self.count: Counter[tuple[str, str]] = Counter()
        self.kills = 0
        self.led_again: list[float] = []
        #: When a leader of each role died, and from when till when a part was away or a leader stood still.
        self.deaths: dict[str, list[float]] = {role: [] for role in ROLES}
        self.disturbed: list[tuple[float, float]] = []
        self.mishaps: Counter[str] = Counter()
        self.killing: list[asyncio.Task[None]] = []

    async def rounds(self) -> None:
        """Rounds of pods and kills; more of them, if there is need, until every point was hit."""
        work = list(workload(PODS, self.chance))
        rounds = -(-KILLS // KILLS_A_ROUND)
        mishaps = self._mishaps(rounds)
        number = -1
        while (number := number + 1) < rounds or ((self.kills < KILLS or self.missed) and number < 3 * rounds):
            part = work[number * len(work) // rounds : (number + 1) * len(work) // rounds]
            self.killing = [asyncio.create_task(self._kill(role)) for role in KILLED]
            for items in part:
                await self._apply(items)
                self.made.append(items)
            for mishap in mishaps.get(number, ()):
                began = time.time()
                await mishap()
                self.disturbed.append((began, time.time()))
                self.mishaps[mishap.__name__.strip("_")] += 1
            while not all(task.done() for task in self.killing):
                await self._come_and_go()
                await asyncio.wait(self.killing, timeout=COME_AND_GO_S)
            await self._quiet()
            assert self.run.stack.ended() == []
            assert self.tail.fold.over_given == []
            await insisting(self._cards_are_well)

    async def _cards_are_well(self) -> None:
        """As the API server says, no card is over-given by us."""
        pods = await everything(self.run.api, POD, NAMESPACE)
        ours = [pod for pod in pods if pod["spec"].get("nodeName") and pod["metadata"]["uid"] not in self.back]
        assert misgiven(ours) == []

    @property
    def missed(self) -> list[tuple[str, str]]:
        """The points at which nobody died yet."""
        return [(role, point) for role in KILLED for point in self.points.of[role] if not self.count[role, point]]

    async def _apply(self, items: list[Json]) -> None:
        for item in items:
            await insisting(partial(manifests.apply, self.run.api, item))

    async def _come_and_go(self) -> None:
        """A workload is deleted, and made again under its names."""
        items = self.chance.choice(self.made)
        for item in items:
            kind = kind_of(item["apiVersion"], item["kind"])
            assert kind is not None
            await insisting(partial(self._delete, kind, item["metadata"]["name"]))
        await self._apply(items)

    async def _delete(self, kind: Kind, name: str) -> None:
        try:
            await self.run.api.delete(kind, NAMESPACE, name, grace_s=0)
        except ApiError as error:
            if error.status != 404:
                raise

    def _mishaps(self, rounds: int) -> dict[int, list[Callable[[], Awaitable[None]]]]:
        """What happens besides, each in a round of its own if there are enough."""
        these = (self._pause_scheduler, self._back_up, self._broker_dies, self._api_server_dies, self._restore,
                 self._database_dies, self._pause_binder, self._broker_dies, self._api_server_dies)  # fmt: skip
        found: dict[int, list[Callable[[], Awaitable[None]]]] = {}
        for index, what in enumerate(these):
            found.setdefault((index + 1) * rounds // (len(these) + 1), []).append(what)
        return found

    async def _kill(self, role: str) -> None:
        """Kill the leader of a role at the point that was hit least, or at random, and start it again."""
        points = self.points.of[role]
        fewest = min(self.count[role, point] for point in points)
        point = self.chance.choice([point for point in points if self.count[role, point] == fewest] + [AT_RANDOM])
        if point == AT_RANDOM or not await points[point]():
            point = AT_RANDOM
            await asyncio.sleep(self.chance.random())
            self._kill_process(self.tail.leader(self.run.stack, role) or role)
        self.count[role, point] += 1
        killed = time.monotonic()
        if role in ROLES and await self._led(role):
            self.led_again.append(time.monotonic() - killed)

    def _kill_process(self, name: str) -> None:
        role = name.partition("-")[0]
        if name == self.tail.leader(self.run.stack, role):
            self.deaths[role].append(time.time())
        self.run.stack.kill(name)
        self.run.stack.start(name)
        self.kills += 1

    def tell(self) -> None:
        """Print who died where, what else happened, and how long nobody led."""
        for (role, point), count in sorted(self.count.items()):
            print(f"  {role}: {point}: {count}")
        print(f"  besides: {dict(self.mishaps)}, restored: {self.restored}, missed: {self.missed}")
        print(f"  woken after others had done its work: {self.pauses.told}")
        print(f"  somebody led again, whatever else was going on, after {spread(self.led_again)}")
        for role in ROLES:
            group = f"gpuledger-{role}" + (f".{self.run.stack.cluster}" if role != "scheduler" else "")
            leads = [Lead(at, self.run.stack.ready_s(pid)) for at, pid in self.tail.fold.opened[role]]
            found = list(takeovers(self.deaths[role], self.broker.failed_members(group), leads, self.disturbed))
            print(f"  {role}: {len(self.deaths[role])} leaders died, {len(found)} with nothing else for a neighbour")
            for ready, whose in ((True, "of one that waited"), (False, "of one that had to start")):
                these = [item for item in found if item.waited == ready]
                print(f"    {len(these)} takeovers {whose}, from the kill on: {spread(item.whole_s for item in these)}")
                print(f"      until the group noticed: {spread(item.noticed_s for item in these)}")
                print(f"      from then until it led:  {spread(item.led_s for item in these)}")

    async def _led(self, role: str) -> bool:
        return await self.tail.until(lambda: bool(self.tail.leader(self.run.stack, role)), PATIENCE_S)

    async def _pause_scheduler(self) -> None:
        await self._quiet()
        await self.pauses.scheduler()

    async def _pause_binder(self) -> None:
        await self._quiet()
        await self.pauses.binder()

    async def _quiet(self) -> None:
        """Nobody is being killed, and of each role somebody leads."""
        await asyncio.gather(*self.killing)
        for role in ROLES:
            assert await self._led(role), f"nobody leads as {role}"

    async def _broker_dies(self) -> None:
        self.broker.kill()
        await self.broker.start()

    async def _api_server_dies(self) -> None:
        self.kube.kill_server()
        await self.kube.start()

    async def _database_dies(self) -> None:
        await asyncio.to_thread(self.run.postgres.kill)
        await asyncio.to_thread(self.run.postgres.start)

    async def _back_up(self) -> None:
        """Save the API server's state while bindings are under way."""

        async def unbound() -> None:
            pods = await everything(self.run.api, POD, NAMESPACE)
            self.unbound = {pod["metadata"]["uid"] for pod in pods if not pod["spec"].get("nodeName")}

        await insisting(unbound)
        self.backup = await asyncio.to_thread(self.kube.back_up)

    async def _restore(self) -> None:
        """Restore it, and see that versions went back; then what was made since is made again."""
        assert self.backup is not None
        before = {item["metadata"]["uid"]: item for item in await everything(self.run.api, POD, NAMESPACE)}
        newest = max(int(item["metadata"]["resourceVersion"]) for item in before.values())
        await self.kube.restore(self.backup)
        assert int((await self.run.api.list(POD, limit=1)).version) < newest
        after = {item["metadata"]["uid"] for item in await everything(self.run.api, POD, NAMESPACE)}
        self.back, gone = after - before.keys(), before.keys() - after
        self.restored.append(f"{len(self.back)} pods came back, {len(gone)} went")
        for items in self.made:
            await self._apply(items)


async def test_nothing_is_lost_and_nothing_is_done_twice(
    run: Run, kube: KubeApiServer, broker: Broker, gates: dict[str, Gate], appends: KafkaGate
) -> None:
    for item in cluster(PODS):
        await insisting(partial(manifests.apply, run.api, item))
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    log = await KafkaLog.open(run.stack.kafka)
    tail = Tail(log)
    began = time.monotonic()
    try:
        kills = Kills(run, tail, kube, broker, gates, appends)
        try:
            await kills.rounds()
        finally:
            print(f"\n{kills.kills} kills in {time.monotonic() - began:.0f} s")
            kills.tell()
        killed = time.monotonic()
        pods = await all_bound(run, tail)
        print(f"{len(pods)} pods bound {time.monotonic() - killed:.1f} s after the last kill: {kinds(pods)}")
        assert set(kinds(pods)) == {
            f"{kind}, {how}" for kind in (SHARED, EXCLUSIVE, SLICE) for how in ("alone", "in gangs")
        }
        assert {cards_of(uuid) for uuid in given(pods)} == {WHOLE, ALIKE, MIXED}
        assert kills.missed == []
        assert kills.kills >= KILLS
        assert len(kills.restored) == 1
        assert sorted(kills.pauses.told) == ["binder", "scheduler"]
        print(f"void records of those who woke: {kills.pauses.late()}")
        assert misgiven(pods) == []
        await once(tail, pods, kills.unbound)
        print(f"each bound once; with the cluster, {await run.audited('--kubernetes', str(kube.kubeconfig))}", end="")
        await status_is_written(run, tail)
        await drift_is_named(run, kube, pods[0])
        await nothing_left(run, tail)
        print("all deleted: no claims, promises or commands are left")
        assert tail.fold.over_given == []
        assert tail.fold.diverged == 0
        assert sum(isinstance(record.body, Genesis) for record, _ in tail.fold.seen) == 1, "one history"
        assert run.stack.said("was thrown away") == []
        print(f"at the end, {await run.audited()}", end="")
        await run.tables()
    finally:
        await tail.close()
        await log.close()


async def all_bound(run: Run, tail: Tail) -> list[Json]:
    """Wait until every pod has a node, and return them."""
    pods: list[Json] = []
    model = tail.fold.model
    await tail.until(lambda: sum(bool(entry.node) for entry in model.pods.values()) == PODS, PATIENCE_S)

    async def look() -> bool:
        pods[:] = await everything(run.api, POD, NAMESPACE)
        return len(pods) == PODS and all(pod["spec"].get("nodeName") for pod in pods)

    held = await until(look, PATIENCE_S)
    waiting = {pod["metadata"]["name"]: said_of(pod) for pod in pods if not pod["spec"].get("nodeName")}
    assert held, f"{len(pods)} of {PODS} pods, waiting: {waiting}"
    return pods


def said_of(pod: Json) -> list[str]:
    """Return what a waiting pod's conditions say."""
    return [condition.get("message", "") for condition in pod.get("status", {}).get("conditions", [])]


async def drift_is_named(run: Run, kube: KubeApiServer, pod: Json) -> None:
    """A pod whose cards somebody changed on the API server is named by the audit."""
    meta = pod["metadata"]
    cards = meta["annotations"][names.VGPU_IDS]

    async def write(text: str) -> None:
        merge = {"metadata": {"annotations": {names.VGPU_IDS: text}}}
        await insisting(partial(run.api.patch, POD, meta["namespace"], meta["name"], merge))

    await write(f"GPU-forged,NVIDIA,1,0:;{cards}")
    audit = await asyncio.to_thread(
        run.stack.command, "audit", "verify", "-o", "json", "--kubernetes", str(kube.kubeconfig)
    )
    await write(cards)
    found = json.loads(audit.stdout)
    assert audit.returncode == 1, audit.stderr
    assert meta["annotations"][names.DECISION] in [item["record"] for item in found["findings"]]
    assert all(f"Pod {meta['namespace']}/{meta['name']}: " in item["problem"] for item in found["findings"])


async def once(tail: Tail, pods: list[Json], unbound: set[str]) -> None:
    """Every pod is bound by the decision that it bears, which the log has; once, or once in each history.

    ``unbound``: who may have been bound before the API server was restored to a state in which it was not.
    """
    there = {pod["metadata"]["uid"]: pod for pod in pods}
    model = tail.fold.model
    assert await tail.until(
        lambda: model.pods.keys() == there.keys() and all(entry.pod.node for entry in model.pods.values()), PATIENCE_S
    )
    bound, placements = tail.bound(), tail.placements()
    assert [uid for uid, commands in bound.items() if len(commands) > (2 if uid in unbound else 1)] == []
    for uid, pod in there.items():
        notes = pod["metadata"]["annotations"]
        member = placements[notes[names.DECISION]]
        assert (member.uid, member.node, member.allocation) == (uid, pod["spec"]["nodeName"], notes[names.VGPU_IDS])
        assert not bound.get(uid) or bound[uid][-1] == notes[names.DECISION], (uid, bound[uid], notes[names.DECISION])
    held = {card.uuid: card.used_shares for view in model.nodes.values() for card in view.devices.cards}
    assert {uuid: shares for uuid, shares in held.items() if shares} == given(pods)


async def status_is_written(run: Run, tail: Tail) -> None:
    """PodGroups and queues say on the API server what the state says, though who wrote that died again and again."""
    model = tail.fold.model
    wrong: list[str] = []

    async def look() -> bool:
        groups = {item["metadata"]["uid"]: item for item in await everything(run.api, POD_GROUP, NAMESPACE)}
        queues = {item["metadata"]["name"]: item for item in await everything(run.api, QUEUE)}
        charged = allocated(model)
        wrong[:] = [
            entry.group.key
            for entry in model.groups.values()
            if entry.group.uid not in groups or status_of(groups[entry.group.uid], wanted_status(entry, model), "", "")
        ] + [
            f"queue {name}"
            for name, queue in queues.items()
            if queue.get("status", {}).get("allocated", {}) != as_status(charged.get(name, {}))
        ]
        return not wrong

    assert await until(look, PATIENCE_S), f"another status than the state's: {wrong}"


async def nothing_left(run: Run, tail: Tail) -> None:
    """When all pods are gone, nothing is held, promised or under way."""
    for kind in (POD, POD_GROUP):
        for item in await everything(run.api, kind, NAMESPACE):
            with suppress(ApiError):
                await run.api.delete(kind, NAMESPACE, item["metadata"]["name"], grace_s=0)

    def free() -> bool:
        model = tail.fold.model
        held = any(view.tasks or view.devices.claims for view in model.nodes.values())
        return not (held or model.commands or model.promises or model.pods)

    assert await tail.until(free, PATIENCE_S), "something is still held"
