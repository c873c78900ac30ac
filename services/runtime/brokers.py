"""From the settings to what the log on Kafka is opened with."""

from __future__ import annotations

from typing import Any

from adapters.log.kafka_topic import KafkaSettings, security_of
from services.runtime.settings import Settings


def security(settings: Settings) -> dict[str, Any]:
    """Return how clients prove themselves to the brokers. Raises LogError for certificates that cannot be used."""
    given = settings.kafka
    return security_of(
        given.protocol,
        username=given.sasl_username,
        password=given.sasl_password.get_secret_value(),
        mechanism=given.sasl_mechanism,
        ca_file=given.ca_file,
        cert_file=given.cert_file,
        key_file=given.key_file,
    )


def kafka_of(settings: Settings, cluster: str) -> KafkaSettings:
    """Return how a cluster's log is reached. Raises LogError for certificates that cannot be used."""
    return KafkaSettings(settings.kafka.servers, settings.topic_of(cluster), security(settings))
