"""The log folded again at each snapshot of the state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeAlias

from adapters.log.follower import Follower
from adapters.log.memory import MemoryLog
from events.chain import GENESIS
from events.codec import Codec
from scheduling.state.fold import Fold
from scheduling.state.snapshot import Unusable, dump, load
from services.simulator.chaos.driving import at_once

#: A place on the log, the chain before it, and the state there as bytes.
Snapshot: TypeAlias = tuple[int, str, bytes]

_FRONT: Final[Snapshot] = (0, GENESIS.hex(), b"")


class Refolding:
    """From the bytes of the snapshot before, or the log's front, it must come to the same bytes.

    So what is folded from snapshot to snapshot is compared with what the onlooker has folded from the front.
    """

    def __init__(self, log: MemoryLog, codec: Codec) -> None:
        self._log, self._codec = log, codec
        self._last = _FRONT

    def look(self, newest: Snapshot | None) -> Iterator[str]:
        """Yield how the newest snapshot differs from what the last one and the log since then come to."""
        if newest is None or newest is self._last:
            return
        (position, chain, data), self._last = self._last, newest
        try:
            state = load(data) if data else Fold()
        except Unusable as error:
            yield f"6: the snapshot at {position} is of no use: {error}"
            return
        reader = Follower(self._log, state, position=position, digest=bytes.fromhex(chain), codec=self._codec)
        while reader.position < newest[0]:
            at_once(reader.advance(newest[0] - reader.position))
        if (reader.chain, dump(state)) != newest[1:]:
            yield f"6: the log folded again from {position} on is not the snapshot at {newest[0]}"
