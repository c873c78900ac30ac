"""The Kafka home on real brokers: its topic, brokers that go away, consumers that fall silent, and secured clients."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import suppress
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy
from parts.broker import GUEST, PASSWORD, USER, Broker
from parts.topics import delete_before

from adapters.log import kafka as kafka_home
from adapters.log.kafka import KafkaLog
from adapters.log.kafka_topic import BATCH_BYTES_MAX, TOPIC_SETTINGS, KafkaSettings, security_of
from adapters.log.port import LogError, OutOfRange, TooLarge
from events.codec import Message

Open = Callable[..., Coroutine[Any, Any, KafkaLog]]
_GOODBYE_S = 5


def messages(count: int, first: int = 0) -> list[Message]:
    return [Message((("ce_id", b"%d" % number),), b"value %d" % number) for number in range(first, first + count)]


def new_topic() -> str:
    return f"home-{uuid.uuid4().hex}"


@pytest.fixture(scope="module")
def own_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker that tests may kill and freeze, if they let it run again."""
    broker = Broker(tmp_path_factory.mktemp("kafka-own") / "broker")
    broker.start_blocking()
    yield broker
    broker.kill()


@pytest.fixture(scope="module")
def secure_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    broker = Broker(tmp_path_factory.mktemp("kafka-secure") / "broker", secure=True)
    broker.start_blocking()
    yield broker
    broker.kill()


@pytest.fixture
async def opened() -> AsyncIterator[Open]:
    """Opens logs that are closed after the test."""
    logs: list[KafkaLog] = []

    async def open_log(broker: Broker, topic: str, *, read_only: bool = False, **more: Any) -> KafkaLog:
        log = await KafkaLog.open(KafkaSettings(broker.address, topic, **more), read_only=read_only)
        logs.append(log)
        return log

    yield open_log
    for log in logs:
        await log.close()
    await _all_closed()


async def _all_closed() -> None:
    """Wait until the client's connections are gone: by TLS a closed one waits for the broker's goodbye."""
    loop: Any = asyncio.get_running_loop()
    with suppress(TimeoutError):
        async with asyncio.timeout(_GOODBYE_S):
            while len(loop._selector.get_map()) > 1:  # its own pipe remains
                await asyncio.sleep(0.01)


async def make_topic(broker: Broker, name: str, partitions: int = 1, **settings: str) -> None:
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.address)
    await admin.start()
    configs = dict(TOPIC_SETTINGS) | {key.replace("_", "."): value for key, value in settings.items()}
    await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=configs)])
    await admin.close()


# --- what is stored ---------------------------------------------------------------------------------------------------

#: The low bits of a record batch's attributes, which stand behind offset, length, epoch, magic and checksum.
_ATTRIBUTES, _CODECS = 21, {0: "none", 1: "gzip", 4: "zstd"}


def codecs(broker: Broker, topic: str) -> list[str]:
    """Return how each batch of a topic is compressed, as it lies on the broker's disk."""
    stored, found = (broker.data / f"{topic}-0" / f"{0:020d}.log").read_bytes(), []
    while stored:
        length = 12 + int.from_bytes(stored[8:12], "big")
        found.append(_CODECS[int.from_bytes(stored[_ATTRIBUTES : _ATTRIBUTES + 2], "big") & 7])
        stored = stored[length:]
    return found


async def test_batches_are_stored_as_zstd_and_older_ones_are_read_as_they_are(own_broker: Broker, opened: Open) -> None:
    topic = new_topic()
    log = await opened(own_broker, topic)
    producer = AIOKafkaProducer(bootstrap_servers=own_broker.address, compression_type="gzip")
    await producer.start()
    await producer.send_and_wait(topic, b"x" * 1000)
    await producer.stop()
    written = [Message((), b"y" * 1000 + bytes([number])) for number in range(5)]
    assert await log.append(written) == 1
    assert codecs(own_broker, topic) == ["gzip", "zstd"]
    reader = await opened(own_broker, topic)
    assert [message.value for _, message in await reader.read(0)] == [b"x" * 1000, *(item.value for item in written)]


# --- the topic -------------------------------------------------------------------------------------------------------


async def test_a_topic_of_our_making_is_taken_again(kafka_broker: Broker, opened: Open) -> None:
    topic = new_topic()
    await (await opened(kafka_broker, topic)).append(messages(2))
    assert await (await opened(kafka_broker, topic)).read(0) == list(enumerate(messages(2)))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("cleanup_policy", "compact"),
        ("cleanup_policy", "compact,delete"),
        ("retention_ms", "604800000"),
        ("retention_bytes", "1000000"),
        ("max_message_bytes", "1048588"),
        ("unclean_leader_election_enable", "true"),
    ],
)
async def test_a_topic_that_would_lose_records_is_refused_by_name(
    kafka_broker: Broker, opened: Open, setting: str, value: str
) -> None:
    topic = new_topic()
    await make_topic(kafka_broker, topic, **{setting: value})
    with pytest.raises(LogError, match=f"{topic}: {setting.replace('_', '.')} is '{value}', a log needs"):
        await opened(kafka_broker, topic)


async def test_a_topic_without_one_order_is_refused(kafka_broker: Broker, opened: Open) -> None:
    topic = new_topic()
    await make_topic(kafka_broker, topic, partitions=2)
    with pytest.raises(LogError, match="2 partitions, a log has exactly 1"):
        await opened(kafka_broker, topic)


async def test_a_topic_that_nothing_could_be_written_to_is_refused(kafka_broker: Broker, opened: Open) -> None:
    topic = new_topic()
    await make_topic(kafka_broker, topic, min_insync_replicas="2")
    with pytest.raises(LogError, match=f"{topic}: min.insync.replicas is 2 of 1, so nothing could be written"):
        await opened(kafka_broker, topic)


async def test_a_reader_makes_no_topic_and_writes_nothing(kafka_broker: Broker, opened: Open) -> None:
    with pytest.raises(LogError, match="not there"):
        await opened(kafka_broker, new_topic(), read_only=True)
    topic = new_topic()
    await opened(kafka_broker, topic)
    reader = await opened(kafka_broker, topic, read_only=True)
    with pytest.raises(LogError, match="reading only") as refusal:
        await reader.append(messages(1))
    assert refusal.value.known_lost


async def test_a_broker_that_is_not_there_is_an_error_that_names_it(opened: Open) -> None:
    with pytest.raises(LogError, match=r"127\.0\.0\.1:1: "):
        await KafkaLog.open(KafkaSettings("127.0.0.1:1", "any"))


# --- what is written -------------------------------------------------------------------------------------------------


async def test_an_append_that_is_no_batch_is_refused_and_certainly_not_there(
    kafka_broker: Broker, opened: Open
) -> None:
    log = await opened(kafka_broker, new_topic())
    big = [Message((), b"x" * 900_000)] * (BATCH_BYTES_MAX // 900_000 + 1)
    with pytest.raises(TooLarge, match="do not fit one batch") as refusal:
        await log.append(big)
    assert refusal.value.known_lost
    with pytest.raises(LogError, match="no text") as refusal:
        await log.append([Message((("\ud800", b""),), b"")])
    assert refusal.value.known_lost
    assert await log.bounds() == (0, 0)
    assert await log.append(messages(1)) == 0


async def test_every_reader_sees_the_same_order_while_several_write(kafka_broker: Broker, opened: Open) -> None:
    topic = new_topic()
    writers = [await opened(kafka_broker, topic) for _ in range(3)]
    await asyncio.gather(*(writer.append(messages(4, 4 * n)) for n in range(10) for writer in writers))
    seen = [await writer.read(0) for writer in writers]
    assert seen[0] == seen[1] == seen[2]
    assert [position for position, _ in seen[0]] == list(range(120))
    for start in range(0, 120, 4):
        numbers = [int(message.headers[0][1]) for _, message in seen[0][start : start + 4]]
        assert numbers == list(range(numbers[0], numbers[0] + 4)), "an append stands together"


# --- what others write to the topic ----------------------------------------------------------------------------------


async def foreign(broker: Broker, topic: str, **sent: Any) -> None:
    producer = AIOKafkaProducer(bootstrap_servers=broker.address)
    await producer.start()
    await producer.send_and_wait(topic, **sent)
    await producer.stop()


async def test_messages_without_content_are_empty_and_never_a_failure(kafka_broker: Broker, opened: Open) -> None:
    log = await opened(kafka_broker, new_topic())
    await foreign(kafka_broker, log._settings.topic, value=None, key=b"k", headers=[("ce_id", None)])
    await log.append(messages(1, 1))
    assert await log.read(0) == [(0, Message((("ce_id", b""),), b"")), (1, messages(1, 1)[0])]


async def test_markers_of_transactions_are_empty_messages_for_every_reader(kafka_broker: Broker, opened: Open) -> None:
    log = await opened(kafka_broker, new_topic())
    producer = AIOKafkaProducer(bootstrap_servers=kafka_broker.address, transactional_id=new_topic())
    await producer.start()
    for number in (0, 2):
        async with producer.transaction():
            await producer.send_and_wait(log._settings.topic, b"value %d" % number)
    await producer.stop()
    whole = [(0, Message((), b"value 0")), (1, Message((), b"")), (2, Message((), b"value 2")), (3, Message((), b""))]
    assert await read_through(log, 0, 3) == whole
    assert await log.read(4) == []
    assert not await log.wait(4, 0.01)
    assert await (await opened(kafka_broker, log._settings.topic)).read(3) == whole[3:]
    await log.append(messages(1, 4))
    assert await log.read(4) == [(4, messages(1, 4)[0])]


class NoText(str):
    """A header's name that is no UTF-8 on the wire."""

    def encode(self, *_: object) -> bytes:
        return b"\xff\xfe"


async def unreadable(broker: Broker, topic: str) -> None:
    """Write one batch of three messages, the second with a header that the client cannot read."""
    producer = AIOKafkaProducer(bootstrap_servers=broker.address)
    await producer.start()
    batch = producer.create_batch()
    batch._builder = _DefaultRecordBatchBuilderPy(2, 0, 0, -1, -1, 0, 100_000)
    for name in ("name", NoText("name"), "name"):
        batch.append(key=None, value=b"x", timestamp=None, headers=[(name, b"y")])
    batch.close()
    await (await producer.send_batch(batch, topic, partition=0))
    await producer.stop()


async def test_a_message_that_cannot_be_read_is_stepped_over_the_same_by_every_reader(
    kafka_broker: Broker, opened: Open
) -> None:
    log = await opened(kafka_broker, new_topic())
    await log.append(messages(3))
    await unreadable(kafka_broker, log._settings.topic)
    await log.append(messages(3, 6))
    readable, nothing = Message((("name", b"y"),), b"x"), Message((), b"")
    whole = [*enumerate(messages(3)), (3, readable), (4, nothing), (5, nothing), *enumerate(messages(3, 6), 6)]
    assert await read_through(log, 0, 8) == whole
    for start in range(2, 6):
        assert await read_through(await opened(kafka_broker, log._settings.topic), start, 8) == whole[start:]


# --- out of range ----------------------------------------------------------------------------------------------------


async def test_a_front_cut_under_a_reader_is_out_of_range_never_a_jump(kafka_broker: Broker, opened: Open) -> None:
    log = await opened(kafka_broker, new_topic())
    for number in range(10):
        await log.append(messages(1, number))
    assert [position for position, _ in await log.read(0, 2)] == [0, 1]
    other = await opened(kafka_broker, log._settings.topic)
    await delete_before(log._settings, 8)
    with pytest.raises(OutOfRange):
        await other.read(2)
    with pytest.raises(OutOfRange):
        await other.read(2)
    assert [position for position, _ in await other.read(8)] == [8, 9]
    assert [position for position, _ in await log.read(2, 100)] == list(range(2, 10)), "what it had fetched is true"


async def test_a_topic_made_anew_is_out_of_range_for_who_stood_further(kafka_broker: Broker, opened: Open) -> None:
    topic = new_topic()
    log = await opened(kafka_broker, topic)
    await log.append(messages(5))
    assert len(await log.read(0)) == 5
    admin = AIOKafkaAdminClient(bootstrap_servers=kafka_broker.address)
    await admin.start()
    await admin.delete_topics([topic])
    await admin.close()
    again = await opened(kafka_broker, topic)
    await again.append(messages(1))
    with pytest.raises(OutOfRange):
        await until_answered(lambda: log.read(5))


async def until_answered(call: Callable[[], Coroutine[Any, Any, Any]], patience_s: float = 40.0) -> Any:
    """Call again while the world fails (LogError that is not OutOfRange), as a driven service does."""
    async with asyncio.timeout(patience_s):
        while True:
            try:
                return await call()
            except OutOfRange:
                raise
            except LogError:
                await asyncio.sleep(0.2)


async def read_through(log: KafkaLog, position: int, last: int) -> list[tuple[int, Message]]:
    """Read from a position on until the last one wanted is there."""
    found: list[tuple[int, Message]] = []

    async def read_more() -> list[tuple[int, Message]]:
        return await log.read(position + len(found))

    while not found or found[-1][0] < last:
        found += await until_answered(read_more)
    return found


# --- brokers that go away --------------------------------------------------------------------------------------------


async def test_a_broker_killed_and_started_again_loses_nothing(own_broker: Broker, opened: Open) -> None:
    log = await opened(own_broker, new_topic(), request_timeout_ms=5_000, append_timeout_s=5.0)
    await log.append(messages(3))
    assert len(await log.read(0)) == 3
    own_broker.kill()
    await own_broker.start()
    position = await until_answered(lambda: log.append(messages(1, 3)))
    assert await until_answered(lambda: log.read(position)) == [(position, messages(1, 3)[0])]
    assert (await until_answered(lambda: log.read(0)))[:3] == list(enumerate(messages(3)))


async def test_while_a_broker_is_away_every_call_ends_and_afterwards_all_goes_on(
    own_broker: Broker, opened: Open
) -> None:
    log = await opened(own_broker, new_topic(), request_timeout_ms=2_000, append_timeout_s=2.0)
    await log.append(messages(3))
    assert len(await log.read(0)) == 3
    own_broker.kill()
    try:
        for _ in range(2):
            with pytest.raises(LogError):
                await log.append(messages(1, 100))
            with pytest.raises(LogError):
                await log.read(3)
            with pytest.raises(LogError):
                await log.bounds()
    finally:
        await own_broker.start()
    position = await until_answered(lambda: log.append(messages(1, 3)))
    found = dict(await read_through(log, 3, position))
    assert found[position] == messages(1, 3)[0]
    assert set(found.values()) <= {*messages(1, 3), *messages(1, 100)}, "late ones may be there, nothing else"


async def test_an_append_to_a_frozen_broker_is_of_unknown_fate_and_may_come_late(
    own_broker: Broker, opened: Open
) -> None:
    log = await opened(own_broker, new_topic(), request_timeout_ms=20_000, append_timeout_s=1.0)
    await log.append(messages(1))
    own_broker.freeze()
    try:
        with pytest.raises(LogError) as refusal:
            await log.append(messages(1, 1))
    finally:
        own_broker.thaw()
    assert not refusal.value.known_lost
    position = await until_answered(lambda: log.append(messages(1, 2)))
    texts = [message.value for _, message in await read_through(log, 0, position)]
    assert texts[0] == b"value 0"
    assert set(texts[1:]) <= {b"value 1", b"value 2"}
    assert texts.count(b"value 2") == 1
    assert texts.count(b"value 1") <= 1, "the producer's own retries put nothing there twice"


async def test_a_consumer_stuck_in_silence_is_made_anew(
    kafka_broker: Broker, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_home, "_STUCK_AFTER_S", 0.5)
    log = await opened(kafka_broker, new_topic())
    await log.append(messages(1))
    assert len(await log.read(0)) == 1
    stuck = log._consumer
    assert stuck is not None

    async def silence(*_: object, timeout_ms: int) -> dict[Any, Any]:
        await asyncio.sleep(timeout_ms / 1000)
        return {}

    monkeypatch.setattr(stuck, "getmany", silence)
    await log.append(messages(1, 1))
    with pytest.raises(LogError, match="connecting anew"):
        await log.read(1)
    assert await log.read(1) == [(1, messages(1, 1)[0])]
    assert log._consumer is not stuck


# --- brokers that demand TLS and a password --------------------------------------------------------------------------


def secured(broker: Broker, password: str = PASSWORD, ca_file: str | None = None, user: str = USER) -> dict[str, Any]:
    file = str(broker.ca_file) if ca_file is None else ca_file
    return security_of("SASL_SSL", username=user, password=password, mechanism="PLAIN", ca_file=file)


async def test_sasl_and_tls_against_a_broker_that_demands_them(secure_broker: Broker, opened: Open) -> None:
    log = await opened(secure_broker, new_topic(), security=secured(secure_broker))
    assert await log.append(messages(3)) == 0
    assert await log.read(0) == list(enumerate(messages(3)))
    assert "secret" not in repr(log._settings)


@pytest.mark.parametrize(
    ("wrong", "setting"),
    [
        ("plaintext", "kafka.protocol"),
        ("no user", "kafka.protocol"),
        ("password", "kafka.sasl_password"),
        ("mechanism", "kafka.sasl_mechanism"),
        ("authority", "kafka.ca_file"),
    ],
)
async def test_who_does_not_meet_the_demands_is_told_the_setting(
    secure_broker: Broker, opened: Open, wrong: str, setting: str
) -> None:
    security = {
        "plaintext": {},
        "no user": security_of("SSL", ca_file=str(secure_broker.ca_file)),
        "password": secured(secure_broker, password="wrong"),
        "mechanism": secured(secure_broker) | {"sasl_mechanism": "SCRAM-SHA-512"},
        "authority": secured(secure_broker, ca_file=""),
    }[wrong]
    with pytest.raises(LogError, match=rf"Kafka at 127\.0\.0\.1:\d+: .*{setting}") as refusal:
        await opened(secure_broker, new_topic(), security=security, request_timeout_ms=2_000)
    assert PASSWORD not in str(refusal.value)


async def test_a_name_that_is_not_on_the_certificate_is_told(secure_broker: Broker, opened: Open) -> None:
    elsewhere = KafkaSettings(
        secure_broker.address.replace("127.0.0.1", "localhost"), new_topic(), secured(secure_broker)
    )
    with pytest.raises(LogError, match=r"kafka\.servers: Hostname mismatch"):
        await KafkaLog.open(elsewhere)


async def test_what_is_no_server_is_told(opened: Open) -> None:
    with pytest.raises(LogError, match=r"kafka\.servers: .*Connect call failed"):
        await KafkaLog.open(KafkaSettings("127.0.0.1:1", "any"))
    with pytest.raises(LogError, match=r"kafka\.servers: .*not known"):
        await KafkaLog.open(KafkaSettings("broker.invalid:9092", "any"))


async def test_who_may_not_create_topics_uses_one_that_is_there(secure_broker: Broker, opened: Open) -> None:
    topic, guest = new_topic(), secured(secure_broker, user=GUEST)
    with pytest.raises(LogError, match=f"{topic} cannot be created: the user lacks the right"):
        await opened(secure_broker, topic, security=guest)
    await (await opened(secure_broker, topic, security=secured(secure_broker))).append(messages(2))
    secure_broker.grant(topic, "Read")
    with pytest.raises(LogError, match="settings cannot be seen: the user lacks the right"):
        await opened(secure_broker, topic, security=guest)
    secure_broker.grant(topic, "DescribeConfigs")
    reader = await opened(secure_broker, topic, security=guest)
    assert await reader.read(0) == list(enumerate(messages(2)))
    with pytest.raises(LogError, match="the user lacks the right") as refusal:
        await reader.append(messages(1))
    assert refusal.value.known_lost
    secure_broker.grant(topic, "Write")
    assert await reader.append(messages(1, 2)) == 2


def test_certificate_files_that_cannot_be_used_are_named() -> None:
    with pytest.raises(LogError, match=r"/no/such/ca\.pem"):
        security_of("SSL", ca_file="/no/such/ca.pem")
