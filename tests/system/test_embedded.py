"""The embedded system as a user runs it: one command, its words when it cannot start, and what a kill leaves behind."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from adapters.cluster.http import KubernetesApi, server_configuration
from events.kinds import NODE, POD

COMMAND = str(Path(sys.executable).parent / "gpuledger")
LAB = Path(__file__).parents[1] / "scenarios" / "labs" / "lab8"


class Running:
    """One ``gpuledger up`` process."""

    def __init__(self, data: Path, *arguments: str) -> None:
        command = [COMMAND, "up", "--port", "0", "--data", str(data), *arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = re.findall(r"http://[\d.]+:\d+", line)
        assert len(found) == 2, f"{line!r} {self.process.stderr.read() if self.process.stderr else ''}"
        self.server, self.page = found

    def end(self, by: signal.Signals) -> int:
        self.process.send_signal(by)
        code = self.process.wait(timeout=30)
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        return code


@pytest.fixture
def started(tmp_path: Path) -> Iterator[list[Running]]:
    running: list[Running] = []
    yield running
    for item in running:
        item.end(signal.SIGKILL)


async def until(look: Callable[[], Awaitable[Any]], holds: Callable[[Any], bool], seconds: float = 30.0) -> Any:
    """Look again until a condition holds; what was seen last otherwise."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    seen = await look()
    while not holds(seen) and loop.time() < deadline:
        await asyncio.sleep(0.05)
        seen = await look()
    return seen


def fetched(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as reply:
        return str(reply.read().decode())


def test_the_lab_holds_from_one_command() -> None:
    """Appendix A of the scheduling specification, as ``make run ARGS=--exit`` plays it."""
    done = subprocess.run(
        [COMMAND, "lab", "--exit", "--port", "0"], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "35 of 35 held" in done.stdout


async def test_a_killed_system_goes_on_where_it_was(tmp_path: Path, started: list[Running]) -> None:
    """What was bound stays bound, once; what waits is placed; the log verifies (scheduling/A-10)."""
    manifests = [argument for name in ("00-cluster", "01-single-pod") for argument in ("-f", str(LAB / f"{name}.yaml"))]
    first = Running(tmp_path, *manifests)
    started.append(first)
    api = await KubernetesApi.connect(server_configuration(first.server))

    async def pod() -> dict[str, Any]:
        found = (await api.list(POD, namespace="volcano-demo")).items
        return found[0] if found else {}

    before = await until(pod, lambda item: item.get("status", {}).get("phase") == "Running")
    assert before["spec"]["nodeName"] == "master-01"
    await api.close()
    first.end(signal.SIGKILL)

    second = Running(tmp_path)
    started.append(second)
    api = await KubernetesApi.connect(server_configuration(second.server))
    after = await until(pod, lambda item: item.get("status", {}).get("phase") == "Running")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    decision = "gpuledger.dev/decision"
    assert after["metadata"]["annotations"][decision] == before["metadata"]["annotations"][decision]
    assert len((await api.list(NODE)).items) == 1
    await api.close()
    assert second.end(signal.SIGTERM) == 0
    audit = subprocess.run(
        [COMMAND, "audit", "verify", "--data", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert audit.returncode == 0, audit.stdout + audit.stderr
    log = subprocess.run([COMMAND, "log", "--data", str(tmp_path)], capture_output=True, text=True, check=True)
    assert log.stdout.count("outcome.command.v1") == 1


async def test_the_pages_of_a_running_system(tmp_path: Path, started: list[Running]) -> None:
    running = Running(tmp_path, "-f", str(LAB / "00-cluster.yaml"))
    started.append(running)

    async def ready() -> str:
        try:
            return await asyncio.to_thread(fetched, f"{running.page}/readyz")
        except OSError as error:
            return str(error)

    assert await until(ready, lambda text: text == "ok\n") == "ok\n"
    assert await asyncio.to_thread(fetched, f"{running.page}/healthz") == "ok\n"

    async def metrics() -> str:
        return await asyncio.to_thread(fetched, f"{running.page}/metrics")

    limit = "volcano_vgpu_device_memory_limit{"
    assert limit in await until(metrics, lambda text: limit in text)
    overview = await asyncio.to_thread(fetched, f"{running.page}/")
    assert running.server in overview
    assert "GPU-5f1c3a52" in overview
    version = json.loads(await asyncio.to_thread(fetched, f"{running.server}/version"))
    assert version["major"] == "1"


def test_a_second_process_on_the_same_folder_is_told_who_has_it(tmp_path: Path, started: list[Running]) -> None:
    first = Running(tmp_path)
    started.append(first)
    second = subprocess.run(
        [COMMAND, "up", "--port", "0", "--data", str(tmp_path)], capture_output=True, text=True, timeout=60, check=False
    )
    assert second.returncode == 2
    assert str(tmp_path) in second.stderr
    assert str(first.process.pid) in second.stderr


def test_a_busy_port_is_named(tmp_path: Path, started: list[Running]) -> None:
    first = Running(tmp_path / "a")
    started.append(first)
    port = first.server.rsplit(":", 1)[1]
    second = subprocess.run(
        [COMMAND, "up", "--port", port, "--data", str(tmp_path / "b")],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert second.returncode == 2
    assert f"port {port}" in second.stderr


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "manifest.yaml"),
        ("- 1", "document 1: must be a mapping"),
        ("a: " + "[" * 20_000, "nested too deep"),
        ("apiVersion: v1\nkind: Gizmo\nmetadata: {name: x}", "kind Gizmo"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {}", "metadata.name"),
    ],
)
def test_a_bad_manifest_is_named_before_anything_starts(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "manifest.yaml"
    path.write_text(text)
    done = subprocess.run(
        [COMMAND, "up", "--port", "0", "--data", str(tmp_path / "d"), "-f", str(path)],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert words in done.stderr
    assert not (tmp_path / "d").exists()


async def test_the_audit_compares_the_log_with_the_cluster_and_names_a_forged_card(
    tmp_path: Path, started: list[Running]
) -> None:
    """Design section 12, invariant 5."""
    running = Running(tmp_path / "data", "-f", str(LAB / "00-cluster.yaml"), "-f", str(LAB / "01-single-pod.yaml"))
    started.append(running)
    api = await KubernetesApi.connect(server_configuration(running.server))
    name = ("volcano-demo", "volcano-vgpu-single")

    async def pod() -> dict[str, Any]:
        return next(iter((await api.list(POD, namespace=name[0])).items), {})

    def audit() -> subprocess.CompletedProcess[str]:
        command = [COMMAND, "audit", "verify", "--data", str(tmp_path / "data"), "--kubernetes", running.server]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    bound = await until(pod, lambda found: found and found["status"].get("phase") == "Running")
    whole = await asyncio.to_thread(audit)
    assert whole.returncode == 0, whole.stdout + whole.stderr
    assert "1 placements agree" in whole.stdout
    decision = bound["metadata"]["annotations"]["gpuledger.dev/decision"]
    forged = {"metadata": {"annotations": {"volcano.sh/vgpu-ids-new": "GPU-forged,NVIDIA,1,0:"}}}
    await api.patch(POD, *name, forged)
    await api.close()
    found = await asyncio.to_thread(audit)
    assert found.returncode == 1
    first = found.stdout.splitlines()[1]
    assert f'{decision}: Pod {"/".join(name)}: volcano.sh/vgpu-ids-new is "GPU-forged,NVIDIA,1,0:"' in first
