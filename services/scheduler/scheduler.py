"""The scheduler: it folds the log, decides when it may, and appends what it decided (design sections 2 and 3).

It decides only with its own valid term folded, every kind listed, nothing unreadable in the way, and nothing of its own
still on its way back: an appended batch is read back and folded like everybody's before the next decision. After an
append without an answer the term is over; the next one is the barrier behind which the old batch, if it ever comes, is
void.

A decision is a pure function of the state and the time. So it is asked for again only after something was folded, or
when time has passed and something waits for the clock; a decision that finds nothing new appends nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, Protocol

import structlog

from adapters.clock import Clock
from adapters.log.follower import Follower
from adapters.log.port import Log, LogError
from adapters.log.writer import TermWriter
from events.codec import NotWritable
from events.records import Batch, Record, Ticked
from scheduling.cycle.stages import UNTOLD, Stages
from scheduling.decide import decide, forget, stuck_groups
from scheduling.state.decisions import APPLIED
from scheduling.state.fold import JUMP_MS, Fold, effective_configuration
from scheduling.state.model import Model
from services.runtime.following import catch_up, standing
from services.runtime.log_times import LogTimes, Reached
from services.runtime.terms import STAND_BACK_MS, Leadership

_LOG = structlog.get_logger("scheduler")
#: Decisions that only time asks for take at most one part in so many of it.
IDLE_SHARE: Final = 10
#: Without any rest the second look comes after so many times as long, and takes at most one part in so many of it.
BUSY_LOOK: Final = 10
BUSY_SHARE: Final = 100
#: What a batch decides, apart from where and when.
CONTENT: Final = {"binds", "evictions", "groups", "pods", "promises"}
TIMES: Final = {"binds": {"__all__": {"members": {"__all__": {"vgpu_time", "predicate_time_ns", "version"}}}}}
#: What a decision is taken to have lasted at most, should the clock have been set meanwhile.
_ELAPSED_MAX_MS: Final = 60_000


class Observer(Protocol):
    """Who wants to know of decisions: the metrics. What is ``reached`` is told while the scheduler leads."""

    def stages(self) -> Stages: ...

    def decided(self, batch: Batch | None, elapsed_ms: int) -> None: ...

    def looked_again(self, stuck: int) -> None: ...

    def reached(self, reached: Reached, latency_ms: int) -> None: ...


class Scheduler:
    """One cluster's scheduler.

    ``threaded`` decides off the event loop's thread (production); ``idle_ms`` is how much time must pass before time
    alone is a reason to decide. After ``second_look_ms`` of rest (0: never), or ten times as long without any, the
    state is decided once more from scratch, to find what waits although it fits.
    """

    def __init__(
        self,
        log: Log,
        clock: Clock,
        cluster: str,
        writer_id: str,
        *,
        follower: Follower[Fold] | None = None,
        threaded: bool = False,
        mode: Literal["active", "shadow"] = "active",
        idle_ms: int = 0,
        stand_back_ms: int = STAND_BACK_MS,
        may_lead: Callable[[], bool] = lambda: True,
        observer: Observer | None = None,
        second_look_ms: int = 0,
    ) -> None:
        self.follower = follower or Follower(log, Fold())
        self._clock = clock
        self._threaded = threaded
        self._idle_ms = idle_ms
        self._mode = mode
        self._proposed: dict[str, Any] | None = None
        self._observer = observer
        self._writer = TermWriter(log, clock, cluster, "scheduler", writer_id)
        self._leadership = Leadership(self._writer, clock, stand_back_ms=stand_back_ms, may_lead=may_lead, mode=mode)
        self._in_flight = -1
        self._batches = 0
        self._settled: tuple[int, int] | None = None
        self._second_look_ms, self._looked, self._quiet = second_look_ms, -1, (-1, 0)
        self._looked_ms, self._look_took_ms = clock.now_ms(), 0
        self._elapsed_ms = 0
        self.times = LogTimes(self.model)
        self.follower.told = self._told
        self.failure = ""

    @property
    def model(self) -> Model:
        """The state as far as it has read."""
        return self.follower.state.model

    @property
    def leading(self) -> bool:
        """Whether its own term is the one that counts, as far as it has read."""
        return self._writer.holds(self.model)

    async def step(self) -> bool:
        """Fold what is there, then decide once if it may; True if anything was done."""
        folded = await self.fold()
        return await self.decide() or folded

    async def fold(self) -> bool:
        """Fold everything that is on the log; True if there was anything."""
        return await catch_up(self.follower)

    async def decide(self) -> bool:
        """Decide once if it may and there is a reason to; True if anything was appended."""
        if not await self._may_decide():
            return False
        if self._ahead_ms() > JUMP_MS:
            return await self._tick()
        stuck: list[str] = []
        if not self._due():
            if not self._second_look_due():
                return False
            stuck = await self._second_look()
            if not stuck:
                return False
        async with standing(self.follower):
            if not self._ready():
                return True  # somebody has read on since
            place = self._place()
            batch = await self._decision(stuck)
        if batch is None or self._proposed_before(batch):
            self._settled = place
            return False
        return await self._append(batch, place)

    def _told(self, record: Record, verdict: str) -> None:
        """Take note of times. What was on the log before the term began is no news, and others' is theirs to count."""
        if verdict.startswith(APPLIED):
            reached = self.times.folded(self.model, record)
            if self._observer is not None and reached and self.leading:
                for what, latency_ms in reached:
                    self._observer.reached(what, latency_ms)

    # --- whether ---

    async def _may_decide(self) -> bool:
        fold = self.follower.state
        if not fold.anchored or self._in_flight >= self.follower.position:
            return False
        if not await self._lead():
            return False
        if self.follower.blocked is not None:
            blocked = self.follower.blocked
            self.failure = f"nothing is decided: position {blocked.position} of the log: {blocked.why.reason}"
            return False
        return fold.ready

    def _ready(self) -> bool:
        return self.leading and self.follower.blocked is None and self.follower.state.ready

    async def _lead(self) -> bool:
        """Take or keep the term; an opened one counts once it was read back."""
        if not self._writer.term:
            await self.fold()
        stage = await self._leadership.lead(self.model, self.follower.position, self._configuration())
        if stage == "opened":
            self._batches, self._in_flight, self._settled = 0, -1, None
            await self.fold()
            stage = await self._leadership.lead(self.model, self.follower.position, self._configuration())
        return stage == "leading"

    def _configuration(self) -> dict[str, object]:
        return effective_configuration(self.model) if self._writer.term == 0 else {}

    def _due(self) -> bool:
        """Tell whether deciding may bring anything: the state is another, or time has passed that something awaits."""
        if self._settled is None:
            return True
        sequence, decided_ms = self._settled
        if sequence != self.follower.state.sequence:
            return True
        pause_ms = max(self._idle_ms, IDLE_SHARE * self._elapsed_ms)
        # A time ahead is one of before the clock was set back.
        return not 0 <= self._now() - decided_ms <= pause_ms and waits_for_clock(self.model)

    def _proposed_before(self, batch: Batch) -> bool:
        """A shadow's batches are proposals that the fold does not apply: the same one is made once (section 7)."""
        if self._mode != "shadow":
            return False
        content = batch.model_dump(include=CONTENT, exclude=TIMES)
        again, self._proposed = content == self._proposed, content
        return again

    def _second_look_due(self) -> bool:
        """Tell whether a settled state is to be decided once more from scratch.

        After some rest, and now and then in a cluster that never rests: as soon as there is nothing new to decide.
        """
        if not self._second_look_ms or self._settled is None or self._looked == self._settled[0]:
            return False
        sequence = self._settled[0]
        if self._quiet[0] != sequence:
            self._quiet = (sequence, self._now())
        if self._now() - self._looked_ms > max(BUSY_LOOK * self._second_look_ms, BUSY_SHARE * self._look_took_ms):
            return True
        return self._now() - self._quiet[1] > max(self._second_look_ms, IDLE_SHARE * self._elapsed_ms)

    async def _second_look(self) -> list[str]:
        """Return who waits although a decision without memory places or admits it: there must be nobody."""
        async with standing(self.follower):
            if self._settled is None or self._settled[0] != self.follower.state.sequence or not self._ready():
                return []
            started = self._clock.now_ms()
            arguments = (self.follower.state, self._settled[1])
            stuck = await asyncio.to_thread(stuck_groups, *arguments) if self._threaded else stuck_groups(*arguments)
            self._looked, self._looked_ms = self._settled[0], self._now()
            self._look_took_ms = max(self._clock.now_ms() - started, 0)
            if stuck:
                _LOG.error("groups waited although they fit", groups=stuck)
                forget(self.follower.state)
        if self._observer is not None:
            self._observer.looked_again(len(stuck))
        return stuck

    def _place(self) -> tuple[int, int]:
        return self.follower.state.sequence, self._now()

    def _now(self) -> int:
        return max(self._clock.now_ms(), self.model.time_ms)

    def _ahead_ms(self) -> int:
        return self._clock.now_ms() - self.model.time_ms

    # --- what ---

    async def _decision(self, stuck: Sequence[str] = ()) -> Batch | None:
        started = self._clock.now_ms()
        arguments = (self.follower.state, self._now(), self.follower.chain, self._batches, stuck)
        stages = self._observer.stages() if self._observer is not None else UNTOLD
        if self._threaded:
            batch = await asyncio.to_thread(decide, *arguments, stages)
        else:
            batch = decide(*arguments, stages)
        self._elapsed_ms = min(max(self._clock.now_ms() - started, 0), _ELAPSED_MAX_MS)
        if self._observer is not None:
            self._observer.decided(batch, self._elapsed_ms)
        return batch

    async def _append(self, batch: Batch, place: tuple[int, int]) -> bool:
        self._batches += 1
        try:
            positions = await self._writer.append([("", batch)])
        except LogError as error:
            self.failure = str(error)
            return True
        except NotWritable as error:
            self.failure = f"batch {batch.batch} cannot be written: {error}"
            self._settled = place
            return False
        self._in_flight, self._settled = positions[-1], None
        await self.fold()
        return True

    async def _tick(self) -> bool:
        """Time has jumped further than one record may move it: say so twice (design section 3)."""
        now = self._clock.now_ms()
        try:
            positions = await self._writer.append([("", Ticked(time_ms=now)), ("", Ticked(time_ms=now))])
        except LogError as error:
            self.failure = str(error)
            return True
        self._in_flight = positions[-1]
        await self.fold()
        return True


def waits_for_clock(model: Model) -> bool:
    """Tell whether time alone may change a decision: something waits, or a plug-in acts by the clock."""
    if any(entry.book.phase in ("Pending", "Inqueue") for entry in model.groups.values()):
        return True
    config = model.config
    return config is not None and any(config.plugin(name) is not None for name in ("tdm", "rescheduling"))
