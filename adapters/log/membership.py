"""Who may try: the processes of one role share the clusters among them, by a consumer group (design section 3).

Every process asks for all topics of its role; the group gives each topic to one of them, and to another one when that
one leaves or is silent. That says only who may *try* to lead: whether a term counts is judged on the log, so a wrong
answer here costs a term and harms nothing.

The group's heartbeats have a thread with an event loop of their own: a long decision or a long fold never costs the
membership. So that a process whose services stand still does not keep its clusters for ever, ``alive`` is asked now
and then, and while it says no the membership is given up.

The client asks something of who uses it: a consumer that fetches nothing for five minutes is taken for stuck and leaves
its group for good, and trouble that it cannot go on after is kept until somebody fetches. So there is a fetch at each
look, though every partition is paused and there is never anything to be had.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor

from adapters.log.kafka_topic import KafkaSettings

SESSION_MS: Final = 6_000
_LOOK_EVERY_S: Final = 0.5
_AGAIN_AFTER_S: Final = 1.0


class Membership:
    """One process's membership of a group. ``holds`` may be asked from any thread.

    ``failure`` is what keeps it out, until the group has answered again.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Sequence[str],
        group: str,
        *,
        session_ms: int = SESSION_MS,
        alive: Callable[[], bool] = lambda: True,
    ) -> None:
        self._settings = settings
        self._topics = tuple(topics)
        self._group = group
        self._session_ms = session_ms
        self._alive = alive
        self._held: frozenset[str] = frozenset()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name=f"member of {group}", daemon=True)
        self.failure = ""

    def start(self) -> None:
        """Join in the background; until the group has answered nothing is held."""
        self._thread.start()

    def holds(self, topic: str) -> bool:
        """Tell whether the group has given us a topic, as far as is known."""
        return topic in self._held

    async def close(self) -> None:
        """Leave the group, so that others may try at once."""
        self._ending.set()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)

    async def _run(self) -> None:
        while not self._ending.is_set():
            if self._alive():
                await self._belong()
            await asyncio.sleep(_LOOK_EVERY_S)

    async def _belong(self) -> None:
        """Be a member until the end, or until our services stand still, or until the group cannot be reached."""
        consumer = AIOKafkaConsumer(
            group_id=self._group,
            session_timeout_ms=self._session_ms,
            heartbeat_interval_ms=self._session_ms // 6,
            auto_offset_reset="latest",
            enable_auto_commit=False,
            partition_assignment_strategy=(StickyPartitionAssignor,),
            **self._settings.common(),
        )
        try:
            try:
                consumer.subscribe(self._topics, listener=_Listener(consumer, self._hold, self._given))
                await consumer.start()
                await self._while_alive(consumer)
            finally:
                self._hold(())
                await consumer.stop()
        except Exception as error:  # a thread that ended would leave the process well to look at, and never to lead
            self.failure = f"group {self._group}: {error!r}"
            await asyncio.sleep(_AGAIN_AFTER_S)

    async def _while_alive(self, consumer: AIOKafkaConsumer) -> None:
        """Look now and then: what ends a membership comes from another thread, which can set no event of this loop.

        Raises what the client cannot go on after.
        """
        while not self._ending.is_set() and self._alive():
            with suppress(TimeoutError):  # it waits while the group shares its topics out anew
                await asyncio.wait_for(consumer.getmany(timeout_ms=0), _LOOK_EVERY_S)
            await asyncio.sleep(_LOOK_EVERY_S)

    def _hold(self, topics: Iterable[str]) -> None:
        self._held = frozenset(topics)

    def _given(self, topics: Iterable[str]) -> None:
        """The group has answered: these are ours, and be it none."""
        self._hold(topics)
        self.failure = ""


class _Listener(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka ships no types
    """Notes what the group gives and takes, and pauses it: nothing ever comes through this consumer."""

    def __init__(
        self,
        consumer: AIOKafkaConsumer,
        hold: Callable[[Iterable[str]], None],
        given: Callable[[Iterable[str]], None],
    ) -> None:
        self._consumer, self._hold, self._given = consumer, hold, given

    def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        self._hold(())

    def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        partitions = list(assigned)
        self._consumer.pause(*partitions)
        self._given(partition.topic for partition in partitions)
