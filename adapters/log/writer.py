"""Writing to the log in a role: open a term, number the records, give the term up when in doubt (design section 3).

Order and terms carry the safety. A writer says ``opened`` with the term that it takes over from; whether that counts is
judged by the fold at its place, the same for every reader. So a writer asks ``holds`` of a state that has folded its
``opened`` before it trusts itself. After an append without an answer the records may or may not be there, or may still
come: only a new term is a barrier behind which they are void.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Literal

from adapters.clock import Clock
from adapters.log.port import Log, LogError
from events.canonical import Json
from events.codec import CODEC, record_id, to_message
from events.records import Body, Genesis, Opened, Record, Role
from scheduling.state.model import Model, Term


class TermLost(LogError):
    """The writer has no term (any more): it must open a new one before it appends again."""


class TermWriter:
    """One writer of one role.

    ``term`` is 0 while none is open. ``writer_id`` names the process, anew at each start, so that a term that a
    predecessor left behind is never taken for one's own.
    """

    def __init__(self, log: Log, clock: Clock, cluster: str, role: Role, writer_id: str) -> None:
        self.cluster = cluster
        self.role: Role = role
        self.writer_id = writer_id
        self.term = 0
        self.incarnation = ""
        self._log = log
        self._clock = clock
        self._next_number = 0
        self._lock = asyncio.Lock()

    async def open(
        self,
        previous: int,
        incarnation: str,
        config: Json,
        mode: Literal["active", "shadow"] = "active",
        *,
        begin: bool = False,
    ) -> int:
        """Open the term after ``previous`` and return the position of its ``opened`` record.

        An empty log gets a genesis record with ``incarnation`` first, and so does one whose beginning is gone (the
        caller says ``begin``, scheduling/F-11b); on any other the caller passes the incarnation that the log has.
        Raises TermLost if no answer came, LogError if it is certainly not on the log.
        """
        async with self._lock:
            self.term = 0
            self.incarnation = incarnation
            first, end = await self._log.bounds()
            records = [self._genesis()] if begin or first == end else []
            records.append(self._opened(previous, config, mode))
            position = await self._append(records)
            self.term = previous + 1
            self._next_number = 1
            return position + len(records) - 1

    def holds(self, model: Model) -> bool:
        """Tell whether a folded state says that our term is the role's current one, on the log that we write to."""
        current = model.terms.get(self.role, Term())
        mine = current.number == self.term and current.writer == self.writer_id
        return self.term > 0 and mine and model.incarnation == self.incarnation

    async def append(self, bodies: Sequence[tuple[str, Body]]) -> range:
        """Append bodies, each with its subject, as the next records of the term; return their positions.

        Raises TermLost if there is no term or no answer came (the term is given up then), LogError if they are
        certainly not on the log (the term goes on), NotWritable for a body that may not be on a log (nothing happened).
        """
        async with self._lock:
            if self.term == 0:
                raise TermLost(f"{self.role} {self.writer_id} has no open term", known_lost=True)
            if not bodies:
                return range(0)
            records = [self.record(body, subject, number) for number, (subject, body) in enumerate(bodies)]
            position = await self._append(records)
            self._next_number += len(records)
            return range(position, position + len(records))

    def record(self, body: Body, subject: str, ahead: int = 0) -> Record:
        """Return the record that a body is when it is appended next (``ahead``: that many after the next)."""
        return self._record(self.term, self._next_number + ahead, subject, body)

    async def _append(self, records: list[Record]) -> int:
        messages = [to_message(record, self.cluster) for record in records]
        try:
            return await self._log.append(messages)
        except LogError as error:
            if error.known_lost:
                raise
            self.term = 0
            raise TermLost(
                f"{self.role} {self.writer_id}: no answer to an append ({error}); the term is over"
            ) from error
        except asyncio.CancelledError:
            self.term = 0
            raise

    def _genesis(self) -> Record:
        body = Genesis(cluster=self.cluster, incarnation=self.incarnation)
        return self._record(0, 0, "", body)

    def _opened(self, previous: int, config: Json, mode: Literal["active", "shadow"]) -> Record:
        versions = CODEC.versions()
        body = Opened(
            role=self.role,
            term=previous + 1,
            previous=previous,
            writer=self.writer_id,
            reads=versions,
            writes=versions,
            config=config,
            mode=mode,
            time_ms=self._clock.now_ms(),
        )
        return self._record(previous + 1, 0, "", body)

    def _record(self, term: int, number: int, subject: str, body: Body) -> Record:
        name = record_id(self.cluster, self.incarnation, self.role, term, number)
        return Record(name, self.role, term, number, subject, self._clock.now_ms(), body)
