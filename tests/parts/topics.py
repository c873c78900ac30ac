"""What tests do to a topic behind the log's back."""

from __future__ import annotations

from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, RecordsToDelete

from adapters.log.kafka import KafkaLog
from adapters.log.kafka_topic import KafkaSettings


async def truncate(log: KafkaLog, keep_last: int) -> None:
    """Cut the front of a log's topic as an administrator may: only the last messages stay."""
    first, end = await log.bounds()
    await delete_before(log._settings, max(first, end - keep_last))


async def delete_before(settings: KafkaSettings, position: int) -> None:
    """Delete everything before a position."""
    admin = AIOKafkaAdminClient(**settings.common())
    await admin.start()
    try:
        await admin.delete_records({TopicPartition(settings.topic, 0): RecordsToDelete(before_offset=position)})
    finally:
        await admin.close()
