"""Design section 3: what is remembered between decisions saves work and changes nothing.

Random histories are decided with the memory of all decisions before and without any: ``World.step`` compares the two,
byte for byte, at every step. Queues are full, closed, opened and changed, nodes come and go, groups wait for all kinds
of reasons, time passes; the configurations are those that the resting of jobs (``cycle.resting``) has to do with.
"""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from rules.cycle.build import MEMORY, PERCENTAGE, World, bare, gang, gpu, group, node, pod, queue, thing

from scheduling.config.model import PluginOption, SchedulerConfig
from scheduling.config.parse import builtin_default, default_config
from scheduling.cycle.memo import Memo
from scheduling.cycle.standing import Standing

Json = dict[str, Any]
PLAIN = ("enqueue", "allocate", "backfill")
SHARE = PluginOption("deviceshare", {"deviceshare.VGPUEnable": True, "deviceshare.SchedulePolicy": "binpack"})


def config(
    *plugins: PluginOption, actions: tuple[str, ...] = PLAIN, arguments: dict[str, Json] | None = None
) -> SchedulerConfig:
    first = (PluginOption("priority"), PluginOption("gang"), PluginOption("conformance"))
    second = (SHARE, PluginOption("predicates"), *plugins, PluginOption("nodeorder"), PluginOption("binpack"))
    return SchedulerConfig(actions, (first, second), arguments or {})


DRF, PROPORTION = PluginOption("drf"), PluginOption("proportion")
CAPACITY = PluginOption("capacity", {}, {"enableHierarchy": True})
CONFIGS = {
    "default": default_config(),
    "overcommit": builtin_default(),
    "hierarchy": config(DRF, CAPACITY),
    "no queues": config(DRF),
    "no enqueue": config(DRF, PROPORTION, actions=("allocate", "backfill")),
    "timed": config(PROPORTION, PluginOption("sla", {"sla-waiting-time": "4m"}),
                    arguments={"enqueue": {"inqueue-timeout": "5m"}}),
    "windows": config(PROPORTION, PluginOption("tdm", {"tdm.revocable-zone.rz": "00:00-00:20"})),
    "lent": config(PluginOption("proportion", {"proportion.borrow": True})),
    "kept room": config(PROPORTION, arguments={"allocate": {"gang-reservation-cycles": 2}}),
    "sampled": config(PROPORTION, arguments={"allocate": {"percentageOfNodesToFind": 50, "minNodesToFind": 1}}),
    "evictions": config(DRF, PROPORTION, actions=(*PLAIN, "preempt", "reclaim")),
    "gang evictions": config(DRF, CAPACITY, actions=(*PLAIN, "gangpreempt", "gangreclaim")),
}  # fmt: skip


class Story:
    """A history that goes on at random."""

    def __init__(self, seed: int, configuration: SchedulerConfig) -> None:
        self.rng = Random(seed)
        self.world = World(config=configuration)
        self.number = 0
        self.lives: dict[str, int] = {}
        for index in range(4):
            self.see_queue(f"q{index}")
        for index in range(3):
            self.see_node(f"n{index}")

    def turn(self) -> None:
        turns = (self.work, self.work_end, self.group_alone, self.pods_alone, self.a_queue, self.a_node, self.time,
                 self.priority, self.namespace, self.effects, self.nothing)  # fmt: skip
        self.rng.choices(turns, (8, 5, 1, 1, 3, 2, 2, 1, 1, 6, 2))[0]()
        if self.rng.random() < 0.7:
            self.world.step()

    # --- what happens ---

    def asked(self) -> Json:
        rng = self.rng
        kind = rng.random()
        if kind < 0.1:
            return {}
        if kind < 0.2:
            return {"cpu": rng.choice(("1", "500m", "40"))}
        if kind < 0.3:
            return gpu(None, 10, **{PERCENTAGE: rng.choice(("30", "60"))})
        return {**gpu(rng.choice((500, 1000, 1000, 3000, 3001, 9000)), rng.choice((0, 10, 40))),
                **({"cpu": "1"} if rng.random() < 0.3 else {})}  # fmt: skip

    def fields(self) -> Json:
        rng = self.rng
        spec: Json = {}
        if rng.random() < 0.15:
            spec["nodeSelector"] = {"disk": "ssd"}
        if rng.random() < 0.1:
            spec["affinity"] = {
                "podAntiAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": [
                        {"labelSelector": {"matchLabels": {"app": "x"}}, "topologyKey": "kubernetes.io/hostname"}
                    ]
                }
            }
        if rng.random() < 0.05:
            spec["schedulingGates"] = [{"name": "wait"}]
        return {"spec": spec, "labels": {"app": "x"} if rng.random() < 0.1 else {}}

    def work(self) -> None:
        rng, name = self.rng, self.name()
        where = rng.choice(("q0", "q1", "q2", "q3", "q9", "default"))
        if rng.random() < 0.4:
            self.world.see(bare(name, self.asked(), queue_name=where, age=rng.randrange(60), **self.fields()))
            return
        size = rng.randrange(1, 5)
        spec: Json = {"priorityClassName": "high"} if rng.random() < 0.3 else {}
        if rng.random() < 0.3:
            spec["minTaskMember"] = {"worker": rng.randrange(0, size + 1)}
        asked = self.asked()
        if rng.random() < 0.4:
            spec["minResources"] = asked
        found = gang(name, size, asked, rng.randrange(1, size + 1), age=rng.randrange(60), queue=where, spec=spec)
        if rng.random() < 0.3:
            del found[0]["spec"]["minResources"]
        self.world.see(found)

    def group_alone(self) -> None:
        spec: Json = {"minResources": gpu(1000)} if self.rng.random() < 0.7 else {}
        self.world.see(group(self.name(), queue=self.rng.choice(("q0", "q1")), spec=spec))

    def pods_alone(self) -> None:
        """Pods whose group comes later, or never."""
        groups = sorted(self.world.model.groups)
        name = self.rng.choice([key.partition("/")[2] for key in groups] or ["never"])
        self.world.see(pod(self.name(), self.rng.choice((name, "never")), self.asked(), **self.fields()))

    def work_end(self) -> None:
        rng, world = self.rng, self.world
        of = "Pod" if rng.random() < 0.8 else "PodGroup"
        items = [item for (kind, _), item in sorted(world.objects.items()) if kind == of]
        if not items:
            return
        item = rng.choice(items)
        if of == "PodGroup" or rng.random() < 0.5:
            world.gone(item)
        elif item["spec"].get("nodeName"):
            world.see({**item, "status": {"phase": rng.choice(("Succeeded", "Failed", "Running"))}})
        elif rng.random() < 0.5:
            world.see({**item, "metadata": {**item["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
        else:
            annotations = {
                **item["metadata"]["annotations"],
                "scheduling.k8s.io/group-name": rng.choice(("a", "never")),
            }
            world.see({**item, "metadata": {**item["metadata"], "annotations": annotations}})

    def see_queue(self, name: str) -> None:
        rng = self.rng
        fields: Json = {"weight": rng.randrange(1, 4), "priority": rng.choice((0, 0, 0, 5))}
        for key, chance in (("capability", 0.6), ("deserved", 0.4)):
            if rng.random() < chance:
                fields[key] = {MEMORY: str(rng.choice((0, 1000, 2000, 4000, 8000))), "cpu": rng.choice(("1", "8"))}
        if rng.random() < 0.2:
            fields["guarantee"] = {"resource": {MEMORY: str(rng.choice((500, 2000)))}}
        if name in ("q2", "q3") and rng.random() < 0.5:
            fields["parent"] = rng.choice(("q1", "root"))
        self.world.see(queue(name, uid=self.uid(name), state=rng.choice(("Open", "Open", "Open", "Closed")), **fields))

    def a_queue(self) -> None:
        name = self.rng.choice(("q0", "q1", "q2", "q3", "q9"))
        if not self.gone("Queue", name, 0.2):
            self.see_queue(name)

    def see_node(self, name: str) -> None:
        rng = self.rng
        labels = {"kubernetes.io/hostname": name}
        if rng.random() < 0.5:
            labels["disk"] = "ssd"
        if rng.random() < 0.2:
            labels["volcano.sh/revocable-zone"] = "rz"
        cards, memory = rng.randrange(0, 3), rng.choice((2000, 4000, 8192))
        self.world.see(node(name, cards, memory, uid=self.uid(name), cpu=rng.choice(("4", "32")),
                            labels=labels, spec={"unschedulable": rng.random() < 0.15}))  # fmt: skip

    def a_node(self) -> None:
        name = f"n{self.rng.randrange(4)}"
        if not self.gone("Node", name, 0.3):
            self.see_node(name)

    def time(self) -> None:
        self.world.time_ms += self.rng.choice((1_000, 30_000, 61_000, 299_999, 300_001, 600_000))

    def priority(self) -> None:
        if not self.gone("PriorityClass", "high", 0.5):
            self.world.see(thing("PriorityClass", "high", uid=self.uid("high"), value=self.rng.choice((-5, 3, 9))))

    def namespace(self) -> None:
        self.world.see(thing("Namespace", "lab", labels={"team": self.rng.choice("ab")}))

    def effects(self) -> None:
        names = [(command.bind or command.evict).name for command in self.world.model.commands.values()]  # type: ignore[union-attr]
        self.world.effects(tuple(name for name in names if self.rng.random() < 0.15))

    def nothing(self) -> None:
        self.world.step()

    def uid(self, name: str) -> str:
        """The uid of this life of an object."""
        return f"uid-{name}-{self.lives.get(name, 0)}"

    def gone(self, kind: str, name: str, chance: float) -> bool:
        """Delete an object, perhaps; it comes back with another uid."""
        item = self.world.objects.get((kind, self.uid(name)))
        if item is None or self.rng.random() >= chance:
            return False
        self.world.gone(item)
        self.lives[name] = self.lives.get(name, 0) + 1
        return True

    def name(self) -> str:
        self.number += 1
        return f"w{self.number}"


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", range(3))
def test_a_decision_with_memory_is_the_one_without(seed: int, name: str) -> None:
    story = Story(seed, CONFIGS[name])
    for _ in range(60):
        story.turn()


def standing(world: World) -> Standing:
    memo = world.fold.findings
    assert isinstance(memo, Memo)
    assert memo.standing is not None
    return memo.standing


@pytest.mark.parametrize("name", ["default", "overcommit", "hierarchy", "no queues", "timed"])
def test_whoever_waits_rests_and_whoever_is_gone_is_forgotten(name: str) -> None:
    """At rest, nobody is looked at and everybody stands; when all is gone, nothing is left of it (bounded memory)."""
    story = Story(3, CONFIGS[name])
    for _ in range(40):
        story.turn()
    world = story.world
    for _ in range(20):
        world.step()
        world.effects()
    world.rest()
    found = standing(world)
    known = {key for key, entry in world.model.groups.items() if entry.group.queue in world.model.queues}
    assert set(found.jobs) == known
    for (kind, _), item in sorted(world.objects.items()):
        if kind in ("Pod", "PodGroup"):
            world.gone(item)
    world.rest()
    found = standing(world)
    left = (found.jobs, found.tasks, found.queues, found.totals, found.active, *found.benches.values())
    assert not any(left)
