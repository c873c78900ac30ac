"""A real kube-apiserver with etcd for tests: built once from the Go module, Debian's etcd beside it.

Authentication is one token; service account keys are made anew. No controller manager runs: only what the tests and
our own controllers do happens.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import signal
import ssl
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

from parts.cache import folder, free_port, missing

_HERE = Path(__file__).parent / "kube-apiserver"
_START_S = 120.0
TOKEN = "token-of-the-tests"


def binary() -> Path:
    """Return the kube-apiserver, built once per version of the Go module (minutes the first time)."""
    key = hashlib.sha256((_HERE / "go.mod").read_bytes()).hexdigest()[:16]
    target = folder("kube-apiserver") / key / "kube-apiserver"
    if target.exists():
        return target
    if not shutil.which("go"):
        missing("kube-apiserver", "needs go")
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_suffix(".partial")
    command = ["go", "build", "-o", str(partial), "k8s.io/kubernetes/cmd/kube-apiserver"]
    done = subprocess.run(command, cwd=_HERE, capture_output=True, text=True, check=False)
    if done.returncode:
        missing("kube-apiserver", f"go build failed: {done.stderr[-800:]}")
    partial.rename(target)
    return target


class KubeApiServer:
    """etcd and kube-apiserver with their data folder, listening on ``host``; both can be killed and started again."""

    def __init__(self, home: Path, host: str = "127.0.0.1") -> None:
        self._home = home
        self._host = host
        self._binary = binary()
        if not shutil.which("etcd"):
            missing("kube-apiserver", "needs etcd (Debian's etcd-server)")
        self._etcd_port, self._peer_port, self._port = free_port(), free_port(), free_port()
        self._etcd: subprocess.Popen[bytes] | None = None
        self._server: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"https://{self._host}:{self._port}"

    @property
    def kubeconfig(self) -> Path:
        return self._home / "kubeconfig"

    @property
    def pid(self) -> int:
        assert self._server is not None, "the server runs"
        return self._server.pid

    @property
    def etcd_pid(self) -> int:
        assert self._etcd is not None, "etcd runs"
        return self._etcd.pid

    async def start(self) -> None:
        """Start both and wait until the API server says that it is ready."""
        await asyncio.to_thread(self._prepare)
        if self._etcd is None:
            self._etcd = self._spawn("etcd", self._etcd_command())
        self._server = self._spawn("kube-apiserver", self._server_command())
        async with asyncio.timeout(_START_S):
            while not await asyncio.to_thread(self._ready):
                for name, process in (("etcd", self._etcd), ("kube-apiserver", self._server)):
                    if process.poll() is not None:
                        raise RuntimeError(f"{name} ended: {(self._home / f'{name}.log').read_text()[-2000:]}")
                await asyncio.sleep(0.2)

    def kill_server(self) -> None:
        """End the API server as ``kill -9`` does; etcd goes on."""
        self._end(self._server, signal.SIGKILL)
        self._server = None

    def back_up(self) -> Path:
        """Save etcd's state as an administrator does, and return the file."""
        saved = self._home / "backup.db"
        self._etcdctl("--endpoints", f"http://127.0.0.1:{self._etcd_port}", "snapshot", "save", str(saved))
        return saved

    async def restore(self, saved: Path) -> None:
        """Bring both back with a state that was saved before: what happened since is undone, versions go back."""
        self.stop()
        data = self._home / "etcd"
        await asyncio.to_thread(shutil.rmtree, data)
        await asyncio.to_thread(self._etcdctl, "snapshot", "restore", str(saved), "--data-dir", str(data))
        await self.start()

    def stop(self) -> None:
        """End both."""
        self._end(self._server, signal.SIGKILL)
        self._end(self._etcd, signal.SIGKILL)
        self._server = self._etcd = None

    @staticmethod
    def _end(process: subprocess.Popen[bytes] | None, by: signal.Signals) -> None:
        if process is not None:
            process.send_signal(by)
            process.wait()

    def _spawn(self, name: str, command: list[str]) -> subprocess.Popen[bytes]:
        with (self._home / f"{name}.log").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "ETCD_UNSUPPORTED_ARCH": ""})

    @staticmethod
    def _etcdctl(*words: str) -> None:
        if not shutil.which("etcdctl"):
            missing("kube-apiserver", "needs etcdctl (Debian's etcd-client)")
        given = {**os.environ, "ETCDCTL_API": "3"}
        subprocess.run(["etcdctl", *words], env=given, capture_output=True, check=True)

    def _prepare(self) -> None:
        self._home.mkdir(parents=True, exist_ok=True)
        key = self._home / "sa.key"
        if key.exists():
            return
        subprocess.run(["openssl", "genrsa", "-out", str(key), "2048"], capture_output=True, check=True)
        (self._home / "tokens.csv").write_text(f'{TOKEN},admin,admin,"system:masters"\n')
        self.kubeconfig.write_text(
            "apiVersion: v1\nkind: Config\ncurrent-context: test\n"
            f"clusters: [{{name: test, cluster: {{server: '{self.address}', insecure-skip-tls-verify: true}}}}]\n"
            f"users: [{{name: test, user: {{token: {TOKEN}}}}}]\n"
            "contexts: [{name: test, context: {cluster: test, user: test}}]\n"
        )

    def _etcd_command(self) -> list[str]:
        client, peer = f"http://127.0.0.1:{self._etcd_port}", f"http://127.0.0.1:{self._peer_port}"
        return [
            "etcd", "--data-dir", str(self._home / "etcd"), "--unsafe-no-fsync",
            "--listen-client-urls", client, "--advertise-client-urls", client,
            "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"default={peer}",
        ]  # fmt: skip

    def _server_command(self) -> list[str]:
        key = str(self._home / "sa.key")
        return [
            str(self._binary),
            f"--etcd-servers=http://127.0.0.1:{self._etcd_port}",
            f"--bind-address={self._host}",
            f"--secure-port={self._port}",
            f"--cert-dir={self._home / 'certs'}",
            f"--token-auth-file={self._home / 'tokens.csv'}",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            "--authorization-mode=RBAC",
        ]

    def _ready(self) -> bool:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        request = urllib.request.Request(f"{self.address}/readyz", headers={"Authorization": f"Bearer {TOKEN}"})
        try:
            with urllib.request.urlopen(request, timeout=2, context=context) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, OSError):
            return False
