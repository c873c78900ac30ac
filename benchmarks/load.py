"""Pods bound per second by our processes on a real API server and Kafka, beside what the client alone can do.

    python benchmarks/load.py [--nodes 100,1000,5000] [--pods 1000] [--gangs 10x100] [--profile FOLDER]

For each number of nodes (8 cards each) a fresh kube-apiserver is filled; first the client binds ``--pods`` pods itself
(the ceiling), then watcher, scheduler, binder and controller start, each as a process, and ``--pods`` single pods and
``--gangs`` are created as fast as the server takes them. Printed per load: pods bound per second, p50 and p99 from
creation to binding, CPU seconds and memory per process. Exit code 1 if a pod was not bound or a card was overfull.
``--profile`` runs the services under cProfile and leaves the profiles of their main threads.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from loadclient import Client, Track
from parts.broker import Broker
from parts.kube import TOKEN, KubeApiServer
from system.real import prepare
from system.stack import Stack

from adapters.cluster.http import KubernetesApi, kubeconfig_configuration
from events.kinds import NAMESPACE, POD

SERVICES = ("watcher", "scheduler", "binder", "controller")
TIMEOUT_S = 600.0
_PROFILED = """
import cProfile, sys
from services.cli.main import main
sys.argv[0], out = "gpuledger", sys.argv.pop()
profile = cProfile.Profile()
try:
    profile.runcall(main)
finally:
    profile.dump_stats(out)
"""


def usage(pids: Mapping[str, int]) -> dict[str, tuple[float, int]]:
    """Return CPU seconds so far and peak memory in MiB of each process."""
    found = {}
    for name, pid in pids.items():
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        status = Path(f"/proc/{pid}/status").read_text().splitlines()
        peak = next((line for line in status if line.startswith(("VmHWM", "VmRSS"))), "x 0")
        seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        found[name] = (seconds, int(peak.split()[1]) // 1024)
    return found


def percentile(values: list[float], percent: int) -> float:
    return values[min(len(values) * percent // 100, len(values) - 1)] if values else 0.0


class Bench:
    """One number of nodes: the ceiling, then the loads."""

    def __init__(self, home: Path, broker: Broker, nodes: int, profile: Path | None) -> None:
        self._nodes, self._profile = nodes, profile
        self._server = KubeApiServer(home / "kube")
        self._broker = broker
        self._home = home
        self.failed = False

    async def run(self, pods: int, gangs: tuple[int, int]) -> None:
        await self._server.start()
        api = await KubernetesApi.connect(kubeconfig_configuration(str(self._server.kubeconfig)))
        self._client = Client(self._server.address, TOKEN)
        settings = {"kubernetes": {"kubeconfig": str(self._server.kubeconfig)}}
        self._stack = Stack(self._home / "stack", self._broker, f"load-{self._nodes}", **settings)
        try:
            await prepare(api)
            await self._client.make_nodes(0, self._nodes)
            await self._ceiling(pods)
            await self._start()
            await self._load("single pods", {f"p-{index:05d}": "" for index in range(pods)})
            await self._load("gangs", {f"g-{g}-{n}": f"gang-{g}" for g in range(gangs[0]) for n in range(gangs[1])})
            for name in SERVICES:
                self._stack.terminate(name)
        finally:
            self._stack.stop()
            await self._client.close()
            await api.close()
            self._server.stop()

    async def _start(self) -> None:
        """Start the services and wait until a first pod is bound."""
        config = str(self._stack.config)
        if self._profile is None:
            self._stack.start(*SERVICES)
        else:
            for name in SERVICES:
                out = str(self._profile / f"{name}-{self._nodes}.prof")
                self._stack.spawn(name, [sys.executable, "-c", _PROFILED, name, "--config", config, out])
        begin = time.perf_counter()
        track = await self._created("first", {"first": ""})
        await self._client.end_of(track, TIMEOUT_S)
        print(
            f"{self._nodes} nodes: started and a first pod bound after {time.perf_counter() - begin:.1f} s", flush=True
        )

    async def _created(self, namespace: str, pods: dict[str, str], scheduler: str = "gpuledger") -> Track:
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        await self._client.ask("POST", NAMESPACE.path(), body)
        sizes = {group: list(pods.values()).count(group) for group in dict.fromkeys(pods.values()) if group}
        await self._client.make_groups(namespace, sizes)
        return await self._client.load(namespace, pods, scheduler, self._nodes if scheduler == "nobody" else 0)

    async def _ceiling(self, pods: int) -> None:
        track = await self._created("ceiling", {f"c-{index:05d}": "" for index in range(pods)}, "nobody")
        await self._client.end_of(track, TIMEOUT_S)
        self._print("client alone", track, {})
        await self._client.ask("DELETE", POD.path("ceiling"))

    async def _load(self, name: str, pods: dict[str, str]) -> None:
        if not pods:
            return
        pids = {**self._stack.pids(), "kube-apiserver": self._server.pid, "client": os.getpid()}
        before = usage(pids)
        track = await self._created(name.replace(" ", "-"), pods)
        await self._client.end_of(track, TIMEOUT_S)
        after = usage(pids)
        spent = {name: (after[name][0] - before[name][0], after[name][1]) for name in pids}
        self._print(name, track, spent)
        if len(track.bound) < len(pods) or track.overfull() or self._stack.ended():
            print(f"  NOT ALL WELL: overfull {track.overfull()}, ended {self._stack.ended()}")
            self.failed = True

    def _print(self, name: str, track: Track, spent: Mapping[str, tuple[float, int]]) -> None:
        times = track.times()
        print(
            f"{self._nodes} nodes, {name}: {len(track.bound)} of {track.expected} bound, {track.rate():.1f} a second, "
            f"p50 {percentile(times, 50):.2f} s, p99 {percentile(times, 99):.2f} s"
        )
        for process, (seconds, memory) in spent.items():
            print(f"    {process}: {seconds:.1f} s CPU ({1000 * seconds / track.expected:.1f} ms a pod), {memory} MiB")
        sys.stdout.flush()


async def main(sizes: list[int], pods: int, gangs: tuple[int, int], profile: Path | None) -> int:
    failed = False
    with tempfile.TemporaryDirectory() as home:
        broker = Broker(Path(home) / "broker")
        await broker.start()
        try:
            for nodes in sizes:
                bench = Bench(Path(home) / str(nodes), broker, nodes, profile)
                await bench.run(pods, gangs)
                failed |= bench.failed
        finally:
            broker.kill()
    return 1 if failed else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nodes", default="100,1000,5000")
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--gangs", default="10x100")
    parser.add_argument("--profile", type=Path)
    chosen = parser.parse_args()
    number, _, size = chosen.gangs.partition("x")
    counts = [int(text) for text in chosen.nodes.split(",")]
    sys.exit(asyncio.run(main(counts, chosen.pods, (int(number), int(size or 0)), chosen.profile)))
