"""Time from a pod's creation to its binding on the embedded cluster, at several rates.

    python benchmarks/embedded_latency.py [--rates 1,50,200] [--seconds 15] [--nodes 20]

``gpuledger up`` runs as a process of its own; this one creates pods at an even rate through the HTTP API and watches
for ``spec.nodeName``. Printed per rate: how many were bound, p50, p99 and the greatest time in milliseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from adapters.cluster.http import KubernetesApi, server_configuration
from events.kinds import NODE, POD

_CARDS = 8


def node(index: int) -> dict[str, object]:
    cards = "".join(f"GPU-{index:04d}-{card},10,81920,NVIDIA-A100,true,hami-core:" for card in range(_CARDS))
    amounts = {
        "cpu": "128", "memory": "1024Gi", "pods": "1000", "volcano.sh/vgpu-number": str(10 * _CARDS),
        "volcano.sh/vgpu-memory": str(81920 * _CARDS), "volcano.sh/vgpu-cores": str(100 * _CARDS),
    }  # fmt: skip
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": f"node-{index:04d}", "annotations": {"volcano.sh/node-vgpu-register": cards}},
        "status": {"allocatable": amounts, "capacity": amounts},
    }  # fmt: skip


def pod(name: str) -> dict[str, object]:
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "100"}
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": "gpuledger",
            "containers": [{"name": "c", "image": "i", "resources": {"limits": limits}}],
        },
    }  # fmt: skip


async def measure(api: KubernetesApi, rate: int, seconds: int, label: str) -> list[float]:
    """Create pods at a rate and return each one's time to its binding, in milliseconds."""
    created: dict[str, float] = {}
    took: dict[str, float] = {}
    count = rate * seconds
    page = await api.list(POD)
    stream = await api.watch(POD, page.version)

    async def follow() -> None:
        while len(took) < count:
            for event in await stream.next(True) or ():
                name = event.object.get("metadata", {}).get("name", "")
                if name in created and name not in took and event.object["spec"].get("nodeName"):
                    took[name] = (time.monotonic() - created[name]) * 1000

    following = asyncio.create_task(follow())
    start = time.monotonic()
    creating = set()
    for index in range(count):
        await asyncio.sleep(max(start + index / rate - time.monotonic(), 0))
        name = f"{label}-{index}"
        created[name] = time.monotonic()
        task = asyncio.create_task(api.create(POD, pod(name)))
        creating.add(task)
        task.add_done_callback(creating.discard)
    await asyncio.gather(*creating)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(following, 120)
    await stream.close()
    return sorted(took.values())


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def percentile(values: list[float], percent: int) -> float:
    return values[min(len(values) * percent // 100, len(values) - 1)]


def start(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


async def main(rates: list[int], seconds: int, nodes: int) -> None:
    for rate in rates:
        with tempfile.TemporaryDirectory() as data:
            command = [str(Path(sys.executable).parent / "gpuledger"), "up", "--port", "0", "--data", data]
            process = start(command)
            assert process.stdout is not None
            found = re.search(r"http://\S+?:\d+", process.stdout.readline())
            assert found is not None, "the first line names the API server"
            api = await KubernetesApi.connect(server_configuration(found.group()))
            for index in range(nodes):
                await api.create(NODE, node(index))
            before = cpu_seconds(process.pid)
            took = await measure(api, rate, seconds, f"r{rate}")
            spent = (cpu_seconds(process.pid) - before) / (rate * seconds)
            print(
                f"{rate:4d} pods/s for {seconds} s on {nodes} nodes of {_CARDS} cards: {len(took)} of "
                f"{rate * seconds} bound, p50 {percentile(took, 50):.0f} ms, p99 {percentile(took, 99):.0f} ms, "
                f"max {took[-1]:.0f} ms, {1000 * spent:.1f} ms CPU a pod",
                flush=True,
            )
            await api.close()
            process.terminate()
            process.wait()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rates", default="1,50,200")
    parser.add_argument("--seconds", type=int, default=15)
    parser.add_argument("--nodes", type=int, default=20)
    chosen = parser.parse_args()
    asyncio.run(main([int(rate) for rate in chosen.rates.split(",")], chosen.seconds, chosen.nodes))
