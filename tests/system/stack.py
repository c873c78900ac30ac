"""Our services as processes of their own on real parts: started, killed and started again, each with its log file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml
from parts.broker import Broker

from adapters.log.kafka_topic import KafkaSettings

ROOT = Path(__file__).parents[2]
_COMMAND = "import sys; from services.cli.main import main; sys.argv[0] = 'gpuledger'; main()"


class Stack:
    """The processes of one cluster (or, for schedulers, of several); ``name`` of a process is a service and a mark."""

    def __init__(self, home: Path, broker: Broker, cluster: str, **settings: Any) -> None:
        self.home = home
        self.cluster = cluster
        self.kafka = KafkaSettings(broker.address, f"gpuledger.{cluster}")
        self.url = f"kafka://{broker.address}/{self.kafka.topic}"
        self.settings: dict[str, Any] = {
            "cluster": cluster,
            "log": {"home": "kafka"},
            "kafka": {"servers": broker.address, "session_s": 3},
            "scheduler_names": ["volcano", "gpuledger"],
            "http": {"port": 0},
            "log_level": "info",
            **settings,
        }
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._spawned: dict[int, tuple[str, float]] = {}
        self._configs: dict[str, Path] = {}
        home.mkdir(parents=True, exist_ok=True)
        self.config = home / "settings.yaml"
        self.config.write_text(yaml.safe_dump(self.settings))

    def start(self, *names: str) -> None:
        """Start services: ``watcher``, ``scheduler``, ``scheduler-2``…"""
        for name in names:
            service = name.partition("-")[0]
            config = self._configs.get(service, self.config)
            self.spawn(name, [sys.executable, "-c", _COMMAND, service, "--config", str(config)])

    def configure(self, service: str, **settings: Any) -> None:
        """Give one service settings of its own, from its next start on."""
        self._configs[service] = self.home / f"settings-{service}.yaml"
        self._configs[service].write_text(yaml.safe_dump({**self.settings, **settings}))

    def spawn(self, name: str, command: list[str]) -> None:
        """Start any process under a name."""
        with (self.home / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=environment())
        self._processes[name], self._spawned[process.pid] = process, (name, time.time())

    def kill(self, name: str) -> None:
        """End a process as ``kill -9`` does."""
        process = self._processes.pop(name)
        assert process.poll() is None, f"{name} had ended by itself: {self.words(name)}"
        process.send_signal(signal.SIGKILL)
        process.wait()

    def terminate(self, name: str) -> int:
        """End a process by SIGTERM and return its exit code."""
        process = self._processes.pop(name)
        process.terminate()
        return process.wait(timeout=30)

    def pids(self) -> dict[str, int]:
        """Return the process id of each process."""
        return {name: process.pid for name, process in self._processes.items()}

    def ended(self) -> list[str]:
        """Return the processes that have ended by themselves, which none should."""
        return [name for name, process in self._processes.items() if process.poll() is not None]

    def stop(self) -> None:
        """End everything."""
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()
        self._processes.clear()

    def words(self, name: str) -> str:
        """Return the last lines of a process's log."""
        return (self.home / f"{name}.log").read_text(errors="replace")[-3000:]

    def ready_s(self, pid: int) -> float:
        """Return when a process, which may be gone by now, said that it had started."""
        name, spawned = self._spawned[pid]
        lines = (self.home / f"{name}.log").read_text(errors="replace").splitlines()
        told = [json.loads(line)["timestamp"] for line in lines if '"event": "started"' in line]
        at = [datetime.fromisoformat(text).timestamp() for text in told]
        return next((when for when in at if when > spawned), float("inf"))

    def said(self, text: str) -> list[str]:
        """Return the lines of all processes that have a text in them."""
        logs = [path.read_text(errors="replace") for path in sorted(self.home.glob("*.log"))]
        return [line for log in logs for line in log.splitlines() if text in line]

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command that looks back at the log."""
        return run_gpuledger(*arguments, "--log", self.url)


def run_gpuledger(*arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run ``gpuledger`` to its end, with more in its environment."""
    command = [sys.executable, "-c", _COMMAND, *arguments]
    given = environment() | more
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=given, timeout=600)


def environment() -> dict[str, str]:
    """Return the environment of our processes: nothing of ours but what the test gives."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GPULEDGER_")}
    return {**clean, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}"}
