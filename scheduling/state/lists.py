"""Complete lists on the log: chunks of uids, then an end that says how many there are (scheduling/F-11a).

Everybody who follows observations has to forget what a list lacks, whether or not a record says so of each object.
"""

from __future__ import annotations

from collections.abc import Iterator

from events.records import ListChunk, ListEnd


class Lists:
    """The lists under way, by kind (``apiVersion/kind``)."""

    def __init__(self) -> None:
        self._under_way: dict[str, tuple[int, list[str]]] = {}

    def __len__(self) -> int:
        return len(self._under_way)

    def __iter__(self) -> Iterator[str]:
        return iter(self._under_way)

    def clear(self) -> None:
        """A new term begins its lists anew."""
        self._under_way.clear()

    def chunk(self, body: ListChunk) -> None:
        """Take in a part of a list; a part of another one begins it anew."""
        kind = f"{body.api_version}/{body.kind}"
        number, uids = self._under_way.get(kind, (body.list_id, []))
        if number != body.list_id:
            uids = []
        self._under_way[kind] = (body.list_id, [*uids, *body.uids])

    def end(self, body: ListEnd) -> tuple[bool, list[str]]:
        """Return whether the list is complete, and its uids."""
        number, uids = self._under_way.pop(f"{body.api_version}/{body.kind}", (body.list_id, []))
        return number == body.list_id and len(uids) == body.count, uids
