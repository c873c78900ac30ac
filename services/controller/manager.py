"""The shell of the controllers: keeps the world by list and watch, and works off what has changed.

Theory of operation: every change of an object marks the objects that have to be looked at (``routes``). ``step`` reads
what the watches hold, then takes the marked ones in a fixed order, lets the pure reconciliation say what is missing,
and carries it out; answers are changes too and mark again, until nothing is marked. What the API server refuses, or
what comes too early, is tried again with back-off, and at once when a queue changes; what waits for the clock lies in
``due``. One object whose content cannot be worked with is set aside the same way and never stops the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter

import structlog

from adapters.clock import Clock
from adapters.cluster.mirror import Change, Mirror
from adapters.cluster.port import ClusterApi
from adapters.cluster.reflector import Reflector
from events import names
from events.kinds import (
    ALL_KINDS,
    COMMAND,
    EVENT,
    LEASE,
    NAMESPACE,
    POD,
    POD_GROUP,
    PRIORITY_CLASS,
    QUEUE,
    VOLCANO_JOB,
    Kind,
)
from events.reading import spec, uid_of
from services.controller import commands, garbage, podgroups, queues
from services.controller.actions import Action, Emit, Later
from services.controller.execute import Executor, Outcome
from services.controller.jobs import policies, sshkeys
from services.controller.jobs.plugins import KeyMaker
from services.controller.jobs.policies import Request
from services.controller.jobs.reconcile import reconcile as reconcile_job
from services.controller.jobs.reconcile import worth_a_look
from services.controller.objects import Ref, ref_of
from services.controller.observing import Nobody, Observer, observe
from services.controller.recorder import Recorder
from services.controller.routes import ORDER, Key, Switches, routes
from services.controller.world import World

_LOG = structlog.get_logger("controller")
_CONFLICTS_MAX = 8  # in a row, before an object has to wait
_REFUSALS_TOLD = 15  # in a row, until people are told
_BACK_OFF_MS_MIN, _BACK_OFF_MS_MAX = 1_000, 300_000
_GONE_MAX = 50_000  # uids of objects that went, kept for their dependents
_ROUNDS_MAX = 200  # in one step; what is left waits for the next
_SIDE_BY_SIDE = ("podgroup", "job", "garbage")  # one object's has nothing to do with another's


@dataclass
class _Parked:
    """An object that has to wait: until when, and how often in a row."""

    due_ms: int
    times: int


@dataclass
class _Backlog:
    """What has to be looked at, now and later."""

    marked: dict[Key, None] = field(default_factory=dict)
    requests: dict[Ref, list[Request]] = field(default_factory=dict)
    parked: dict[Key, _Parked] = field(default_factory=dict)
    conflicts: dict[Key, int] = field(default_factory=dict)
    busy: set[Key] = field(default_factory=set)  # those with much to do, which let the others go first
    due: list[Later] = field(default_factory=list)
    told: list[Emit] = field(default_factory=list)


class ControllerManager:
    """All controllers of one cluster. Each may be switched off where somebody else plays its part."""

    def __init__(
        self,
        api: ClusterApi,
        clock: Clock,
        switches: Switches | None = None,
        *,
        schedulers: Sequence[str] = names.SCHEDULER_NAMES,
        keys: KeyMaker = sshkeys.system,
        grace_s: int | None = None,
        jitter: Callable[[], float] | None = None,
        observer: Observer | None = None,
        parallel: int = 1,
    ) -> None:
        """Set up the controllers that are on. ``parallel`` is how many objects are reconciled at once.

        ``keys`` makes the SSH key pairs of plugin ssh; ``grace_s`` is the grace period of deletions (None: the
        pod's own); ``jitter`` spreads the reflectors' back-off (None: no back-off, for simulations).
        """
        self._clock, self._keys, self._schedulers = clock, keys, tuple(schedulers)
        self._parallel = parallel
        self._switches = switches or Switches()
        self._observer: Observer = observer or Nobody()
        self._mirror = Mirror(api, kinds_for(self._switches), clock, jitter)
        self._recorder = Recorder(api, "gpuledger-controller")
        self._executor = Executor(api, self._mirror, self._recorder, grace_s)
        self._world = World()
        self._gone: dict[str, None] = {}
        self._work = _Backlog()
        self._begun = False

    async def step(self) -> bool:
        """Do all that can be done now; return whether anything was done. Never waits."""
        changes = await self._mirror.poll()
        self._take(changes)
        if not self._mirror.ready:
            return bool(changes)
        if not self._begun:
            self._begin()
        self._wake()
        return await self._drain() or bool(changes)

    def next_due_ms(self) -> int | None:
        """When time alone will give something to do; None if it will not."""
        times = [later.due_ms for later in self._work.due] + [item.due_ms for item in self._work.parked.values()]
        return min(times, default=None)

    @property
    def reflectors(self) -> Sequence[Reflector]:
        """The reflectors, for who waits until one of them has news."""
        return self._mirror.reflectors

    async def close(self) -> None:
        """Close the watches."""
        await self._mirror.close()

    def _begin(self) -> None:
        self._begun = True
        if self._switches.queues:
            self._work.marked |= {("queue", Ref(QUEUE, "", name)): None for name in (queues.ROOT, queues.DEFAULT)}

    def _take(self, changes: Sequence[Change], own: Key | None = None) -> None:
        """Take changes into the world and mark what follows. ``own``: a reconciliation of that object made them.

        An object that was refused something is not looked at again because of what it was told about that.
        """
        for change in changes:
            self._world.apply(change)
            observe(self._observer, self._world, change, own=own is not None)
            for key in routes(self._world, change, self._switches):
                if key != own or key not in self._work.parked or key[1] != ref_of(change.kind, change.object):
                    self._work.marked[key] = None
            if self._switches.jobs:
                for ref, request in policies.requests(self._world, change, self._executor.deleted):
                    self._work.requests.setdefault(ref, []).append(request)
                    self._work.marked[("job", ref)] = None
            if change.new is None:
                self._issue(change)
                self._bury(uid_of(change.old))
            if change.kind == QUEUE and _opens_up(change):
                self._work.marked |= dict.fromkeys(self._work.parked)

    def _issue(self, change: Change) -> None:
        """Take up a command that we have cleared away (E-11)."""
        if change.kind != COMMAND or uid_of(change.old) not in self._executor.deleted:
            return
        issue = commands.issued(self._world, change.object)
        if issue is None:
            return
        if issue.request is not None:
            self._work.requests.setdefault(issue.target, []).append(issue.request)
            self._work.marked[("queue" if issue.target.kind == QUEUE else "job", issue.target)] = None
        if issue.told is not None:
            self._work.told.append(issue.told)

    def _bury(self, uid: str) -> None:
        """Remember that an object has gone (for a while: its dependents are looked at now)."""
        self._gone[uid] = None
        self._executor.deleted.discard(uid)
        self._recorder.forget(uid)
        while len(self._gone) > _GONE_MAX:
            del self._gone[next(iter(self._gone))]

    def _wake(self) -> None:
        """Mark what has become due."""
        now_ms, work = self._clock.now_ms(), self._work
        # What is due later than any back-off lasts was put off before the clock was set back.
        for key in [key for key, item in work.parked.items() if not 0 < item.due_ms - now_ms <= _BACK_OFF_MS_MAX]:
            work.marked[key] = None
        due = [later for later in work.due if later.due_ms <= now_ms]
        work.due = [later for later in work.due if later.due_ms > now_ms]
        for later in sorted(due, key=lambda later: (later.due_ms, later.ref.order)):
            request = later.request
            if isinstance(request, Request):
                if not policies.still_holds(self._world, later.ref.namespace, request):
                    continue
                work.requests.setdefault(later.ref, []).append(request)
            work.marked[("job", later.ref)] = None

    async def _drain(self) -> bool:
        acted, again = False, []
        told, self._work.told = self._work.told, []
        await self._executor.run(told, self._clock.now_ms())
        for count in range(_ROUNDS_MAX):
            if count:
                self._take(await self._mirror.poll())  # who came meanwhile does not wait for those who have much to do
            if not self._work.marked:
                break
            batch = sorted(self._work.marked, key=self._place)
            self._work.marked, self._work.busy = {}, set()
            for part in self._parts(batch):
                for key, outcome in zip(part, await self._all(part), strict=True):
                    acted = acted or outcome.acted or outcome.again
                    if outcome.again:
                        again.append(key)
        self._work.marked |= dict.fromkeys(again)
        return acted

    def _place(self, key: Key) -> tuple[bool, int, tuple[object, ...]]:
        """What sorts the marked ones: by controller, then by name; commands as they came."""
        what, ref = key
        order = commands.order(self._world, ref) if what == "command" else ref.order
        return key in self._work.busy, ORDER.index(what), order

    def _parts(self, batch: Sequence[Key]) -> Iterator[Sequence[Key]]:
        """Yield what may be reconciled at the same time, in order. Of pods with one PodGroup the first goes ahead."""
        for what, keys in groupby(batch, key=itemgetter(0)):
            if self._parallel == 1 or what not in _SIDE_BY_SIDE:
                yield from ([key] for key in keys)
                continue
            first: dict[object, Key] = {}
            rest = [key for key in keys if first.setdefault(self._shared_name(key), key) != key]
            yield list(first.values())
            yield rest

    def _shared_name(self, key: Key) -> object:
        pod = self._world.at(key[1]) if key[0] == "podgroup" else None
        return (key[1].namespace, podgroups.group_name(pod)) if pod is not None else key

    async def _all(self, keys: Sequence[Key]) -> list[Outcome]:
        if len(keys) == 1:
            return [await self._reconcile(keys[0])]
        free = asyncio.Semaphore(self._parallel)

        async def run(key: Key) -> Outcome:
            async with free:
                return await self._reconcile(key)

        return await asyncio.gather(*map(run, keys))

    async def _reconcile(self, key: Key) -> Outcome:
        """Reconcile one object; a job or queue once for everything that happened to it."""
        waiting = self._work.requests.pop(key[1], []) if key[0] in ("job", "queue") else []
        if key[0] == "job":
            waiting = worth_a_look(self._world, key[1], waiting, self._schedulers[0])
        outcome = Outcome()
        for index, request in enumerate(waiting or [None]):
            part = await self._executor.run(self._actions(key, request), self._clock.now_ms())
            self._settle(key, part)
            await self._tell_of_limit(key, part, request)
            outcome.acted |= part.acted
            outcome.again = part.again
            if part.more:
                self._work.marked[key] = None
                self._work.busy.add(key)
            if part.again or part.undone or part.more:
                if waiting:
                    self._work.requests[key[1]] = waiting[index:]
                break
        return outcome

    async def _tell_of_limit(self, key: Key, outcome: Outcome, request: Request | None) -> None:
        """Say once that what an object needs was refused again and again (E-10, E-13); it is tried on all the same."""
        parked = self._work.parked.get(key)
        if not outcome.refused or parked is None or parked.times != _REFUSALS_TOLD:
            return
        what, ref = key
        item = self._world.get(ref.kind, ref.namespace, ref.name)
        if item is None or what not in ("job", "queue"):
            return
        action = request.action if request is not None else ""
        if what == "job":
            action = action or policies.SYNC
            said = ("ExecuteAction", f"Job failed on action {action} for retry limit reached")
            event = Emit(ref, uid_of(item), "Normal", *said)
        else:
            event = queues.failure(item, action or queues.SYNC, outcome.why)
        await self._executor.run([event], self._clock.now_ms())

    def _actions(self, key: Key, request: Request | None) -> Sequence[Action]:
        what, ref = key
        try:
            if what == "podgroup":
                return podgroups.reconcile_pod(self._world, ref, self._schedulers)
            if what == "workload":
                return podgroups.reconcile_workload(self._world, ref, self._schedulers)
            if what == "queue":
                return queues.reconcile(self._world, ref, request.action if request is not None else queues.SYNC)
            if what == "command":
                return commands.reconcile(self._world, ref)
            if what == "job":
                now_ms = self._clock.now_ms()
                return reconcile_job(self._world, ref, request, now_ms, self._schedulers[0], self._keys)
            return garbage.reconcile(self._world, ref, self._gone)
        except (TypeError, ValueError, KeyError, AttributeError, ArithmeticError) as error:
            _LOG.warning("object cannot be worked with", controller=what, object=_shown(ref), error=repr(error))
            return []

    def _settle(self, key: Key, outcome: Outcome) -> None:
        """Take what an execution brought: changes, delays, back-off."""
        work = self._work
        work.due = [later for later in work.due if later.request is None or later.ref not in outcome.forget]
        for later in outcome.laters:
            if later not in work.due:
                work.due.append(later)
        now_ms = self._clock.now_ms()
        if outcome.refused or outcome.early:
            times = work.parked[key].times + 1 if key in work.parked else 1
            wait_ms = min(_BACK_OFF_MS_MIN * 2 ** min(times - 1, 20), _BACK_OFF_MS_MAX)
            work.parked[key] = _Parked(now_ms + wait_ms, times)
        else:
            work.parked.pop(key, None)
        self._take(outcome.changes, own=key)
        if not outcome.again:
            work.conflicts.pop(key, None)
            return
        work.conflicts[key] = work.conflicts.get(key, 0) + 1
        if work.conflicts[key] >= _CONFLICTS_MAX:
            del work.conflicts[key]
            outcome.again = False
            work.parked[key] = _Parked(now_ms + _BACK_OFF_MS_MIN, 1)


def _opens_up(change: Change) -> bool:
    """Whether a queue came, or was changed in more than its counters."""
    if change.old is None or change.new is None:
        return change.new is not None
    return queues.state_of(change.old) != queues.state_of(change.new) or spec(change.old) != spec(change.new)


def _shown(ref: Ref) -> str:
    return "/".join(part for part in (ref.kind.name, ref.namespace, ref.name) if part)


def kinds_for(switches: Switches) -> tuple[Kind, ...]:
    """The kinds that the controllers that are on have to see."""
    if switches.garbage:
        return tuple(kind for kind in ALL_KINDS if kind not in (EVENT, LEASE))
    wanted: dict[Kind, None] = {}
    if switches.queues:
        wanted |= dict.fromkeys((QUEUE, POD_GROUP, COMMAND))
    if switches.podgroups:
        wanted |= dict.fromkeys((QUEUE, POD_GROUP, POD, NAMESPACE, *podgroups.WORKLOADS))
    if switches.jobs:
        wanted |= dict.fromkeys((QUEUE, POD_GROUP, POD, PRIORITY_CLASS, VOLCANO_JOB, COMMAND))
    return tuple(kind for kind in ALL_KINDS if kind in wanted)
