"""Decisions and their outcomes: what a batch says becomes state, what the world answered settles it.

The fold judges every command at its place on the log (scheduling/F-12): if its pod, node or PodGroup changed after the
batch's base, the whole command is void (overtaken) and its pods wait for the next batch.
"""

from __future__ import annotations

from functools import partial

from events.records import Batch, BindCommand, EvictCommand, Member, Outcome, PodBook, Record
from scheduling.reasons import texts
from scheduling.reasons.outcomes import of_refusal
from scheduling.state.digest import Digest
from scheduling.state.model import Command, Model, PodEntry
from scheduling.state.observing import group_part, pod_part
from scheduling.state.placing import Placing

APPLIED = "applied"


class Decisions:
    """Folds batches and outcomes into the model."""

    def __init__(self, model: Model, placing: Placing, digest: Digest) -> None:
        self._model, self._placing, self._digest = model, placing, digest
        self._last_batch = -1

    def new_term(self) -> None:
        """Batches are numbered within a scheduler term."""
        self._last_batch = -1

    def batch(self, body: Batch, record: Record, sequence: int) -> str:
        """Apply one batch; returns what became of it, overtaken commands named."""
        if body.batch <= self._last_batch:
            return "void: repeated"
        self._last_batch = body.batch
        self._model.decided = True
        self._digest.set("decided", "", [True, body.batch])
        prefix = decision_prefix(self._model, record.term, body.batch)
        overtaken = [text for command in body.binds if (text := self._bind(command, prefix, body.base))]
        overtaken += [text for evict in body.evictions if (text := self._evict(evict, prefix, body.base))]
        self._books(body)
        if body.promises is not None:
            self._model.promises = {promise.uid: promise for promise in body.promises}
            self._digest.set("promises", "", [promise.model_dump() for promise in body.promises])
        if body.search_start is not None:
            self._model.search_start = body.search_start
            self._digest.set("search", "", body.search_start)
        return f"{APPLIED}; overtaken: {', '.join(overtaken)}" if overtaken else APPLIED

    def _bind(self, command: BindCommand, prefix: str, base: int) -> str:
        group = self._model.groups.get(command.group)
        if command.group and (group is None or group.group.uid != command.group_uid or group.changed_at >= base):
            return f"PodGroup {command.group}"
        for member in command.members:
            if not self._stands(member, base):
                return f"Pod {member.namespace}/{member.name}"
        for member in command.members:
            self._place(member, prefix, command.group)
        return ""

    def _stands(self, member: Member, base: int) -> bool:
        entry = self._model.pods.get(member.uid)
        view = self._model.nodes.get(member.node)
        return (
            entry is not None
            and not entry.node
            and entry.changed_at < base
            and view is not None
            and view.node is not None
            and view.node.uid == member.node_uid
            and self._model.node_changed_at.get(member.node, 0) < base
        )

    def _place(self, member: Member, prefix: str, group: str) -> None:
        entry = self._model.pods[member.uid]
        entry.placement, entry.placement_id = member, f"{prefix}/{member.n}"
        entry.applied_version, entry.book = "", PodBook(warnings=entry.book.warnings)
        if member.vgpu_time:
            self._model.last_vgpu_time[member.node] = member.vgpu_time
            self._digest.set("vgpu-time", member.node, member.vgpu_time)
        self._add(Command(entry.placement_id, bind=member, group=group))
        self._update(entry)

    def _evict(self, evict: EvictCommand, prefix: str, base: int) -> str:
        entry = self._model.pods.get(evict.uid)
        if entry is None or entry.changed_at >= base or entry.evicting:
            return f"Pod {evict.namespace}/{evict.name}"
        entry.evicting = evict
        self._add(Command(f"{prefix}/{evict.n}", evict=evict, group=evict.for_group))
        self._update(entry)
        return ""

    def _add(self, command: Command) -> None:
        self._model.commands[command.id] = command
        effect = command.bind or command.evict
        self._digest.set("command", command.id, effect.uid if effect else "")

    def _drop(self, command: str) -> None:
        self._model.commands.pop(command, None)
        self._digest.set("command", command, None)

    def _books(self, body: Batch) -> None:
        for change in body.groups:
            group = self._model.groups.get(change.group)
            if group and group.group.uid == change.uid:
                group.book = change.book
                self._model.changes.group(change.group)
                self._digest.set_late("group", change.group, partial(group_part, group))
        for pods in body.pods:
            for uid in pods.uids:
                entry = self._model.pods.get(uid)
                if entry and not entry.node:
                    entry.book = pods.book
                    self._model.changes.group(entry.pod.group_key)
                    self._digest.set_late("pod", uid, partial(pod_part, entry))

    # --- outcomes ---

    def outcome(self, body: Outcome) -> str:
        """Settle one command by what the world answered (F-1, F-2)."""
        command = self._model.commands.get(body.command)
        if command is None:
            return f"void: no command {body.command} is waiting"
        self._drop(body.command)
        entry = self._model.pods.get(body.uid)
        if entry is None:
            return APPLIED
        if command.bind:
            self._bind_outcome(entry, command, body)
        elif body.result == "refused":
            entry.evicting = None
        self._update(entry)
        return APPLIED

    def _bind_outcome(self, entry: PodEntry, command: Command, body: Outcome) -> None:
        if entry.pod.node:
            return  # it was seen where it is
        entry.lost = False
        if body.result == "applied":
            entry.placement, entry.placement_id, entry.applied_version = command.bind, command.id, body.version
            return
        entry.placement, entry.placement_id, entry.applied_version = None, "", ""
        if body.result == "refused":
            entry.bind_failures += 1
            reason = of_refusal(body)
            said = {"reason": texts.code(reason), "message": texts.text(reason), "cause": reason.cause.value}
            entry.book = PodBook(**said, warnings=entry.book.warnings)
            group = self._model.groups.get(command.group)
            if group and not group.complete:
                group.attempts += 1
                self._model.changes.group(command.group)
                self._digest.set_late("group", command.group, partial(group_part, group))
        else:
            # Gone, or bound by somebody else: the observation that says so is still to come.
            entry.lost = True

    def _update(self, entry: PodEntry) -> None:
        self._placing.book(entry)
        self._model.changes.group(entry.pod.group_key)
        self._digest.set_late("pod", entry.pod.uid, partial(pod_part, entry))


def decision_prefix(model: Model, term: int, batch: int) -> str:
    """Return the part of a decision's id that is common to a batch (devices/A-9a)."""
    return f"{model.cluster}/{model.incarnation}/{term}.{batch}"
