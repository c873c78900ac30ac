"""A real Kafka broker in a container, by testcontainers: where an engine runs that has the image already.

Nothing is pulled: neither the image nor testcontainers' own, which would clean up after a run that was killed. The
settings are those of ``docker-compose.yml``, with a listener for clients outside of the engine.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import closing
from pathlib import Path
from typing import Final

import docker
import yaml
from docker.errors import DockerException
from parts.cache import free_port
from testcontainers.core.config import testcontainers_config
from testcontainers.core.container import DockerContainer

_COMPOSE: Final = Path(__file__).parents[2] / "docker-compose.yml"
_PORT, _START_S, _ASK_S = 9092, 120.0, 5
IMAGE: Final = os.environ.get("KAFKA_IMAGE", "apache/kafka:4.1.1")


def engine_has(image: str = IMAGE) -> bool:
    """Tell whether a container engine runs here and has an image."""
    if not _listens():
        return False
    try:
        with closing(docker.from_env(timeout=_ASK_S)) as client:
            client.images.get(image)
    except DockerException:
        return False
    return True


def _listens() -> bool:
    """Tell whether somebody listens where the engine is. The library would leave the socket of a vain try open."""
    scheme, _, path = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").partition("://")
    if scheme != "unix":
        return True
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(path) == 0


class ContainerBroker:
    """One broker for tests that leave it running."""

    def __init__(self, image: str = IMAGE) -> None:
        testcontainers_config.ryuk_disabled = True
        self._container, self._port = DockerContainer(image), free_port()
        self._host = self._container.get_docker_client().host()

    @property
    def address(self) -> str:
        return f"{self._host}:{self._port}"

    def start_blocking(self) -> None:
        """Start the broker and wait until it says that it has."""
        self._container.with_bind_ports(_PORT, self._port).with_envs(**self._settings()).start()
        deadline = time.monotonic() + _START_S
        while "Kafka Server started" not in (said := self._said()):
            if time.monotonic() > deadline:
                self.kill()
                raise RuntimeError(f"the broker does not start: {said[-2000:]}")
            time.sleep(0.2)

    def kill(self) -> None:
        """End the broker and remove its container."""
        self._container.stop(force=True)

    def _settings(self) -> dict[str, str]:
        kafka = yaml.safe_load(_COMPOSE.read_text())["services"]["kafka"]
        return {
            **kafka["environment"],
            "KAFKA_ADVERTISED_LISTENERS": f"PLAINTEXT://{self.address}",
            "KAFKA_CONTROLLER_QUORUM_VOTERS": "1@127.0.0.1:9093",
            "KAFKA_GROUP_MIN_SESSION_TIMEOUT_MS": "1000",
            "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
            "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
            "KAFKA_TRANSACTION_STATE_LOG_NUM_PARTITIONS": "1",
        }

    def _said(self) -> str:
        out, errors = self._container.get_logs()
        return (out + errors).decode(errors="replace")
