"""The newest messages of a log, kept in memory by the one process that writes it: readers that keep up need no file."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import Final

from events.codec import Message, size_of

BYTES_MAX: Final = 16 * 1024 * 1024


class Tail:
    """Messages up to ``end``, the oldest dropped above ``bytes_max``. ``first`` is the log's first position."""

    def __init__(self, first: int, end: int, bytes_max: int = BYTES_MAX) -> None:
        self.first, self.end = first, end
        self._bytes_max, self._bytes = bytes_max, 0
        self._messages: deque[Message] = deque()

    def extend(self, messages: Sequence[Message]) -> None:
        """Take messages that were appended and are durable."""
        self._messages.extend(messages)
        self.end += len(messages)
        self._bytes += sum(map(size_of, messages))
        while self._bytes > self._bytes_max:
            self._bytes -= size_of(self._messages.popleft())

    def read(self, position: int, limit: int) -> list[tuple[int, Message]] | None:
        """Return messages from a position on; None if the file has to be asked."""
        start = self.end - len(self._messages)
        if not max(start, self.first) <= position <= self.end:
            return None
        return list(enumerate(islice(self._messages, position - start, position - start + limit), position))
