"""Evictions come to rest, and nobody is evicted in vain, whatever comes in whatever order (scheduling/PG-11 to PG-11c).

Small clusters with random queues, priorities, gangs and sizes (1, 3, 7 and 11 units, so that much fits exactly or just
not). Pods that are evicted end some rounds later, in any order, and come back as new ones, as a controller makes them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from rules.cycle.build import World, gpu, group, node, pod, queue, thing

from events.records import Batch, EvictCommand, Outcome
from scheduling.config.model import PluginOption, SchedulerConfig
from scheduling.cycle import promises, snapshot
from scheduling.cycle.accounts import change
from scheduling.cycle.memo import Memo
from scheduling.cycle.plugins import PLUGINS
from scheduling.cycle.plugins.queues import QueuePlugin
from scheduling.cycle.session import Session
from scheduling.status import READY, TaskStatus

UNIT = 100
SIZES = (1, 3, 7, 11)
CLASSES = {"low": 10, "mid": 100, "high": 1000}
CRITICAL = "system-node-critical"
BY_TASK = ("enqueue", "allocate", "preempt", "reclaim", "backfill")
BY_GANG = ("enqueue", "allocate", "gangpreempt", "gangreclaim", "backfill")


@dataclass(frozen=True)
class JobShape:
    queue: str
    klass: str
    size: int
    minimum: int
    units: int
    cards: int
    critical: bool
    comes_back: bool


@dataclass(frozen=True)
class Shape:
    actions: tuple[str, ...]
    plugin: str
    nodes: tuple[tuple[int, int], ...]
    queues: tuple[tuple[int, int], ...]
    jobs: tuple[JobShape, ...]
    together: tuple[bool, ...]


def job_shapes(queues: list[str]) -> st.SearchStrategy[JobShape]:
    """Mostly elastic jobs of several pods: a gang at its minMember gives nobody."""
    return st.builds(
        JobShape,
        queue=st.sampled_from(queues),
        klass=st.sampled_from(sorted(CLASSES)),
        size=st.integers(1, 4),
        minimum=st.sampled_from((1, 1, 1, 2, 3)),
        units=st.sampled_from(SIZES),
        cards=st.sampled_from((1, 1, 1, 2)),
        critical=st.sampled_from((False, False, False, False, True)),
        comes_back=st.booleans(),
    )


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """A cluster, and jobs that mostly come in order of rising priority, each after the others have settled."""
    names = [f"q{i}" for i in range(draw(st.integers(1, 3)))]
    jobs = draw(st.lists(job_shapes(names), min_size=3, max_size=7))
    if draw(st.integers(0, 3)):
        jobs.sort(key=lambda job: CLASSES[job.klass])
    room = st.tuples(st.integers(1, 2), st.sampled_from((10, 11, 12, 14, 18, 22)))
    return Shape(
        actions=draw(st.sampled_from((BY_TASK, BY_TASK, BY_GANG))),
        plugin=draw(st.sampled_from(("proportion", "capacity"))),
        nodes=tuple(draw(st.lists(room, min_size=1, max_size=2))),
        queues=tuple((draw(st.integers(1, 3)), draw(st.sampled_from((0, 3, 7, 11, 14, 22)))) for _ in names),
        jobs=tuple(job if job.minimum <= job.size else replace(job, minimum=job.size) for job in jobs),
        together=tuple(draw(st.integers(0, 4)) == 0 for _ in jobs),
    )


def config(shape: Shape) -> SchedulerConfig:
    first = tuple(PluginOption(name) for name in ("priority", "gang", "conformance"))
    second = (
        PluginOption("drf"),
        PluginOption("deviceshare", {"deviceshare.VGPUEnable": True, "deviceshare.SchedulePolicy": "binpack"}),
        PluginOption("predicates"), PluginOption(shape.plugin), PluginOption("nodeorder"), PluginOption("binpack"),
    )  # fmt: skip
    return SchedulerConfig(shape.actions, (first, second))


class Storm(World):
    """A world in which evicted pods end later and come back; every eviction is checked when it is decided."""

    def __init__(self, shape: Shape) -> None:
        super().__init__(config=config(shape))
        self.shape = shape
        self.ending: list[tuple[int, str]] = []
        self.served: dict[str, set[str]] = {}
        self.births = 0
        for index, (cards, units) in enumerate(shape.nodes):
            self.see(node(f"n{index}", cards, units * UNIT))
        for name, value in CLASSES.items():
            self.see(thing("PriorityClass", name, value=value))
        for index, (weight, units) in enumerate(shape.queues):
            deserved = {"volcano.sh/vgpu-memory": str(units * UNIT)} if units else {}
            self.see(queue(f"q{index}", weight=weight, deserved=deserved, age=index))

    def arrive(self, index: int) -> None:
        job = self.shape.jobs[index]
        spec = {"priorityClassName": job.klass}
        self.see(group(f"j{index}", job.minimum, queue=job.queue, age=10 + index, spec=spec))
        for number in range(job.size):
            self.see(self._pod_of(index, number))

    def _pod_of(self, index: int, number: int, uid: str = "") -> dict[str, Any]:
        job = self.shape.jobs[index]
        spec = {"priorityClassName": CRITICAL} if job.critical else {}
        asked = gpu(job.units * UNIT, 10, job.cards)
        return pod(f"j{index}-w-{number}", f"j{index}", asked, age=10 + index, spec=spec, uid=uid)

    def play(self, draw: Any) -> None:
        """Decide and carry out until all is at rest; fails if that takes too long."""
        pods = sum(job.size for job in self.shape.jobs)
        for _ in range(30 + 12 * pods):
            self.before = {key: self._ready(key) for key in self.model.groups}
            accounts = self._accounts()
            batch = self.step()
            if batch is None and not self.model.commands and not self.ending:
                self._served()
                return
            if batch is not None:
                self._check(batch, accounts)
            self._carry_out()
            self._end(draw)
        raise AssertionError("evictions do not come to rest")

    def _carry_out(self) -> None:
        evictions = [command for command in self.model.commands.values() if command.evict]
        for command in evictions:
            assert command.evict is not None
            self._terminate(command.id, command.evict)
        self.effects()

    def _terminate(self, command: str, evict: EvictCommand) -> None:
        item = self.objects["Pod", evict.uid]
        self.see({**item, "metadata": {**item["metadata"], "deletionTimestamp": "2026-01-01T00:00:30Z"}})
        self._say("binder", Outcome(command=command, verb="evict", namespace=evict.namespace, name=evict.name,
                                    uid=evict.uid, result="applied", version=str(self._version),
                                    time_ms=self.time_ms))  # fmt: skip
        self.ending.append((0, evict.uid))

    def _end(self, draw: Any) -> None:
        """Some of the terminating pods end, at the latest in their third round; some come back."""
        left = []
        for age, uid in self.ending:
            if age < 2 and draw(st.booleans()):
                left.append((age + 1, uid))
                continue
            item = self.objects["Pod", uid]
            self.gone(item)
            index, number = (int(part) for part in item["metadata"]["name"][1:].split("-w-"))
            if self.shape.jobs[index].comes_back:
                self.births += 1
                self.see(self._pod_of(index, number, f"uid-{self.births}"))
        self.ending = left

    # --- what must hold ---

    def _accounts(self) -> QueuePlugin:
        """The queue plugin of a session on the present state."""
        config = self.model.config
        assert config is not None
        session = Session(self.model, config, snapshot.take(self.model, config, Memo()), self.time_ms)
        session.open(PLUGINS)
        promises.restore(session)
        plugin = session.plugin(self.shape.plugin)
        assert isinstance(plugin, QueuePlugin)
        return plugin

    def _ready(self, key: str) -> int:
        return sum(self.model.pods[uid].status in READY for uid in self.model.members.get(key, ()))

    def _check(self, batch: Batch, accounts: QueuePlugin) -> None:
        self._count_in(batch, accounts)
        for evict in batch.evictions:
            entry = self.model.pods[evict.uid]
            assert entry.pod.priority_class != CRITICAL, "conformance protects it (CFG-14)"
            key = entry.pod.group_key
            victim, asker = self.model.groups[key].group, self.model.groups[evict.for_group].group
            assert evict.rule
            assert evict.victim_share
            assert evict.preemptor_share
            self.served.setdefault(evict.for_group, set())
            if evict.reason in ("preempt", "reclaim"):
                assert self._ready(key) >= victim.min_member, "a gang at its minMember is not broken (PG-11b)"
            if evict.reason in ("preempt", "gangpreempt"):
                assert victim.queue == asker.queue
                assert CLASSES[victim.priority_class] <= CLASSES[asker.priority_class], "PG-11b"
            else:
                assert victim.queue != asker.queue
            account = accounts.account(victim.queue)
            if evict.reason == "reclaim":
                assert accounts.excess(account, account.allocated), "no queue loses what it deserves (PG-11b)"
            change(account, accounts.session.tasks[evict.uid], -1)

    def _count_in(self, batch: Batch, accounts: QueuePlugin) -> None:
        """What was placed before in the same cycle counts too."""
        promised = {promise.uid for promise in batch.promises or ()}
        placed = {member.uid for command in batch.binds for member in command.members}
        for uid in sorted((promised | placed) & set(accounts.session.tasks)):
            task = accounts.session.tasks[uid]
            if task.status is TaskStatus.PENDING:
                change(accounts.account(task.job.queue.name), task, 1)

    def _served(self) -> None:
        """Whoever others made way for has what it needs."""
        for key in self.served:
            group = self.model.groups[key].group
            assert self._ready(key) >= group.min_member, f"evicted in vain for {key}"
        self.served.clear()
        assert not self.model.promises


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(shape=shapes(), data=st.data())
def test_evictions_come_to_rest_and_are_never_in_vain(shape: Shape, data: st.DataObject) -> None:
    """scheduling/PG-11c, CFG-13"""
    storm = Storm(shape)
    for index in range(len(shape.jobs)):
        storm.arrive(index)
        if not shape.together[index]:
            storm.play(data.draw)
    storm.play(data.draw)
