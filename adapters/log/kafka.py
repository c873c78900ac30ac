"""The log on Kafka: one topic a cluster, one partition, so one order (design section 3).

An append is one record batch in one request: its messages stand together, or none of them is there. Nothing rests on
transactions. Reading never resets silently: a position that the topic no longer holds is ``OutOfRange``. Progress is
watched: if the end moves and nothing arrives, the consumer is made anew, since one that is stuck after a broker's
restart stays silent for ever.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType
from aiokafka.errors import (
    KafkaError,
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
    TopicAlreadyExistsError,
)

from adapters.log.port import LogError, OutOfRange, check_sizes
from events.codec import Message

MESSAGE_BYTES_MAX: Final = 8 * 1024 * 1024
#: What the topic must be like; what differs is refused at start, since the log's promises rest on it.
TOPIC_SETTINGS: Final[Mapping[str, str]] = {
    "cleanup.policy": "delete",
    "retention.ms": "-1",
    "retention.bytes": "-1",
    "unclean.leader.election.enable": "false",
    "max.message.bytes": str(MESSAGE_BYTES_MAX),
    "compression.type": "producer",
}
_STUCK_AFTER_S: Final = 10.0
_PARTITION: Final = 0


@dataclass(frozen=True)
class KafkaSettings:
    """How to reach the brokers. ``security`` goes to every client as it is (SASL, TLS: aiokafka's own names)."""

    bootstrap_servers: str
    topic: str
    security: Mapping[str, Any] = field(default_factory=dict)
    request_timeout_ms: int = 30_000

    def common(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "request_timeout_ms": self.request_timeout_ms,
            **self.security,
        }


class KafkaLog:
    """A topic behind the port ``Log``. One reader at a time: its place is where it last read."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._partition = TopicPartition(settings.topic, _PARTITION)
        self._producer: AIOKafkaProducer | None = None
        self._consumer: AIOKafkaConsumer | None = None
        self._buffer: deque[tuple[int, Message]] = deque()
        self._next = -1
        self._reading = asyncio.Lock()

    @classmethod
    async def open(cls, settings: KafkaSettings) -> KafkaLog:
        """Create the topic if it is missing, verify its settings, and connect. Raises LogError."""
        log = cls(settings)
        try:
            await ensure_topic(settings)
            log._producer = AIOKafkaProducer(
                acks="all",
                enable_idempotence=True,
                max_request_size=MESSAGE_BYTES_MAX,
                max_batch_size=MESSAGE_BYTES_MAX,
                compression_type="gzip",
                linger_ms=0,
                **settings.common(),
            )
            await log._producer.start()
            await log._connect()
        except KafkaError as error:
            await log.close()
            raise LogError(f"Kafka at {settings.bootstrap_servers}: {error}", known_lost=True) from error
        return log

    async def append(self, messages: Sequence[Message]) -> int:
        check_sizes(messages)
        if self._producer is None:
            raise LogError("the log is closed", known_lost=True)
        batch = self._producer.create_batch()
        for message in messages:
            if batch.append(key=None, value=message.value, timestamp=None, headers=list(message.headers)) is None:
                text = f"{len(messages)} messages do not fit one batch of {MESSAGE_BYTES_MAX} bytes"
                raise LogError(text, known_lost=True)
        batch.close()
        try:
            answer = await (await self._producer.send_batch(batch, self._settings.topic, partition=_PARTITION))
        except MessageSizeTooLargeError as error:
            raise LogError(f"refused as too large: {error}", known_lost=True) from error
        except KafkaError as error:
            raise LogError(f"no answer to an append: {error!r}") from error
        return int(answer.offset)

    async def read(self, position: int, limit: int = 1000) -> list[tuple[int, Message]]:
        async with self._reading:
            first, end = await self._bounds()
            if not first <= position <= end:
                raise OutOfRange(f"position {position} is not on the log: it holds {first} to {end - 1}")
            if position >= end:
                return []
            self._seek(position)
            await self._fill(position, end)
            return [self._buffer.popleft() for _ in range(min(limit, len(self._buffer)))]

    async def bounds(self) -> tuple[int, int]:
        async with self._reading:
            return await self._bounds()

    async def wait(self, position: int, timeout_s: float) -> bool:
        async with self._reading:
            if self._buffer and self._buffer[0][0] <= position <= self._buffer[-1][0]:
                return True
            if position < (await self._bounds())[1]:
                return True
            self._seek(position)
            await self._fetch(timeout_s)
            return bool(self._buffer)

    async def close(self) -> None:
        for client in (self._producer, self._consumer):
            if client is not None:
                await client.stop()
        self._producer = self._consumer = None

    async def _connect(self) -> None:
        if self._consumer is not None:
            await self._consumer.stop()
        self._consumer = AIOKafkaConsumer(
            auto_offset_reset="none",
            enable_auto_commit=False,
            fetch_max_wait_ms=500,
            fetch_max_bytes=4 * MESSAGE_BYTES_MAX,
            max_partition_fetch_bytes=2 * MESSAGE_BYTES_MAX,
            **self._settings.common(),
        )
        await self._consumer.start()
        self._consumer.assign([self._partition])
        self._buffer.clear()
        self._next = -1

    def _open_consumer(self) -> AIOKafkaConsumer:
        if self._consumer is None:
            raise LogError("the log is closed", known_lost=True)
        return self._consumer

    async def _bounds(self) -> tuple[int, int]:
        consumer = self._open_consumer()
        try:
            first = await consumer.beginning_offsets([self._partition])
            end = await consumer.end_offsets([self._partition])
        except KafkaError as error:
            raise LogError(f"Kafka at {self._settings.bootstrap_servers}: {error!r}") from error
        return int(first[self._partition]), int(end[self._partition])

    def _seek(self, position: int) -> None:
        """Stand at a position; what was fetched ahead is kept if it continues there."""
        while self._buffer and self._buffer[0][0] < position:
            self._buffer.popleft()
        if self._buffer and self._buffer[0][0] == position:
            return
        if self._buffer or self._next != position:
            self._buffer.clear()
            self._open_consumer().seek(self._partition, position)
            self._next = position

    async def _fill(self, position: int, end: int) -> None:
        """Fetch until something is there: the end says that there is. Silence beyond a limit means a stuck consumer."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + _STUCK_AFTER_S
        while not self._buffer:
            await self._fetch(1.0)
            if not self._buffer and loop.time() > deadline:
                await self._connect()
                raise LogError(f"nothing came from position {position} though the log ends at {end}: connected anew")

    async def _fetch(self, timeout_s: float) -> None:
        try:
            found = await self._open_consumer().getmany(self._partition, timeout_ms=int(timeout_s * 1000))
        except OffsetOutOfRangeError as error:
            raise OutOfRange(f"position {self._next} is not on the log any more") from error
        except KafkaError as error:
            raise LogError(f"Kafka at {self._settings.bootstrap_servers}: {error!r}") from error
        for record in found.get(self._partition, []):
            self._buffer.append((record.offset, Message(tuple(record.headers), record.value or b"")))
            self._next = record.offset + 1


async def ensure_topic(settings: KafkaSettings) -> None:
    """Create the topic if it is missing; refuse one whose settings break the log's promises. Raises LogError."""
    admin = AIOKafkaAdminClient(**settings.common())
    await admin.start()
    try:
        brokers = len((await admin.describe_cluster())["brokers"])
        wanted = dict(TOPIC_SETTINGS) | ({"min.insync.replicas": "2"} if brokers >= 3 else {})
        topic = NewTopic(settings.topic, 1, min(brokers, 3), topic_configs=wanted)
        answer = await admin.create_topics([topic])
        for entry in answer.topic_errors:
            if entry[1] not in (0, TopicAlreadyExistsError.errno):
                raise LogError(
                    f"topic {settings.topic} cannot be created: error {entry[1]} {entry[2]}", known_lost=True
                )
        await _verify(admin, settings.topic, wanted)
    finally:
        await admin.close()


async def _verify(admin: AIOKafkaAdminClient, topic: str, wanted: Mapping[str, str]) -> None:
    described = await admin.describe_topics([topic])
    count = len(described[0]["partitions"])
    if count != 1:
        raise LogError(f"topic {topic} has {count} partitions, a log has exactly 1", known_lost=True)
    answers = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, topic)])
    found = {entry[0]: entry[1] for answer in answers for resource in answer.resources for entry in resource[4]}
    for name, value in wanted.items():
        if found.get(name) != value:
            raise LogError(f"topic {topic}: {name} is {found.get(name)!r}, a log needs {value!r}", known_lost=True)
