"""Two engines, one answer: pods judged by class over columns hear what judging each pod on each node says.

The plain definition is ``fitting.judge`` with the scores of all candidates together; beside it stands the class with
its columns, kept up to date over placements, promises and releases. Node, cards, order, score, reason and detail must
be equal for every state. The states are generated from seeds: awkward amounts, MIG, exclusivity, spread, choices of
cards, several containers, unreadable records, cards that are gone, full, tainted and cordoned nodes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from rules.devices.device_builders import A100, mig_env

from scheduling import objects
from scheduling.config.model import PluginOption, SchedulerConfig
from scheduling.cycle import classes, snapshot
from scheduling.cycle.fitting import Candidate, judge, no_node, placement_of
from scheduling.cycle.job import Task
from scheduling.cycle.memo import Memo
from scheduling.cycle.plugin import Refused
from scheduling.cycle.plugins import PLUGINS
from scheduling.cycle.session import Session
from scheduling.devices.books import NodeDevices
from scheduling.devices.claims import claim_of
from scheduling.devices.columns import plain_demand
from scheduling.devices.environment import DeviceEnv
from scheduling.devices.fitting import Fit, place_pod
from scheduling.devices.quick import quick_fit
from scheduling.devices.request import node_request
from scheduling.nodes.view import NodeTask, NodeView
from scheduling.state.model import GroupEntry, Model, PodEntry
from scheduling.status import TaskStatus

#: How many tests, and how many states each compares at least: 20,000 in all.
PARTS = 10
STATES_MIN = 20_000 // PARTS
NUMBER, MEMORY, CORES = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
PERCENTAGE = "volcano.sh/vgpu-memory-percentage"
AMOUNTS = (0, 1, 7, 333, 1000, 4095, 4096, 8191, 8192)
MODELS = ("NVIDIA-A100", "NVIDIA-X", "Other", A100)
RULE = {"team": "blue"}
Json = dict[str, Any]


def _config(rng: Random) -> SchedulerConfig:
    order: Json = {"leastrequested.weight": rng.choice((0, 1, 3)), "mostrequested.weight": rng.choice((0, 0, 2))}
    order |= {"balancedresource.weight": rng.choice((0, 1, 5))}
    listed = rng.choice(("", MEMORY, f"{MEMORY},{NUMBER}"))
    pack: Json = {"binpack.weight": rng.choice((0, 1, 10)), "binpack.cpu": rng.choice((0, 1, 7))}
    pack |= {"binpack.resources": listed, f"binpack.resources.{MEMORY}": rng.choice((1, 5))}
    names = rng.choice((
        ("drf", "deviceshare", "predicates", "nodeorder", "binpack"),
        ("predicates", "deviceshare", "binpack", "nodeorder"),
        ("deviceshare", "nodeorder"),
    ))  # fmt: skip
    arguments = {"nodeorder": order, "binpack": pack}
    tier = tuple(PluginOption(name, arguments.get(name, {})) for name in names)
    return SchedulerConfig(("allocate",), ((PluginOption("priority"), PluginOption("gang")), tier))


def _env(rng: Random) -> DeviceEnv:
    rules = rng.choice(((), (tuple(sorted(RULE.items())),)))
    return mig_env(policy=rng.choice(("", "binpack", "spread")), weight=rng.choice((0, 0, 1, 10)), rules=rules)


def _node(rng: Random, name: str) -> Json:
    cards = []
    for index in range(rng.choice((0, 1, 2, 4))):
        mig = rng.random() < 0.15
        model = A100 if mig else rng.choice(MODELS)
        memory = 40960 if mig else rng.choice((1, 4096, 8192, 8193, 81920))
        healthy = "false" if rng.random() < 0.1 else "true"
        shares = rng.choice((1, 2, 10))
        cards.append(f"GPU-{name}-{index},{shares},{memory},{model},{healthy},{'mig' if mig else 'hami-core'}:")
    room: Json = {"cpu": rng.choice(("4", "7500m", "33", "0")), "pods": rng.choice(("2", "110")),
                  "memory": rng.choice(("8Gi", "16000000001", "131900123Ki"))}  # fmt: skip
    if cards or rng.random() < 0.2:
        room |= {NUMBER: str(10 * len(cards)), MEMORY: rng.choice(("16384", "655360")), CORES: str(100 * len(cards))}
    taints = [{"key": "kept", "value": "x", "effect": "NoSchedule"}] if rng.random() < 0.2 else []
    meta = {"name": name, "uid": name, "labels": {"disk": rng.choice(("ssd", "hdd"))},
            "annotations": {"volcano.sh/node-vgpu-register": "".join(cards)}}  # fmt: skip
    spec = {"unschedulable": rng.random() < 0.1, "taints": taints}
    return {"metadata": meta, "spec": spec, "status": {"allocatable": room}}


def _asked(rng: Random) -> Json:
    asked: Json = {}
    if rng.random() < 0.85:
        asked[NUMBER] = str(rng.choice((1, 1, 1, 2, 3, 5)))
        if rng.random() < 0.8:
            asked[MEMORY] = str(rng.choice(AMOUNTS))
        elif rng.random() < 0.7:
            asked[PERCENTAGE] = str(rng.choice((1, 33, 50, 100)))
        if rng.random() < 0.8:
            asked[CORES] = str(rng.choice((0, 10, 33, 50, 100)))
    if rng.random() < 0.7:
        asked |= {"cpu": rng.choice(("1", "333m", "0", "9")), "memory": rng.choice(("1Gi", "100000001", "0"))}
    return asked


def _pod(rng: Random, name: str, **more: Any) -> Json:
    containers = [{"name": "c0", "resources": {"limits": (asked := _asked(rng)), "requests": asked}}]
    if rng.random() < 0.15:
        containers.append({"name": "c1", "resources": {"limits": (asked := _asked(rng)), "requests": asked}})
    annotations: Json = {"scheduling.k8s.io/group-name": "g", **more.get("annotations", {})}
    special = {"volcano.sh/vgpu-mode": ("hami-core", "mig"),
               "volcano.sh/vgpu-podgroup-policy": ("spread",),
               "nvidia.com/use-gpuuuid": ("GPU-n0-0", "GPU-n1-1"),
               "nvidia.com/nouse-gputype": ("a100", "X")}  # fmt: skip
    for key, values in special.items():
        if rng.random() < 0.06:
            annotations[key] = rng.choice(values)
    spec: Json = {"schedulerName": "volcano", "containers": containers, **more.get("spec", {})}
    if rng.random() < 0.15:
        spec["nodeSelector"] = {"disk": "ssd"}
    if rng.random() < 0.2:
        spec["tolerations"] = [{"key": "kept", "operator": "Exists"}]
    meta = {"namespace": "lab", "name": name, "uid": name, "annotations": annotations,
            "labels": RULE if rng.random() < 0.2 else {}}  # fmt: skip
    return {"metadata": meta, "spec": spec, "status": {"phase": more.get("phase", "Pending")}}


def _record(rng: Random, node: str) -> str:
    kind = rng.random()
    if kind < 0.03:
        return "GPU-x"
    if kind < 0.06:
        return f"GPU-{node}-0,NVIDIA,many,1:"
    uuid = f"GPU-{node}-{rng.choice((0, 0, 1, 2, 9))}"
    return f"{uuid},NVIDIA,{rng.choice(AMOUNTS)},{rng.choice((0, 10, 50, 100))}:"


@dataclass
class Cluster:
    """A model made by hand, a session over it, and the tasks that wait."""

    rng: Random
    model: Model = field(default_factory=Model)
    placed: list[Task] = field(default_factory=list)

    def build(self) -> tuple[Session, list[Task]]:
        rng, model = self.rng, self.model
        model.config, model.env = _config(rng), _env(rng)
        for index in range(rng.randrange(1, 12)):
            self._add_node(f"n{index}")
        queue = objects.queue({"metadata": {"name": "default"}})
        model.queues["default"] = queue
        model.groups["lab/g"] = GroupEntry(objects.pod_group({"metadata": {"namespace": "lab", "name": "g"}}), 0)
        for number in range(rng.randrange(3, 9)):
            item = _pod(rng, f"p{number:02d}")
            for copy in range(rng.randrange(1, 4)):
                item["metadata"] = {**item["metadata"], "name": f"p{number:02d}-{copy}", "uid": f"p{number:02d}-{copy}"}
                pod = objects.pod(item)
                model.pods[pod.uid] = PodEntry(pod, 0)
                model.members.setdefault("lab/g", set()).add(pod.uid)
        memo = Memo()
        session = Session(model, model.config, snapshot.take(model, model.config, memo), 0, memo)
        session.open(PLUGINS)
        return session, [task for task in session.tasks.values() if task.status is TaskStatus.PENDING]

    def _add_node(self, name: str) -> None:
        rng, env = self.rng, self.model.env
        node = objects.node(_node(rng, name))
        view = NodeView(name, node, {}, NodeDevices.empty(name, env).with_node(node))
        for number in range(rng.choice((0, 0, 1, 3))):
            annotations = {"volcano.sh/vgpu-ids-new": _record(rng, name)}
            item = _pod(rng, f"{name}-old-{number}", annotations=annotations, spec={"nodeName": name}, phase="Running")
            pod = objects.pod(item)
            status = TaskStatus.RELEASING if rng.random() < 0.08 else TaskStatus.RUNNING
            claim = claim_of(pod, env)
            devices = view.devices.with_claim(claim) if claim else view.devices
            view = view.with_task(NodeTask(pod, node_request(pod, env), status), devices)
        self.model.nodes[name] = view

    def change(self, session: Session, waiting: list[Task]) -> None:
        """Do something that a cycle does: place or promise a task, take one off, make one go."""
        rng = self.rng
        if self.placed and rng.random() < 0.3:
            task = self.placed.pop(rng.randrange(len(self.placed)))
            if rng.random() < 0.5 and task.status is TaskStatus.ALLOCATED:
                session.release(task)
            else:
                session.take_off(task)
                waiting.append(task)
            return
        if not waiting:
            return
        task = rng.choice(waiting)
        found = [
            found for name in session.names if isinstance(found := judge(session, task, session.views[name]), Candidate)
        ]
        if found and not task.traits.refused:
            best = rng.choice(found)
            now = best.now and rng.random() < 0.85
            session.put(task, TaskStatus.ALLOCATED if now else TaskStatus.PIPELINED, placement_of(task, best))
            waiting.remove(task)
            self.placed.append(task)


def _plainly(session: Session, task: Task) -> tuple[list[tuple[Any, ...]], dict[str, Refused]]:
    """The definition: each node judged by itself, the candidates scored together, in order."""
    plain, session.plain = session.plain, False
    try:
        answers = {name: judge(session, task, session.views[name]) for name in session.names}
        candidates = [item for item in answers.values() if isinstance(item, Candidate)]
        scores = session.scores(task, [item.view for item in candidates])
    finally:
        session.plain = plain
    found = sorted(candidates, key=lambda item: (not item.now, -scores[item.view.name], item.view.name))
    order = [(item.view.name, item.now, scores[item.view.name], item.fit) for item in found]
    return order, {name: item for name, item in answers.items() if isinstance(item, Refused)}


def _by_class(session: Session, task: Task) -> tuple[list[tuple[Any, ...]], dict[str, Refused], Any]:
    known = session.class_of(task)
    # As the columns have them: who is chosen is judged by itself before it is told.
    scores = known.scores()
    order = [(item.view.name, item.now, scores[item.view.name], item.fit) for item in known.best(session, task)]
    return order, known.refused(), known.no_node()


def _compare_cards(session: Session, task: Task) -> None:
    """The short way to a fit gives what the definition gives."""
    demand, env = task.traits.demand, session.env
    if demand.kind != "vgpu" or demand.refusal:
        return
    for name in session.names:
        cards = session.views[name].devices.cards
        plain = place_pod(name, cards, env, demand)
        short = quick_fit(cards, env, demand)
        assert short == plain or short is None
        if isinstance(plain, Fit) and plain_demand(demand) and not any(card.is_mig for card in cards):
            assert short is not None


def _compare(session: Session, task: Task) -> None:
    _compare_cards(session, task)
    order, refused = _plainly(session, task)
    order_, refused_, summary = _by_class(session, task)
    assert order_ == order
    assert refused_ == refused
    assert summary == no_node(session, task, refused)


@pytest.mark.parametrize("part", range(PARTS))
def test_both_engines_agree(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Design section 5; devices/F-7, F-13, scheduling/AL-19 to AL-25: the same node, cards, order, score and reason."""
    states, in_columns = 0, 0
    seed = 0
    while states < STATES_MIN:
        rng = Random(part * 100_000 + seed)
        seed += 1
        monkeypatch.setattr(classes, "FEW", rng.choice((0, 0, 2, 4)))
        cluster = Cluster(rng)
        session, waiting = cluster.build()
        known = [task for task in waiting if task.traits.kind is not None]
        if not session.plain or not known:
            continue
        for _ in range(12):
            for _ in range(rng.randrange(0, 4)):
                cluster.change(session, waiting)
            for task in rng.sample(waiting, min(3, len(waiting))):
                if task.traits.kind is not None:
                    _compare(session, task)
                    states += 1
                    in_columns += session.bulk.speaks_for(task)
    assert in_columns * 3 > states, "a good part is judged over columns"
