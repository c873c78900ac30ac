"""The watcher: the API server's objects become observations on the log.

One step follows the log, takes or keeps the watcher's term, and for each kind appends what its reflector brought. A
term begins with a complete list of every kind: what changed since the last record (or cannot be compared), what has
disappeared, then the uids that exist and their count and digest. After that only changes are appended.

Within a term a version that is not newer than the last one seen of a uid is a late or repeated event and changes
nothing, a deletion is final, and a list wins over both (scheduling/F-4a). Two watchers at once do no harm: the log
lets only one term count, and the other stands back.

Versions that went back mean that the API server was restored to an older state. They compare with nothing that was seen
before, so the watcher leaves its term and opens another one, in which every kind is listed. A Binding that was reported
and that no observation confirms for a minute makes it list the pods: a report that comes after the restored list would
hold its cards for ever (scheduling/F-4).

If the front of the log is gone the rest says nothing that could be trusted: the watcher appends a new beginning, a
genesis with another incarnation, and lists everything again (scheduling/F-11b).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import structlog

from adapters.clock import Clock, Waiting
from adapters.cluster.port import ClusterApi
from adapters.cluster.reflector import Delta, ListEnd, Reflector
from adapters.log.follower import Follower
from adapters.log.port import Log, LogError, TooLarge
from adapters.log.writer import TermWriter
from events import records
from events.canonical import Json
from events.codec import NotWritable
from events.kinds import OBSERVED_KINDS, POD, Kind
from events.projection import DEFAULT_SCOPE, Scope
from services.runtime.following import catch_up
from services.runtime.terms import STAND_BACK_MS, Leadership
from services.watcher.beginning import anchor
from services.watcher.memory import Memory
from services.watcher.view import Addressed, View

_LOG = structlog.get_logger("watcher")
APPEND_MAX: Final = 500
#: How long a reported Binding may go without an observation of its pod.
CONFIRM_MS: Final = 60_000


class Watcher:
    """One cluster's watcher. ``jitter`` is for back-off (None: none at all, in a simulation).

    ``start`` returns a memory that need not read the log from its front, and ``covered`` tells whether a snapshot of
    the state stands for what was before a place, so that a front that was cut behind it is no loss.
    """

    def __init__(
        self,
        api: ClusterApi,
        log: Log,
        clock: Clock,
        cluster: str,
        writer_id: str,
        *,
        incarnation: Callable[[], str],
        scope: Scope = DEFAULT_SCOPE,
        kinds: Sequence[Kind] = OBSERVED_KINDS,
        jitter: Callable[[], float] | None = None,
        stand_back_ms: int = STAND_BACK_MS,
        may_lead: Callable[[], bool] = lambda: True,
        covered: Callable[[int], Awaitable[bool]] | None = None,
        start: Callable[[], Awaitable[Follower[Memory] | None]] | None = None,
        config: Json | None = None,
    ) -> None:
        self._log = log
        self._clock = clock
        self._scope = scope
        self._config = config or {}
        self._incarnation = incarnation
        self._begins_as = ""
        self._covered, self._start = covered, start
        self._follower: Follower[Memory] | None = None
        self._writer = TermWriter(log, clock, cluster, "watcher", writer_id)
        self._leadership = Leadership(self._writer, clock, stand_back_ms=stand_back_ms, may_lead=may_lead)
        self._reflectors = [Reflector(api, kind, clock, jitter) for kind in kinds]
        self._views = {kind: View(kind, scope) for kind in kinds}
        self._term = 0
        self._lists = 0
        self._unconfirmed: frozenset[str] = frozenset()
        self._confirming = Waiting(clock)
        #: How many observations may not be on a log, and are there as their bare identity.
        self.refused = 0

    @property
    def leading(self) -> bool:
        """Whether its term is the one that counts, as far as it has read."""
        return self._term > 0 and self._term == self._writer.term

    @property
    def reflectors(self) -> Sequence[Reflector]:
        """The reflectors, for who waits until one of them has news."""
        return self._reflectors

    async def close(self) -> None:
        """Close the watches."""
        for reflector in self._reflectors:
            await reflector.close()

    async def step(self) -> bool:
        """Do all that can be done now; True if anything was done. Raises LogError if the log cannot be read."""
        follower = await self._anchored()
        if follower is None:
            return True
        done = await catch_up(follower)
        stage = await self._leadership.lead(
            follower.state.model, follower.position, self._config, "" if follower.position else self._first()
        )
        if stage == "opened":
            self._term = 0
            await catch_up(follower)
            stage = await self._leadership.lead(follower.state.model, follower.position, self._config)
            done = True
        if stage != "leading":
            self._term = 0
            return done
        self._begin_term(follower.state)
        done |= await self._observe_all(follower.state)
        return await catch_up(follower) or done

    def _first(self) -> str:
        """Name an empty log's incarnation, each time alike: a beginning that comes late after all changes nothing."""
        if not self._begins_as:
            self._begins_as = self._incarnation()
        return self._begins_as

    async def _observe_all(self, memory: Memory) -> bool:
        """Append what the reflectors brought, together. After a failure another term lists everything anew.

        Even if nothing of it is on the log: what a list brought back to life was to be told as that, and is forgotten.
        """
        self._see_to_confirmation(memory)
        news = [(self._views[reflector.kind], await reflector.poll()) for reflector in self._reflectors]
        if any(view.went_back(deltas) for view, deltas in news):
            self._leadership.give_up()
            return True
        bodies: list[Addressed] = []
        for view, deltas in news:
            bodies += self._observed(view, deltas, memory)
        try:
            await self._append(bodies)
        except LogError as error:
            self._leadership.failure = str(error)
            self._leadership.give_up()
        return bool(bodies)

    async def _anchored(self) -> Follower[Memory] | None:
        """Return the follower; None if the log's front was gone and a new beginning has just been appended."""
        follower = self._follower
        first, end = await self._log.bounds()
        if follower is None:
            found = await self._start() if self._start else None
            follower = self._follower = found or Follower(self._log, Memory(), position=first)
            await follower.catch_up()
        begins, known = follower.state.begins, bool(follower.state.model.incarnation)
        if first == end == 0 or begins >= first or (known and self._covered and await self._covered(first)):
            return follower
        await follower.catch_up()
        if follower.state.begins >= first:
            return follower
        incarnation = self._incarnation()
        if incarnation == follower.state.model.incarnation:
            incarnation = f"{incarnation}.{end}"
        self._leadership.give_up()
        try:
            await anchor(self._log, self._writer.cluster, incarnation, self._clock.now_ms())
        except LogError as error:
            self._leadership.failure = str(error)
        return None

    def _begin_term(self, memory: Memory) -> None:
        """List everything in a term that has just begun; anew if the log has something that nobody can read."""
        same = self._term == self._writer.term
        if same and not memory.suspect:
            return
        memory.distrust_unconfirmed()
        memory.suspect = False
        self._term = self._writer.term
        for reflector in self._reflectors:
            reflector.relist()
        for view in self._views.values():
            view.relist() if same else view.clear()

    def _observed(self, view: View, deltas: Sequence[Delta], memory: Memory) -> list[Addressed]:
        """Return what of a reflector's news is worth a record."""
        bodies: list[Addressed] = []
        for delta in view.newest(deltas, memory):
            if isinstance(delta, ListEnd):
                self._lists += 1
            bodies += view.take(delta, memory, self._lists, self._term)
        return bodies

    def _see_to_confirmation(self, memory: Memory) -> None:
        """List the pods if a Binding waits for its observation since the last look (F-4)."""
        if self._confirming.remaining_ms:
            return
        waiting = memory.awaited()
        if waiting & self._unconfirmed:
            for reflector in self._reflectors:
                if reflector.kind == POD:
                    reflector.relist()
        self._unconfirmed = waiting
        self._confirming.begin(CONFIRM_MS)

    async def _append(self, bodies: list[Addressed]) -> None:
        for start in range(0, len(bodies), APPEND_MAX):
            await self._append_part(bodies[start : start + APPEND_MAX])

    async def _append_part(self, bodies: list[Addressed]) -> None:
        """Append together what the log takes at once: objects may be large, and a list brings many."""
        try:
            await self._writer.append(bodies)
        except NotWritable:
            await self._append_singly(bodies)
        except TooLarge:
            if len(bodies) == 1:
                raise
            middle = len(bodies) // 2
            await self._append_part(bodies[:middle])
            await self._append_part(bodies[middle:])

    async def _append_singly(self, bodies: list[Addressed]) -> None:
        """One of these may not be on a log: it is recorded as its bare identity, and the others as they are."""
        for subject, body in bodies:
            try:
                await self._writer.append([(subject, body)])
            except NotWritable as error:
                self.refused += 1
                _LOG.warning("what cannot be recorded is there as its bare identity", object=subject, why=str(error))
                if isinstance(body, records.Observed):
                    await self._writer.append([(subject, _bare(body))])


def _bare(body: records.Observed) -> records.Observed:
    """Return an observation of nothing but an object's identity."""
    meta = body.object.get("metadata", {})
    kept = {field: meta[field] for field in ("namespace", "name", "uid") if field in meta}
    return body.model_copy(update={"object": {"metadata": kept}})
