"""A real Kafka broker for tests: Apache's jars by Maven (``tests/parts/kafka``), KRaft, one JVM, heap bounded.

With ``secure`` clients must come by TLS and give a user's name and password (SASL PLAIN); keys are made anew. USER may
do everything there, GUEST what it is granted. With a ``gate`` it listens for those who come through that, too.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
import shutil
import signal
import socket
import subprocess
import time
from datetime import datetime
from pathlib import Path
from typing import Final

from parts.cache import folder, free_port, missing
from parts.kafka_gate import KafkaGate

_HERE = Path(__file__).parent / "kafka"
_START_S = 300.0
USER, PASSWORD = "gpuledger", "secret-of-the-tests"
GUEST = "guest"
#: Its log says when.
_TIMES: Final = (
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSSZ",
)


def jars() -> Path:
    """Return the folder with the broker's jars, fetched once per version of the pom."""
    pom = _HERE / "pom.xml"
    target = folder("kafka") / hashlib.sha256(pom.read_bytes()).hexdigest()[:16]
    if (target / "complete").exists():
        return target
    if not shutil.which("mvn") or not shutil.which("java"):
        missing("Kafka broker", "needs java and mvn")
    command = ["mvn", "-q", "-B", "-f", str(pom), "dependency:copy-dependencies", f"-DoutputDirectory={target}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        missing("Kafka broker", f"mvn failed: {done.stdout[-500:]}{done.stderr[-500:]}")
    (target / "complete").touch()
    return target


class Broker:
    """One broker with its data folder. It can be killed and started again on the same port and data."""

    def __init__(self, home: Path, *, secure: bool = False, gate: KafkaGate | None = None) -> None:
        self._home = home
        self._secure, self._gate = secure, gate
        self._port, self._controller, self._inner = free_port(), free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._jars = jars()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker runs"
        return self._process.pid

    @property
    def data(self) -> Path:
        """The folder with the topics' segments."""
        return self._home / "data"

    @property
    def ca_file(self) -> Path:
        """The certificate that a client of a secure broker trusts."""
        return self._home / "ca.pem"

    async def start(self) -> None:
        """Start the broker and wait until it answers."""
        await asyncio.to_thread(self.start_blocking)

    def start_blocking(self) -> None:
        """Start the broker and wait until it answers, on this thread."""
        self._format()
        begun = self._log_text().count("Kafka Server started")
        with (self._home / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(self._java("kafka.Kafka", str(self._config)), stdout=log, stderr=log)
        deadline = time.monotonic() + _START_S
        while not (self._listens() and self._log_text().count("Kafka Server started") > begun):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the broker does not start: {self._log_text()[-2000:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        """End the broker as ``kill -9`` does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def grant(self, topic: str, *operations: str) -> None:
        """Let GUEST do something with a topic of a secure broker (``Read``, ``Describe``, ``DescribeConfigs``...)."""
        address = f"127.0.0.1:{self._inner}"
        command = [*self._java("org.apache.kafka.tools.AclCommand", "--bootstrap-server", address, "--add")]
        command += ["--allow-principal", f"User:{GUEST}", "--topic", topic]
        command += [word for operation in operations for word in ("--operation", operation)]
        subprocess.run(command, capture_output=True, check=True)

    def freeze(self) -> None:
        """Let the broker stand still: its connections stay, nothing answers."""
        assert self._process is not None, "the broker runs"
        self._process.send_signal(signal.SIGSTOP)
        while not self._stands_still():
            time.sleep(0.01)

    def thaw(self) -> None:
        """Let it go on."""
        assert self._process is not None, "the broker runs"
        self._process.send_signal(signal.SIGCONT)

    def failed_members(self, group: str) -> list[float]:
        """Return when the group's coordinator took a member for failed, each time, as ``time.time`` tells it."""
        said = re.compile(rf"^(\S+) \[.* Member \S+ in group {re.escape(group)} has failed", re.MULTILINE)
        return [datetime.strptime(at, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp() for at in said.findall(self._log_text())]

    def _stands_still(self) -> bool:
        """Tell whether every thread has stopped: the signal takes a moment to reach the last of them."""
        states = (
            path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{self.pid}").glob("task/*/stat")
        )
        return all(state == "T" for state in states)

    @property
    def _config(self) -> Path:
        return self._home / "server.properties"

    def _java(self, *arguments: str) -> list[str]:
        heap = ["-Xmx384m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        return ["java", *heap, *_TIMES, "-cp", f"{self._jars}/*", *arguments]

    def _format(self) -> None:
        if self._config.exists():
            return
        self._home.mkdir(parents=True, exist_ok=True)
        settings = self._settings() | (self._secured() if self._secure else {}) | self._gated()
        self._config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        name = "gpuledger-tests-000000"
        command = [*self._java("kafka.tools.StorageTool"), "format", "-t", name, "-c", str(self._config)]
        subprocess.run(command, capture_output=True, check=True)

    def _settings(self) -> dict[str, str]:
        return {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{self._controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "transaction.state.log.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "group.min.session.timeout.ms": "1000",
            "auto.create.topics.enable": "false",
            "log.flush.interval.messages": "1",
        }

    def _gated(self) -> dict[str, str]:
        if self._gate is None:
            return {}
        assert not self._secure, "a gate reads what passes"
        own = self._settings()
        return {
            "listeners": f"{own['listeners']},GATED://127.0.0.1:{self._gate.behind}",
            "advertised.listeners": f"{own['advertised.listeners']},GATED://{self._gate.address}",
            "listener.security.protocol.map": f"{own['listener.security.protocol.map']},GATED:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
        }

    def _secured(self) -> dict[str, str]:
        self._make_keys()
        inner = f"PLAINTEXT://127.0.0.1:{self._inner}"
        users = f'user_{USER}="{PASSWORD}" user_{GUEST}="{PASSWORD}"'
        return {
            "listeners": f"SASL_SSL://127.0.0.1:{self._port},{inner},CONTROLLER://127.0.0.1:{self._controller}",
            "advertised.listeners": f"SASL_SSL://127.0.0.1:{self._port},{inner}",
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self._home / "server.pem"),
            "sasl.enabled.mechanisms": "PLAIN",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": f"User:ANONYMOUS;User:{USER}",
            "listener.name.sasl_ssl.plain.sasl.jaas.config": (
                f"org.apache.kafka.common.security.plain.PlainLoginModule required {users};"
            ),
        }

    def _make_keys(self) -> None:
        key, certificate = self._home / "server.key", self.ca_file
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
        names = ["-addext", "subjectAltName=IP:127.0.0.1"]
        files = ["-keyout", str(key), "-out", str(certificate)]
        subprocess.run([*command, *names, *files], capture_output=True, check=True)
        (self._home / "server.pem").write_text(key.read_text() + certificate.read_text())

    def _log_text(self) -> str:
        path = self._home / "broker.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _listens(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=1):
                return True
        except OSError:
            return False
