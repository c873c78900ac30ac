"""An onlooker's fold: it keeps what every decision said, and what the log had told of the world at its place.

A decision is not to blame for what nobody had told it; the place on the log that counts is that of the batch, since
what changed between its base and there voids it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from events.kinds import QUEUE
from events.records import Batch, Body, Deleted, Genesis, ListChunk, Member, Observed, Opened, Outcome, Record, Ticked
from scheduling.devices.register import CardSpec
from scheduling.state.decisions import decision_prefix
from scheduling.state.fold import JUMP_MS, Fold
from scheduling.state.model import Model
from services.simulator.chaos import decided
from services.simulator.chaos.decided import cards_of


@dataclass(frozen=True, slots=True)
class Decision:
    """One placement that stands on the log: what it says, for which PodGroup, and what its node was known to have.

    ``holding`` are the pods (uids) that were known to be bound to a node and not to have ended there: an ended one
    holds nothing, until a restore undoes its end.

    ``queue`` and ``capability`` are of its gang, the latter as it was at the decision's base: nothing voids a decision
    for the change of a queue. ``registered`` are all cards that count in a queue's sum (the shares on others do not,
    devices/R-13), empty where there is no capability. ``place`` is where on the log it stands.
    """

    place: int
    member: Member
    group_uid: str
    cards: dict[str, CardSpec]
    allocatable: dict[str, str]
    queue: str
    capability: dict[str, str]
    registered: frozenset[tuple[str, str]]
    holding: frozenset[str]


class Inspector(Fold):
    """A fold with a memory. ``decisions`` are by their id, ``verdicts`` counts what became of records.

    ``evicted`` are the pods (uids) that an eviction which took effect named.
    """

    def __init__(self) -> None:
        self.decisions: dict[str, Decision] = {}
        self.verdicts: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self.evicted: set[str] = set()
        self.wrong: list[str] = []
        self.refused: set[str] = set()
        self._gone: set[str] = set()
        self._last_batch = (0, -1)
        self._terms: dict[str, int] = {}
        self._counted: set[tuple[str, int, int]] = set()
        self._vgpu_times: dict[str, int] = {}
        self._jump_seen = False
        self._limits: dict[str, list[tuple[int, dict[str, str]]]] = {}
        super().__init__()

    def apply(self, position: int, record: Record, chain_before: str) -> str:
        time_ms = self.model.time_ms
        verdict = super().apply(position, record, chain_before)
        self._check_time(record, verdict, time_ms)
        if verdict.startswith("applied"):
            self._check(position, record)
            self._check_order(position, record.body)
            self._note_limit(record.body)
        self.verdicts[f"{type(record.body).__name__}: {verdict.split(',')[0].split(' term')[0][:40]}"] += 1
        if isinstance(record.body, Batch) and verdict.startswith("applied"):
            self._check_base(record, record.body)
            self._check_single(record)
            found = decided.wrong(self.model, record.body, self.sequence - 1, self._vgpu_times)
            self.wrong += [f"{number}: batch {record.id}: {text}" for number, text in found]
            self._remember(position, record, record.body)
        elif isinstance(record.body, Outcome) and verdict == "applied":
            self.outcomes[f"{record.body.verb} {record.body.result}"] += 1
            if record.body.verb == "bind" and record.body.result == "refused":
                self.refused.add(record.body.command)
        return verdict

    def _check(self, position: int, record: Record) -> None:
        """Nothing takes effect twice, and nothing that a superseded writer appended, whatever a fold thinks of it."""
        if isinstance(record.body, Genesis):
            self._terms.clear()
            self._counted.clear()
            self._last_batch = (0, -1)
        name = (record.role, record.term, record.number)
        if name in self._counted:
            self.wrong.append(f"7: record {record.id} took effect twice, the second time at {position}")
        self._counted.add(name)
        if isinstance(record.body, Opened):
            self._terms[record.role] = record.term
        elif not isinstance(record.body, Genesis) and record.term != self._terms.get(record.role):
            self.wrong.append(f"7: record {record.id} of a superseded term took effect at {position}")

    def _check_order(self, position: int, body: Body) -> None:
        """Within a watcher term a deletion is final, unless a list says otherwise (scheduling/F-4a)."""
        if isinstance(body, Opened) and body.role == "watcher":
            self._gone.clear()
        elif isinstance(body, Deleted):
            self._gone.add(body.uid)
        elif isinstance(body, ListChunk):
            self._gone.difference_update(body.uids)
        elif isinstance(body, Observed):
            uid = body.object["metadata"].get("uid", "")
            if body.listed:
                self._gone.discard(uid)
            elif uid and uid in self._gone:
                self.wrong.append(f"7: {body.kind} {uid}, which was deleted, came back by a late event at {position}")

    def _check_base(self, record: Record, batch: Batch) -> None:
        """A decision rests on a place behind the last one of its term, and on nothing that has changed since (F-12)."""
        place = self.sequence - 1
        term, before = self._last_batch
        if term == record.term and batch.base <= before:
            self.wrong.append(f"7: batch {record.id} was decided before the last one was read back")
        self._last_batch = record.term, place
        for command in batch.binds:
            for member in command.members:
                entry = self.model.pods.get(member.uid)
                if entry is None or entry.placement is not member:
                    continue
                moved = max(entry.changed_at, self.model.node_changed_at.get(member.node, 0))
                if moved >= batch.base:
                    self.wrong.append(f"7: batch {record.id}: {member.name} was placed though it was overtaken")
                for short in self._crowded(member, batch.base):
                    self.wrong.append(f"1: batch {record.id}: {member.name} was placed where no room is: {short}")

    def _crowded(self, member: Member, base: int) -> Iterator[str]:
        """Yield what a decision should not have given to a pod: the binder would refuse it, and hide that.

        Whoever came upon the card, or the node, after the decision's base was unknown to it.
        """
        view, pods = self.model.nodes[member.node], self.model.pods
        for card in view.devices.cards:
            known = all(pods[holder.uid].changed_at < base for holder in card.holders)
            if known and card.crowded_for(member.uid):
                yield card.uuid
        if all(pods[uid].changed_at < base for uid in view.tasks):
            yield from view.crowded_for(member.uid, pods=True)
            if view.devices.registration.legacy.indices:
                yield from view.devices.crowded_for(member.uid)

    def _check_single(self, record: Record) -> None:
        """While a command waits for its outcome its pod is not decided on again: the first may still take effect."""
        waiting = Counter(command.bind.uid for command in self.model.commands.values() if command.bind)
        for uid in [uid for uid, count in waiting.items() if count > 1]:
            self.wrong.append(f"7: batch {record.id}: pod {self.model.pods[uid].pod.key} has {waiting[uid]} commands")

    def _check_time(self, record: Record, verdict: str, before: int) -> None:
        """The log's time never goes back, and far ahead only if two records in a row that count say so (section 3)."""
        now = self.model.time_ms
        if isinstance(record.body, Genesis) and verdict == "applied":
            self._jump_seen = False
            self._vgpu_times.clear()
            return
        if now < before:
            self.wrong.append(f"7: record {record.id} took the log's time back from {before} to {now}")
        if before and now - before > JUMP_MS and not self._jump_seen:
            self.wrong.append(f"7: record {record.id} alone moved the log's time from {before} to {now}")
        counts = verdict.startswith("applied") or "jump" in verdict
        if counts and isinstance(record.body, Opened | Ticked | Batch) and record.role == "scheduler":
            asked = record.body.time_ms
            self._jump_seen = bool(before) and now == before and asked - before > JUMP_MS

    def _note_limit(self, body: Body) -> None:
        """Keep from which place on the log a queue had which capability."""
        if isinstance(body, Genesis):
            self._limits.clear()
        elif isinstance(body, Observed) and body.kind == QUEUE.name:
            name = body.object["metadata"]["name"]
            queue = self.model.queues.get(name)
            limit = dict(queue.capability or {}) if queue else {}
            self._limits.setdefault(name, []).append((self.sequence - 1, limit))

    def _limit(self, queue: str, base: int) -> dict[str, str]:
        known = (capability for place, capability in reversed(self._limits.get(queue, ())) if place < base)
        return next(known, {})

    def _remember(self, position: int, record: Record, batch: Batch) -> None:
        prefix = decision_prefix(self.model, record.term, batch.batch)
        self.evicted.update(evict.uid for evict in decided.evictions(self.model, batch))
        for command in batch.binds:
            for member in command.members:
                name = f"{prefix}/{member.n}"
                if name in self.model.commands:
                    group = self.model.groups.get(command.group)
                    queue = group.group.queue if group else ""
                    limit = self._limit(queue, batch.base)
                    self.decisions[name] = decision_at(position, self.model, command.group_uid, member, queue, limit)


def decision_at(
    place: int, model: Model, group_uid: str, member: Member, queue: str, capability: dict[str, str]
) -> Decision:
    """Return what a placement at this place of the log says, and what was known there."""
    view = model.nodes.get(member.node)
    node = view.node if view else None
    registered = frozenset((name, uuid) for name in model.nodes for uuid in cards_of(model, name)) if capability else ()
    allocatable = dict(node.allocatable or {}) if node else {}
    holding = frozenset(uid for uid, entry in model.pods.items() if entry.pod.node and not entry.pod.finished)
    return Decision(
        place,
        member,
        group_uid,
        cards_of(model, member.node),
        allocatable,
        queue,
        capability,
        frozenset(registered),
        holding,
    )
