"""Outcomes that come at about the same time go on the log in one append.

While one append is under way others wait for it; then the first of them takes along all that have come meanwhile. So a
single outcome is appended at once, and many share the round trip to the brokers.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from adapters.log.port import LogError
from adapters.log.writer import TermWriter
from events.records import Outcome


@dataclass(slots=True, eq=False)
class _Report:
    """One outcome that waits; ``failure`` is what became of the append that somebody else made for it."""

    subject: str
    outcome: Outcome
    done: bool = False
    failure: LogError | None = None


class Reports:
    """Appends outcomes in their writer's term."""

    def __init__(self, writer: TermWriter) -> None:
        self._writer = writer
        self._waiting: list[_Report] = []
        self._appending = asyncio.Lock()

    async def append(self, subject: str, outcome: Outcome) -> None:
        """Return once the outcome is on the log. Raises LogError as ``TermWriter.append`` does."""
        report = _Report(subject, outcome)
        self._waiting.append(report)
        async with self._appending:
            if not report.done:
                await self._append_all()
        if report.failure is not None:
            raise report.failure

    async def _append_all(self) -> None:
        reports, self._waiting = self._waiting, []
        for report in reports:
            report.done = True
            report.failure = LogError("the append was broken off")
        failure: LogError | None = None
        try:
            await self._writer.append([(report.subject, report.outcome) for report in reports])
        except LogError as error:
            failure = error
        for report in reports:
            report.failure = failure
