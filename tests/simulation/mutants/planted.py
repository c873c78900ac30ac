"""Planted faults: each takes one safeguard out of the production code while it is in force.

A simulation that does not notice its absence would not notice either if somebody broke it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any, Final
from unittest import mock

from adapters.cluster.port import ApiUnknown
from adapters.cluster.reflector import Reflector
from events.records import Opened, Record
from scheduling.devices import columns, fitting
from scheduling.devices.claims import Claim
from scheduling.objects import Pod
from scheduling.state import observing, placing
from scheduling.state.decisions import Decisions
from scheduling.state.fold import Fold
from scheduling.state.model import Term
from scheduling.state.placing import Placing
from services.binder import binding
from services.binder.binding import Answer, Bindings
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
}


@contextmanager
def planted(name: str) -> Iterator[None]:
    """Plant a fault for a while."""
    with ExitStack() as stack:
        MUTANTS[name](stack)
        yield
