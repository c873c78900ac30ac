"""Snapshots: the whole folded state as bytes, and back.

A snapshot makes a rebuild faster and proves nothing: the log wins (design section 3). It is lines of canonical JSON:
first what kind of bytes follow, with their digest and the state's, then the small parts, then a line for each object,
pod, PodGroup, node and command, in the order in which the state holds them, so that everything that is ever walked is
walked in the same order again. Objects stand there as they were observed, and are parsed and booked anew; so a
snapshot says nothing twice. ``load`` computes the state's digest afresh from what it built and refuses whatever does
not come to the digest that the snapshot names.

It is taken only right after a batch that counted, when no list is under way: a scheduler has one batch in flight, so no
batch to come can be based on a place before there, and the digests of earlier places are not needed any more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from typing import Any, Final, TypeVar

from events import canonical
from events.canonical import Json
from events.kinds import CONFIG_MAP, NODE, POD, POD_GROUP, PRIORITY_CLASS, QUEUE
from events.projection import Scope
from events.records import EvictCommand, GroupBook, Member, PodBook, Promise
from scheduling import objects
from scheduling.config.model import ConfigReport
from scheduling.config.parse import default_config, parse
from scheduling.devices.books import rebuild
from scheduling.devices.request import node_request
from scheduling.nodes.view import NodeTask, NodeView
from scheduling.state.configuring import device_env
from scheduling.state.fold import Fold
from scheduling.state.model import Command, GroupEntry, Model, PodEntry, Term
from scheduling.state.observing import Known, content_of, group_part, pod_part
from scheduling.state.placing import held_by
from scheduling.status import TERMINAL

T = TypeVar("T")
_POD, _NODE, _POD_GROUP, _QUEUE, _PRIORITY_CLASS, _CONFIG_MAP = (
    f"{kind.api_version}/{kind.name}" for kind in (POD, NODE, POD_GROUP, QUEUE, PRIORITY_CLASS, CONFIG_MAP)
)

#: What these bytes are; another format, older or newer, is not read.
FORMAT: Final = "gpuledger/snapshot/3"
#: Parts of the state's digest that are there only once something was said.
_SAID: Final = ("promises", "search", "time")


class NotNow(Exception):
    """No snapshot can be taken at this place; the text says why."""


class Unusable(Exception):
    """These bytes are no snapshot that this program can stand on; the text says why."""


@dataclass(frozen=True, slots=True)
class Seen:
    """One object of a snapshot as it was last observed: for readers that need nothing else."""

    api_version: str
    kind: str
    key: str
    uid: str
    version: str
    term: int
    item: Json


# --- out ------------------------------------------------------------------------------------------------------------


def dump(fold: Fold) -> bytes:
    """Return the snapshot of a state. Raises NotNow."""
    if why := refusal(fold):
        raise NotNow(why)
    state = fold.digest()
    lines = [canonical.trusted(line) for line in _lines(fold)]
    head = {"format": FORMAT, "sha256": _digest_of(lines), "state": state}
    return b"\n".join([canonical.trusted(head), *lines, b""])


def refusal(fold: Fold) -> str:
    """Say why no snapshot can be taken here, or nothing if one can."""
    if not fold.anchored or not fold.ready:
        return "the state is not whole: the log has not begun, or not every kind is listed"
    if fold._observing._lists:
        return f"lists are under way: {', '.join(sorted(fold._observing._lists))}"
    if not fold.after_batch:
        return "the last record is not a batch that counts"
    if len(fold.model.pods) != sum(kind == _POD for kind, _ in fold._observing._known):
        return "there are pods without a uid of their own"
    return ""


def _lines(fold: Fold) -> Iterator[Any]:
    model = fold.model
    yield _small(fold)
    for (kind, key), known in fold._observing._known.items():
        yield ["object", kind, key, known.uid, known.version, known.term, known.item]
    for uid, pod in model.pods.items():
        yield ["pod", uid, pod.pod.key, _entry_of(pod)]
    for key, group in model.groups.items():
        yield [
            "group",
            key,
            [group.changed_at, group.first_seen, group.book.model_dump(), group.attempts, group.complete],
        ]
    for name, view in model.nodes.items():
        yield ["node", name, model.node_changed_at.get(name), list(view.tasks), list(view.devices.claims)]
    for command in model.commands.values():
        yield ["command", command.id, _plain(command.bind), _plain(command.evict), command.group]


def _small(fold: Fold) -> Json:
    model, report = fold.model, fold.model.config_report
    return {
        "sequence": fold.sequence, "begins": fold.begins, "aside": fold.aside, "diverged": fold.diverged,
        "jump_ms": fold._jump_ms, "last_batch": fold._decisions._last_batch,
        "cluster": model.cluster, "incarnation": model.incarnation, "time_ms": model.time_ms,
        "terms": {role: [term.number, term.writer, term.next_record] for role, term in model.terms.items()},
        "scope": [list(part) for part in (model.scope.scheduler_names, *model.scope.config_maps)],
        "listed": sorted(model.listed), "gone": sorted(fold._observing._gone),
        "config": "none" if model.config is None else "accepted" if model.config_accepted else "default",
        "config_text": model.config_text, "config_seen": model.config_seen, "config_accepted": model.config_accepted,
        "config_report": [report.config is not None, list(report.errors), list(report.warnings)],
        "promises": [promise.model_dump() for promise in model.promises.values()],
        "search_start": model.search_start, "decided": model.decided,
        "vgpu_time": [[name, seconds] for name, seconds in model.last_vgpu_time.items()],
        "said": [name for name in _SAID if fold._digest.has(name, "")],
    }  # fmt: skip


def _entry_of(entry: PodEntry) -> list[Any]:
    return [
        entry.changed_at, entry.first_seen, _plain(entry.placement), entry.placement_id, entry.applied_version,
        _plain(entry.evicting), entry.book.model_dump(), entry.bind_failures, entry.lost,
    ]  # fmt: skip


def _plain(part: Member | EvictCommand | None) -> Json | None:
    return part.model_dump(exclude_defaults=True) if part is not None else None


def _digest_of(lines: list[bytes]) -> str:
    digest = sha256()
    for line in lines:
        digest.update(line)
        digest.update(b"\n")
    return digest.hexdigest()


# --- in -------------------------------------------------------------------------------------------------------------


def load(data: bytes) -> Fold:
    """Return the state that a snapshot holds, ready to fold what comes after it. Raises Unusable."""
    return _guarded(lambda: _Loading(*_read(data)).fold())


#: A pod's key and uid, what became of it ("bind", "evict", or "lost": neither), and the version that the report names.
Reported = tuple[str, str, str, str]


def seen_in(data: bytes) -> tuple[Json, list[Seen], list[Reported]]:
    """Return the small parts, every object, and what the binder reported and was perhaps not observed yet.

    For a reader that compares observations and decides nothing. Raises Unusable.
    """

    def read() -> tuple[Json, list[Seen], list[Reported]]:
        _, lines = _read(data)
        found: list[Seen] = []
        reported: list[Reported] = []
        commands = [line for line in lines[1:] if line[0] == "command"]
        binding, evicting = ({line[place]["uid"] for line in commands if line[place]} for place in (2, 3))
        for line in lines[1:]:
            if line[0] == "object":
                api_version, _, kind = line[1].rpartition("/")
                found.append(Seen(api_version, kind, *line[2:]))
            elif line[0] == "pod":
                _, uid, key, (_, _, _, _, version, evicted, _, _, lost) = line
                if evicted and uid not in evicting:
                    reported.append((key, uid, "evict", ""))
                elif lost and uid not in binding:
                    reported.append((key, uid, "lost", ""))
                elif version:
                    reported.append((key, uid, "bind", version))
        return lines[0], found, reported

    return _guarded(read)


def _guarded(read: Callable[[], T]) -> T:
    """What is wrong with foreign bytes in whatever way is one kind of error."""
    try:
        return read()
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError) as error:
        raise Unusable(f"the snapshot is damaged: {type(error).__name__}: {str(error)[:200]}") from error


def _read(data: bytes) -> tuple[str, list[Any]]:
    """Return the state's digest and the lines, their own digest checked."""
    first, _, rest = data.partition(b"\n")
    head = json.loads(first)
    if not isinstance(head, dict) or head.get("format") != FORMAT:
        found = head.get("format") if isinstance(head, dict) else head
        raise Unusable(f"the snapshot's format is {str(found)[:60]!r}, this program reads {FORMAT!r}")
    if sha256(rest).hexdigest() != head["sha256"]:
        raise Unusable("the snapshot is damaged: its bytes do not have the digest that it names")
    return str(head["state"]), [json.loads(line) for line in rest.splitlines()]


class _Loading:
    """Builds a fold from the lines of a snapshot."""

    def __init__(self, state: str, lines: list[Any]) -> None:
        self._state, self._small = state, lines[0]
        self._lines: dict[str, list[Any]] = {name: [] for name in ("object", "pod", "group", "node", "command")}
        for line in lines[1:]:
            self._lines[line[0]].append(line[1:])
        self._fold = Fold()
        self._model: Model = self._fold.model
        self._digest = self._fold._digest
        self._items: dict[str, dict[str, Known]] = {}

    def fold(self) -> Fold:
        self._beginnings()
        self._observed()
        self._configuration()
        self._pods()
        self._groups()
        self._nodes()
        self._decisions()
        found = self._fold.digest()
        if found != self._state:
            raise Unusable(f"the snapshot does not come to its state: {found[:16]} instead of {self._state[:16]}")
        return self._fold

    def _beginnings(self) -> None:
        fold, model, small = self._fold, self._model, self._small
        fold.sequence, fold.begins = small["sequence"], small["begins"]
        fold.aside, fold.diverged, fold._jump_ms = small["aside"], small["diverged"], small["jump_ms"]
        fold._batch_end = fold.sequence
        model.cluster, model.incarnation, model.time_ms = small["cluster"], small["incarnation"], small["time_ms"]
        self._digest.set("log", "", [model.cluster, model.incarnation])
        if "time" in small["said"]:
            self._digest.set("time", "", model.time_ms)
        for role, term in small["terms"].items():
            model.terms[role] = Term(*term)
            self._digest.set("term", role, term)
        served, scheduler, devices = (tuple(part) for part in small["scope"])
        fold._observing.serve(Scope(served, scheduler, devices))
        model.listed.update(small["listed"])
        self._digest.set("listed", "", small["listed"])

    def _observed(self) -> None:
        observing = self._fold._observing
        observing._gone.update(self._small["gone"])
        observing.at(self._fold.sequence - 1)
        for kind, key, uid, version, term, item in self._lines["object"]:
            name = kind.rpartition("/")[2]
            content = content_of(name, item)
            known = observing._known[(kind, key)] = Known(uid, version, term, content, item)
            self._digest.set(kind, key, [uid, version, term, content.hex()])
            self._items.setdefault(kind, {})[key] = known
            self._plain_object(kind, name, key, known)

    def _plain_object(self, kind: str, name: str, key: str, known: Known) -> None:
        """Objects that nothing was decided of."""
        model = self._model
        if kind == _QUEUE:
            model.queues[key] = objects.queue(known.item, known.version)
        elif kind == _PRIORITY_CLASS:
            model.priority_classes[key] = objects.priority_class(known.item, known.version)
        elif kind == _CONFIG_MAP:
            model.config_maps[key] = objects.config_map(known.item, known.version)
        elif kind not in (_POD, _NODE, _POD_GROUP):
            model.others.setdefault(name, {})[key] = objects.other(known.item, known.version)

    def _configuration(self) -> None:
        model, small = self._model, self._small
        which = small["config"]
        model.config_text, model.config_seen = small["config_text"], small["config_seen"]
        model.config_accepted = small["config_accepted"]
        model.config = (
            None if which == "none" else default_config() if which == "default" else parse(model.config_text).config
        )
        held, errors, warnings = small["config_report"]
        model.config_report = ConfigReport(model.config if held else None, tuple(errors), tuple(warnings))
        model.env, model.device_warnings = device_env(model)

    def _pods(self) -> None:
        model = self._model
        known = self._items.get(_POD, {})
        for uid, key, parts in self._lines["pod"]:
            seen = known[key]
            pod = objects.pod(seen.item, seen.version)
            changed, first, placement, placement_id, applied, evicting, book, failures, lost = parts
            entry = model.pods[uid] = PodEntry(
                pod, changed, first, Member(**placement) if placement else None, placement_id, applied,
                EvictCommand(**evicting) if evicting else None, PodBook(**book), failures, lost,
            )  # fmt: skip
            model.pod_uids[pod.key] = uid
            self._fold._observing.join(uid, pod)
            self._digest.set_late("pod", uid, partial(pod_part, entry))

    def _groups(self) -> None:
        known = self._items.get(_POD_GROUP, {})
        for key, (changed, first, book, attempts, complete) in self._lines["group"]:
            group = objects.pod_group(known[key].item, known[key].version)
            entry = self._model.groups[key] = GroupEntry(group, changed, first, GroupBook(**book), attempts, complete)
            self._digest.set_late("group", key, partial(group_part, entry))

    def _nodes(self) -> None:
        """The books, built from nothing but their sources (devices/A-14), what is on them in the order that it had."""
        model, known = self._model, self._items.get(_NODE, {})
        for name, changed, tasks, claims in self._lines["node"]:
            if changed is not None:
                model.node_changed_at[name] = changed
            seen = known.get(name)
            node = objects.node(seen.item, seen.version) if seen else None
            on_it = {uid: self._task(model.pods[uid]) for uid in tasks}
            held = [claim for uid in claims if (claim := held_by(model.pods[uid], model.env)) is not None]
            live = sum(item.status not in TERMINAL for item in on_it.values())
            if len(held) != len(claims) or len(claims) > live:
                raise Unusable(f"the snapshot's node {name} has claims of pods that hold nothing")
            model.nodes[name] = NodeView(name, node, on_it, rebuild(name, model.env, node, held))
            self._fold._placing._where.update(dict.fromkeys(tasks, name))

    def _task(self, entry: PodEntry) -> NodeTask:
        return NodeTask(entry.pod, node_request(entry.pod, self._model.env), entry.status)

    def _decisions(self) -> None:
        model, small = self._model, self._small
        self._fold._decisions._last_batch = small["last_batch"]
        model.decided, model.search_start = small["decided"], small["search_start"]
        self._digest.set("decided", "", [True, small["last_batch"]])
        if "search" in small["said"]:
            self._digest.set("search", "", model.search_start)
        promises = [Promise(**promise) for promise in small["promises"]]
        model.promises.update({promise.uid: promise for promise in promises})
        if "promises" in small["said"]:
            self._digest.set("promises", "", [promise.model_dump() for promise in promises])
        model.last_vgpu_time.update((name, seconds) for name, seconds in small["vgpu_time"])
        for name, seconds in small["vgpu_time"]:
            self._digest.set("vgpu-time", name, seconds)
        for name, bind, evict, group in self._lines["command"]:
            command = Command(name, Member(**bind) if bind else None, EvictCommand(**evict) if evict else None, group)
            model.commands[name] = command
            effect = command.bind or command.evict
            self._digest.set("command", name, effect.uid if effect else "")
