"""How fast decisions are made: placements a second, and what waiting pods cost.

    python benchmarks/decide_speed.py [--pods 10000] [--nodes 50,500,5000] [--shape SHAPE]... [--profile]

Every node has 8 cards. A measurement folds nodes, PodGroups and pods (not timed), then decides until all are placed:
each batch is decided, written as a message and folded again, as in production, and all of that is timed as processor
time of one core. ``gangs``: 20 classes of pods in 20 PodGroups. ``singles``: the same pods, each in its own PodGroup,
the classes mixed. ``different``: no two pods ask for the same. Then the same cluster is full, and pods that fit nowhere
wait: printed is what a decision costs while nothing changes, and how many are tried when a place is freed.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import resource
import time
from collections.abc import Callable, Iterator
from typing import Any

from events.codec import to_message
from events.kinds import OBSERVED_KINDS
from events.records import Batch, Body, Deleted, Genesis, ListEnd, Observed, Opened, Record, Role
from scheduling.cycle.memo import Memo
from scheduling.decide import decide
from scheduling.state.fold import Fold
from services.runtime.memory import collect_rarely

_START_MS = 1_767_225_600_000
_CARDS, _CLASSES, _CARD_MEMORY = 8, 20, 81920
_GROUPS = "scheduling.volcano.sh/v1beta1"
_CHAIN = "0" * 64


class World:
    """A fold, and the records that fill it."""

    def __init__(self) -> None:
        self.fold = Fold()
        self._position = 0
        self._numbers: dict[Role, int] = {}
        self._version = 10
        self.batches = 0
        self._apply("scheduler", 0, Genesis(cluster="c", incarnation="i"))
        for role in ("watcher", "scheduler", "binder"):
            opened = Opened(
                role=role, term=1, previous=0, writer="w", reads={}, writes={}, config={}, time_ms=_START_MS
            )
            self._apply(role, 1, opened)
        for kind in OBSERVED_KINDS:
            end = ListEnd(api_version=kind.api_version, kind=kind.name, list_id=1, version="1", count=0, digest="")
            self._apply("watcher", 1, end)
        self.observe("Queue", {"metadata": {"name": "default", "uid": "q"}, "spec": {"weight": 1}}, _GROUPS)

    def _apply(self, role: Role, term: int, body: Body) -> Record:
        number = self._numbers.get(role, 0)
        self._numbers[role] = number + 1 if term else 0
        record = Record(f"c/i/{role[0]}{term}.{number}", role, term, number, "", _START_MS, body)
        verdict = self.fold.apply(self._position, record, _CHAIN)
        assert verdict == "applied", verdict
        self._position += 1
        return record

    def observe(self, kind: str, item: dict[str, Any], api_version: str = "v1") -> None:
        self._version += 1
        self._apply("watcher", 1, Observed(api_version=api_version, kind=kind, object=item, version=str(self._version)))

    def delete(self, uid: str) -> None:
        pod = self.fold.model.pods[uid].pod
        gone = Deleted(api_version="v1", kind="Pod", namespace=pod.namespace, name=pod.name, uid=uid)
        self._apply("watcher", 1, gone)

    def nodes(self, count: int) -> None:
        for index in range(count):
            name = f"node-{index:05d}"
            cards = "".join(
                f"GPU-{index:05d}-{card},10,{_CARD_MEMORY},NVIDIA-A100,true,hami-core:" for card in range(_CARDS)
            )
            amounts = {
                "cpu": "128", "memory": "1Ti", "pods": "256", "volcano.sh/vgpu-number": str(10 * _CARDS),
                "volcano.sh/vgpu-memory": str(_CARD_MEMORY * _CARDS), "volcano.sh/vgpu-cores": str(100 * _CARDS),
            }  # fmt: skip
            annotations = {"volcano.sh/node-vgpu-register": cards}
            self.observe("Node", {"metadata": {"name": name, "uid": name, "annotations": annotations},
                                  "status": {"allocatable": amounts, "capacity": amounts}})  # fmt: skip

    def group(self, name: str, members: int) -> None:
        meta = {"namespace": "team", "name": name, "uid": f"g-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
        self.observe("PodGroup", {"metadata": meta, "spec": {"minMember": members}}, _GROUPS)

    def pod(self, name: str, group: str, memory: int, cores: int) -> None:
        limits = {
            "volcano.sh/vgpu-number": "1",
            "volcano.sh/vgpu-memory": str(memory),
            "volcano.sh/vgpu-cores": str(cores),
        }
        requests = {**limits, "cpu": "1", "memory": "2Gi"}
        meta = {"namespace": "team", "name": name, "uid": f"p-{name}", "creationTimestamp": "2026-01-01T00:00:00Z",
                "annotations": {"scheduling.k8s.io/group-name": group}}  # fmt: skip
        spec = {"schedulerName": "gpuledger", "priority": 0,
                "containers": [{"name": "main", "resources": {"limits": limits, "requests": requests}}]}  # fmt: skip
        self.observe("Pod", {"metadata": meta, "spec": spec, "status": {"phase": "Pending"}})

    @property
    def searches(self) -> int:
        """How many pods were tried on nodes so far."""
        memo = self.fold.findings
        return memo.searches if isinstance(memo, Memo) else 0

    def decide(self) -> Batch | None:
        """Decide once, write the batch as a message and fold it."""
        batch = decide(self.fold, _START_MS, _CHAIN, self.batches)
        if batch is not None:
            self.batches += 1
            record = self._apply("scheduler", 1, batch)
            to_message(record, "c")
        return batch


def _asked(number: int) -> tuple[int, int]:
    """Return memory and cores of a class."""
    return 1000 + 500 * number, 5 + number % 3


def gangs(world: World, pods: int) -> None:
    each = max(pods // _CLASSES, 1)
    for number in range(_CLASSES):
        world.group(f"gang-{number}", each)
        for member in range(each):
            world.pod(f"gang-{number}-{member}", f"gang-{number}", *_asked(number))


def singles(world: World, pods: int) -> None:
    for number in range(pods):
        world.group(f"podgroup-{number}", 1)
        world.pod(f"pod-{number}", f"podgroup-{number}", *_asked(number % _CLASSES))


def different(world: World, pods: int) -> None:
    for number in range(pods):
        world.group(f"podgroup-{number}", 1)
        world.pod(f"pod-{number}", f"podgroup-{number}", 1000 + number, 5 + number % 3)


SHAPES: dict[str, Callable[[World, int], None]] = {"gangs": gangs, "singles": singles, "different": different}


def _batches(world: World) -> Iterator[int]:
    while (batch := world.decide()) is not None:
        yield sum(len(command.members) for command in batch.binds)


def measure(shape: str, nodes: int, pods: int) -> None:
    """Print the rate for one shape on so many nodes."""
    world = World()
    world.nodes(nodes)
    pods = min(pods, nodes * _CARDS * 8)
    SHAPES[shape](world, pods)
    started = time.process_time()
    placed = sum(_batches(world))
    took = time.process_time() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    print(f"{shape:<10} {nodes:5d} nodes: {placed} of {pods} pods in {took:6.2f} s: {placed / took:8,.0f} placements/s,"
          f" {world.batches} batches, peak {peak} MiB", flush=True)  # fmt: skip


def waiting(nodes: int, pods: int) -> None:
    """Print what pods cost that fit nowhere, until a place is freed."""
    world = World()
    world.nodes(nodes)
    for number in range(nodes * _CARDS):
        world.group(f"podgroup-f{number}", 1)
        world.pod(f"full-{number}", f"podgroup-f{number}", _CARD_MEMORY, 100)
    assert sum(_batches(world)) == nodes * _CARDS
    for number in range(pods):
        world.group(f"podgroup-w{number}", 1)
        world.pod(f"wait-{number}", f"podgroup-w{number}", *_asked(number % _CLASSES))
    for label, change in (
        ("first decision", None), ("again, nothing changed", None), ("at rest", None),
        ("after one pod is gone", "p-full-0"), ("again", None), ("at rest", None),
    ):  # fmt: skip
        if change:
            world.delete(change)
        tried = world.searches
        started = time.process_time()
        batch = world.decide()
        took = time.process_time() - started
        bound = sum(len(command.members) for command in batch.binds) if batch else 0
        print(f"waiting    {nodes:5d} nodes, {pods} pods wait: {label}: {took * 1000:8.1f} ms, "
              f"{world.searches - tried} tried, {bound} bound", flush=True)  # fmt: skip


def pace() -> float:
    """Return how many million turns of an empty loop this core makes a second at the moment."""
    started = time.process_time()
    for _ in range(3_000_000):
        pass
    return 3 / (time.process_time() - started)


def main(arguments: argparse.Namespace) -> None:
    print(f"this core: {pace():.0f} million turns of an empty loop a second", flush=True)
    for shape in arguments.shape or [*SHAPES, "waiting"]:
        for nodes in map(int, arguments.nodes.split(",")):
            profile = cProfile.Profile() if arguments.profile else None
            if profile:
                profile.enable()
            if shape == "waiting":
                waiting(min(nodes, 500), arguments.pods)
            else:
                measure(shape, nodes, arguments.pods)
            if profile:
                profile.disable()
                pstats.Stats(profile).sort_stats("tottime").print_stats(45)


if __name__ == "__main__":
    collect_rarely()  # as every service does
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--nodes", default="50,500,5000")
    parser.add_argument("--shape", action="append", choices=[*SHAPES, "waiting"])
    parser.add_argument("--profile", action="store_true")
    main(parser.parse_args())
