"""The invariants of design section 12, judged after every step on what the API server holds.

What is held against the services is what they did: a pod is judged when it becomes bound, against everything that is
bound then, and against what its node was known to have when the decision took its place on the log. A card that shrank
later, or of which nobody had told yet, is nobody's fault. Bindings come in any order: if there was room for a later
decision, whose pod is there already, by what that one knew, the late Binding of an earlier one is right as well. So it
is for cards, nodes and the sums of queues alike. A pod exceeds nothing of what it does not ask for.

A restore of the API server to an older state undoes what was written since: Bindings, deletions, the ends of pods, the
fences of commands that were given up. What it brought back counts against a decision only once the log had told of it
(of a pod that had ended: that it runs again), and a request of a command that had ended before, by a process that slept
through it all, is not held against anybody.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial

from events import names
from events.kinds import POD, POD_GROUP
from scheduling import resources
from scheduling.devices.arguments import matching, rule_id
from scheduling.devices.record import Share, decode
from scheduling.devices.register import HAMI_CORE, CardSpec
from scheduling.objects import Pod
from scheduling.objects import pod as parse_pod
from scheduling.objects import pod_group as parse_group
from services.simulator import truth
from services.simulator.chaos.inspecting import Decision
from services.simulator.chaos.refolding import Refolding
from services.simulator.chaos.world import World

#: Says what is too much of what some pods hold, by what a decision knew.
Measure = Callable[[Decision, "list[Seen]"], Iterator[str]]

_ASKED = "volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"
_LEGACY_MEMORY, _LEGACY_NUMBER = "volcano.sh/gpu-memory", "volcano.sh/gpu-number"


@dataclass
class Seen:
    """One pod as it was parsed at one resource version."""

    version: str
    pod: Pod
    shares: tuple[Share, ...]
    fresh: bool = False


@dataclass
class Judge:
    """Looks after every step. ``breaches`` are what did not hold, each said once."""

    world: World
    breaches: list[str] = field(default_factory=list)
    bound: int = 0

    def __post_init__(self) -> None:
        self._seen: dict[str, Seen] = {}
        self._judged: set[str] = set()
        self._bound_by: dict[str, str] = {}
        self._version = -1
        self._restores = 0
        self._came_back: set[str] = set()
        self._ended: set[str] = set()
        self.complete: set[str] = set()
        self._minimum: dict[str, int] = {}
        self._when_first_bound: dict[str, set[str]] = {}
        self._known_at_first: dict[str, set[str]] = {}
        self.ever_bound: dict[str, set[str]] = defaultdict(set)
        self._refolding = Refolding(self.world.log, self.world.codec)

    def look(self) -> None:
        """Judge the world as it is now."""
        if self.world.store.restores != self._restores:
            self._went_back()
        elif self.world.store.version == self._version:
            return
        self._version = self.world.store.version
        fresh = self._read()
        if fresh:
            self.world.inspect()
            for text in self._all(fresh):
                self._say(text)
        for name in sorted(self.world.inspector.state.refused & self._bound_by.keys() - self._ended):
            self._say(f"7: the refusal of {name} is on the log, and pod {self._bound_by[name]} is bound by it")
        for text in self._evicted():
            self._say(text)
        self._remember_gangs()
        for text in self._refolding.look(self.world.snapshot):
            self._say(text)

    def _went_back(self) -> None:
        """An older state has come back: who is bound in it was judged when he became so."""
        self._restores = self.world.store.restores
        self.world.inspect()
        state = self.world.inspector.state
        self._ended |= state.decisions.keys() - state.model.commands.keys()
        held = {uid for uid, seen in self._seen.items() if seen.pod.node and not seen.pod.finished}
        self._seen.clear()
        self._read()
        bound = {uid: seen for uid, seen in self._seen.items() if seen.pod.node}
        self._judged = set(bound)
        self._came_back = self._came_back & bound.keys() | bound.keys() - held
        self._bound_by = {seen.pod.annotations.get(names.DECISION, ""): seen.pod.key for seen in bound.values()}
        # Of a gang that came back with a part of it bound nobody may know any more whether it was complete.
        groups = {seen.pod.group_key for seen in bound.values()}
        came = [item["metadata"] for item in self.world.store.items(POD_GROUP)]
        self.complete |= {meta["uid"] for meta in came if f"{meta['namespace']}/{meta['name']}" in groups}

    def _say(self, text: str) -> None:
        if text not in self.breaches:
            self.breaches.append(text)

    def _read(self) -> list[Seen]:
        """Parse what is new, and return the pods that are bound since the last look."""
        found: dict[str, Seen] = {}
        fresh: list[Seen] = []
        for item in self.world.store.items(POD):
            meta = item["metadata"]
            uid, version = meta["uid"], meta["resourceVersion"]
            seen = self._seen.get(uid)
            if seen is None or seen.version != version:
                text = (meta.get("annotations") or {}).get(names.VGPU_IDS, "")
                seen = Seen(version, parse_pod(item), decode(text).shares if item["spec"].get("nodeName") else ())
            found[uid] = seen
            if seen.pod.node and uid not in self._judged:
                self._judged.add(uid)
                fresh.append(seen)
        self._seen = found
        return [seen for seen in fresh if seen.pod.uid in self.world.store.bindings]

    def _all(self, fresh: list[Seen]) -> Iterator[str]:
        self.bound += len(fresh)
        for seen in fresh:
            pod = seen.pod
            if len(self.world.store.bindings[pod.uid]) > 1:
                yield f"7: pod {pod.key} {pod.uid} was bound {len(self.world.store.bindings[pod.uid])} times"
            decision = self.world.inspector.state.decisions.get(pod.annotations.get(names.DECISION, ""))
            self._bound_by[pod.annotations.get(names.DECISION, "")] = pod.key
            if pod.annotations.get(names.DECISION, "") in self._ended:
                self._came_back.add(pod.uid)
                continue
            if decision is None or not _agrees(seen, decision):
                said = pod.annotations.get(names.DECISION, "none")
                yield f"5: pod {pod.key} is bound to {pod.node} by decision {said}, which does not stand on the log"
                continue
            yield from self._asked(seen)
            yield from self._node(seen, decision)
            yield from self._devices(seen, decision)
            yield from self._legacy(seen, decision)
            yield from self._queue(seen, decision)

    def _on(self, node: str) -> list[Seen]:
        return [seen for seen in self._seen.values() if seen.pod.node == node and not seen.pod.finished]

    def _held(self, decision: Decision, there: Iterable[Seen]) -> list[Seen]:
        """Return those who hold something, as far as a decision could know."""
        unknown = self._came_back - decision.holding
        return [seen for seen in there if seen.pod.uid not in unknown]

    def _exceeded(self, decision: Decision, there: list[Seen], measure: Measure) -> Iterator[str]:
        """Yield what is too much as this decision knew it, and every later one whose pod is there, too.

        Of these each found room beside those before it, so the latest is right, whichever Binding was made last: what
        was registered may have changed between them, and a pod that this one knew have ended, and come back.
        """
        found = [
            next(measure(known, self._held(known, there)), "") for known in (decision, *self._later(decision, there))
        ]
        if all(found):
            yield found[0]

    def _later(self, decision: Decision, there: Iterable[Seen]) -> Iterator[Decision]:
        """Yield the decisions after this one whose pods are among those that are there."""
        for seen in there:
            later = self.world.inspector.state.decisions.get(seen.pod.annotations.get(names.DECISION, ""))
            if later is not None and later.place > decision.place and later.member.uid == seen.pod.uid:
                yield later

    # --- 7: who makes way ---

    def _evicted(self) -> Iterator[str]:
        """A binder deletes nobody but those that a decision on the log says make way (scheduling/F-7)."""
        if self.world.noted.deleted:
            self.world.inspect()
        for key, uid in self.world.noted.deleted:
            if uid not in self.world.inspector.state.evicted:
                yield f"7: pod {key} {uid} was deleted, though no eviction that stands names it"
        self.world.noted.deleted.clear()

    # --- 5: what was asked for ---

    def _asked(self, fresh: Seen) -> Iterator[str]:
        """A pod holds what its containers ask for: else it is a lie that a card has room for it."""
        for place, container in enumerate(fresh.pod.containers):
            mine = [share for share in fresh.shares if share.container == place]
            limits = resources.vector(container.limits)
            wanted = {name: limits[name] // 1000 for name in _ASKED if name in limits}
            number, memory, cores = (wanted.get(name, -1) for name in _ASKED)
            if len(mine) != max(number, 0):
                yield f"5: pod {fresh.pod.key}: container {place} asks for {max(number, 0)} cards and has {len(mine)}"
            for share in mine:
                if memory >= 0 and share.memory != memory:
                    yield f"5: pod {fresh.pod.key}: container {place} asks for memory {memory}, has {share.memory}"
                if cores >= 0 and share.cores != cores:
                    yield f"5: pod {fresh.pod.key}: container {place} asks for cores {cores}, has {share.cores}"

    # --- 1 and 2: cards ---

    def _devices(self, fresh: Seen, decision: Decision) -> Iterator[str]:
        for uuid in sorted({share.uuid for share in fresh.shares}):
            card = decision.cards.get(uuid)
            if card is None:
                yield f"1: pod {fresh.pod.key}: {uuid} does not belong to {fresh.pod.node}"
                continue
            there = [seen for seen in self._on(fresh.pod.node) if any(share.uuid == uuid for share in seen.shares)]
            for what in ("memory", "cores", "shares"):
                yield from self._exceeded(decision, there, partial(self._card, fresh.pod.node, uuid, what))
            others = [seen for seen in self._held(decision, there) if seen is not fresh]
            mine = {share.suffix for share in fresh.shares if share.uuid == uuid and share.suffix}
            for other in others:
                if mine & {share.suffix for share in other.shares if share.uuid == uuid}:
                    yield f"1: {uuid} on {fresh.pod.node}: a slice is held twice, by {_who([fresh, other])}"
                if _cuts([fresh], uuid) and len(_cuts([fresh, other], uuid)) > 1:
                    yield f"1: {uuid} on {fresh.pod.node} is cut in two ways, for {_who([fresh, other])}"
            yield from self._exclusive(fresh, card, others)

    def _card(self, node: str, uuid: str, what: str, known: Decision, held: list[Seen]) -> Iterator[str]:
        shares = [share for seen in held for share in seen.shares if share.uuid == uuid]
        card = known.cards.get(uuid)
        env = self.world.inspector.state.model.env
        if card is None:
            used, limit = len(shares), 0
        elif what == "memory":
            parts = [(share, truth.slice_of(share, card, env)) for share in shares]
            used = sum(part.memory // env.config.factor if part else share.memory for share, part in parts)
            limit = card.memory
        elif what == "cores":
            used, limit = sum(share.cores for share in shares), 100
        else:
            used, limit = len(shares), card.shares
        if used > limit:
            yield f"1: {uuid} on {node}: {what} {used} of {limit} held by {_who(held)}"

    def _exclusive(self, fresh: Seen, card: CardSpec, others: list[Seen]) -> Iterator[str]:
        if card.mode != HAMI_CORE:
            return
        rules = self.world.inspector.state.model.env.args.rules
        for rule in matching(rules, fresh.pod.labels):
            for other in others:
                if rule in matching(rules, other.pod.labels):
                    yield f"2: {_who([fresh, other])} share {card.uuid} on {fresh.pod.node} against {rule_id(rule)}"

    def _legacy(self, fresh: Seen, decision: Decision) -> Iterator[str]:
        """Legacy sharing: a pod holds memory of the one card whose index it was given (devices/G-4, G-7)."""
        index = decision.member.gpu_index
        if not index.isdecimal() or not int(decision.allocatable.get(_LEGACY_NUMBER, "0")):
            return
        there = [seen for seen in self._on(fresh.pod.node) if seen.pod.annotations.get(names.GPU_INDEX) == index]

        def measure(known: Decision, held: list[Seen]) -> Iterator[str]:
            number = int(known.allocatable.get(_LEGACY_NUMBER, "0"))
            limit = int(known.allocatable.get(_LEGACY_MEMORY, "0")) // number if number else 0
            used = sum(seen.pod.request.get(_LEGACY_MEMORY, 0) for seen in held) // 1000
            if used > limit:
                yield f"1: legacy card {index} on {fresh.pod.node}: memory {used} of {limit} held"

        yield from self._exceeded(decision, there, measure)

    def _node(self, fresh: Seen, decision: Decision) -> Iterator[str]:
        """Who asks for none of something is placed on a node that has less than none as well (scheduling/F-8)."""
        for name in ("cpu", "memory", resources.PODS):
            if fresh.pod.request.get(name):
                there = [seen for seen in self._on(fresh.pod.node) if seen.pod.request.get(name)]
                yield from self._exceeded(decision, there, partial(_requested, fresh.pod.node, name))

    # --- 4: queues ---

    def _queue(self, fresh: Seen, decision: Decision) -> Iterator[str]:
        groups = {
            f"{item['metadata']['namespace']}/{item['metadata']['name']}": parse_group(item).queue
            for item in self.world.store.items(POD_GROUP)
        }
        queue = decision.queue
        if not decision.capability or not fresh.shares or groups.get(fresh.pod.group_key) != queue:
            return
        there = [
            seen
            for seen in self._seen.values()
            if seen.shares
            and not seen.pod.finished
            and not seen.pod.deleting
            and groups.get(seen.pod.group_key) == queue
        ]
        for name in ("volcano.sh/vgpu-number", "volcano.sh/vgpu-memory"):
            if name in decision.capability:
                yield from self._exceeded(decision, there, partial(_charged, fresh, queue, name))

    # --- 3: gangs ---

    def _remember_gangs(self) -> None:
        """Remember which gangs were complete once: what they lose later they may do without (F-9).

        One of which nobody is bound any more, since it was undone or a restore undid it, begins anew.
        """
        members: dict[str, list[Seen]] = defaultdict(list)
        for seen in self._seen.values():
            if seen.pod.group_key:
                members[seen.pod.group_key].append(seen)
        for item in self.world.store.items(POD_GROUP):
            meta = item["metadata"]
            uid, minimum = meta["uid"], int((item.get("spec") or {}).get("minMember") or 0)
            # What is asked for only after a gang was decided on does not tear it.
            minimum = self._minimum[uid] = min(minimum, self._minimum.get(uid, minimum))
            bound = {seen.pod.uid for seen in members.get(f"{meta['namespace']}/{meta['name']}", ()) if seen.pod.node}
            if not bound:
                self._forget_gang(uid)
            self.ever_bound[uid] |= bound
            if bound:
                known = [self.world.noted.known.get(pod, frozenset()) for pod in bound]
                self._known_at_first.setdefault(uid, set().union(*known))
                # One that failed is no member any more that counts, and is not replaced by the scheduler.
                there = {
                    seen.pod.uid
                    for seen in members[f"{meta['namespace']}/{meta['name']}"]
                    if seen.pod.phase != "Failed"
                }
                if self._when_first_bound.setdefault(uid, there) - there:
                    self.complete.add(uid)  # who lost a member after its first Binding may do without it (F-9)
            if len(self.ever_bound[uid]) >= minimum:
                self.complete.add(uid)

    def _forget_gang(self, uid: str) -> None:
        self.complete.discard(uid)
        for known in (self.ever_bound, self._when_first_bound, self._known_at_first):
            known.pop(uid, None)

    def torn_gangs(self) -> Iterable[str]:
        """Yield the gangs that are bound below minMember and never were complete; to be asked at rest.

        A member that was gone before the first Binding, without anybody having told the binder of it when it asked for
        that, counts as lost later: of the others' Bindings nobody is to blame. Nor of those for a PodGroup of which
        nobody had told, when they were decided on, that another one has its name.
        """
        for item in self.world.store.items(POD_GROUP):
            group = parse_group(item)
            there = [seen.pod for seen in self._seen.values() if seen.pod.group_key == group.key]
            bound = [pod for pod in there if pod.node]
            free = [pod for pod in there if not pod.node and resources.is_best_effort(pod.request)]
            if self._known_at_first.get(group.uid, set()) - {pod.uid for pod in there}:
                continue  # it lost members (F-9)
            if any(self._decided_for_another(pod, group.uid) for pod in bound):
                continue
            if (
                not all(pod.finished or pod.deleting for pod in bound)  # what is undone may wait for its node
                and len(bound) + len(free) < group.min_member
                and group.uid not in self.complete
            ):
                yield f"3: PodGroup {group.key}: {len(bound)} of minMember {group.min_member} bound"

    def _decided_for_another(self, pod: Pod, group_uid: str) -> bool:
        decision = self.world.inspector.state.decisions.get(pod.annotations.get(names.DECISION, ""))
        return decision is not None and decision.group_uid != group_uid


def _agrees(seen: Seen, decision: Decision) -> bool:
    pod, member = seen.pod, decision.member
    same = member.uid == pod.uid and member.node == pod.node
    return (
        same
        and member.allocation == pod.annotations.get(names.VGPU_IDS, "")
        and member.gpu_index == pod.annotations.get(names.GPU_INDEX, "")
    )


def _cuts(held: Iterable[Seen], uuid: str) -> set[str]:
    """Return the groups of the geometry that slices of a card belong to: it is cut in one way only (devices/F-17)."""
    shares = [share for seen in held for share in seen.shares if share.uuid == uuid and share.suffix]
    return {share.suffix.rpartition("-")[0] for share in shares}


def _who(held: Iterable[Seen]) -> str:
    return ", ".join(sorted({seen.pod.key for seen in held}))


def _requested(node: str, name: str, known: Decision, held: list[Seen]) -> Iterator[str]:
    """Say whether pods ask for more than their node was known to have."""
    used = sum(seen.pod.request[name] for seen in held)
    limit = resources.vector({name: known.allocatable.get(name, "0")})[name]
    if used > limit:
        yield f"1: node {node}: {name} {used} of {limit} requested by {_who(held)}"


def _charged(fresh: Seen, queue: str, name: str, known: Decision, held: list[Seen]) -> Iterator[str]:
    """Say whether pods hold more than their queue may have, by the cards that a decision knew."""
    shares = [share for seen in held for share in seen.shares if (seen.pod.node, share.uuid) in known.registered]
    used = len(shares) if name == "volcano.sh/vgpu-number" else sum(share.memory for share in shares)
    limit = int(known.capability.get(name, -1)) if known.queue == queue else -1  # without a limit it found no room
    if used > limit:
        yield f"4: queue {queue}: {name} {used} of {limit} held, newly by {fresh.pod.key}"
