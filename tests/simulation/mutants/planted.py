"""Planted faults: each takes one safeguard out of the production code while it is in force.

A simulation that does not notice its absence would not notice either if somebody broke it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, Final
from unittest import mock
from zlib import crc32

from adapters.cluster.port import ApiUnknown
from adapters.cluster.reflector import Reflector
from events.kinds import QUEUE
from events.records import Opened, Record
from scheduling import decide
from scheduling.cycle.plugins.priority import PriorityPlugin
from scheduling.devices import books, cards, columns, fitting, geometry
from scheduling.devices.claims import Claim
from scheduling.objects import Pod
from scheduling.state import observing, placing, snapshot
from scheduling.state.decisions import Decisions
from scheduling.state.fold import Fold
from scheduling.state.model import Term
from scheduling.state.placing import Placing
from services.binder import binding
from services.binder.binding import Answer, Bindings
from services.binder.gangs import Gangs
from services.binder.status import StatusWriter
from services.controller import podgroups
from services.scheduler.scheduler import Scheduler
from services.watcher import view

Mutant = Callable[[ExitStack], None]


def _set(stack: ExitStack, target: Any, name: str, new: Any) -> None:
    stack.enter_context(mock.patch.object(target, name, new))


def no_fence(stack: ExitStack) -> None:
    """A command is given up without moving the pod's version: a Binding still under way takes effect later."""

    async def nothing(*_: Any) -> None:
        return

    _set(stack, binding, "fence", nothing)


def decide_before_catch_up(stack: ExitStack) -> None:
    """Three times of four the scheduler reads only a little and decides, its own last batch perhaps still unread."""
    original = Scheduler.fold

    async def fold(self: Any) -> bool:
        self.turns = getattr(self, "turns", 0) + 1
        return await original(self) if self.turns % 4 == 0 else bool(await self.follower.advance(1))

    async def may_decide(self: Any) -> bool:
        return bool(self.follower.state.anchored and await self._lead() and self.follower.state.ready)

    _set(stack, Scheduler, "fold", fold)
    _set(stack, Scheduler, "_may_decide", may_decide)


def unknown_is_failure(stack: ExitStack) -> None:
    """A Binding without an answer is reported as refused."""
    original = Bindings._bind

    async def bind(self: Any, command: Any, member: Any) -> Answer:
        try:
            return await original(self, command, member)
        except ApiUnknown as error:
            return Answer(self._outcome(command, member, "refused", str(error)))

    _set(stack, Bindings, "_bind", bind)


def no_tombstone(stack: ExitStack) -> None:
    """A late event about an object that was deleted brings it back."""
    upsert, observed = view.View._upsert, observing.Observing.observed

    def forgetful_upsert(self: Any, *arguments: Any) -> Any:
        self._gone.clear()
        return upsert(self, *arguments)

    def forgetful_observed(self: Any, body: Any) -> str:
        self._gone.clear()
        return observed(self, body)

    _set(stack, view.View, "_upsert", forgetful_upsert)
    _set(stack, observing.Observing, "observed", forgetful_observed)


def memory_off_by_one(stack: ExitStack) -> None:
    """One unit more than a card has is thought to fit, by the plain definition and by the columns."""
    original, columns_say = fitting._Trial._test, columns._free

    def free(card: Any) -> int:
        found = columns_say(card)
        return found if found < 0 else found + 1

    def test(self: Any, card: Any, request: Any, asked: int) -> str:
        return original(self, card, request, asked - 1)

    _set(stack, fitting._Trial, "_test", test)
    _set(stack, columns, "_free", free)


def no_dedupe(stack: ExitStack) -> None:
    """A record that comes twice is folded twice."""
    fold, batch = Fold._fold, Decisions.batch

    def folded(self: Any, record: Record) -> str:
        term = self.model.terms.get(record.role, Term())
        if record.term != term.number or record.number >= term.next_record or isinstance(record.body, Opened):
            return fold(self, record)
        self.model.terms[record.role] = replace(term, next_record=record.number)
        verdict = fold(self, record)
        self._set_term(record.role, term)
        return verdict

    def batched(self: Any, body: Any, *arguments: Any) -> str:
        self._last_batch = min(self._last_batch, body.batch - 1)
        return batch(self, body, *arguments)

    _set(stack, Fold, "_fold", folded)
    _set(stack, Decisions, "batch", batched)


def relist_forgets_deletions(stack: ExitStack) -> None:
    """What a list lacks stays in the state."""

    def list_end(self: Any, body: Any) -> str:
        kind = f"{body.api_version}/{body.kind}"
        self._lists.end(body)
        self._model.listed.add(kind)
        self._digest.set("listed", "", sorted(self._model.listed))
        return "applied"

    listing = view.View._list

    def listed(self: Any, items: Any, version: Any, memory: Any, *arguments: Any) -> Any:
        with mock.patch.object(view.View, "_goodbye", return_value=None):
            found = listing(self, items, version, memory, *arguments)
        return [entry for entry in found if entry is not None]

    _set(stack, observing.Observing, "list_end", list_end)
    _set(stack, view.View, "_list", listed)


def claim_not_released(stack: ExitStack) -> None:
    """An ended pod keeps its share of a card."""
    original = Placing._with

    def with_claim(self: Any, found: Any, entry: Any) -> Any:
        after = original(self, found, entry)
        if entry.pod.finished and entry.pod.uid in found.devices.claims:
            return replace(after, devices=found.devices)
        return after

    _set(stack, Placing, "_with", with_claim)


def stale_term_accepted(stack: ExitStack) -> None:
    """What a superseded writer appends counts."""
    original = Fold._fold

    def folded(self: Any, record: Record) -> str:
        term = self.model.terms.get(record.role, Term())
        if not isinstance(record.body, Opened) and record.term < term.number:
            record = replace(record, term=term.number, number=term.next_record)
            verdict = original(self, record)
            self._set_term(record.role, term)
            return verdict
        return original(self, record)

    _set(stack, Fold, "_fold", folded)


def overtaken_applied(stack: ExitStack) -> None:
    """A command counts though its pod or node changed after the place that it was decided on."""

    def stands(self: Any, member: Any, base: int) -> bool:
        entry, there = self._model.pods.get(member.uid), self._model.nodes.get(member.node)
        return entry is not None and not entry.node and there is not None and there.node is not None

    _set(stack, Decisions, "_stands", stands)


def no_preconditions(stack: ExitStack) -> None:
    """A Binding does not say which form of the pod it is meant for."""
    original = binding.binding

    def bare(command: Any, member: Any, version: str, clock: Any) -> Any:
        item = original(command, member, version, clock)
        item["metadata"] = {key: value for key, value in item["metadata"].items() if key != "resourceVersion"}
        return item

    _set(stack, binding, "binding", bare)


def exclusivity_ignored(stack: ExitStack) -> None:
    """A card that is kept for a rule's one pod takes another."""
    _set(stack, fitting, "reserved", lambda *_: False)


def share_forgotten_at_once(stack: ExitStack) -> None:
    """A terminating pod holds nothing any more (devices/A-16)."""
    original = observing.objects.pod

    def pod(item: Any, version: str = "") -> Pod:
        found = original(item, version)
        return replace(found, phase="Succeeded") if found.deleting and found.node else found

    _set(stack, observing.objects, "pod", pod)


def decision_not_held(stack: ExitStack) -> None:
    """Between decision and observation a card looks free (devices/A-17)."""

    def held_by(entry: Any, env: Any) -> Claim | None:
        return original(entry, env) if entry.pod.node else None

    original = placing.held_by
    _set(stack, placing, "held_by", held_by)


def outcome_lost(stack: ExitStack) -> None:
    """A refusal leaves the reservation where it was."""
    original = Decisions._bind_outcome

    def outcome(self: Any, entry: Any, command: Any, body: Any) -> None:
        if body.result == "applied":
            original(self, entry, command, body)

    _set(stack, Decisions, "_bind_outcome", outcome)


def goes_on_after_a_break(stack: ExitStack) -> None:
    """A watch that broke goes on from where it was, whatever the server behind it has become."""
    original = Reflector._broke

    async def broke(self: Any) -> None:
        version = self._version
        await original(self)
        self._version = version

    async def opened(self: Any) -> bool:
        self._opened_ms = self._clock.now_ms()
        self._stream = await self._api.watch(self.kind, self._version)
        return True

    _set(stack, Reflector, "_broke", broke)
    _set(stack, Reflector, "_open", opened)


def undone_command_forgotten(stack: ExitStack) -> None:
    """A Binding that a restore undid before its report holds nothing, though its command still stands."""
    _set(stack, observing.Observing, "_take_up_command", lambda *_: None)


def ill_card_used(stack: ExitStack) -> None:
    """A card that its node agent calls ill takes pods."""
    usable = cached_property(lambda self: self.spec.sound and not self.lacks_geometry and not self.blocked)
    usable.__set_name__(cards.Card, "usable")
    _set(stack, cards.Card, "usable", usable)


def half_is_booked(stack: ExitStack) -> None:
    """A decision gives a pod half of the memory that it asks for, so nothing is ever found to be too much."""
    original = fitting._Trial._share

    def share(self: Any, card: Any, request: Any, asked: int, place: int) -> Any:
        return original(self, card, request, asked // 2 if asked > 1 else asked, place)

    _set(stack, fitting._Trial, "_share", share)
    _set(stack, books, "quick_fit", lambda *_: None)


def cut_in_two_ways(stack: ExitStack) -> None:
    """A MIG card is given out in slices of one geometry beside those of another, as far as there is memory."""

    def choose(self: Any, asked: int) -> Any:
        for group in self.groups:
            used = frozenset(place for name, place in self.slices if name == group.name)
            found = geometry.choose((group,), group.name, used, asked * self.factor)
            if found is not None and self.used_memory + found.memory // self.factor <= self.memory:
                return found
        return None

    blocked = cached_property(lambda _: False)
    blocked.__set_name__(cards.Card, "blocked")
    _set(stack, cards.Card, "choose_slice", choose)
    _set(stack, cards.Card, "blocked", blocked)


def restart_forgets_rules(stack: ExitStack) -> None:
    """Who begins at a snapshot does not know which pods keep their card to themselves."""
    original = snapshot.held_by

    def held_by(entry: Any, env: Any) -> Claim | None:
        claim = original(entry, env)
        return replace(claim, rules=()) if claim is not None else None

    _set(stack, snapshot, "held_by", held_by)


def one_tick_is_enough(stack: ExitStack) -> None:
    """The log's time goes wherever a single record says, if that is ahead."""

    def move(self: Any, time_ms: int) -> bool:
        if time_ms > self.model.time_ms:
            self._set_time(time_ms)
        return True

    _set(stack, Fold, "_move_time", move)


def times_stand_still(stack: ExitStack) -> None:
    """Two pods that are decided on within a second have the same time on their node (devices/A-8)."""
    original = decide._Difference.__init__

    def begin(self: Any, model: Any, result: Any, now_ms: int) -> None:
        original(self, model, result, now_ms)
        self._node_time = {}

    _set(stack, decide._Difference, "__init__", begin)


def status_is_not_written(stack: ExitStack) -> None:
    """The status writer reads on and writes nothing."""

    async def step(self: Any, *, rest: bool = False) -> bool:
        return bool(await self.follower.catch_up())

    _set(stack, StatusWriter, "step", step)


def pod_without_a_group(stack: ExitStack) -> None:
    """One pod in three never gets its PodGroup."""
    original = podgroups.reconcile_pod

    def reconcile(world: Any, ref: Any, schedulers: Any) -> Any:
        pod = world.at(ref)
        left_out = pod is not None and crc32(pod["metadata"]["uid"].encode()) % 3 == 0
        return [] if left_out else original(world, ref, schedulers)

    _set(stack, podgroups, "reconcile_pod", reconcile)


def lower_one_takes_over(stack: ExitStack) -> None:
    """Pods of any other job make way, of whatever priority."""
    _set(stack, PriorityPlugin, "_lower", staticmethod(lambda task, preemptor: task.job is not preemptor.job))
    _set(stack, PriorityPlugin, "spares", lambda *_: False)


def queue_change_dropped(stack: ExitStack) -> None:
    """A Queue that changes is not observed again until a list."""
    original = view.View._upsert

    def upsert(self: Any, item: Any, memory: Any, *arguments: Any) -> Any:
        known = self._kind == QUEUE and memory.of(QUEUE).get(item["metadata"]["name"])
        return [] if known else original(self, item, memory, *arguments)

    _set(stack, view.View, "_upsert", upsert)


def gone_node_frees_its_pods(stack: ExitStack) -> None:
    """What pods hold is forgotten with their node, which may come back with them (devices/N-23a)."""
    original = Placing.set_node

    def set_node(self: Any, name: str, node: Any) -> None:
        for uid in [*self._view(name).tasks] if node is None else ():
            self.remove(uid)
        original(self, name, node)

    _set(stack, Placing, "set_node", set_node)


def torn_gang_bound(stack: ExitStack) -> None:
    """The binder binds what is left of a gang."""
    _set(stack, Gangs, "refusal", lambda *_: "")


def digest_not_kept(stack: ExitStack) -> None:
    """What a decision or an outcome changes of a pod, its digest does not."""

    def update(self: Any, entry: Any) -> None:
        self._placing.book(entry)
        self._model.changes.group(entry.pod.group_key)

    _set(stack, Decisions, "_update", update)


#: The ten of the bar, then some more.
MUTANTS: Final[dict[str, Mutant]] = {
    "no-fence": no_fence,
    "decide-before-catch-up": decide_before_catch_up,
    "unknown-is-failure": unknown_is_failure,
    "no-tombstone": no_tombstone,
    "memory-off-by-one": memory_off_by_one,
    "no-dedupe": no_dedupe,
    "relist-forgets-deletions": relist_forgets_deletions,
    "claim-not-released": claim_not_released,
    "stale-term-accepted": stale_term_accepted,
    "overtaken-applied": overtaken_applied,
    "no-preconditions": no_preconditions,
    "exclusivity-ignored": exclusivity_ignored,
    "share-forgotten-at-once": share_forgotten_at_once,
    "decision-not-held": decision_not_held,
    "outcome-lost": outcome_lost,
    "goes-on-after-a-break": goes_on_after_a_break,
    "undone-command-forgotten": undone_command_forgotten,
    "ill-card-used": ill_card_used,
    "half-is-booked": half_is_booked,
    "cut-in-two-ways": cut_in_two_ways,
    "restart-forgets-rules": restart_forgets_rules,
    "one-tick-is-enough": one_tick_is_enough,
    "times-stand-still": times_stand_still,
    "status-is-not-written": status_is_not_written,
    "pod-without-a-group": pod_without_a_group,
    "lower-one-takes-over": lower_one_takes_over,
    "queue-change-dropped": queue_change_dropped,
    "gone-node-frees-its-pods": gone_node_frees_its_pods,
    "torn-gang-bound": torn_gang_bound,
    "digest-not-kept": digest_not_kept,
}

#: The steps without which a planted fault that shows seldom does not show.
ABOUT: Final[dict[str, tuple[str, ...]]] = {
    "no-preconditions": ("touch pod", "bind fault", "hold at", "second"),
    "overtaken-applied": ("touch pod", "touch node", "hold at", "append fault"),
    "goes-on-after-a-break": ("restore",),
    "undone-command-forgotten": ("restore",),
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a fault for a while."""
    with ExitStack() as stack:
        MUTANTS[name](stack)
        yield
