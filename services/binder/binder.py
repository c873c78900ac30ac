"""The binder: it carries out what the log decided, one effect a command, and reports what came of it.

It decides nothing.

A command on the log is the durable intent; the fold says which commands stand and still wait for an outcome. Each step
takes them in the order of the log, in lanes by pod, or by node where the node's lock is needed: what waits in a lane
holds up nothing but its lane; of very many it takes some (``turns``). Outcomes that come at about the same time are
appended together. An effect that is done and not yet reported is found again by its mark on the pod, so a crash
between the two, or a report without an answer, leads to the same outcome once more and never to a second effect.

Only the holder of the binder's term acts; outcomes of a superseded one are void for every reader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from adapters.clock import Clock
from adapters.cluster.port import ApiError, ApiUnknown, ClusterApi
from adapters.cluster.reflector import Backoff
from adapters.log.follower import Follower
from adapters.log.port import Log, LogError
from adapters.log.writer import TermWriter
from events.kinds import POD, POD_GROUP
from events.records import Outcome
from scheduling.reasons import texts
from scheduling.reasons.outcomes import of_refusal
from scheduling.state.fold import Fold
from scheduling.state.model import Command, Model
from services.binder.answers import Answer
from services.binder.binding import Bindings
from services.binder.cleanup import Cleanup
from services.binder.evictions import Evictions, eviction_text
from services.binder.locks import NodeLocks, Pause, no_pause
from services.binder.observing import Observer, Progress
from services.binder.recorder import Recorder
from services.binder.reports import Reports
from services.binder.turns import AT_ONCE, Turns
from services.binder.volumes import Volumes
from services.runtime.following import catch_up
from services.runtime.kube_events import Subject
from services.runtime.terms import STAND_BACK_MS, Leadership

#: Bindings are over when for so long none was carried out.
LULL_MS: Final = 500


class Binder:
    """One cluster's binder.

    ``parallel`` is how many effects are under way at once (1: strictly in the order of the log), ``jitter`` is for
    back-off (None: none at all), ``pause`` waits between tries at a node lock. Whoever gives a ``recorder`` flushes it.
    """

    def __init__(
        self,
        api: ClusterApi,
        log: Log,
        follower: Follower[Fold],
        clock: Clock,
        cluster: str,
        writer_id: str,
        *,
        recorder: Recorder | None = None,
        parallel: int = 1,
        jitter: Callable[[], float] | None = None,
        pause: Pause = no_pause,
        stand_back_ms: int = STAND_BACK_MS,
        may_lead: Callable[[], bool] = lambda: True,
        observer: Observer | None = None,
    ) -> None:
        self.follower = follower
        self.recorder = recorder or Recorder(api, clock, parallel=parallel)
        self._flushes = recorder is None
        self._clock = clock
        self._parallel = parallel
        self._turns = Turns(max(AT_ONCE, 4 * parallel))
        self._jitter = jitter
        locks, volumes, progress = NodeLocks(api, clock, pause), Volumes(api, clock), Progress(observer)
        self._bindings = Bindings(api, clock, locks, volumes, self._stands, progress)
        self._evictions = Evictions(api, clock)
        self._cleanup = Cleanup(api, self.recorder)
        self._writer = TermWriter(log, clock, cluster, "binder", writer_id)
        self._leadership = Leadership(self._writer, clock, stand_back_ms=stand_back_ms, may_lead=may_lead)
        self._reports = Reports(self._writer)
        self._under_way = asyncio.Semaphore(parallel)
        self._reported: set[str] = set()
        self._last_at_work_ms = 0
        self._backoffs: dict[str, Backoff] = {}
        self.waiting: dict[str, str] = {}

    @property
    def model(self) -> Model:
        """The state as far as it has read."""
        return self.follower.state.model

    @property
    def leading(self) -> bool:
        """Whether its own term is the one that counts, as far as it has read."""
        return self._writer.holds(self.model)

    @property
    def pressed(self) -> bool:
        """Whether commands are being carried out, or were a moment ago: what else is to be written can wait."""
        # A time ahead is one of before the clock was set back.
        return 0 <= self._clock.now_ms() - self._last_at_work_ms < LULL_MS

    async def step(self) -> bool:
        """Do all that can be done now; True if anything was done."""
        done = await catch_up(self.follower)
        if self.follower.state.anchored and await self._lead():
            done |= await self._carry_out(self._turns.take(self._pending(), self._group_of))
            done |= await self._bindings.let_go(self.model)
            done |= await catch_up(self.follower)
        return (self._flushes and await self.recorder.flush()) or done

    async def _lead(self) -> bool:
        stage = await self._leadership.lead(self.model, self.follower.position, {})
        if stage == "opened":
            await catch_up(self.follower)
            stage = await self._leadership.lead(self.model, self.follower.position, {})
            self._reported.clear()
        return stage == "leading" and self.follower.blocked is None

    async def _stands(self, command: str) -> bool:
        """Tell whether a command may still be carried out, as of the log's present end."""
        await catch_up(self.follower, to_the_end=True)
        return self.leading and command in self.model.commands and command not in self._reported

    def _pending(self) -> list[Command]:
        commands = self.model.commands
        self._reported &= commands.keys()
        self.waiting = {key: text for key, text in self.waiting.items() if key in commands}
        pods = {_uid(command) for command in commands.values()}
        self._backoffs = {uid: wait for uid, wait in self._backoffs.items() if uid in pods or wait.remaining_ms}
        return [command for key, command in commands.items() if key not in self._reported]

    def _group_of(self, command: Command) -> str:
        entry = self.model.pods.get(_uid(command))
        return entry.pod.group_key if entry is not None else ""

    async def _carry_out(self, commands: Sequence[Command]) -> bool:
        if not commands:
            return False
        self._bindings.begin(self.model.commands, self.model, lambda: self.follower.state.sequence)
        self._cleanup.begin(self.model)
        try:
            if self._parallel == 1:
                return await self._in_order(commands)
            return await self._in_lanes(commands)
        except LogError as error:
            self._leadership.failure = str(error)
            return True

    async def _in_order(self, commands: Sequence[Command]) -> bool:
        done, held = False, set[str]()
        for command in commands:
            node = _locks(command)
            if node and node in held:
                continue
            answer = await self._one(command)
            done |= answer.acted
            if answer.holds_lane:
                held.add(node)
        return done

    async def _in_lanes(self, commands: Sequence[Command]) -> bool:
        lanes: dict[str, list[Command]] = {}
        lane_of: dict[str, str] = {}
        for command in commands:
            uid = _uid(command)
            lanes.setdefault(lane_of.setdefault(uid, _locks(command) or uid), []).append(command)
        results = await asyncio.gather(*map(self._in_order, lanes.values()), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return any(results)

    async def _one(self, command: Command) -> Answer:
        backoff = self._backoffs.get(_uid(command))
        if backoff is not None and backoff.remaining_ms:
            return Answer(None, acted=False)
        self._last_at_work_ms = self._clock.now_ms()
        async with self._under_way:
            answer = await self._effect(command)
        if answer.waits_for:
            self.waiting[command.id] = answer.waits_for
        if answer.outcome is None:
            if answer.acted:
                self._backoff(command).failed()
            return answer
        await self._report(command, answer.outcome)
        return answer

    async def _effect(self, command: Command) -> Answer:
        if command.evict:
            return await self._evictions.carry_out(command, command.evict)
        assert command.bind is not None, "a command binds or evicts"
        try:
            version = await self._cleanup.before_binding(command.bind.node, command)
        except (ApiError, ApiUnknown) as error:
            return Answer(None, waits_for=str(error))
        if version:
            self._bindings.use_version(command.id, version)
            # As after a conflict: a version is only good for a command that still stands after it was read.
            if not await self._stands(command.id):
                return Answer(None, acted=False)
        return await self._bindings.carry_out(command, command.bind)

    def _backoff(self, command: Command) -> Backoff:
        return self._backoffs.setdefault(_uid(command), Backoff(self._clock, self._jitter))

    async def _report(self, command: Command, outcome: Outcome) -> None:
        """Append the outcome, then tell people; a pod that was refused waits longer each time before its next try."""
        await self._reports.append(f"Pod/{outcome.namespace}/{outcome.name}", outcome)
        self._reported.add(command.id)
        if command.group and outcome.result == "gone":
            await catch_up(self.follower)  # the rest of its gang must not be bound without it
        if outcome.result == "refused":
            self._backoff(command).failed()
        elif outcome.result == "applied":
            self._backoffs.pop(outcome.uid, None)
        if command.bind:
            self._tell_bound(outcome)
        else:
            self._tell_evicted(command, outcome)

    def _tell_bound(self, outcome: Outcome) -> None:
        pod = Subject(POD, outcome.namespace, outcome.name, outcome.uid)
        if outcome.result == "applied":
            text = f"Successfully assigned {outcome.namespace}/{outcome.name} to {outcome.node}"
            self.recorder.emit(pod, "Normal", "Scheduled", text, again=False)
        elif outcome.result == "refused":
            self.recorder.emit(pod, "Warning", "FailedScheduling", texts.text(of_refusal(outcome)))

    def _tell_evicted(self, command: Command, outcome: Outcome) -> None:
        if outcome.result != "applied" or command.evict is None:
            return
        reason = command.evict.reason
        pod = Subject(POD, outcome.namespace, outcome.name, outcome.uid)
        self.recorder.emit(pod, "Warning", "Evict", eviction_text(reason), again=False)
        entry = self.model.pods.get(outcome.uid)
        group = self.model.groups.get(entry.pod.group_key) if entry else None
        if group is not None:
            of = group.group
            self.recorder.emit(Subject(POD_GROUP, of.namespace, of.name, of.uid), "Normal", "Evict", reason)


def _locks(command: Command) -> str:
    """Return the node whose lock the command needs, empty if it needs none."""
    return command.bind.node if command.bind and command.bind.take_lock else ""


def _uid(command: Command) -> str:
    effect = command.bind or command.evict
    return effect.uid if effect else ""
