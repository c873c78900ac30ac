"""What the kills need: a tail of the log that judges as it reads, a workload in slices, and who leads at the moment."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from system.stack import Stack

from adapters.log.follower import Follower
from adapters.log.port import Log, LogError
from events import names
from events.canonical import Json
from events.records import Batch, Member, Opened, Outcome, Record
from scheduling.state.fold import APPLIED, Fold
from services.cli.labscript import NAMESPACE

CARDS = 8
#: Memory of a card by the first letter of its node: whole cards, one way to cut them, two of them.
WHOLE, ALIKE, MIXED = "n", "m", "x"
CARD_MB = {WHOLE: 8_192, ALIKE: 81_920, MIXED: 40_960}
_MODEL = {WHOLE: "NVIDIA-RTX", ALIKE: "NVIDIA-NVIDIA A100-SXM4-80GB", MIXED: "NVIDIA-NVIDIA A100-SXM4-40GB"}
_SHARES = {WHOLE: 10, ALIKE: 7, MIXED: 7}
#: What pods ask for: every second workload asks for cores, or for slices of cards that can be cut in two ways. Every
#: second slice of a gang is a large one.
_CORES, _SMALL, _LARGE = "40", "3000", "6000"
GANG = "gang-"
#: Beside others on a card, alone of its kind on a card (exclusivity), on a MIG slice of its own.
SHARED, EXCLUSIVE, SLICE = "shared", "training", "slice"
_LOOK_EVERY_S = 0.03
_CONFIG = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins:
  - {name: drf}
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true
      deviceshare.SchedulePolicy: binpack
      deviceshare.GPUExclusiveRules: [{workloadType: training}]
  - {name: predicates}
  - {name: proportion}
  - {name: nodeorder}
"""
_GEOMETRY = """
nvidia:
  knownMigGeometries:
  - models: [A100-SXM4-80GB]
    allowedGeometries:
    - {group: group1, geometries: [{name: 1g.10gb, memory: 9728, count: 7}]}
  - models: [A100-SXM4-40GB]
    allowedGeometries:
    - {group: group1, geometries: [{name: 1g.5gb, memory: 5120, count: 7}]}
    - {group: group2, geometries: [{name: 2g.10gb, memory: 10240, count: 3}, {name: 1g.5gb, memory: 5120, count: 1}]}
"""


def pid_of(writer: str) -> int:
    """Return the process that writes under a name (``services.runtime.process``: host, process, chance)."""
    return int(writer.split("/")[1])


class Judging(Fold):
    """A fold that keeps every record with its verdict, and looks after each batch whether a card is over-given."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[Record, str]] = []
        #: When a term of a role was read that counts, and the process id of its writer.
        self.opened: dict[str, list[tuple[float, int]]] = defaultdict(list)
        self.over_given: list[str] = []

    def apply(self, position: int, record: Record, chain_before: str) -> str:
        verdict = super().apply(position, record, chain_before)
        self.seen.append((record, verdict))
        if isinstance(record.body, Opened) and verdict.startswith(APPLIED):
            self.opened[record.body.role].append((time.time(), pid_of(record.body.writer)))
        if self.after_batch:
            self.over_given += [
                f"{position}: card {card.uuid}"
                for view in self.model.nodes.values()
                for card in view.devices.cards
                if card.used_memory > card.memory or card.used_shares > card.shares or card.used_cores > 100
            ]
        return verdict


class Tail:
    """Reads the log all the while."""

    def __init__(self, log: Log) -> None:
        self.follower: Follower[Judging] = Follower(log, Judging())
        self._task = asyncio.create_task(self._read())

    @property
    def fold(self) -> Judging:
        return self.follower.state

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def until(self, holds: Callable[[], bool], patience_s: float) -> bool:
        deadline = time.monotonic() + patience_s
        while not holds():
            if self._task.done():
                self._task.result()
            if time.monotonic() > deadline:
                return False
            await asyncio.sleep(_LOOK_EVERY_S)
        return True

    async def record(self, wanted: Callable[[Record], bool], patience_s: float, start: int | None = None) -> bool:
        """Wait until a record comes that is wanted, from now on or from so many that were seen."""
        begin = len(self.fold.seen) if start is None else start
        return await self.until(lambda: any(wanted(record) for record, _ in self.fold.seen[begin:]), patience_s)

    def since_opened(self, role: str) -> list[Record]:
        """Return what a role has appended in its present term, besides its beginning."""
        found: list[Record] = []
        for record, _ in reversed(self.fold.seen):
            if record.role == role and isinstance(record.body, Opened):
                break
            if record.role == role:
                found.append(record)
        return found

    def leader(self, stack: Stack, role: str) -> str:
        """Return the name of the process that leads a role, empty if it is none of ours (any more)."""
        term = self.fold.model.terms.get(role)
        pid = pid_of(term.writer) if term and term.writer else 0
        return next((name for name, number in stack.pids().items() if number == pid), "")

    def bound(self) -> dict[str, list[str]]:
        """Return for each pod the commands by which it was reported bound, in records that count."""
        found: dict[str, list[str]] = {}
        for record, verdict in self.fold.seen:
            body = record.body
            if isinstance(body, Outcome) and (body.verb, body.result, verdict) == ("bind", "applied", APPLIED):
                found.setdefault(body.uid, []).append(body.command)
        return found

    def placements(self) -> dict[str, Member]:
        """Return every placement that was decided, by its command."""
        found: dict[str, Member] = {}
        for record, verdict in self.fold.seen:
            if isinstance(record.body, Batch) and verdict.startswith(APPLIED):
                prefix = record.id.rpartition("/")[0]
                found |= {
                    f"{prefix}/{record.term}.{record.body.batch}/{member.n}": member
                    for command in record.body.binds
                    for member in command.members
                }
        return found

    async def _read(self) -> None:
        while True:
            with suppress(LogError):
                await self.follower.catch_up()
            await asyncio.sleep(_LOOK_EVERY_S)


# --- the workload ---------------------------------------------------------------------------------------------------


def cluster(pods: int) -> list[Json]:
    """Return the nodes and configurations for so many pods: there is room for all of them."""
    items = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        _config_map(*names.SCHEDULER_CONFIG, _CONFIG),
        _config_map(*names.DEVICE_CONFIG, _GEOMETRY),
    ]
    items += [_node(f"{WHOLE}{index}") for index in range(pods // 20 + 2)]
    items += [_node(f"{ALIKE}{index}") for index in range(pods // 200 + 1)]
    items += [_node(f"{MIXED}{index}") for index in range(pods // 100 + 1)]
    return items


def _config_map(namespace: str, name: str, key: str, text: str) -> Json:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": namespace, "name": name},
            "data": {key: text}}  # fmt: skip


def _node(name: str) -> Json:
    what = name[0]
    mode = "hami-core" if what == WHOLE else "mig"
    number, memory = CARDS * _SHARES[what], CARDS * CARD_MB[what]
    cards = "".join(f"GPU-{name}-{i},{_SHARES[what]},{CARD_MB[what]},{_MODEL[what]},true,{mode}:" for i in range(CARDS))
    room = {"cpu": "256", "memory": "1Ti", "pods": "500", "volcano.sh/vgpu-number": str(number),
            "volcano.sh/vgpu-memory": str(memory), "volcano.sh/vgpu-cores": str(CARDS * 100)}  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"cards": what, "kubernetes.io/hostname": name},
            "annotations": {names.NODE_REGISTER: cards},
        },
        "status": {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def workload(pods: int, chance: random.Random) -> Iterator[list[Json]]:
    """Yield the objects of one workload after another: gangs of awkward sizes, pods alone, exclusive ones, slices.

    Each of these in each size comes once before chance decides.
    """
    left, number = pods, 0
    first = [(what, size) for size in (1, 2, 3, 7) for what in (SHARED, EXCLUSIVE, SLICE)]
    while left > 0:
        number += 1
        drawn = chance.choice((SHARED, SHARED, EXCLUSIVE, SLICE)), chance.choice((1, 1, 2, 3, 7))
        what, size = first.pop(0) if first else drawn
        size = min(left, size)
        group = f"{GANG}{number}" if size > 1 else ""
        items: list[Json] = []
        if group:
            items.append({"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
                          "metadata": {"namespace": NAMESPACE, "name": group},
                          "spec": {"minMember": size, "queue": "default"}})  # fmt: skip
        items += [_pod(number, index, group, what) for index in range(size)]
        left -= size
        yield items


def _pod(number: int, index: int, group: str, what: str) -> Json:
    second = number % 2 == 0
    amounts = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1200"}
    cards = WHOLE
    if what == SLICE:
        cards = MIXED if second else ALIKE
        amounts["volcano.sh/vgpu-memory"] = _LARGE if index % 2 else _SMALL
    elif second:
        amounts["volcano.sh/vgpu-cores"] = _CORES
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "namespace": NAMESPACE,
            "name": f"w{number}-{index}",
            "labels": {"workloadType": what},
            **({"annotations": {names.GROUP_NAME: group}} if group else {}),
        },
        "spec": {
            "schedulerName": "volcano",
            "nodeSelector": {"cards": cards},
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "none", "resources": {"limits": amounts}}],
        },
    }


def kinds(pods: list[Json]) -> dict[str, int]:
    """Return how many pods there are of each kind of workload, alone and in gangs."""
    found: Counter[str] = Counter()
    for pod in pods:
        meta: dict[str, Any] = pod["metadata"]
        in_gang = meta.get("annotations", {}).get(names.GROUP_NAME, "").startswith(GANG)
        found[f"{meta['labels']['workloadType']}{', in gangs' if in_gang else ', alone'}"] += 1
    return dict(sorted(found.items()))


# --- the judgement --------------------------------------------------------------------------------------------------


def given(pods: list[Json]) -> dict[str, int]:
    """Return how many shares of each card pods hold, by their annotations."""
    held: Counter[str] = Counter()
    for pod in pods:
        for share in (
            part for part in pod["metadata"]["annotations"][names.VGPU_IDS].replace(";", "").split(":") if part
        ):
            held[share.partition(",")[0].partition("[")[0]] += 1
    return dict(held)


def misgiven(pods: list[Json]) -> list[str]:
    """Return what is wrong with how the API server says that cards are given."""
    memories: Counter[str] = Counter()
    cores: Counter[str] = Counter()
    shares: Counter[str] = Counter()
    alone: Counter[str] = Counter()
    cuts: dict[str, set[str]] = defaultdict(set)
    for pod in pods:
        meta: dict[str, Any] = pod["metadata"]
        record = meta["annotations"][names.VGPU_IDS]
        for share in (part for part in record.replace(";", "").split(":") if part):
            card, _, memory, core = share.split(",")
            uuid, _, cut = card.partition("[")
            memories[uuid] += int(memory)
            cores[uuid] += int(core)
            shares[uuid] += 1
            if cut:
                alone[card] += 1
                cuts[uuid].add(cut.partition("-")[0])
            elif meta["labels"]["workloadType"] == EXCLUSIVE:
                alone[f"training on {uuid}"] += 1
    wrong = [f"{uuid}: {memory} MiB" for uuid, memory in memories.items() if memory > CARD_MB[cards_of(uuid)]]
    wrong += [f"{uuid}: {count} shares" for uuid, count in shares.items() if count > _SHARES[cards_of(uuid)]]
    wrong += [f"{uuid}: {core} % of its cores" for uuid, core in cores.items() if core > 100]
    wrong += [f"{uuid}: cut into {groups}" for uuid, groups in cuts.items() if len(groups) > 1]
    return wrong + [f"{what}: {count} times" for what, count in alone.items() if count > 1]


def cards_of(uuid: str) -> str:
    """Return of which kind of node a card is."""
    return uuid.removeprefix("GPU-")[0]
