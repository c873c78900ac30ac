"""Why the brokers will not have us, in words that name the setting.

A client of aiokafka tries every server and then tells no more than that none would have it. So each is asked once more,
by a bare connection whose error is the reason.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from typing import Any, Final

from aiokafka.conn import collect_hosts, create_conn
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    IllegalSaslStateError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailed,
    TopicAuthorizationFailedError,
    UnsupportedSaslMechanismError,
)
from aiokafka.protocol.metadata import MetadataRequest

_PATIENCE_S: Final = 5.0
#: What OpenSSL says of a certificate: its time, its name.
_OUT_OF_TIME: Final = (9, 10)
_OTHER_NAME: Final = (62, 63, 64)


async def reason(servers: str, security: Mapping[str, Any], error: BaseException) -> str:
    """Return in one line why a client did not start. Never raises."""
    if not isinstance(error, KafkaConnectionError):
        return _words(error, security)
    found: list[str] = []
    for host, port, _ in collect_hosts(servers):
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await _greet(host, port, security)
        except (KafkaError, OSError, TimeoutError) as why:
            text = _words(why, security)
            found += [text] if text not in found else []
    return "; ".join(found) or repr(error)


async def _greet(host: str, port: int, security: Mapping[str, Any]) -> None:
    """Connect as a client does, and ask what every client asks first."""
    connection = await create_conn(host, port, **security)
    try:
        await connection.send(MetadataRequest([]))
    finally:
        connection.close()


def _words(error: BaseException, security: Mapping[str, Any]) -> str:
    """Return an error of a client in words, with the setting to look at."""
    if isinstance(error, SaslAuthenticationFailed):
        return f"kafka.sasl_username, kafka.sasl_password: {error}"
    if isinstance(error, UnsupportedSaslMechanismError | IllegalSaslStateError):
        return f"kafka.sasl_mechanism: the brokers do not take {security.get('sasl_mechanism', '')}"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"{_certificate(error)}: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"kafka.protocol, kafka.cert_file: {error}"
    if isinstance(error, KafkaConnectionError):
        protocol = security.get("security_protocol", "PLAINTEXT")
        return f"kafka.protocol: the broker ended the connection; it may not speak {protocol} there"
    if isinstance(error, TopicAuthorizationFailedError | ClusterAuthorizationFailedError):
        return "the user lacks the right"
    if isinstance(error, TimeoutError):
        return "kafka.servers: no answer"
    return f"kafka.servers: {error}" if isinstance(error, OSError) else repr(error)


def _certificate(error: ssl.SSLCertVerificationError) -> str:
    if error.verify_code in _OUT_OF_TIME:
        return "the broker's certificate"
    return "kafka.servers" if error.verify_code in _OTHER_NAME else "kafka.ca_file"
