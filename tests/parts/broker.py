"""A real Kafka broker for tests: Apache's jars by Maven (``tests/parts/kafka``), KRaft, one JVM, heap bounded."""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import subprocess
from pathlib import Path

from parts.cache import folder, free_port, missing

_HERE = Path(__file__).parent / "kafka"
_START_S = 60.0


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

    def __init__(self, home: Path) -> None:
        self._home = home
        self._port, self._controller = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._jars = jars()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    async def start(self) -> None:
        """Start the broker and wait until it answers."""
        await asyncio.to_thread(self._format)
        log = (self._home / "broker.log").open("ab")
        self._process = subprocess.Popen(self._java("kafka.Kafka", str(self._config)), stdout=log, stderr=log)
        async with asyncio.timeout(_START_S):
            while not await self._answers():
                if self._process.poll() is not None:
                    raise RuntimeError(f"the broker ended: {(self._home / 'broker.log').read_text()[-2000:]}")
                await asyncio.sleep(0.1)

    def kill(self) -> None:
        """End the broker as ``kill -9`` does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def _config(self) -> Path:
        return self._home / "server.properties"

    def _java(self, *arguments: str) -> list[str]:
        heap = ["-Xmx384m", "-Xms128m", "-XX:+UseSerialGC"]
        return ["java", *heap, "-cp", f"{self._jars}/*", *arguments]

    def _format(self) -> None:
        if self._config.exists():
            return
        self._home.mkdir(parents=True, exist_ok=True)
        settings = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@127.0.0.1:{self._controller}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self._port},CONTROLLER://127.0.0.1:{self._controller}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{self._port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(self._home / "data"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
            "auto.create.topics.enable": "false",
            "log.flush.interval.messages": "1",
        }
        self._config.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        tool = self._java("kafka.tools.StorageTool")
        name = subprocess.run([*tool, "random-uuid"], capture_output=True, text=True, check=True).stdout.split()[-1]
        command = [*tool, "format", "-t", name, "-c", str(self._config)]
        subprocess.run(command, capture_output=True, check=True)

    async def _answers(self) -> bool:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", self._port)
        except OSError:
            return False
        writer.close()
        await writer.wait_closed()
        return "Kafka Server started" in (self._home / "broker.log").read_text()
