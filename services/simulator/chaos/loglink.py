"""A process's way to the log, and everything that can happen on it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Final

from adapters.log.memory import MemoryLog
from adapters.log.port import LogError
from events.codec import Codec, Message, SetAside
from events.records import Record
from services.simulator.chaos.driving import at_once
from services.simulator.chaos.network import Network

LOST, NEVER, LATE, TWICE, PART, AGAIN, REFUSED = (
    "append: lost", "append: acknowledged never", "append: takes effect late", "append: duplicated",
    "append: a part of it", "append: lost and sent again", "append: refused",
)  # fmt: skip
UNREADABLE, GIVEN_AGAIN = "log: broker unreachable", "log: records given again"
APPEND_FAULTS: Final = (LOST, NEVER, LATE, TWICE, PART, AGAIN, REFUSED)
READ_FAULTS: Final = (UNREADABLE, GIVEN_AGAIN)
#: What is told of a late append when it comes.
ARRIVED: Final = "append: arrived after its sender gave up"

_WORDS: Final = {
    b"gpuledger.log.genesis.v1": "a term", b"gpuledger.term.opened.v1": "a term",
    b"gpuledger.clock.ticked.v1": "a tick", b"gpuledger.decided.batch.v1": "a batch",
    b"gpuledger.outcome.command.v1": "an outcome",
}  # fmt: skip


class RememberingCodec(Codec):
    """Reads each message once, however many readers it has: they are values, and nobody changes them."""

    def __init__(self) -> None:
        super().__init__()
        self._read: dict[int, tuple[Message, Record | SetAside]] = {}

    def from_message(self, message: Message) -> Record | SetAside:
        found = self._read.get(id(message))
        if found is None:
            found = self._read[id(message)] = message, super().from_message(message)
        return found[1]


class LogLink:
    """The port ``Log`` as one process has it."""

    def __init__(self, log: MemoryLog, network: Network, who: str, rng: Random) -> None:
        self._log, self._network, self._who, self._rng = log, network, who, rng

    async def append(self, messages: Sequence[Message]) -> int:
        place = f"append of {_word(messages)}"
        await self._network.point(self._who, f"before {place}")
        if self._network.is_cut(self._who, "log", "to"):
            raise LogError("no answer: the broker is not reached")
        fault = self._network.take(self._who, place, APPEND_FAULTS) if self._network.armed else ""
        position = await self._with(fault, messages)
        await self._network.point(self._who, f"after {place}")
        if fault == NEVER or self._network.is_cut(self._who, "log", "from"):
            raise LogError("no answer: the acknowledgement was lost")
        return position

    async def _with(self, fault: str, messages: Sequence[Message]) -> int:
        if fault == LOST:
            raise LogError("no answer: the request was lost")
        if fault == REFUSED:
            raise LogError("not enough replicas", known_lost=True)
        if fault in (LATE, AGAIN):
            self._network.later(self._rng.randint(1, 40), ARRIVED, partial(self._arrive, list(messages)))
            raise LogError("no answer in time")
        if fault == PART:
            await self._log.append(messages[: self._rng.randint(0, len(messages) - 1)])
            raise LogError("no answer: the connection broke")
        position = await self._log.append(messages)
        if fault == TWICE:
            if self._rng.random() < 0.5:
                await self._log.append(messages)
            else:
                self._network.later(
                    self._rng.randint(1, 40), "append: duplicated late", partial(self._arrive, list(messages))
                )
        return position

    def _arrive(self, messages: list[Message]) -> None:
        at_once(self._log.append(messages))

    async def read(self, position: int, limit: int = 1000) -> list[tuple[int, Message]]:
        if not self._network.calm:
            await self._network.point(self._who, "before read of the log")
            if self._network.is_cut(self._who, "log", "to") or self._network.is_cut(self._who, "log", "from"):
                raise LogError("the broker is not reached")
            fault = self._network.take(self._who, "read", READ_FAULTS) if self._network.armed else ""
            if fault == UNREADABLE:
                raise LogError("the broker is not reached")
            if fault == GIVEN_AGAIN:
                first, _ = await self._log.bounds()
                start = max(first, position - self._rng.randint(1, 7))
                return [*await self._log.read(start, position - start), *await self._log.read(position, limit)]
        return await self._log.read(position, limit)

    async def bounds(self) -> tuple[int, int]:
        if self._network.is_cut(self._who, "log", "to"):
            raise LogError("the broker is not reached")
        return await self._log.bounds()

    async def wait(self, position: int, timeout_s: float) -> bool:
        return position < (await self._log.bounds())[1]

    async def close(self) -> None:
        """The log belongs to the simulation."""


def _word(messages: Sequence[Message]) -> str:
    kind = dict(messages[-1].headers).get("ce_type", b"")
    return _WORDS.get(kind, "observations")
