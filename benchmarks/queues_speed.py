"""How fast decisions are where gangs and queues hold most of the work back.

    python benchmarks/queues_speed.py [--shape gangs|queues]... [--groups 10000] [--new 200] [--profile]

``gangs``: 100 gangs of 8 and 10 gangs of 100 on 1,000 nodes of 8 cards, decided until all are placed.
``queues``: 10,000 PodGroups of one pod each wait in 100 queues, and all but a few are more than their queue may have.
Printed are the first decisions, decisions a second while something changes that helps nobody, and how long a new pod
that fits waits: from the record that brings it to the written batch, with the folding of both, one pod after another.
Times are wall-clock, the processor's in brackets; the log and the API server are not in them.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import time

from decide_speed import World, pace

from services.runtime.memory import collect_rarely

_GROUPS = "scheduling.volcano.sh/v1beta1"
_QUEUES = 100
_HELD = 8_000  # a queue's memory: two pods of 4000


class _Clock:
    """Both clocks since it was made, in seconds."""

    def __init__(self) -> None:
        self._wall, self._processor = time.perf_counter(), time.process_time()

    def read(self) -> tuple[float, float]:
        return time.perf_counter() - self._wall, time.process_time() - self._processor


def _queue(world: World, name: str, memory: int) -> None:
    spec = {"weight": 1, "capability": {"volcano.sh/vgpu-memory": str(memory)}}
    world.observe("Queue", {"metadata": {"name": name, "uid": f"q-{name}"}, "spec": spec}, _GROUPS)


def _single(world: World, name: str, queue: str, memory: int) -> None:
    meta = {"namespace": "team", "name": name, "uid": f"g-{name}", "creationTimestamp": "2026-01-01T00:00:00Z"}
    world.observe("PodGroup", {"metadata": meta, "spec": {"minMember": 1, "queue": queue}}, _GROUPS)
    world.pod(f"{name}-0", name, memory, 1)


def _settle(world: World) -> int:
    placed = 0
    while (batch := world.decide()) is not None:
        placed += sum(len(command.members) for command in batch.binds)
    return placed


def gangs(nodes: int) -> None:
    """Print how fast two kinds of gangs are placed."""
    for count, size in ((100, 8), (10, 100)):
        world = World()
        world.nodes(nodes)
        for number in range(count):
            world.group(f"gang-{number}", size)
            for member in range(size):
                world.pod(f"gang-{number}-{member}", f"gang-{number}", 10_000 + 1000 * (number % 5), 10)
        clock = _Clock()
        placed = _settle(world)
        took, worked = clock.read()
        print(f"gangs  {count} of {size} on {nodes} nodes: {placed} pods in {took:.2f} s ({worked:.2f} s), "
              f"{count / took:,.0f} ({count / worked:,.0f}) gangs/s, {placed / took:,.0f} ({placed / worked:,.0f}) "
              f"placements/s, {world.batches} batches", flush=True)  # fmt: skip


def queues(nodes: int, groups: int, new: int) -> None:
    """Print what waiting work costs, and how long a new pod waits."""
    world = World()
    world.nodes(nodes)
    for number in range(_QUEUES):
        _queue(world, f"queue-{number}", _HELD)
    _queue(world, "free", 10**9)
    for number in range(groups):
        _single(world, f"job-{number}", f"queue-{number % _QUEUES}", 4000 + number // _QUEUES)
    clock = _Clock()
    placed = _settle(world)
    took, worked = clock.read()
    print(f"queues {groups} groups in {_QUEUES} queues: {placed} placed, settled in {took:.2f} s ({worked:.2f} s), "
          f"{world.batches} batches", flush=True)  # fmt: skip
    rounds = 100
    clock = _Clock()
    for number in range(rounds):
        _queue(world, f"queue-{number % _QUEUES}", _HELD + 1 + number // _QUEUES)
        world.decide()
    took, worked = (seconds / rounds for seconds in clock.read())
    print(f"queues {1 / took:,.0f} ({1 / worked:,.0f}) decisions/s while a queue changes that helps nobody, "
          f"{took * 1000:.1f} ms ({worked * 1000:.1f} ms) each", flush=True)  # fmt: skip
    waits = []
    for number in range(new):
        clock = _Clock()
        _single(world, f"new-{number}", "free", 1000)
        batch = world.decide()
        waits.append(clock.read())
        assert batch is not None
        assert [len(command.members) for command in batch.binds] == [1]
        _settle(world)
    walls, processors = (sorted(1000 * seconds for seconds in column) for column in zip(*waits, strict=True))
    words = (("p50", new // 2), ("p99", int(new * 0.99)), ("longest", new - 1))
    found = ", ".join(f"{word} {walls[at]:.1f} ms ({processors[at]:.1f} ms)" for word, at in words)
    print(f"queues a new pod that fits waits {found} ({new} pods)", flush=True)


def main(arguments: argparse.Namespace) -> None:
    print(f"this core: {pace():.0f} million turns of an empty loop a second; load {os.getloadavg()[0]:.1f}", flush=True)
    profile = cProfile.Profile() if arguments.profile else None
    if profile:
        profile.enable()
    for shape in arguments.shape or ["gangs", "queues"]:
        if shape == "gangs":
            gangs(arguments.nodes)
        else:
            queues(arguments.nodes, arguments.groups, arguments.new)
    if profile:
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)


if __name__ == "__main__":
    collect_rarely()  # as every service does
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--shape", action="append", choices=["gangs", "queues"])
    parser.add_argument("--nodes", type=int, default=1_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--new", type=int, default=200)
    parser.add_argument("--profile", action="store_true")
    main(parser.parse_args())
