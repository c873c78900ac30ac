"""Observations: what the watcher saw becomes the objects of the state.

The rules of order (scheduling/F-4, F-4a, F-11a, devices/A-16a): within one watcher term an older or equal version of a
known uid changes nothing, a deletion of a known uid always counts and is final, another uid under a known name means
that the old object is gone. A list wins over all of that. Versions of different terms are never compared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from hashlib import sha256
from typing import Any

from events import canonical, names
from events.canonical import Json
from events.kinds import CONFIG_MAP, NODE, OBSERVED_KINDS, POD, POD_GROUP, PRIORITY_CLASS, QUEUE
from events.projection import DEFAULT_SCOPE, Scope, newer, scope_in
from events.records import Deleted, GroupBook, ListChunk, ListEnd, Observed, spelled
from scheduling import objects
from scheduling.state.configuring import device_env, scheduler_config_changed
from scheduling.state.digest import Digest
from scheduling.state.lists import Lists
from scheduling.state.model import Command, GroupEntry, Model, PodEntry
from scheduling.state.placing import Placing

_POD, _NODE, _POD_GROUP, _QUEUE, _PRIORITY_CLASS, _CONFIG_MAP = (
    f"{kind.api_version}/{kind.name}" for kind in (POD, NODE, POD_GROUP, QUEUE, PRIORITY_CLASS, CONFIG_MAP)
)
APPLIED = "applied"
#: What the status of a PodGroup says that was complete once (scheduling/PG-6).
_COMPLETE_ONCE = ("Running", "Unknown", "Completed")
_LOCKS = (names.VGPU_NODE_LOCK, names.GPUSHARE_NODE_LOCK)


class Known:
    """What is known of one object: its uid, the version last folded, in which term that was, and the object."""

    __slots__ = ("content", "item", "term", "uid", "version")

    def __init__(self, uid: str, version: str, term: int, content: bytes, item: Json) -> None:
        self.uid, self.version, self.term, self.content, self.item = uid, version, term, content, item


class Observing:
    """Folds observations into the model."""

    def __init__(self, model: Model, placing: Placing, digest: Digest) -> None:
        self._model, self._placing, self._digest = model, placing, digest
        self._known: dict[tuple[str, str], Known] = {}
        self._gone: set[str] = set()
        self._lists = Lists()
        #: How many members of each gang are on nodes.
        self._on_nodes: Counter[str] = Counter()
        self._sequence = 0

    @property
    def complete(self) -> bool:
        return all(f"{kind.api_version}/{kind.name}" in self._model.listed for kind in OBSERVED_KINDS)

    def new_term(self, config: Json) -> None:
        """A new watcher term: versions start afresh, tombstones bind no more, every kind is to be listed again.

        Its configuration says whose pods are ours (scheduling/AS-2), and which ConfigMaps hold the configurations.
        """
        self._gone.clear()
        self._lists.clear()
        self._model.listed.clear()
        self._digest.set("listed", "", None)
        self.serve(scope_in(config))

    def serve(self, scope: Scope) -> None:
        """Say what is ours from here on: who was a member of a PodGroup may be none now, and others are.

        Where the scheduler's configuration is another ConfigMap, none of it was seen yet.
        """
        model, before = self._model, self._model.scope
        if scope == before:
            return
        model.scope = scope
        usual = scope.scheduler_names == DEFAULT_SCOPE.scheduler_names
        self._digest.set("scheduler names", "", None if usual else list(scope.scheduler_names))
        usual = scope.config_maps == DEFAULT_SCOPE.config_maps
        self._digest.set("config maps", "", None if usual else [list(key) for key in scope.config_maps])
        model.members.clear()
        self._on_nodes.clear()
        for uid, entry in model.pods.items():
            self.join(uid, entry.pod)
        model.changes.everything()
        if scope.config_maps != before.config_maps:
            another = scope.scheduler_config != before.scheduler_config
            if another:
                model.config_seen = model.config_accepted = False
            self.configure(scheduler=another)

    def join(self, uid: str, pod: objects.Pod) -> None:
        """A pod of ours is a member of the gang that it names."""
        if self._model.ours(pod) and pod.group_key:
            self._model.members.setdefault(pod.group_key, set()).add(uid)
            self._on_nodes[pod.group_key] += bool(pod.node)

    # --- lists ---

    def chunk(self, body: ListChunk) -> str:
        self._lists.chunk(body)
        return APPLIED

    def list_end(self, body: ListEnd) -> str:
        """What the list lacks is deleted as of now (F-11a); an incomplete list has no effect."""
        kind = f"{body.api_version}/{body.kind}"
        complete, uids = self._lists.end(body)
        if not complete:
            return f"void: the list of {kind} is incomplete: {len(uids)} of {body.count}"
        present = set(uids)
        missing = [key for (of, key), known in self._known.items() if of == kind and known.uid not in present]
        for key in sorted(missing):
            self._remove(kind, body.kind, key)
        self._model.listed.add(kind)
        self._digest.set("listed", "", sorted(self._model.listed))
        return APPLIED

    # --- single objects ---

    def observed(self, body: Observed) -> str:
        kind = f"{body.api_version}/{body.kind}"
        meta = body.object.get("metadata")
        if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
            return f"void: {body.kind} without metadata.name"
        key = f"{meta['namespace']}/{meta['name']}" if meta.get("namespace") else str(meta["name"])
        uid, term = str(meta.get("uid", "")), self._model.terms["watcher"].number
        old = self._known.get((kind, key))
        if not body.listed:
            if uid in self._gone:
                return f"void: {body.kind} {key} with uid {uid} was deleted before"
            if old and old.uid == uid and old.term == term and not newer(body.version, old.version):
                return f"void: version {body.version} of {body.kind} {key} is not newer than {old.version}"
        self._gone.discard(uid)
        if old and old.uid != uid:
            self._remove(kind, body.kind, key)
            old = None
        content = content_of(body.kind, body.object)
        changed = old is None or old.content != content
        self._known[(kind, key)] = Known(uid, body.version, term, content, body.object)
        self._digest.set(kind, key, [uid, body.version, term, content.hex()])
        self._store(body, kind, key, changed)
        return APPLIED

    def deleted(self, body: Deleted) -> str:
        kind = f"{body.api_version}/{body.kind}"
        key = f"{body.namespace}/{body.name}" if body.namespace else body.name
        if body.uid:
            self._gone.add(body.uid)
        known = self._known.get((kind, key))
        if known is None or (body.uid and known.uid != body.uid):
            return f"void: {body.kind} {key} with uid {body.uid} is not known"
        self._remove(kind, body.kind, key)
        return APPLIED

    def _remove(self, kind: str, name: str, key: str) -> None:
        known = self._known.pop((kind, key))
        if known.uid:
            self._gone.add(known.uid)
        self._digest.set(kind, key, None)
        if kind == _POD:
            self._forget_pod(known.uid)
        elif kind == _NODE:
            self._model.node_changed_at.pop(key, None)
            self._placing.set_node(key, None)
        elif kind == _POD_GROUP:
            self._model.groups.pop(key, None)
            self._model.changes.group(key)
            self._digest.set("group", key, None)
        elif kind == _QUEUE:
            self._model.queues.pop(key, None)
            self._model.changes.queue(key)
        elif kind == _PRIORITY_CLASS:
            self._model.priority_classes.pop(key, None)
            self._model.changes.everything()
        elif kind == _CONFIG_MAP:
            self._model.config_maps.pop(key, None)
            self._config_map(key)
        else:
            self._model.others.get(name, {}).pop(key, None)
            self._model.changes.others += 1

    def _store(self, body: Observed, kind: str, key: str, changed: bool) -> None:
        if kind == _POD:
            self._pod(objects.pod(body.object, body.version), body.listed, changed)
        elif kind == _NODE:
            self._node(objects.node(body.object, body.version), changed)
        elif kind == _POD_GROUP:
            self._group(objects.pod_group(body.object, body.version), changed)
        elif kind == _QUEUE:
            self._model.queues[key] = objects.queue(body.object, body.version)
            self._model.changes.queue(key)
        elif kind == _PRIORITY_CLASS:
            self._model.priority_classes[key] = objects.priority_class(body.object, body.version)
            self._model.changes.everything()
        elif kind == _CONFIG_MAP:
            self._model.config_maps[key] = objects.config_map(body.object, body.version)
            self._config_map(key)
        else:
            self._model.others.setdefault(body.kind, {})[key] = objects.other(body.object, body.version)
            self._model.changes.others += 1

    # --- kinds ---

    def _pod(self, pod: objects.Pod, listed: bool, changed: bool) -> None:
        model, before = self._model, pod.group_key
        entry = model.pods.get(pod.uid)
        if entry is None:
            entry = model.pods[pod.uid] = PodEntry(pod, self.sequence(), self.sequence())
        else:
            self._settle_eviction(entry, pod, listed)
            self._take_up_command(entry, pod)
            before = entry.pod.group_key
            self._unlink(entry.pod)
            entry.pod = pod
            if changed:
                entry.changed_at = self.sequence()
        model.pod_uids[pod.key] = pod.uid
        self.join(pod.uid, pod)
        self._settle_gang(pod.group_key)
        if before != pod.group_key:
            self._settle_gang(before)
        self._settle_placement(entry, listed)
        if pod.node:
            self._remember_time(pod)
        self._placing.book(entry)
        model.changes.group(pod.group_key)
        self._digest.set_late("pod", pod.uid, partial(pod_part, entry))

    def _settle_placement(self, entry: PodEntry, listed: bool) -> None:
        """See what the observation says of a decided placement: confirmed, still to come, or lost (F-4, A-17)."""
        pod = entry.pod
        if pod.node:
            entry.placement, entry.placement_id, entry.applied_version = None, "", ""
            entry.lost, entry.bind_failures = False, 0
            entry.book = entry.book.model_copy(update={"reason": "", "message": "", "cause": "", "nominated_node": ""})
            return
        entry.lost = entry.lost and self._waiting(pod.uid) is not None
        if entry.placement and entry.applied_version and (listed or newer(pod.version, entry.applied_version)):
            entry.placement, entry.placement_id, entry.applied_version = None, "", ""

    def _take_up_command(self, entry: PodEntry, pod: objects.Pod) -> None:
        """A Binding was seen and not reported yet, and a restore undid it: its command holds its place again (F-4).

        Else the pod would be decided on twice. A place that was free meanwhile, since the pod had ended or was somebody
        else's, may be another's: then the binder gives the command up, and the pod waits for that.
        """
        command = self._waiting(pod.uid) if entry.pod.node and not pod.node else None
        if command is None:
            return
        if entry.pod.annotations.get(names.DECISION) == command.id and not entry.pod.finished:
            entry.placement, entry.placement_id = command.bind, command.id
        else:
            entry.lost = True

    def _waiting(self, uid: str) -> Command | None:
        """Return the command that is to bind a pod."""
        return next((found for found in self._model.commands.values() if found.bind and found.bind.uid == uid), None)

    def _settle_eviction(self, entry: PodEntry, pod: objects.Pod, listed: bool) -> None:
        """An eviction that was applied is lost if its pod is not ending (any more): the server went back (F-4)."""
        if entry.evicting is None or pod.deleting or not (listed or entry.pod.deleting):
            return
        if not any(command.evict and command.evict.uid == pod.uid for command in self._model.commands.values()):
            entry.evicting = None

    def _remember_time(self, pod: objects.Pod) -> None:
        """Keep the node's newest vgpu-time, so that ours rise strictly (devices/A-8); served pods carry a sentinel."""
        text = pod.annotations.get(names.VGPU_TIME, "")
        if text.isascii() and text.isdigit() and len(text) < 12:
            last = self._model.last_vgpu_time
            last[pod.node] = max(last.get(pod.node, 0), int(text))
            self._digest.set("vgpu-time", pod.node, last[pod.node])

    def _settle_gang(self, key: str) -> None:
        """See whether a gang has its members, or none of them any more: then it begins anew (scheduling/F-2, F-9)."""
        entry, count = self._model.groups.get(key), self._on_nodes.get(key, 0)
        if entry is None:
            return
        complete = count > 0 and (entry.complete or count >= entry.group.min_member)
        if complete != entry.complete:
            entry.complete, entry.attempts = complete, 0
            self._digest.set_late("group", key, partial(group_part, entry))

    def _unlink(self, pod: objects.Pod) -> None:
        self._model.changes.group(pod.group_key)
        members = self._model.members.get(pod.group_key)
        if members is not None and pod.uid in members:
            members.discard(pod.uid)
            self._on_nodes[pod.group_key] -= bool(pod.node)
            if not members:
                del self._model.members[pod.group_key], self._on_nodes[pod.group_key]

    def _forget_pod(self, uid: str) -> None:
        model = self._model
        entry = model.pods.pop(uid, None)
        if entry is None:
            return
        self._unlink(entry.pod)
        self._settle_gang(entry.pod.group_key)
        if model.pod_uids.get(entry.pod.key) == uid:
            del model.pod_uids[entry.pod.key]
        self._placing.remove(uid)
        if model.promises.pop(uid, None) is not None:
            self._digest.set("promises", "", [promise.model_dump() for promise in model.promises.values()])
        for key in [key for key, command in model.commands.items() if _uid_of(command) == uid]:
            del model.commands[key]
            self._digest.set("command", key, None)
        self._digest.set("pod", uid, None)

    def _node(self, node: objects.Node, changed: bool) -> None:
        if changed:
            self._model.node_changed_at[node.name] = self.sequence()
        self._placing.set_node(node.name, node)

    def _group(self, group: objects.PodGroup, changed: bool) -> None:
        model = self._model
        entry = model.groups.get(group.key)
        if entry is None:
            book = GroupBook(phase=group.phase or "Pending", phase_since_ms=model.time_ms)
            entry = model.groups[group.key] = GroupEntry(group, self.sequence(), self.sequence(), book)
            entry.complete = group.phase in _COMPLETE_ONCE
        else:
            entry.group = group
            if changed:
                entry.changed_at = self.sequence()
        if self._on_nodes.get(group.key):
            self._settle_gang(group.key)  # who comes is asked for less now, or was there before its PodGroup
        model.changes.group(group.key)
        self._digest.set_late("group", group.key, partial(group_part, entry))

    def _config_map(self, key: str) -> None:
        namespace, name, _ = self._model.scope.scheduler_config
        self.configure(scheduler=key == f"{namespace}/{name}")

    def configure(self, *, scheduler: bool = True) -> None:
        """Bring the configuration in force in line with the ConfigMaps; a changed one rebuilds the books (N-16)."""
        if scheduler:
            scheduler_config_changed(self._model)
        env, warnings = device_env(self._model)
        self._model.device_warnings = warnings
        if env != self._model.env:
            self._model.env = env
            self._placing.rebuild()

    def objects(self, kind: str) -> Iterator[tuple[str, Json]]:
        """Yield the objects of a kind (``apiVersion/Kind``) by key, as they were last observed."""
        for (of, key), known in self._known.items():
            if of == kind:
                yield key, known.item

    def sequence(self) -> int:
        """Return the place of the record that is being folded."""
        return self._sequence

    def at(self, sequence: int) -> None:
        """Say at which place the next record stands."""
        self._sequence = sequence


def pod_part(entry: PodEntry) -> list[Any]:
    """Return what the digest says of a pod beyond its observation: everything that was decided of it."""
    return [
        entry.changed_at,
        entry.first_seen,
        spelled(entry.placement) if entry.placement else None,
        entry.placement_id,
        entry.applied_version,
        spelled(entry.evicting) if entry.evicting else None,
        spelled(entry.book),
        entry.bind_failures,
        entry.lost,
    ]


def group_part(entry: GroupEntry) -> list[Any]:
    """Return what the digest says of a PodGroup beyond its observation."""
    return [entry.changed_at, entry.first_seen, spelled(entry.book), entry.attempts, entry.complete]


def content_of(kind: str, item: Json) -> bytes:
    """Return the digest of what a decision may rest on."""
    return sha256(canonical.trusted(_relevant(kind, item))).digest()


def _uid_of(command: Any) -> str:
    return str((command.bind or command.evict).uid)


def _relevant(kind: str, item: Json) -> Json:
    """Return what a decision may rest on: node locks are the binder's matter and overtake nothing."""
    if kind == "PodGroup":
        return {key: value for key, value in item.items() if key != "status"}
    if kind != "Node":
        return item
    meta = item.get("metadata", {})
    annotations = {key: value for key, value in meta.get("annotations", {}).items() if key not in _LOCKS}
    return {**item, "metadata": {**meta, "annotations": annotations}}
