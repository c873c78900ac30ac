"""Pods bound per second by our processes on a real API server and Kafka, beside what the client alone can do.

    python benchmarks/load.py [--nodes 100,1000,5000] [--pods 1000] [--gangs 10x100] [--profile FOLDER]

For each number of nodes (8 cards each) a fresh kube-apiserver is filled; first the client creates and binds ``--pods``
pods itself (the ceiling), then watcher, scheduler, binder and controller start, each as a process, and ``--pods``
single pods and, once these are deleted, ``--gangs`` are created as fast as the server takes them. Exit code 1 if a pod
was not bound or holds no cards, or a card was overfull.

The load is the usual one, by which other schedulers were measured too: fake nodes with the annotation and the resources
that the vGPU device plugin registers (8 cards of 81,920 MiB, each for 10 pods), pods that ask for one vGPU of 8,000 MiB
and 10 % of the cores, 32 requests in flight while creating, 3 s of rest between the last node and the first pod. A pod
is bound when the watch delivers it with a node. Pods a second are all pods over the time from the first request (with
gangs that is the first PodGroup) to the last pod seen bound; p50 and p99 are from the sending of a pod's creation to
that; CPU seconds are those that each process spent in this time.

Beyond that it says what each pod cost: CPU of every process, etcd and the broker included, records on the log, and
requests to the API server by verb and resource (its own count), both also ``--after`` seconds after the last binding,
when status and events have been written. ``--profile`` runs the services under cProfile and leaves the profiles of
their main threads, in seconds of processor.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from loadclient import Client, Track
from parts.broker import Broker
from parts.kube import TOKEN, KubeApiServer
from system.real import prepare
from system.stack import Stack

from adapters.cluster.http import KubernetesApi, kubeconfig_configuration
from adapters.log.kafka import KafkaLog
from events.kinds import POD, POD_GROUP

SERVICES = ("watcher", "scheduler", "binder", "controller")
TIMEOUT_S = 600.0
SETTLE_S = 3.0
_REQUESTS = re.compile(r"^apiserver_request_total\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_PROFILED = """
import cProfile, sys, time
from services.cli.main import main
sys.argv[0], out = "gpuledger", sys.argv.pop()
profile = cProfile.Profile(time.process_time)
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

    def __init__(self, home: Path, broker: Broker, nodes: int, profile: Path | None, after_s: float) -> None:
        self._nodes, self._profile, self._after_s = nodes, profile, after_s
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
        self._log = await KafkaLog.open(self._stack.kafka)
        try:
            await prepare(api)
            await self._client.make_nodes(0, self._nodes)
            await asyncio.sleep(SETTLE_S)
            await self._ceiling(pods)
            await self._start()
            await self._load("single pods", {f"p-{index:05d}": "" for index in range(pods)})
            await self._load("gangs", {f"g-{g}-{n}": f"gang-{g}" for g in range(gangs[0]) for n in range(gangs[1])})
            for name in SERVICES:
                self._stack.terminate(name)
        finally:
            self._stack.stop()
            await self._log.close()
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
        track = await self._client.load("first", {"first": ""}, "gpuledger")
        await self._client.end_of(track, TIMEOUT_S)
        print(
            f"{self._nodes} nodes: started and a first pod bound after {time.perf_counter() - begin:.1f} s", flush=True
        )
        await asyncio.sleep(SETTLE_S)

    async def _ceiling(self, pods: int) -> None:
        pids = {"kube-apiserver": self._server.pid, "etcd": self._server.etcd_pid, "client": os.getpid()}
        before = usage(pids)
        track = await self._client.load(
            "ceiling", {f"c-{index:05d}": "" for index in range(pods)}, "nobody", self._nodes
        )
        await self._client.end_of(track, TIMEOUT_S)
        self._print("client alone", track)
        self._print_cpu(before, usage(pids), pods)
        await self._client.clear(POD.path("ceiling"))

    async def _load(self, name: str, pods: dict[str, str]) -> None:
        if not pods:
            return
        pids = {
            **self._stack.pids(), "kube-apiserver": self._server.pid, "etcd": self._server.etcd_pid,
            "kafka": self._broker.pid, "client": os.getpid(),
        }  # fmt: skip
        namespace = name.replace(" ", "-")
        before, asked, records = usage(pids), await self._requests(), await self._records()
        track = await self._client.load(namespace, pods, "gpuledger")
        await self._client.end_of(track, TIMEOUT_S)
        after, bound = usage(pids), await self._requests()
        self._print(name, track)
        self._print_cpu(before, after, len(pods))
        self._print_requests("requests until the last was bound", bound - asked, len(pods))
        if len(track.bound) < len(pods) or track.without_cards() or track.overfull() or self._stack.ended():
            print(
                f"  NOT ALL WELL: without cards {len(track.without_cards())}, overfull {track.overfull()}, "
                f"ended {self._stack.ended()}"
            )
            self.failed = True
        await asyncio.sleep(self._after_s)
        self._print_requests(f"requests until {self._after_s:.0f} s later", await self._requests() - asked, len(pods))
        self._print_cpu(before, usage(pids), len(pods))
        print(f"    {(await self._records() - records) / len(pods):.2f} records a pod on the log", flush=True)
        for kind in (POD, POD_GROUP):
            await self._client.clear(kind.path(namespace))
        await asyncio.sleep(self._after_s)

    async def _records(self) -> int:
        return (await self._log.bounds())[1]

    async def _requests(self) -> Counter[str]:
        """Return how many requests the API server has answered so far, by verb and resource, watches left out."""
        found: Counter[str] = Counter()
        for labels, value in _REQUESTS.findall(await self._client.text("/metrics")):
            said = dict(_LABEL.findall(labels))
            if said["verb"] == "WATCH" or not said["resource"] or said["resource"] in ("leases", "endpointslices"):
                continue
            part = f"/{said['subresource']}" if said["subresource"] else ""
            refused = f" {said['code']}" if said["code"] >= "300" else ""
            found[f"{said['verb']} {said['resource']}{part}{refused}"] += int(float(value))
        return found

    def _print_requests(self, what: str, found: Counter[str], pods: int) -> None:
        parts = ", ".join(f"{name} {count / pods:.2f}" for name, count in found.most_common() if count / pods >= 0.005)
        print(f"    {what}: {sum(found.values()) / pods:.2f} a pod ({parts})", flush=True)

    def _print(self, name: str, track: Track) -> None:
        times = track.times()
        print(
            f"{self._nodes} nodes, {name}: {len(track.bound)} of {track.expected} bound, {track.rate():.1f} a second, "
            f"p50 {percentile(times, 50):.2f} s, p99 {percentile(times, 99):.2f} s"
        )

    @staticmethod
    def _print_cpu(before: dict[str, tuple[float, int]], after: dict[str, tuple[float, int]], pods: int) -> None:
        spent = {name: 1000 * (after[name][0] - before[name][0]) / pods for name in before}
        parts = ", ".join(f"{name} {ms:.1f} ({after[name][1]} MiB)" for name, ms in spent.items())
        print(f"    ms CPU a pod: {sum(spent.values()):.1f} in all: {parts}", flush=True)


def _folder(text: str) -> Path:
    """Return a folder that is there: the services, which write to it, run elsewhere."""
    found = Path(text).absolute()
    found.mkdir(parents=True, exist_ok=True)
    return found


async def main(sizes: list[int], pods: int, gangs: tuple[int, int], profile: Path | None, after_s: float) -> int:
    failed = False
    with tempfile.TemporaryDirectory() as home:
        broker = Broker(Path(home) / "broker")
        await broker.start()
        try:
            for nodes in sizes:
                bench = Bench(Path(home) / str(nodes), broker, nodes, profile, after_s)
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
    parser.add_argument("--profile", type=_folder, metavar="FOLDER")
    parser.add_argument("--after", type=float, default=15.0)
    chosen = parser.parse_args()
    number, _, size = chosen.gangs.partition("x")
    counts = [int(text) for text in chosen.nodes.split(",")]
    sys.exit(asyncio.run(main(counts, chosen.pods, (int(number), int(size or 0)), chosen.profile, chosen.after)))
