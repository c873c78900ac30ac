"""A small cluster's history, written record by record: for tests of what reads a log."""

from __future__ import annotations

from typing import Any

from adapters.clock import ManualClock
from adapters.log.follower import Follower
from adapters.log.port import Log
from adapters.log.writer import TermWriter
from events.canonical import Json
from events.kinds import CONFIG_MAP, NODE, OBSERVED_KINDS, POD, POD_GROUP, QUEUE, Kind
from events.names import GROUP_NAME, NODE_REGISTER, SCHEDULER_CONFIG
from events.records import Batch, BindCommand, Body, Deleted, ListChunk, ListEnd, Member, Observed, Outcome
from scheduling.decide import ENGINE, decide
from scheduling.state.decisions import decision_prefix
from scheduling.state.fold import Fold

START_MS = 1_790_000_000_000
CONFIG = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
- plugins:
  - name: drf
  - name: deviceshare
    arguments:
      deviceshare.VGPUEnable: true
      deviceshare.GPUExclusiveRules:
        - workloadType: training
  - name: predicates
  - name: proportion
  - name: nodeorder
"""


class Story:
    """Writers of all three roles and the fold of what they wrote."""

    def __init__(self, log: Log, cluster: str = "prod") -> None:
        self.log = log
        self.clock = ManualClock(START_MS)
        self.follower = Follower(log, Fold())
        self.watcher = TermWriter(log, self.clock, cluster, "watcher", "w")
        self.scheduler = TermWriter(log, self.clock, cluster, "scheduler", "s")
        self.binder = TermWriter(log, self.clock, cluster, "binder", "b")
        self.batches = 0
        self.version = 0

    @property
    def fold(self) -> Fold:
        return self.follower.state

    async def begin(self, incarnation: str = "i1") -> None:
        """Open all terms, list every kind (empty but for what is given), and observe a configuration."""
        for writer in (self.watcher, self.scheduler, self.binder):
            await writer.open(0, incarnation, {})
        _, name, key = SCHEDULER_CONFIG
        await self.observe(CONFIG_MAP, {"data": {key: CONFIG}}, name, SCHEDULER_CONFIG[0], listed=True)
        await self.observe(QUEUE, {"spec": {"weight": 1}}, "default", listed=True)
        known = {CONFIG_MAP: ["uid-" + name], QUEUE: ["uid-default"]}
        for kind in OBSERVED_KINDS:
            await self.list_end(kind, known.get(kind, []))

    async def write(self, writer: TermWriter, body: Body, subject: str = "") -> int:
        """Append one record, fold it, and return its position."""
        position = (await writer.append([(subject, body)]))[0]
        await self.follower.catch_up()
        self.clock.time_ms += 1_000
        return position

    async def list_end(self, kind: Kind, uids: list[str]) -> None:
        where: dict[str, Any] = {"api_version": kind.api_version, "kind": kind.name, "list_id": 1}
        await self.write(self.watcher, ListChunk(**where, uids=uids))
        await self.write(self.watcher, ListEnd(**where, version=str(self.version), count=len(uids), digest=""))

    async def observe(self, kind: Kind, content: Json, name: str, namespace: str = "", *, listed: bool = False) -> int:
        """Observe an object under a uid that follows from its name, at the next version."""
        self.version += 1
        meta = {"name": name, "uid": "uid-" + name, **({"namespace": namespace} if namespace else {})}
        meta.update(content.get("metadata", {}))
        body = Observed(
            api_version=kind.api_version,
            kind=kind.name,
            object={**content, "metadata": meta},
            version=str(self.version),
            listed=listed,
        )
        return await self.write(
            self.watcher, body, f"{kind.name}/{namespace}/{name}" if namespace else f"{kind.name}/{name}"
        )

    async def node(self, name: str, cards: int = 2, memory: int = 8_000) -> int:
        """Observe a node with hami-core cards of ten shares each."""
        register = "".join(f"GPU-{name}-{card},10,{memory},NVIDIA-A100,true,hami-core:" for card in range(cards))
        room = {"cpu": "32", "memory": "64Gi", "pods": "110", "volcano.sh/vgpu-number": str(cards * 10),
                "volcano.sh/vgpu-memory": str(cards * memory), "volcano.sh/vgpu-cores": str(cards * 100)}  # fmt: skip
        content = {"metadata": {"annotations": {NODE_REGISTER: register}}, "status": {"allocatable": room}}
        return await self.observe(NODE, content, name)

    async def group(self, name: str, members: int = 1) -> int:
        """Observe a PodGroup of queue default."""
        return await self.observe(POD_GROUP, {"spec": {"minMember": members, "queue": "default"}}, name, "team-a")

    async def pod(self, name: str, group: str, *, rule: bool = False, number: int = 1, memory: int = 1_000) -> int:
        """Observe a pending vGPU pod; with ``rule`` it falls under the exclusivity rule."""
        limits = {"volcano.sh/vgpu-number": str(number), "volcano.sh/vgpu-memory": str(memory)}
        content: Json = {
            "metadata": {
                "annotations": {GROUP_NAME: group},
                "labels": {"workloadType": "training"} if rule else {},
            },
            "spec": {
                "schedulerName": "gpuledger",
                "containers": [{"name": "c", "resources": {"limits": limits, "requests": limits}}],
            },
            "status": {"phase": "Pending"},
        }
        return await self.observe(POD, content, name, "team-a")

    async def gone(self, kind: Kind, name: str, namespace: str = "") -> int:
        body = Deleted(api_version=kind.api_version, kind=kind.name, namespace=namespace, name=name, uid="uid-" + name)
        return await self.write(self.watcher, body, f"{kind.name}/{namespace}/{name}")

    def member(self, n: int, pod: str, node: str, allocation: str = "") -> Member:
        return Member(
            n=n, namespace="team-a", name=pod, uid="uid-" + pod, version="1", node=node, node_uid="uid-" + node,
            allocation=allocation,
        )  # fmt: skip

    async def bind(self, group: str, *members: Member, base: int = 0) -> int:
        """Append a batch by hand that binds members; ``base``: based that many records earlier."""
        place, state = self.fold.mark()
        chain = self.follower.chain
        if base:
            chain, state = self.fold._marks[-base]
        command = BindCommand(group=f"team-a/{group}", group_uid="uid-" + group, members=list(members))
        body = Batch(
            batch=self.batches, base=place - base, chain=chain, state=state, time_ms=self.clock.time_ms, engine=ENGINE,
            binds=[command],
        )  # fmt: skip
        self.batches += 1
        return await self.write(self.scheduler, body)

    async def decide(self) -> Batch | None:
        """Decide as the scheduler does, append the batch, and return it; None if there was nothing new."""
        body = decide(self.fold, self.clock.time_ms, self.follower.chain, self.batches)
        if body is not None:
            self.batches += 1
            await self.write(self.scheduler, body)
        return body

    def command(self, n: int, batch: int | None = None) -> str:
        """Return the id of a command of a batch, the last one if not said."""
        number = self.batches - 1 if batch is None else batch
        return f"{decision_prefix(self.fold.model, self.scheduler.term, number)}/{n}"

    async def outcome(self, command: str, pod: str, result: Any = "applied", message: str = "") -> int:
        body = Outcome(
            command=command, verb="bind", namespace="team-a", name=pod, uid="uid-" + pod, result=result, version="900",
            node="n1", message=message, time_ms=self.clock.time_ms,
        )  # fmt: skip
        return await self.write(self.binder, body, f"Pod/team-a/{pod}")


async def two_decisions(story: Story) -> None:
    """Two decisions with observations before and after each."""
    await story.begin()
    await story.node("n1")
    await story.group("g1", 2)
    await story.pod("p0", "g1")
    await story.pod("p1", "g1", rule=True)
    await story.group("g2")
    await story.pod("big", "g2", memory=90_000)
    assert await story.decide()
    await story.outcome(story.command(0), "p0")
    await story.outcome(story.command(1), "p1", "refused", "no")
    await story.node("n2", memory=100_000)
    await story.node("n3", memory=100_000)
    await story.node("n4")
    await story.pod("p2", "g1")
    assert await story.decide()
    await story.node("n5")
