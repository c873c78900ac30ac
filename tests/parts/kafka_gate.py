"""A gate before a broker: requests pass, and an append that is waited for is held, to go on once it is let go.

So what somebody sent can arrive after another one has taken over, also if whoever sent it is dead by then. The broker
has a listener of its own for those who come through the gate, and names them the gate's address.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from io import BytesIO
from typing import Final, TypeAlias

from aiokafka.protocol.api import RequestHeader_v1
from aiokafka.protocol.produce import ProduceRequest_v3
from aiokafka.record import MemoryRecords
from parts.cache import free_port

from events.codec import Message, from_message
from events.records import Record

Wanted: TypeAlias = Callable[[Record], bool]
#: The number of Kafka's Produce request, which stands behind its length.
_PRODUCE: Final = b"\x00\x00"
_SIZE: Final = 4
_CHUNK: Final = 1 << 16


class HeldAppend:
    """The next append with a record that is wanted; it is held until ``release``."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted, self.reached = wanted, False
        self._released = asyncio.Event()

    async def wait(self) -> None:
        self.reached = True
        await self._released.wait()

    def takes(self, frame: bytes) -> bool:
        if self.reached or self._released.is_set() or not frame.startswith(_PRODUCE):
            return False
        return any(self.wanted(record) for record in _appended(frame))

    def release(self) -> None:
        """Let the append go on; nothing is held any more."""
        self._released.set()


class KafkaGate:
    """Listens at ``port`` and passes on to ``behind``, a port of the broker's."""

    def __init__(self) -> None:
        self.port, self.behind = free_port(), free_port()
        self._holds: list[HeldAppend] = []
        self._passing: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)

    async def close(self) -> None:
        """Let everything go and stop."""
        assert self._server is not None, "started"
        self._server.close()
        for task in self._passing:
            task.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    def hold(self, wanted: Wanted) -> HeldAppend:
        """Hold the next append with a record that is wanted."""
        found = HeldAppend(wanted)
        self._holds.append(found)
        return found

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._pass(reader, writer))
        self._passing.add(task)
        task.add_done_callback(self._passing.discard)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            answers, requests = await asyncio.open_connection("127.0.0.1", self.behind)
        except OSError:
            writer.transport.abort()
            return
        answering = asyncio.create_task(_answer(answers, writer))
        try:
            with suppress(OSError, EOFError):
                await self._ask(reader, requests)
            with suppress(OSError):
                requests.write_eof()
            await answering
        finally:
            answering.cancel()
            requests.transport.abort()
            writer.transport.abort()

    async def _ask(self, reader: asyncio.StreamReader, requests: asyncio.StreamWriter) -> None:
        """Pass requests on one by one, and also the last ones of somebody who is gone."""
        while True:
            size = await reader.readexactly(_SIZE)
            frame = await reader.readexactly(int.from_bytes(size))
            if hold := next((hold for hold in self._holds if hold.takes(frame)), None):
                await hold.wait()
            requests.write(size + frame)
            await requests.drain()


def _appended(frame: bytes) -> Iterator[Record]:
    """Yield our records that a Produce request brings; its later versions are spelled as the third."""
    request = BytesIO(frame)
    RequestHeader_v1.SCHEMA.decode(request)
    *_, topics = ProduceRequest_v3.SCHEMA.decode(request)
    for _, partitions in topics:
        for _, content in partitions:
            records = MemoryRecords(content)
            while (batch := records.next_batch()) is not None:
                for item in batch:
                    found = from_message(Message(tuple(item.headers), item.value or b""))
                    if isinstance(found, Record):
                        yield found


async def _answer(answers: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass answers on until the broker ends; whoever is gone misses them."""
    with suppress(OSError):
        while data := await answers.read(_CHUNK):
            if not writer.is_closing():
                writer.write(data)
    writer.transport.abort()
