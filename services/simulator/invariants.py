"""The invariants (scenario format, *Invariants*; design section 12), judged after every settle on the cluster's truth.

Some of them forgive what nobody decided: a card whose registration shrank, a gang that lost a member, a rule that came
later. So the judge remembers what it saw at the last look, and holds against the scheduler only what it decided since.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from events import names
from events.canonical import Json
from events.kinds import NODE, POD, POD_GROUP, QUEUE
from scheduling import resources
from scheduling.devices.arguments import Rule, matching, rule_id
from scheduling.devices.record import Share
from scheduling.devices.register import HAMI_CORE, CardSpec
from scheduling.devices.request import demand_of
from scheduling.objects import Pod
from scheduling.objects import pod as parse_pod
from scheduling.objects import pod_group as parse_group
from scheduling.objects import queue as parse_queue
from scheduling.state.model import Model
from services.simulator import truth
from services.simulator.faults import BinderApi
from services.simulator.inspector import Inspector
from services.simulator.truth import Truth


@dataclass(frozen=True)
class Held:
    """One share of a live pod on a card of a node."""

    pod: Pod
    share: Share
    memory: int


@dataclass
class Look:
    """One look at the cluster: live assigned pods, what they hold by (node, card), and the registered cards."""

    pods: list[Pod] = field(default_factory=list)
    waiting: list[Pod] = field(default_factory=list)
    held: dict[tuple[str, str], list[Held]] = field(default_factory=lambda: defaultdict(list))
    cards: dict[tuple[str, str], CardSpec] = field(default_factory=dict)


def look(cluster: Truth, model: Model) -> Look:
    """Take a look at the API server's objects."""
    found = Look()
    for node in cluster.store.items(NODE):
        name = node["metadata"]["name"]
        found.cards |= {(name, uuid): card for uuid, card in truth.card_specs(node).items()}
    for item in cluster.store.items(POD):
        pod = parse_pod(item)
        if not pod.node:
            found.waiting.append(pod)
            continue
        found.pods.append(pod)
        for share in truth.shares(item) if not pod.finished else ():
            place = (pod.node, share.uuid)
            part = truth.slice_of(share, found.cards.get(place), model.env)
            memory = part.memory // model.env.config.factor if part else share.memory
            found.held[place].append(Held(pod, share, memory))
    return found


class Invariants:
    """Judges the invariants look after look. ``breaches`` keeps every breach by the invariant's name."""

    def __init__(self, cluster: Truth, binder: BinderApi, inspector: Inspector) -> None:
        self._truth, self._binder, self._inspector = cluster, binder, inspector
        self.breaches: dict[str, list[str]] = {}
        self._bound_before: set[str] = set()
        self._planned_before: set[str] = set()
        self._rules: set[Rule] = set()
        self._excused_pairs: set[tuple[str, str]] = set()
        self._ever_bound: dict[str, set[str]] = defaultdict(set)
        self._complete: set[str] = set()

    def check(self, place: str, model: Model) -> None:
        """Judge everything at a place of the run (``steps[5]``)."""
        seen = look(self._truth, model)
        ours = {pod.uid for pod in seen.pods if self._ours(pod.uid)}
        fresh = ours - self._bound_before - self._planned_before
        judges: dict[str, Iterator[str]] = {
            "no-oversubscription": self._oversubscription(seen, fresh),
            "one-bind-per-pod": self._one_bind(),
            "gang-atomic": self._gangs(seen, model),
            "queue-cap": self._queue_cap(seen, model, fresh),
            "annotation-matches-node": self._annotations(seen, model),
            "no-dead-node-binding": self._dead_nodes(),
            "exclusive-rule": self._exclusive(seen, model, fresh),
            "pending-has-no-claim": self._pending(seen, model),
            "released": self._released(seen, model),
            "placement-on-log": self._placements(),
        }
        for name, found in judges.items():
            for text in found:
                self.report(name, place, text)
        self._bound_before |= ours
        self._planned_before = {uid for uid, entry in model.pods.items() if entry.placement}

    def report(self, name: str, place: str, text: str) -> None:
        """Keep a breach; the same one is not said again at a later place."""
        said = self.breaches.setdefault(name, [])
        if not any(old.endswith(f": {text}") for old in said):
            said.append(f"after {place}: {text}")

    def _ours(self, uid: str) -> bool:
        return self._truth.bindings(uid) > 0

    # --- cards ---

    def _oversubscription(self, seen: Look, fresh: set[str]) -> Iterator[str]:
        for place, held in seen.held.items():
            card = seen.cards.get(place)
            newcomers = sorted({item.pod.key for item in held if item.pod.uid in fresh})
            if card is None or not newcomers:
                continue
            for what, used, limit in (
                ("memory", sum(item.memory for item in held), card.memory),
                ("cores", sum(item.share.cores for item in held), 100),
                ("shares", len(held), card.shares),
            ):
                if used > limit:
                    yield f"{place[1]} on {place[0]}: {what} {used} of {limit} held, newly by {', '.join(newcomers)}"
            yield from _shared_slices(place, held, fresh)

    def _exclusive(self, seen: Look, model: Model, fresh: set[str]) -> Iterator[str]:
        rules = model.env.args.rules
        came = set(rules) - self._rules
        self._rules = set(rules)
        for place, held in seen.held.items():
            card = seen.cards.get(place)
            if card is None or card.mode != HAMI_CORE:
                continue
            for rule in rules:
                pods = {item.pod.uid: item.pod for item in held if rule in matching(rules, item.pod.labels)}
                for pair in _pairs(sorted(pods)):
                    if rule in came and not fresh & set(pair):
                        self._excused_pairs.add(pair)
                    if pair not in self._excused_pairs and fresh & set(pair):
                        both = " and ".join(pods[uid].key for uid in pair)
                        yield f"{both} share {place[1]} on {place[0]} against the rule {rule_id(rule)}"

    def _released(self, seen: Look, model: Model) -> Iterator[str]:
        holders = {place for place, held in seen.held.items() if held}
        for name in sorted(model.nodes):
            devices = model.nodes[name].devices
            for uuid in (*devices.books, *devices.orphans):
                planned = any(
                    entry.placement and entry.placement.node == name and uuid in entry.placement.allocation
                    for entry in model.pods.values()
                )
                for what, amount in zip(("usedSlots", "usedMem", "usedCores"), devices.held(uuid), strict=True):
                    if amount < 0:
                        yield f"{uuid} {what} {amount} is below 0"
                    elif amount and (name, uuid) not in holders and not planned:
                        yield f"{uuid} {what} {amount} without a holder"

    # --- bindings ---

    def _one_bind(self) -> Iterator[str]:
        for uid, bindings in self._truth.store.bindings.items():
            if len(bindings) > 1:
                yield f"pod with uid {uid} was bound {len(bindings)} times"

    def _dead_nodes(self) -> Iterator[str]:
        for uid, bindings in self._truth.store.bindings.items():
            for binding in bindings:
                if not binding.node_existed:
                    yield f"pod with uid {uid} was bound to node {binding.node}, which did not exist"

    def _placements(self) -> Iterator[str]:
        """Each Binding of ours has exactly one placement on the log, with the same node and devices (design 12)."""
        for binding in self._binder.bound:
            notes = binding["metadata"].get("annotations") or {}
            there = (binding["metadata"].get("uid"), binding["target"]["name"], notes.get(names.VGPU_IDS, ""))
            found = self._inspector.placements.get(notes.get(names.DECISION, ""), [])
            if [(member.uid, member.node, member.allocation) for member in found] != [there]:
                yield f"pod {binding['metadata']['name']} was bound to {there[1]} by no placement on the log"
        if self._inspector.diverged:
            yield f"{self._inspector.diverged} batches were based on another state than the log's"

    def _annotations(self, seen: Look, model: Model) -> Iterator[str]:
        for pod in seen.pods:
            if not self._ours(pod.uid) or demand_of(pod, model.env).kind != "vgpu":
                continue
            there = truth.cards(self._truth.pod(pod.key))
            node = pod.annotations.get(names.VGPU_NODE)
            if not there:
                yield f"pod {pod.key} is bound to {pod.node} without an allocation record"
            elif node != pod.node:
                yield f"pod {pod.key} is bound to {pod.node}, its {names.VGPU_NODE} is {node}"
            elif strange := set(there) - self._binder.cards_at_binding.get(pod.uid, frozenset(there)):
                yield f"pod {pod.key}: {', '.join(sorted(strange))} did not belong to {pod.node} when it was bound"

    def _pending(self, seen: Look, model: Model) -> Iterator[str]:
        for pod in seen.waiting:
            entry = model.pods.get(pod.uid)
            if entry is not None and entry.placement is not None:
                continue
            for view in model.nodes.values():
                if pod.uid in view.devices.claims:
                    yield f"pod {pod.key} waits and holds a claim on node {view.name}"
        yield from self._binder.claims_written

    # --- groups and queues ---

    def _gangs(self, seen: Look, model: Model) -> Iterator[str]:
        if not _gangs_count(model):
            return
        members: dict[str, list[Pod]] = defaultdict(list)
        for pod in (*seen.pods, *seen.waiting):
            members[pod.group_key].append(pod)
        for item in self._truth.store.items(POD_GROUP):
            group = parse_group(item)
            bound = {pod.uid for pod in members[group.key] if pod.node}
            # A pending pod that asks for nothing counts as ready (scheduling/PG-10).
            ready = len(bound) + sum(
                not pod.node and resources.is_best_effort(pod.request) for pod in members[group.key]
            )
            lost = self._ever_bound[group.uid] - bound
            self._ever_bound[group.uid] |= bound
            if ready >= group.min_member:
                self._complete.add(group.uid)
            elif not bound:
                self._complete.discard(group.uid)
            elif not lost and group.uid not in self._complete and not _on_its_way(group.key, model):
                yield f"PodGroup {group.key}: {len(bound)} of minMember {group.min_member} bound"

    def _queue_cap(self, seen: Look, model: Model, fresh: set[str]) -> Iterator[str]:
        if model.config is None or not (model.config.plugin("proportion") or model.config.plugin("capacity")):
            return
        charged: dict[str, resources.Vector] = {}
        newcomers: dict[str, list[str]] = defaultdict(list)
        for pod in seen.pods:
            group = self._truth.group(pod.group_key) if pod.group_key else None
            if group is None or pod.finished or pod.deleting or not model.ours(pod):
                continue
            queue = parse_group(group).queue
            charged[queue] = resources.add(charged.get(queue, resources.EMPTY), _charge(pod, model))
            if pod.uid in fresh:
                newcomers[queue].append(pod.key)
        for item in self._truth.store.items(QUEUE):
            name = item["metadata"]["name"]
            if name in newcomers:
                yield from _above(item, charged[name], newcomers[name])


def _above(item: Json, charged: resources.Vector, newcomers: list[str]) -> Iterator[str]:
    """A cpu or memory of zero in a capability is no limit (scheduling/Q-10)."""
    queue = parse_queue(item)
    limits = resources.vector(queue.capability or {})
    for resource in sorted(limits):
        unlimited = resource in ("cpu", "memory") and not limits[resource]
        if not unlimited and charged.get(resource, 0) > limits[resource]:
            used, cap = charged.get(resource, 0), limits[resource]
            yield f"queue {queue.name}: {resource} {used} of {cap} charged, newly by {', '.join(newcomers)}"


def _charge(pod: Pod, model: Model) -> resources.Vector:
    view = model.nodes.get(pod.node)
    exact = view.devices.charge(pod.uid) if view else None
    return exact if exact is not None else pod.request


def _shared_slices(place: tuple[str, str], held: list[Held], fresh: set[str]) -> Iterator[str]:
    holders: dict[str, list[Held]] = defaultdict(list)
    for item in held:
        if item.share.suffix:
            holders[item.share.suffix].append(item)
    for suffix, items in holders.items():
        if len(items) > 1 and any(item.pod.uid in fresh for item in items):
            yield f"{place[1]}{suffix} on {place[0]} is held by {' and '.join(item.pod.key for item in items)}"


def _pairs(uids: list[str]) -> Iterator[tuple[str, str]]:
    for index, first in enumerate(uids):
        for second in uids[index + 1 :]:
            yield first, second


def _gangs_count(model: Model) -> bool:
    """Without the gang plugin pods are bound one by one (scheduling/PG-10)."""
    option = model.config.plugin("gang") if model.config else None
    return option is not None and option.on("enableJobReady")


def _on_its_way(group: str, model: Model) -> bool:
    """Members are being placed anew, or their bindings are not answered yet (design section 12)."""
    entry = model.groups.get(group)
    return bool(entry and entry.attempts) or any(command.group == group for command in model.commands.values())
