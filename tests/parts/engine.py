"""A container engine of the tests' own: dockerd in namespaces of its own, with its own data folder and socket.

Bridges, filter rules, mounts and processes stay inside those namespaces and end with them, so an engine that the
machine may already run is not touched. One pair of virtual interfaces leads in; no way leads out to any network.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from parts.cache import missing

_START_S = 60.0
_NEEDED = ("dockerd", "containerd", "docker", "unshare", "nsenter", "setpriv", "ip", "iptables")
_GROUPS = Path("/sys/fs/cgroup")

# First in the new namespaces. The data are kept in memory, so what images unpack need not be deleted file by file; the
# settings and the key of the machine's own engine are not ours.
_BEGIN = """
mount -t tmpfs -o mode=711 engine "$1"
[ ! -d /etc/docker ] || mount -t tmpfs engine /etc/docker
shift
exec "$@"
"""


class Engine:
    """One engine. ``stop`` ends it and everything that runs on it, and removes what it kept."""

    def __init__(self) -> None:
        absent = [name for name in _NEEDED if shutil.which(name) is None]
        if absent:
            missing("container engine", f"needs {', '.join(absent)} (Debian's docker.io, iproute2 and iptables)")
        if os.getuid() != 0:
            missing("container engine", "only root may start one")
        self.home = Path(tempfile.mkdtemp(prefix="gpuledger-engine-"))
        self._process: subprocess.Popen[bytes] | None = None
        # Of the range that is kept for benchmarks between devices, which no network uses.
        first = random.randrange(2**15) * 4
        self._link = f"gpuledger{first:x}"
        self.host, self._inside = (
            f"198.{18 + first // 2**16}.{first // 2**8 % 2**8}.{first % 2**8 + n}" for n in (1, 2)
        )

    def start(self) -> None:
        """Start the engine and wait until it answers. It ends with the thread that calls this."""
        apart = ["unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
        data = self.home / "data"
        data.mkdir()
        apart += ["sh", "-ec", _BEGIN, "sh", str(data)]
        command = ["dockerd", "--data-root", str(data), "--exec-root", f"{self.home}/exec"]
        command += ["--pidfile", f"{self.home}/pid", "--host", self._address]
        command += ["--cgroup-parent", f"/{self.home.name}", "--log-level", "warn"]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *apart, *command], stdout=log, stderr=log, env=_clean()
            )
        deadline = time.monotonic() + _START_S
        while self.run("docker", "version", check=False).returncode:
            if self._process.poll() is not None or time.monotonic() > deadline:
                words = self._log.read_text(errors="replace")[-2000:]
                self.stop()
                missing("container engine", f"dockerd does not start here: {words}")
            time.sleep(0.1)
        self._join()

    def run(self, *command: str, check: bool = True, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a client's command to its end, with more in its environment; a failure shows what it printed."""
        done = subprocess.run(command, env=self.environment() | more, capture_output=True, text=True, check=False)
        if check and done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {done.returncode}\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return done

    def environment(self) -> dict[str, str]:
        """Return the environment in which clients speak to this engine."""
        return {**_clean(), "DOCKER_HOST": self._address, "DOCKER_CONFIG": f"{self.home}/client"}

    def inside(self, *command: str) -> None:
        """Run a command in the engine's namespaces."""
        self.run("nsenter", "--target", str(self._dockerd()), "--net", "--mount", "--pid", *command)

    def stop(self) -> None:
        """End the engine with everything that runs on it, and remove what it kept."""
        if self._process is not None:
            with suppress(IndexError, ProcessLookupError):  # it has ended by itself
                os.kill(self._dockerd(), signal.SIGKILL)  # the first process of its namespace, so all others end too
            self._process.wait()
            self._process = None
        for group in (_GROUPS / self.home.name, *_GROUPS.glob(f"*/{self.home.name}")):
            for path in sorted(group.glob("**/"), reverse=True):
                path.rmdir()
        shutil.rmtree(self.home)

    @property
    def _address(self) -> str:
        return f"unix://{self.home}/docker.sock"

    @property
    def _log(self) -> Path:
        return self.home / "engine.log"

    def _join(self) -> None:
        """Lay the pair of interfaces: ``host`` is the test's side, which containers reach through their bridge."""
        self.run(
            "ip", "link", "add", self._link, "type", "veth", "peer", "name", "test0", "netns", str(self._dockerd())
        )
        self.run("ip", "address", "add", f"{self.host}/30", "dev", self._link)
        self.run("ip", "link", "set", self._link, "up")
        self.inside("ip", "address", "add", f"{self._inside}/30", "dev", "test0")
        self.inside("ip", "link", "set", "test0", "up")

    def _dockerd(self) -> int:
        assert self._process is not None, "the engine runs"
        pid = self._process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])


def _clean() -> dict[str, str]:
    """Return our environment without what would lead a client elsewhere."""
    elsewhere = ("DOCKER_", "COMPOSE_", "BUILDKIT_", "GPULEDGER_")
    return {name: value for name, value in os.environ.items() if not name.startswith(elsewhere)}
