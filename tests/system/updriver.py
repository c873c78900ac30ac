"""``gpuledger up`` as a process, spoken to with raw HTTP: what a client library would refuse goes out as it is."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

COMMAND = str(Path(sys.executable).parent / "gpuledger")
LAB = Path(__file__).parents[1] / "scenarios" / "labs" / "lab8"
PATIENCE_S = 30.0

Answer = tuple[int, Any]


class Up:
    """One running process. ``errors`` is the file that its standard error goes to."""

    def __init__(self, data: Path, *arguments: str) -> None:
        self.data = data
        self.errors = data.with_name(data.name + ".err")
        with self.errors.open("a") as errors:
            command = [COMMAND, "up", "--port", "0", "--data", str(data), *arguments]
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        assert self.process.stdout is not None
        found = re.findall(r"http://[\d.]+:\d+", self.process.stdout.readline())
        if len(found) != 2:
            self.process.wait(timeout=PATIENCE_S)
            raise AssertionError(self.errors.read_text())
        self.server, self.page = found

    def ask(self, method: str, path: str, body: Any = None, content_type: str = "application/json") -> Answer:
        """Return status and body of an answer; bytes go out as they are, 599 if there was no answer."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.server + path, data, {"Content-Type": content_type}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as reply:
                return reply.status, json.loads(reply.read() or b"null")
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())
        except OSError as error:
            return 599, {"message": repr(error)}

    def ready(self) -> str:
        """Return what the readiness page says."""
        try:
            with urllib.request.urlopen(f"{self.page}/readyz", timeout=PATIENCE_S) as reply:
                return str(reply.read().decode()).strip()
        except urllib.error.HTTPError as error:
            return str(error.read().decode()).strip()

    def end(self, by: signal.Signals = signal.SIGKILL) -> int:
        """End the process and return its exit code."""
        self.process.send_signal(by)
        code = self.process.wait(timeout=PATIENCE_S)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code


def until(look: Callable[[], Any], holds: Callable[[Any], bool], seconds: float = PATIENCE_S) -> Any:
    """Look again until a condition holds; return what was seen last."""
    deadline = time.monotonic() + seconds
    seen = look()
    while not holds(seen) and time.monotonic() < deadline:
        time.sleep(0.05)
        seen = look()
    return seen


def pods_path(name: str = "", namespace: str = "default") -> str:
    """Return the path of a pod, or of all."""
    return f"/api/v1/namespaces/{namespace}/pods" + (f"/{name}" if name else "")


def pod(name: str, memory: Any = 100, *, meta: Any = None, spec: Any = None, more: Any = None) -> dict[str, Any]:
    """Return a vGPU pod with odd parts put in."""
    limits = {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": memory, **(more or {})}
    containers = [{"name": "c", "image": "i", "resources": {"limits": limits}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **(meta or {})},
        "spec": {"schedulerName": "volcano", "containers": containers, **(spec or {})},
    }


def audit(data: Path) -> subprocess.CompletedProcess[str]:
    """Run ``audit verify``."""
    return subprocess.run(
        [COMMAND, "audit", "verify", "--data", str(data)], capture_output=True, text=True, check=False
    )
