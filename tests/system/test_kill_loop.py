"""``kill -9`` at any moment under load: what was accepted is bound once, nothing is lost, the log verifies."""

from __future__ import annotations

import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

from system.updriver import COMMAND, LAB, Up, audit, pod, pods_path, until

ROUNDS = 8
BUDGET_S = 30.0
PODS_A_ROUND = 6
SMALL = 10


def test_killed_again_and_again_under_load(tmp_path: Path) -> None:
    data = tmp_path / "data"
    dice = random.Random(20_261_130)
    accepted: list[str] = []
    begun = time.monotonic()
    manifests: tuple[str, ...] = ("-f", str(_wide_node(tmp_path)))
    rounds = 0
    while rounds < ROUNDS and time.monotonic() - begun < BUDGET_S:
        running = Up(data, *manifests)
        try:
            accepted += _load(running, rounds, dice)
        finally:
            running.end(signal.SIGKILL)
        manifests, rounds = (), rounds + 1
    assert rounds >= 3

    last = Up(data)
    try:
        _all_run(last, accepted)
        assert until(last.ready, lambda word: word == "ok", 30.0) == "ok"
        assert last.end(signal.SIGTERM) == 0
    finally:
        last.end(signal.SIGKILL)
    done = audit(data)
    assert done.returncode == 0, done.stdout + done.stderr
    _bound_once(data, accepted)


def _wide_node(folder: Path) -> Path:
    """Return the lab's node with room for every pod of this test."""
    text = (LAB / "00-cluster.yaml").read_text()
    text = text.replace(",10,8192,", ",1000,8192,").replace('vgpu-number: "10"', 'vgpu-number: "1000"')
    path = folder / "cluster.yaml"
    path.write_text(text)
    return path


def _load(running: Up, number: int, dice: random.Random) -> list[str]:
    """Create pods, some deleted again, until the moment of the kill; return those that were accepted and stay."""
    accepted = []
    for index in range(dice.randint(1, PODS_A_ROUND)):
        name = f"p-{number}-{index}"
        status, _ = running.ask("POST", pods_path(), pod(name, SMALL))
        assert status == 201
        accepted.append(name)
    if dice.random() < 0.3 and len(accepted) > 1:
        gone = accepted.pop()
        assert running.ask("DELETE", pods_path(gone))[0] in (200, 202)
    deadline = time.monotonic() + dice.random() * 0.4
    until(lambda: time.monotonic(), lambda now: now >= deadline, 1.0)
    return accepted


def _all_run(running: Up, names: list[str]) -> None:
    def waiting() -> list[str]:
        found = {item["metadata"]["name"]: item for item in running.ask("GET", pods_path())[1]["items"]}
        assert set(names) <= set(found), "an accepted pod is lost"
        return [name for name in names if found[name]["status"].get("phase") != "Running"]

    assert until(waiting, lambda left: not left, 60.0) == []
    items = running.ask("GET", pods_path())[1]["items"]
    marks = [
        item["metadata"]["annotations"]["gpuledger.dev/decision"] for item in items if item["spec"].get("nodeName")
    ]
    assert all(marks)


def _bound_once(data: Path, names: list[str]) -> None:
    """Each pod has exactly one binding that was applied, on the log."""
    log = subprocess.run([COMMAND, "log", "--data", str(data)], capture_output=True, text=True, check=True).stdout
    applied = Counter(line.split("Pod/default/")[1].split()[0] for line in log.splitlines() if "bind applied" in line)
    assert {name: applied[name] for name in names if applied[name] != 1} == {}
