"""The topic of a log on Kafka: how it is reached, made, and held to what the log's promises rest on.

A topic that somebody else made with other settings (compaction, a retention time, several partitions) would lose or
reorder records some day; so its settings are compared at every start, and what differs is refused by name.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    KafkaError,
    TopicAlreadyExistsError,
    TopicAuthorizationFailedError,
)
from aiokafka.helpers import create_ssl_context

from adapters.log.kafka_reasons import reason
from adapters.log.port import LogError

#: What one append may be, and one message of it.
BATCH_BYTES_MAX: Final = 8 * 1024 * 1024
TOPIC_SETTINGS: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
    "max.message.bytes": str(BATCH_BYTES_MAX),
    "compression.type": "producer",
}
#: What goes wrong between us and a broker: what aiokafka says, and what it lets through from below.
TROUBLE: Final = (KafkaError, OSError, TimeoutError)
_APPEARS_WITHIN_S: Final = 15.0
_LOOK_EVERY_S: Final = 0.1


@dataclass(frozen=True)
class KafkaSettings:
    """How to reach the log. ``security`` goes to every client as it is (see ``security_of``)."""

    bootstrap_servers: str
    topic: str
    security: Mapping[str, Any] = field(default_factory=dict, repr=False)
    request_timeout_ms: int = 30_000
    #: How long an append may stay without an answer before it counts as one whose fate is unknown.
    append_timeout_s: float = 30.0

    def common(self) -> dict[str, Any]:
        """Return what every client of aiokafka is made with."""
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "request_timeout_ms": self.request_timeout_ms,
            **self.security,
        }


def security_of(
    protocol: str,
    *,
    username: str = "",
    password: str = "",
    mechanism: str = "SCRAM-SHA-512",
    ca_file: str = "",
    cert_file: str = "",
    key_file: str = "",
) -> dict[str, Any]:
    """Return aiokafka's arguments for PLAINTEXT, SSL or SASL_SSL. Raises LogError naming a file that cannot be used."""
    found: dict[str, Any] = {"security_protocol": protocol}
    if protocol != "PLAINTEXT":
        try:
            found["ssl_context"] = create_ssl_context(
                cafile=ca_file or None, certfile=cert_file or None, keyfile=key_file or None
            )
        except (OSError, ssl.SSLError) as error:
            files = ", ".join(name for name in (ca_file, cert_file, key_file) if name)
            raise LogError(f"Kafka: certificates {files}: {error}", known_lost=True) from error
    if protocol == "SASL_SSL":
        found |= {"sasl_mechanism": mechanism, "sasl_plain_username": username, "sasl_plain_password": password}
    return found


async def ensure_topic(settings: KafkaSettings, *, create: bool = True) -> None:
    """Create the topic if it is missing (``create``); refuse one that breaks the log's promises. Raises LogError.

    Who may not create topics can use one that is there already.
    """
    admin = AIOKafkaAdminClient(**settings.common())
    try:
        await admin.start()
        brokers = len((await admin.describe_cluster())["brokers"])
        wanted = dict(TOPIC_SETTINGS) | ({"min.insync.replicas": "2"} if brokers >= 3 else {})
        create = create and not await _there(admin, settings.topic)
        if create:
            await _create(admin, NewTopic(settings.topic, 1, min(brokers, 3), topic_configs=wanted))
        await _verify(admin, settings.topic, wanted, _APPEARS_WITHIN_S if create else 0.0)
    except TROUBLE as error:
        why = await reason(settings.bootstrap_servers, settings.security, error)
        raise LogError(f"Kafka at {settings.bootstrap_servers}: {why}", known_lost=True) from error
    finally:
        await admin.close()


async def _there(admin: AIOKafkaAdminClient, topic: str) -> bool:
    (described,) = await admin.describe_topics([topic])
    return not described["error_code"]


def _error(code: int, text: str) -> str:
    """Return an error that the brokers answer with: which right is missing they do not say."""
    missing = code in (TopicAuthorizationFailedError.errno, ClusterAuthorizationFailedError.errno)
    return "the user lacks the right" if missing else f"error {code} {text}".strip()


async def _create(admin: AIOKafkaAdminClient, topic: NewTopic) -> None:
    answer = await admin.create_topics([topic])
    for entry in answer.topic_errors:
        if entry[1] not in (0, TopicAlreadyExistsError.errno):
            raise LogError(f"topic {topic.name} cannot be created: {_error(entry[1], entry[2])}", known_lost=True)


async def _verify(admin: AIOKafkaAdminClient, topic: str, wanted: Mapping[str, str], patience_s: float) -> None:
    partitions = await _partitions(admin, topic, patience_s)
    if len(partitions) != 1:
        raise LogError(f"topic {topic} has {len(partitions)} partitions, a log has exactly 1", known_lost=True)
    replicas = len(partitions[0]["replicas"])
    answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    for code, text, *_ in (resource for answer in answers for resource in answer.resources):
        if code:
            raise LogError(f"topic {topic}: its settings cannot be seen: {_error(code, text)}", known_lost=True)
    found = {entry[0]: entry[1] for answer in answers for resource in answer.resources for entry in resource[4]}
    for name, value in wanted.items():
        if found.get(name) != value:
            raise LogError(f"topic {topic}: {name} is {found.get(name)!r}, a log needs {value!r}", known_lost=True)
    if int(found["min.insync.replicas"]) > replicas:
        text = f"min.insync.replicas is {found['min.insync.replicas']} of {replicas}, so nothing could be written"
        raise LogError(f"topic {topic}: {text}", known_lost=True)


async def _partitions(admin: AIOKafkaAdminClient, topic: str, patience_s: float) -> list[dict[str, Any]]:
    """Return a topic's partitions; a new one takes a moment until every broker knows it."""
    now = asyncio.get_running_loop().time
    deadline = now() + patience_s
    while True:
        (described,) = await admin.describe_topics([topic])
        if not described["error_code"]:
            return list(described["partitions"])
        if now() >= deadline:
            raise LogError(f"topic {topic}: not there, or not to be seen by this user", known_lost=True)
        await asyncio.sleep(_LOOK_EVERY_S)
