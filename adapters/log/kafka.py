"""The log on Kafka: one topic a cluster, one partition, so one order (design section 3).

An append is one record batch in one request: its messages stand together, or none of them is there. Nothing rests on
transactions. The producer is idempotent, so its own retries put nothing there twice; after an append without an answer
it is thrown away, since what it does with its numbers then is its own affair.

Reading never resets silently: a position that the topic does not hold is ``OutOfRange``, which the broker says itself
when something is fetched from there. A reader that follows takes what the broker has sent by itself; it is asked for
the end only now and then, and by ``bounds``. That is on a connection of its own: a broker answers one request of a
connection after another, and the fetching one is nearly always held by a fetch that waits for news. And progress is
watched: if the end has moved and nothing arrives, the fetching consumer is made anew, since one that got stuck (after
a broker's restart, say) may stay silent for ever.

Others may write to the topic what we never would. Where the client has nothing to give (the markers of a transaction)
or cannot read what is there (a header's name that is no text), an empty message stands for it, the same for every
reader: positions stay without holes, and whoever follows sets it aside.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from aiokafka.errors import (
    MessageSizeTooLargeError,
    OffsetOutOfRangeError,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
)
from aiokafka.producer.message_accumulator import BatchBuilder

from adapters.log.kafka_reasons import reason
from adapters.log.kafka_topic import BATCH_BYTES_MAX, TROUBLE, KafkaSettings, ensure_topic
from adapters.log.port import LogError, OutOfRange, TooLarge, check_sizes
from events.codec import Message

_STUCK_AFTER_S: Final = 10.0
_CLOSING_S: Final = 5.0
_LOOK_EVERY_S: Final = 0.1
#: A reader that follows asks for the end this often, should what it fetches stay away.
_ASK_EVERY_S: Final = 1.0
_PARTITION: Final = 0
_NOTHING: Final = Message((), b"")


class KafkaLog:
    """A topic behind the port ``Log``. It has one reader at a time, whose place is where it last read."""

    def __init__(self, settings: KafkaSettings, *, read_only: bool = False) -> None:
        self._settings = settings
        self._read_only = read_only
        self._partition = TopicPartition(settings.topic, _PARTITION)
        self._producer: AIOKafkaProducer | None = None
        self._consumer: AIOKafkaConsumer | None = None
        self._asker: AIOKafkaConsumer | None = None
        self._buffer: deque[tuple[int, Message]] = deque()
        self._next = -1
        self._end, self._end_asked_s = 0, float("-inf")
        self._reading, self._sending, self._asking = asyncio.Lock(), asyncio.Lock(), asyncio.Lock()
        self._retiring: set[asyncio.Task[None]] = set()
        self._closed = False

    @classmethod
    async def open(cls, settings: KafkaSettings, *, read_only: bool = False) -> KafkaLog:
        """Verify the topic's settings, creating it first unless ``read_only``. Raises LogError."""
        await ensure_topic(settings, create=not read_only)
        return cls(settings, read_only=read_only)

    # --- writing ---

    async def append(self, messages: Sequence[Message]) -> int:
        self._check_open()
        if self._read_only:
            raise LogError(f"topic {self._settings.topic}: opened for reading only", known_lost=True)
        check_sizes(messages)
        if not messages:
            return (await self.bounds())[1]
        producer = await self._open_producer()
        batch = self._batch(producer, messages)
        try:
            async with asyncio.timeout(self._settings.append_timeout_s):
                async with self._sending:
                    answer = await producer.send_batch(batch, self._settings.topic, partition=_PARTITION)
                position = int((await answer).offset)
        except (MessageSizeTooLargeError, RecordTooLargeError) as error:
            raise TooLarge(f"refused as too large: {error}") from error
        except TopicAuthorizationFailedError as error:
            self._discard(producer)
            text = f"topic {self._settings.topic}: the user lacks the right to write"
            raise LogError(text, known_lost=True) from error
        except TROUBLE as error:
            self._discard(producer)
            raise LogError(f"no answer to an append: {error!r}") from error
        self._end = max(self._end, position + len(messages))
        return position

    def _batch(self, producer: AIOKafkaProducer, messages: Sequence[Message]) -> BatchBuilder:
        batch = producer.create_batch()
        for message in messages:
            try:
                added = batch.append(key=None, value=message.value, timestamp=None, headers=list(message.headers))
            except UnicodeEncodeError as error:
                raise LogError(f"a header's name is no text: {error}", known_lost=True) from error
            if added is None:
                raise TooLarge(f"{len(messages)} messages do not fit one batch of {BATCH_BYTES_MAX} bytes")
        batch.close()
        return batch

    async def _open_producer(self) -> AIOKafkaProducer:
        async with self._sending:
            if self._producer is None:
                producer = AIOKafkaProducer(
                    acks="all",
                    enable_idempotence=True,
                    max_request_size=BATCH_BYTES_MAX,
                    max_batch_size=BATCH_BYTES_MAX,
                    compression_type="zstd",
                    linger_ms=0,
                    **self._settings.common(),
                )
                await self._start(producer, known_lost=True)
                self._producer = producer
            return self._producer

    def _discard(self, producer: AIOKafkaProducer) -> None:
        """Use a producer no more. What it still holds may come late or never: its writer's term is over."""
        if self._producer is producer:
            self._producer = None
        self._in_background(producer)

    # --- reading ---

    async def read(self, position: int, limit: int = 1000) -> list[tuple[int, Message]]:
        self._check_open()
        async with self._reading:
            if not self._buffered(position):
                self._buffer.clear()  # fetched ahead of somewhere else
                if position >= self._end and not await self._news(position):
                    return []
                if not self._buffer:
                    await self._fill(position)
            return [self._buffer.popleft() for _ in range(min(limit, len(self._buffer)))]

    async def bounds(self) -> tuple[int, int]:
        self._check_open()
        async with self._asking:
            asker, now = await self._open_asker(), asyncio.get_running_loop().time()
            try:
                first = await asker.beginning_offsets([self._partition])
                end = await asker.end_offsets([self._partition])
            except TROUBLE as error:
                raise self._trouble(error) from error
            self._end, self._end_asked_s = int(end[self._partition]), now
            return int(first[self._partition]), self._end

    async def wait(self, position: int, timeout_s: float) -> bool:
        self._check_open()
        async with self._reading:
            if self._buffered(position) or position < self._end:
                return True
            if self._next != position:
                self._end = await self._ask_end()
                if position < self._end:
                    return True
                if position > self._end:
                    return await self._wait_for_end(position, timeout_s)
            await self._fetch(position, timeout_s)
            return bool(self._buffer)

    async def _news(self, position: int) -> bool:
        """Tell whether something stands at a position: fetched already, or so the broker says if it has to be asked."""
        now = asyncio.get_running_loop().time()
        if self._next == position and now - self._end_asked_s < _ASK_EVERY_S:
            await self._fetch(position, 0)
            return bool(self._buffer)
        return await self._grown(position)

    async def _grown(self, position: int) -> bool:
        """Ask whether there is something at a position by now; beyond the end is out of range."""
        self._end = await self._ask_end()
        if position > self._end:
            raise OutOfRange(f"position {position} is not on the log: it ends before {self._end}")
        if position < self._end:
            return True
        if position < (first := (await self.bounds())[0]):
            raise OutOfRange(f"position {position} is not on the log: it begins at {first}")
        return False

    async def _ask_end(self) -> int:
        async with self._asking:
            asker, now = await self._open_asker(), asyncio.get_running_loop().time()
            try:
                end = int((await asker.end_offsets([self._partition]))[self._partition])
            except TROUBLE as error:
                raise self._trouble(error) from error
            self._end_asked_s = now
            return end

    async def _wait_for_end(self, position: int, timeout_s: float) -> bool:
        """Wait for a position beyond the end; nothing can be fetched from there, so the end is asked repeatedly."""
        now = asyncio.get_running_loop().time
        deadline = now() + timeout_s
        while position >= self._end:
            if (left := deadline - now()) <= 0:
                return False
            await asyncio.sleep(min(left, _LOOK_EVERY_S))
            self._end = await self._ask_end()
        return True

    def _buffered(self, position: int) -> bool:
        """Tell whether a position was fetched ahead; what stands before it is dropped."""
        while self._buffer and self._buffer[0][0] < position:
            self._buffer.popleft()
        return bool(self._buffer) and self._buffer[0][0] == position

    async def _fill(self, position: int) -> None:
        """Fetch until something is there: the end says that there is. Silence beyond a limit means a stuck consumer."""
        now = asyncio.get_running_loop().time
        deadline = now() + _STUCK_AFTER_S
        while True:
            await self._fetch(position, 1.0)
            if self._buffer:
                return
            if now() > deadline:
                self._drop_consumer()
                raise LogError(f"nothing came from position {position}, the log ends at {self._end}: connecting anew")

    async def _fetch(self, position: int, timeout_s: float) -> None:
        """Wait for what stands at a position and behind it, and keep it."""
        consumer = await self._open_consumer()
        if self._next != position:
            self._buffer.clear()
            consumer.seek(self._partition, position)
            self._next = position
        try:
            self._keep(await consumer.getmany(self._partition, timeout_ms=int(timeout_s * 1000)))
            reached = await consumer.position(self._partition)
        except OffsetOutOfRangeError as error:
            self._next, self._end = -1, 0
            raise OutOfRange(f"position {position} is not on the log: the broker does not hold it") from error
        except UnicodeDecodeError:
            await self._step_over(consumer)
            return
        except TROUBLE as error:
            self._drop_consumer()
            raise self._trouble(error) from error
        self._leave_out(reached)

    def _keep(self, found: Mapping[TopicPartition, Sequence[ConsumerRecord]]) -> None:
        for record in found.get(self._partition, ()):
            self._leave_out(record.offset)
            headers = tuple((name, value or b"") for name, value in record.headers)
            self._buffer.append((record.offset, Message(headers, record.value or b"")))
            self._next = record.offset + 1

    def _leave_out(self, reached: int) -> None:
        """Let an empty message stand for each position before ``reached`` that nothing came from."""
        while self._next < reached:
            self._buffer.append((self._next, _NOTHING))
            self._next += 1

    async def _step_over(self, consumer: AIOKafkaConsumer) -> None:
        """Something ahead cannot be read: take what stands before it one by one, and let it out."""
        now = asyncio.get_running_loop().time
        deadline = now() + _STUCK_AFTER_S
        consumer.seek(self._partition, self._next)
        try:
            while now() < deadline:
                self._keep(await consumer.getmany(self._partition, timeout_ms=1000, max_records=1))
        except UnicodeDecodeError:
            self._leave_out(self._next + 1)
            consumer.seek(self._partition, self._next)
        except TROUBLE as error:
            self._drop_consumer()
            raise self._trouble(error) from error

    async def _open_consumer(self) -> AIOKafkaConsumer:
        if self._consumer is None:
            consumer = await self._started_consumer(
                fetch_max_wait_ms=500,
                fetch_max_bytes=4 * BATCH_BYTES_MAX,
                max_partition_fetch_bytes=2 * BATCH_BYTES_MAX,
            )
            consumer.assign([self._partition])
            self._consumer = consumer
        return self._consumer

    async def _open_asker(self) -> AIOKafkaConsumer:
        if self._asker is None:
            self._asker = await self._started_consumer()
        return self._asker

    async def _started_consumer(self, **more: Any) -> AIOKafkaConsumer:
        consumer = AIOKafkaConsumer(
            auto_offset_reset="none", enable_auto_commit=False, **more, **self._settings.common()
        )
        await self._start(consumer)
        return consumer

    async def _start(self, client: AIOKafkaProducer | AIOKafkaConsumer, *, known_lost: bool = False) -> None:
        """Start a client; one that does not start (or that nobody waits for any more) is put away."""
        try:
            await client.start()
        except TROUBLE as error:
            self._in_background(client)
            why = await reason(self._settings.bootstrap_servers, self._settings.security, error)
            raise self._trouble(why, known_lost=known_lost) from error
        except asyncio.CancelledError:
            self._in_background(client)
            raise

    def _drop_consumer(self) -> None:
        """Fetch with a new consumer from now on."""
        consumer, self._consumer = self._consumer, None
        self._buffer.clear()
        self._next, self._end = -1, 0
        if consumer is not None:
            self._in_background(consumer)

    # --- closing ---

    async def close(self) -> None:
        self._closed = True
        clients = (self._producer, self._consumer, self._asker)
        self._producer = self._consumer = self._asker = None
        await asyncio.gather(*(_stop(client) for client in clients if client is not None), *self._retiring)

    def _in_background(self, client: AIOKafkaProducer | AIOKafkaConsumer) -> None:
        task = asyncio.create_task(_stop(client))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    def _check_open(self) -> None:
        if self._closed:
            raise LogError(f"topic {self._settings.topic}: the log is closed", known_lost=True)

    def _trouble(self, error: BaseException | str, *, known_lost: bool = False) -> LogError:
        text = error if isinstance(error, str) else repr(error)
        return LogError(f"Kafka at {self._settings.bootstrap_servers}: {text}", known_lost=known_lost)


async def _stop(client: AIOKafkaProducer | AIOKafkaConsumer) -> None:
    """Stop a client; a broker that is away does not hold us up: what would still be sent is dropped then."""
    try:
        async with asyncio.timeout(_CLOSING_S):
            await client.stop()
    except TROUBLE:
        with suppress(*TROUBLE, asyncio.CancelledError):
            if isinstance(client, AIOKafkaProducer):
                await client._sender.close()
                await client.client.close()
            else:
                await client._client.close()
