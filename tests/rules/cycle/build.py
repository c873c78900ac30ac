"""Small worlds for the rules of the cycle: objects in, cycles and their effects out.

The state is folded by the production fold. ``settle`` plays the binder, the API server and the nodes in their simplest
form: every command is applied, every bound pod runs, every evicted one goes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from events.records import (
    Batch,
    Body,
    Deleted,
    Genesis,
    GroupBook,
    Observed,
    Opened,
    Outcome,
    PodBook,
    Record,
    Role,
)
from scheduling import cycle
from scheduling.config.model import PluginOption, SchedulerConfig
from scheduling.decide import decide
from scheduling.state.fold import Fold
from scheduling.state.model import CycleResult, Model

START_MS = 1_767_225_600_000
NUMBER, MEMORY, CORES = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
PERCENTAGE = "volcano.sh/vgpu-memory-percentage"
_API = {"PodGroup": "scheduling.volcano.sh/v1beta1", "Queue": "scheduling.volcano.sh/v1beta1",
        "PriorityClass": "scheduling.k8s.io/v1"}  # fmt: skip
Json = dict[str, Any]


def created(second: int) -> str:
    return f"2026-01-01T00:{second // 60:02d}:{second % 60:02d}Z"


def thing(kind: str, name: str, namespace: str = "", *, age: int = 0, uid: str = "", **fields: Any) -> Json:
    meta: Json = {"name": name, "uid": uid or f"uid-{kind.lower()}-{name}", "creationTimestamp": created(age)}
    if namespace:
        meta["namespace"] = namespace
    for key in ("labels", "annotations", "deletionTimestamp"):
        if key in fields:
            meta[key] = fields.pop(key)
    return {"apiVersion": _API.get(kind, "v1"), "kind": kind, "metadata": meta, **fields}


def node(
    name: str = "a", cards: int = 1, memory: int = 8192, *, cpu: str = "32", pods: str = "110", **fields: Any
) -> Json:
    """A node with so many hami-core cards of so much memory each; without cards it has no vGPU resource."""
    room: Json = {"cpu": cpu, "memory": "128Gi", "pods": pods, **fields.pop("room", {})}
    register = "".join(f"GPU-{name}-{i},10,{memory},NVIDIA-X,true,hami-core:" for i in range(cards))
    annotations = {"volcano.sh/node-vgpu-register": register} if cards else {}
    if cards:
        room |= {NUMBER: str(10 * cards), MEMORY: str(memory * cards), CORES: str(100 * cards)}
    return thing("Node", name, annotations=annotations, status={"allocatable": room}, **fields)


def gpu(memory: int | None = 1000, cores: int | None = 10, number: int = 1, **more: str) -> Json:
    """Requests and limits of a vGPU container."""
    asked: Json = {NUMBER: str(number)}
    if memory is not None:
        asked[MEMORY] = str(memory)
    if cores is not None:
        asked[CORES] = str(cores)
    return asked | more


def pod(name: str, group: str = "", asked: Json | None = None, *, namespace: str = "lab", **fields: Any) -> Json:
    """A waiting pod of ours. ``asked`` are the limits and requests of its one container."""
    annotations = dict(fields.pop("annotations", {}))
    if group:
        annotations["scheduling.k8s.io/group-name"] = group
    spec = {"schedulerName": "volcano", **fields.pop("spec", {})}
    resources = {"limits": asked or {}, "requests": asked or {}}
    spec["containers"] = [{"name": "c0", "image": "none", "resources": resources}]
    status = {"phase": "Pending", **fields.pop("status", {})}
    return thing("Pod", name, namespace, annotations=annotations, spec=spec, status=status, **fields)


def group(name: str, minimum: int = 1, *, queue: str = "default", namespace: str = "lab", **fields: Any) -> Json:
    """A PodGroup. ``spec`` and ``status`` add to what is given."""
    spec = {"minMember": minimum, "queue": queue, **fields.pop("spec", {})}
    return thing("PodGroup", name, namespace, spec=spec, status=fields.pop("status", {}), **fields)


def queue(name: str = "default", *, state: str = "Open", **fields: Any) -> Json:
    age, uid = fields.pop("age", 0), fields.pop("uid", "")
    return thing("Queue", name, age=age, uid=uid, spec={"weight": 1, **fields}, status={"state": state})


def bare(name: str, asked: Json, *, queue_name: str = "default", age: int = 0, **fields: Any) -> list[Json]:
    """A bare pod with its automatic PodGroup, as the controller makes it (AS-3, AS-4)."""
    own = f"podgroup-uid-pod-{name}"
    least = {"pods": "1", "count/pods": "1", **asked, **{f"requests.{key}": value for key, value in asked.items()}}
    return [
        group(own, queue=queue_name, age=age, spec={"minResources": least}),
        pod(name, own, asked, age=age, **fields),
    ]


def gang(name: str, size: int, asked: Json, minimum: int | None = None, *, age: int = 0, **fields: Any) -> list[Json]:
    """A vcjob's PodGroup and pods ``<name>-worker-<i>``, of role ``worker``."""
    spec = {"minResources": {"pods": str(size), "count/pods": str(size)}, **fields.pop("spec", {})}
    return [
        group(name, size if minimum is None else minimum, age=age, spec=spec, **fields),
        *(
            pod(f"{name}-worker-{i}", name, asked, age=age, annotations={"volcano.sh/task-spec": "worker"})
            for i in range(size)
        ),
    ]


def tiers(*names: str, **arguments: Json) -> tuple[tuple[PluginOption, ...], ...]:
    """One tier of plugins with their arguments."""
    return (tuple(PluginOption(name, arguments.get(name, {})) for name in names),)


def whole(model: Model, result: CycleResult) -> CycleResult:
    """Return a result with the books of those too that the cycle did not look at: they are as they were."""
    groups = {key: entry.book for key, entry in model.groups.items()} | result.groups
    pods = {uid: entry.book for uid, entry in model.pods.items()} | result.pods
    return replace(result, groups=groups, pods=pods)


class World:
    """A folded state and the time; the queues ``default`` and ``root`` are there."""

    def __init__(self, *items: Any, config: SchedulerConfig | None = None) -> None:
        self.fold = Fold()
        self.time_ms = START_MS
        self._position = self._batch = self._version = 0
        self._numbers: dict[Role, int] = {}
        self.objects: dict[tuple[str, str], Json] = {}
        self._say("scheduler", Genesis(cluster="c", incarnation="i"))
        for role in ("watcher", "scheduler", "binder"):
            self._say(role, Opened(role=role, term=1, previous=0, writer="w", reads={}, writes={}, config={},
                                   time_ms=START_MS), first=True)  # fmt: skip
        self.see(queue("root"), queue("default", parent="root"))
        if config is not None:
            self.model.config = config
        self.see(*items)

    @property
    def model(self) -> Model:
        return self.fold.model

    def _say(self, role: Role, body: Body, *, first: bool = False) -> str:
        number = 0 if first else self._numbers.get(role, 0)
        self._numbers[role] = number + 1
        term = 0 if isinstance(body, Genesis) else 1
        record = Record("id", role, term, number, "", self.time_ms, body)
        verdict = self.fold.apply(self._position, record, f"chain-{self._position}")
        self._position += 1
        return verdict

    def see(self, *items: Any) -> None:
        """Observe objects, or lists of them, as they are now."""
        for item in items:
            if isinstance(item, list):
                self.see(*item)
                continue
            self._version += 1
            self.objects[item["kind"], item["metadata"]["uid"]] = item
            body = Observed(api_version=item["apiVersion"], kind=item["kind"], object=item, version=str(self._version))
            verdict = self._say("watcher", body)
            assert not verdict.startswith("void"), verdict

    def gone(self, item: Json) -> None:
        """Observe that an object is gone."""
        meta = item["metadata"]
        self._version += 1
        self.objects.pop((item["kind"], meta["uid"]), None)
        self._say("watcher", Deleted(api_version=item["apiVersion"], kind=item["kind"], name=meta["name"],
                                     namespace=meta.get("namespace", ""), uid=meta["uid"],
                                     version=str(self._version)))  # fmt: skip

    def run(self) -> CycleResult:
        """One cycle, without effect. It must not change the state, and say the same twice."""
        before = self.fold.digest()
        result = cycle.run(self.model, self.time_ms)
        assert cycle.run(self.model, self.time_ms) == result
        assert self.fold.digest() == before
        return result

    def step(self) -> Batch | None:
        """Decide and fold the decision."""
        self.run()
        batch = self._decided()
        findings, self.fold.findings = self.fold.findings, None
        assert self._decided() == batch, "a decision without memory is another one"
        self.fold.findings = findings
        if batch is not None:
            self._batch += 1
            verdict = self._say("scheduler", batch)
            assert "overtaken" not in verdict, verdict
        return batch

    def _decided(self) -> Batch | None:
        return decide(self.fold, self.time_ms, f"chain-{self._position}", self._batch)

    def rest(self, rounds: int = 20) -> None:
        """Decide until nothing is new, without effects on the world."""
        for _ in range(rounds):
            if self.step() is None:
                return
        raise AssertionError("the cycle does not come to rest")

    def settle(self, rounds: int = 50) -> None:
        """Decide, bind and run until nothing is new."""
        for _ in range(rounds):
            if self.step() is None and not self.model.commands:
                return
            self.effects()
        raise AssertionError("the world does not come to rest")

    def effects(self, refuse: tuple[str, ...] = (), wait: tuple[str, ...] = ()) -> None:
        """Carry out every waiting command; bindings of the named pods are refused, or wait."""
        for command in list(self.model.commands.values()):
            effect = command.bind or command.evict
            assert effect is not None
            if effect.name in wait:
                continue
            verb = "bind" if command.bind else "evict"
            refused = verb == "bind" and effect.name in refuse
            item = self.objects["Pod", effect.uid]
            if verb == "bind" and not refused:
                assert command.bind is not None
                item = self._bound(item, command.bind.node, command.bind.allocation)
            self._say("binder", Outcome(command=command.id, verb=verb, namespace=effect.namespace, name=effect.name,
                                        uid=effect.uid, result="refused" if refused else "applied",
                                        node=command.bind.node if command.bind else "", message="no" if refused else "",
                                        version=str(self._version), time_ms=self.time_ms))  # fmt: skip
            if verb == "evict":
                self.gone(item)
            elif not refused:
                self.see(item)

    @staticmethod
    def _bound(item: Json, node_name: str, allocation: str) -> Json:
        meta = {**item["metadata"], "annotations": dict(item["metadata"].get("annotations", {}))}
        if allocation:
            meta["annotations"] |= {"volcano.sh/vgpu-ids-new": allocation, "volcano.sh/vgpu-node": node_name}
        return {
            **item,
            "metadata": meta,
            "spec": {**item["spec"], "nodeName": node_name},
            "status": {"phase": "Running"},
        }

    def pod_phase(self, name: str, phase: str) -> None:
        """The node reports a phase."""
        item = self._pod(name)
        self.see({**item, "status": {"phase": phase}})

    def _pod(self, name: str) -> Json:
        return next(
            item for (kind, _), item in self.objects.items() if kind == "Pod" and item["metadata"]["name"] == name
        )

    def terminate(self, name: str) -> None:
        """A pod gets a deletion timestamp."""
        item = self._pod(name)
        self.see({**item, "metadata": {**item["metadata"], "deletionTimestamp": created(0)}})

    def delete(self, name: str) -> None:
        """A pod is gone."""
        self.gone(self._pod(name))

    # --- asking ---

    def on(self, name: str) -> str:
        """The node of a pod, empty if it waits."""
        return self.model.pods[self._pod(name)["metadata"]["uid"]].node

    def nodes_of(self, *names: str) -> list[str]:
        return [self.on(name) for name in names]

    def said(self, name: str) -> PodBook:
        """What is said of a waiting pod."""
        return self.model.pods[self._pod(name)["metadata"]["uid"]].book

    def book(self, name: str, namespace: str = "lab") -> GroupBook:
        """What is said of a PodGroup."""
        return self.model.groups[f"{namespace}/{name}"].book


__all__ = ["World", "bare", "gang", "gpu", "group", "node", "pod", "queue", "thing", "tiers"]
