"""Records to messages and back: CloudEvents in Kafka's binary mode (headers ``ce_*``, JSON body)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Message:
    """What a home of the log stores: headers and value, opaque to it."""

    headers: tuple[tuple[str, bytes], ...]
    value: bytes
