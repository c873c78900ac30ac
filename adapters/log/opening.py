"""Opening a log that somebody names: a SQLite file by its path, a topic by ``kafka://SERVER[,SERVER…]/TOPIC``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from adapters.log.kafka import KafkaLog
from adapters.log.kafka_topic import KafkaSettings
from adapters.log.port import Log, LogError
from adapters.log.sqlite import SqliteLog

KAFKA: Final = "kafka://"


def parse(url: str, security: Mapping[str, Any] | None = None) -> KafkaSettings:
    """Return what a ``kafka://`` URL names. Raises LogError for one that names no server or no topic."""
    if "@" in url:
        raise LogError("log: a URL without user and password; kafka.sasl_username and _password say who asks",
                       known_lost=True)  # fmt: skip
    servers, _, topic = url.removeprefix(KAFKA).partition("/")
    if not url.startswith(KAFKA) or not servers or not topic or "/" in topic:
        raise LogError(f"log {url}: must be a path or kafka://SERVER:PORT[,SERVER:PORT]/TOPIC", known_lost=True)
    return KafkaSettings(servers, topic, dict(security or {}))


async def open_to_read(where: str, security: Mapping[str, Any] | None = None) -> Log:
    """Open an existing log for reading only, beside those who write it. Raises LogError."""
    if where.startswith(KAFKA):
        return await KafkaLog.open(parse(where, security), read_only=True)
    return SqliteLog(Path(where), read_only=True)
