"""One decision: the cycle's whole answer, reduced to what is new, as one batch.

``decide`` is a pure function of the state and the time: equal state gives equal bytes, so an audit can decide again
and compare. A decision that finds nothing new is None, and nothing is appended (design section 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from events.records import (
    Batch,
    BindCommand,
    EvictCommand,
    GroupChange,
    Member,
    PodBook,
    PodChange,
    spelled,
)
from scheduling import cycle
from scheduling.cycle.memo import Memo
from scheduling.cycle.stages import UNTOLD, Stages
from scheduling.state.fold import JUMP_MS, Fold
from scheduling.state.model import CycleResult, Gang, Model, Placed

#: Named in every batch: another engine may decide otherwise, so an audit compares only with its own.
ENGINE = "gpuledger/1"
#: A batch ends after the gang that reaches this many placements; the rest waits for the next one.
PLACEMENTS_MAX = 500
NS_PER_MS = 1_000_000
#: The event of a group that waited although it fits.
STUCK_REASON, STUCK_TEXT = "Stuck", "waited although it fits, found by deciding again; this is a fault of the scheduler"


def decide(
    fold: Fold, time_ms: int, chain: str, batch: int, stuck: Sequence[str] = (), stages: Stages = UNTOLD
) -> Batch | None:
    """Return the next batch, or None if there is nothing new.

    ``chain`` is the chain's digest at the place up to which was folded, ``batch`` the number within the term. The
    time never goes back, and not further ahead than one jump (the caller ticks first). ``stuck`` groups are told so.
    ``stages`` is told what the decision is at.
    """
    model = fold.model
    now = max(model.time_ms, min(time_ms, model.time_ms + JUMP_MS))
    result = cycle.run(model, now, _memo(fold), PLACEMENTS_MAX, stages)
    if stuck:
        told = {"event_type": "Warning", "event_reason": STUCK_REASON, "event_message": STUCK_TEXT}
        found = {key: result.groups.get(key, model.groups[key].book) for key in stuck if key in model.groups}
        books = {key: book.model_copy(update=told) for key, book in found.items()}
        result = replace(result, groups={**result.groups, **books})
    content = _Difference(model, result, now).content()
    if not content:
        return None
    if stuck:
        content["stuck"] = list(stuck)
    base, state = fold.mark()
    return Batch.model_validate(
        {
            "batch": batch,
            "base": base,
            "chain": chain,
            "state": state,
            "time_ms": now,
            "engine": ENGINE,
            **content,
        }
    )


def stuck_groups(fold: Fold, time_ms: int) -> list[str]:
    """Return the groups that a decision from scratch places or admits, though the state was settled at this time.

    A decision is a pure function of state and time, so one found here waited because of a fault of ours.
    """
    model = fold.model
    now = max(model.time_ms, min(time_ms, model.time_ms + JUMP_MS))
    result = cycle.run(model, now, Memo(), PLACEMENTS_MAX)
    found = {gang.group for gang in result.gangs}
    for key, book in result.groups.items():
        entry = model.groups.get(key)
        if entry is not None and book.phase == "Inqueue" and entry.book.phase == "Pending":
            found.add(key)
    return sorted(found)


def forget(fold: Fold) -> None:
    """Drop what earlier decisions found out: the next one works it out anew."""
    fold.findings = Memo()


def _memo(fold: Fold) -> Memo:
    """Return what earlier decisions over this state found out: it saves work and changes nothing."""
    memo = fold.findings
    if not isinstance(memo, Memo):
        memo = fold.findings = Memo()
    return memo


class _Difference:
    """What a cycle's result says that the state does not say yet."""

    def __init__(self, model: Model, result: CycleResult, now_ms: int) -> None:
        self._model, self._result, self._now_ms = model, result, now_ms
        self._number = 0
        self._node_time = dict(model.last_vgpu_time)
        self._left_out: set[str] = set()

    def content(self) -> dict[str, object]:
        binds = self._binds()
        found: dict[str, object] = {
            "binds": binds,
            "evictions": self._evictions(),
            "groups": self._groups(),
            "pods": self._pods({member.uid for command in binds for member in command.members}),
        }
        promises = self._result.promises
        if promises != list(self._model.promises.values()):
            found["promises"] = promises
        content = {key: value for key, value in found.items() if value or key == "promises"}
        if content and self._result.search_start != self._model.search_start:
            content["search_start"] = self._result.search_start
        return content

    def _binds(self) -> list[BindCommand]:
        commands: list[BindCommand] = []
        count = 0
        for gang in self._result.gangs:
            if count >= PLACEMENTS_MAX:
                self._left_out.add(gang.group)
                continue
            count += len(gang.placed)
            commands.append(self._command(gang))
        return commands

    def _command(self, gang: Gang) -> BindCommand:
        entry = self._model.groups.get(gang.group)
        uid = entry.group.uid if entry else ""
        return BindCommand(group=gang.group, group_uid=uid, members=[self._member(item) for item in gang.placed])

    def _member(self, placed: Placed) -> Member:
        pod = self._model.pods[placed.uid].pod
        node = self._model.nodes[placed.node].node
        assert node is not None, "a cycle places on nodes that exist"
        number = self._next()
        vgpu_time = 0
        if placed.allocation:
            vgpu_time = max(self._now_ms // 1000, self._node_time.get(placed.node, 0) + 1)
            self._node_time[placed.node] = vgpu_time
        return Member(
            n=number,
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            version=pod.version,
            node=placed.node,
            node_uid=node.uid,
            allocation=placed.allocation,
            vgpu_time=vgpu_time,
            gpu_index=placed.gpu_index,
            predicate_time_ns=self._now_ms * NS_PER_MS + number if placed.gpu_index else 0,
            score=placed.score,
            take_lock=self._takes_lock(placed),
        )

    def _takes_lock(self, placed: Placed) -> bool:
        """The binder takes the node's lock where it is configured (devices/A-19, G-10: not for whole cards)."""
        arguments = self._model.env.args
        if not arguments.node_lock:
            return False
        return bool(placed.allocation) or (bool(placed.gpu_index) and arguments.sharing)

    def _next(self) -> int:
        self._number += 1
        return self._number - 1

    def _evictions(self) -> list[EvictCommand]:
        commands = []
        for item in self._result.evictions:
            pod = self._model.pods[item.uid].pod
            commands.append(
                EvictCommand(
                    n=self._next(),
                    namespace=pod.namespace,
                    name=pod.name,
                    uid=pod.uid,
                    reason=item.reason,
                    for_group=item.for_group,
                    rule=item.rule,
                    victim_share=item.victim_share,
                    preemptor_share=item.preemptor_share,
                )
            )
        return commands

    def _groups(self) -> list[GroupChange]:
        changes = []
        for key in sorted(self._result.groups):
            entry, book = self._model.groups.get(key), self._result.groups[key]
            if entry is not None and key not in self._left_out and entry.book != book:
                changes.append(GroupChange(group=key, uid=entry.group.uid, book=book))
        return changes

    def _pods(self, bound: set[str]) -> list[PodChange]:
        """Pods with equal text share one entry: a thousand pods of one class cost one message."""
        classes: dict[str, tuple[PodBook, list[str]]] = {}
        for uid in sorted(self._result.pods):
            entry, book = self._model.pods.get(uid), self._result.pods[uid]
            if entry is None or uid in bound or entry.book == book or entry.pod.group_key in self._left_out:
                continue
            classes.setdefault(spelled(book), (book, []))[1].append(uid)
        return [PodChange(uids=uids, book=book) for _, (book, uids) in sorted(classes.items())]
