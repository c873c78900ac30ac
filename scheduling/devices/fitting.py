"""Whether and where a pod fits on the cards of one node (devices/F-1 to F-22).

A pure function of the demand, the cards and the configuration (F-7). The trial happens on copies of the cards, so a
trial that fails leaves no trace (F-3), and a share that one container took is taken for the next one (R-10, F-21).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor

from events import names
from scheduling.devices import record
from scheduling.devices.arguments import BINPACK, SPREAD
from scheduling.devices.cards import Card, Holder
from scheduling.devices.environment import DeviceEnv
from scheduling.devices.record import DEVICE_TYPE, Share
from scheduling.devices.register import HAMI_CORE, MIG
from scheduling.devices.request import ContainerRequest, Demand
from scheduling.resources import Vector

REASON = "hami-vgpuDeviceSharing error"
UNSCHEDULABLE, UNRESOLVABLE = 2, 3  # C-31
MIXED = "mixed"
NOT_ENOUGH = "not enough gpu fitted on this node"


@dataclass(frozen=True)
class Fit:
    """The pod fits. ``score`` is the node score (F-13), ``score_milli`` the device score in thousandths (F-12).

    ``charge`` is the whole vector its queue is charged if it is placed so (R-13). ``words`` says of each container
    which cards were passed over and why.
    """

    allocation: str = ""
    gpu_index: str = ""
    score: int = 0
    score_milli: int = 0
    charge: Vector = field(default_factory=dict)
    shares: tuple[Share, ...] = ()
    words: tuple[tuple[int, str, str], ...] = ()


@dataclass(frozen=True)
class Misfit:
    """The pod does not fit: ``code`` 2 or 3 (F-6), ``reason`` for sums over nodes, ``detail`` for this node.

    ``words`` are (card UUID, audit word) of the container that failed (F-2).
    """

    code: int
    reason: str
    detail: str
    words: tuple[tuple[str, str], ...] = ()


def unresolvable(detail: str, words: tuple[tuple[str, str], ...] = ()) -> Misfit:
    """Return a misfit that preemption cannot help (code 3)."""
    return Misfit(UNRESOLVABLE, REASON, detail, words)


def node_mode(cards: Sequence[Card]) -> str:
    """Return the mode of a node: of its usable cards, without any of all its cards (N-12)."""
    modes = {card.mode for card in cards if card.usable} or {card.mode for card in cards}
    return modes.pop() if len(modes) == 1 else MIXED


def mode_misfit(demand: Demand, cards: Sequence[Card]) -> Misfit | None:
    """R-14: the pod asks for a mode that this node does not have."""
    if not demand.mode:
        return None
    mode = node_mode(cards)
    offered = {card.mode for card in cards if card.usable} if mode == MIXED else {mode}
    if demand.mode in offered:
        return None
    return unresolvable(f"pod required sharing mode {demand.mode} is not the same as the node mode {mode}")


class _Trial:
    """The cards while containers take their shares one after the other."""

    def __init__(self, node: str, cards: Sequence[Card], env: DeviceEnv, demand: Demand) -> None:
        self.node = node
        self.cards = {card.uuid: card for card in cards}
        self.env, self.demand = env, demand
        self.shares: list[Share] = []
        self.memory = 0
        self.score = Fraction(0)
        self.words: list[tuple[int, str, str]] = []

    def container(self, request: ContainerRequest) -> Misfit | None:
        """Take the cards of one container, or say why it cannot (F-1 d to f)."""
        if request.count > len(self.cards):
            return unresolvable(f"no enough gpu cards on node {self.node}")
        words: list[tuple[str, str]] = []
        place = 0
        for card in walk_order(self.cards.values(), self.env.args.policy):
            if place == request.count:
                break
            asked = needed(card, request)
            word = self._test(card, request, asked)
            share = None if word else self._share(card, request, asked, place)
            if share is None:
                words.append((card.uuid, word or "no-mig-slice"))
                continue
            self._take(card, share)
            place += 1
        if place < request.count:
            return self._misfit(tuple(words), request)
        self.words.extend((request.container, uuid, word) for uuid, word in words)
        return None

    def _test(self, card: Card, request: ContainerRequest, asked: int) -> str:
        """F-2, tests 1 to 10: the audit word of the first that fails, empty if all pass."""
        demand, used, cores = self.demand, card.used_shares, card.used_cores
        if not uuid_allowed(card.uuid, demand):
            return "uuid-filter"
        if not card.usable or demand.mode not in ("", card.mode):
            return "card-unusable"
        if reserved(card, demand):
            return "exclusive-reserved"
        if used >= card.shares:
            return "shares-exhausted"
        if demand.spread and group_present(card, demand):
            return "podgroup-spread"
        if card.memory - card.used_memory < asked:
            return "insufficient-memory"
        if cores + request.cores > 100:
            return "insufficient-cores"
        if request.cores == 100 and used > 0:
            return "card-not-empty"
        if request.cores == 0 and cores == 100:
            return "cores-full"
        return "" if type_allowed(card.type, demand) else "type-mismatch"

    def _share(self, card: Card, request: ContainerRequest, asked: int, place: int) -> Share | None:
        """Return the share that the container takes here; None if no slice fits (F-2 test 11)."""
        if not card.is_mig:
            return Share(card.uuid, "", asked, request.cores, request.container, place)
        found = card.choose_slice(asked)
        if found is None:
            return None
        return Share(card.uuid, found.suffix, asked, request.cores, request.container, place)

    def _take(self, card: Card, share: Share) -> None:
        demand = self.demand
        taken = card.with_holders([Holder(demand.uid, "", demand.group, demand.rules, share)])
        self.cards[card.uuid] = taken
        self.shares.append(share)
        self.memory += card.booked(share)
        if self.env.args.policy == BINPACK and card.memory > 0:
            self.score += Fraction(100 * taken.used_memory, card.memory)
        elif self.env.args.policy == SPREAD and card.used_shares == 0 and card.memory > 0:
            self.score += 100

    def _misfit(self, words: tuple[tuple[str, str], ...], request: ContainerRequest) -> Misfit:
        """F-4, F-4a: why the container got too few cards."""
        choice = self.demand.selection
        met = [self.cards[uuid] for uuid, word in words if word != "uuid-filter"]
        taken = any(share.container == request.container for share in self.shares)
        if (choice.use_uuids or choice.nouse_uuids) and not met and not taken:
            return unresolvable(
                f'no GPU matches UUID constraints {names.USE_GPU_UUID}="{choice.use_raw}", '
                f'{names.NOUSE_GPU_UUID}="{choice.nouse_raw}" on node {self.node}',
                words,
            )
        if met and not taken and all(for_want_of_geometry(card, self.demand) for card in met):
            return unresolvable(f"no MIG geometry for GPU type {met[0].type}", words)
        return Misfit(UNSCHEDULABLE, REASON, NOT_ENOUGH, words)


def place_pod(node: str, cards: Sequence[Card], env: DeviceEnv, demand: Demand) -> Fit | Misfit:
    """Place a vGPU pod on these cards (F-1): all its containers, or none."""
    trial = _Trial(node, cards, env, demand)
    for request in demand.requests:
        misfit = trial.container(request)
        if misfit is not None:
            return misfit
    weight = env.args.weight
    return Fit(
        allocation=record.encode(trial.shares),
        score=floor(trial.score + Fraction(1, 2)) * weight if weight > 0 else 0,
        score_milli=floor(trial.score * 1000),
        charge=demand.charge_of(env, len(trial.shares), trial.memory, sum(share.cores for share in trial.shares)),
        shares=tuple(trial.shares),
        words=tuple(trial.words),
    )


def walk_order(cards: Iterable[Card], policy: str) -> list[Card]:
    """Return the cards in the order in which they are tried (F-5)."""
    if policy == BINPACK:
        return sorted(cards, key=lambda card: (-card.used_memory, card.index))
    if policy == SPREAD:
        return sorted(cards, key=lambda card: (card.used_shares, card.index))
    return sorted(cards, key=lambda card: -card.index)


def needed(card: Card, request: ContainerRequest) -> int:
    """Return the units that one share asks for on this card (R-6, F-22)."""
    if request.percentage is None:
        return request.memory
    return card.whole if request.percentage == 100 else card.memory * request.percentage // 100


def uuid_allowed(uuid: str, demand: Demand) -> bool:
    """F-8: exact comparison, the deny list wins, a card without UUID passes no filter."""
    choice = demand.selection
    if not choice.use_uuids and not choice.nouse_uuids:
        return True
    return bool(uuid) and uuid not in choice.nouse_uuids and (not choice.use_uuids or uuid in choice.use_uuids)


def type_allowed(model: str, demand: Demand) -> bool:
    """F-9: a model of this kind of device, in the allow list if there is one, and not in the deny list."""
    choice, lower = demand.selection, model.lower()
    if DEVICE_TYPE not in model or any(item in lower for item in choice.nouse_types):
        return False
    return not choice.use_types or any(item in lower for item in choice.use_types)


def reserved(card: Card, demand: Demand) -> bool:
    """X-5, X-6: another pod that matches one of the pod's rules holds a share on this hami-core card."""
    if card.mode != HAMI_CORE or not demand.rules:
        return False
    return any(holder.uid != demand.uid and not set(demand.rules).isdisjoint(holder.rules) for holder in card.holders)


def group_present(card: Card, demand: Demand) -> bool:
    """F-11: another pod of the same PodGroup holds memory or cores on this card."""
    return any(
        holder.uid != demand.uid
        and holder.group == demand.group
        and (card.booked(holder.share) > 0 or holder.share.cores > 0)
        for holder in card.holders
    )


def for_want_of_geometry(card: Card, demand: Demand) -> bool:
    """Tell whether test 2 of F-2 failed because the model has no geometry (F-4a), and for nothing else."""
    return demand.mode in ("", MIG) and card.spec.sound and card.healthy and card.lacks_geometry
