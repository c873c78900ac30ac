"""The device books of one node: a value. A placement is a new value, undoing it is the old one (devices/A-14).

Everything here is a pure function of the node's registration, the live claims and the environment (configuration), so
the live books and rebuilt books are equal (K-5). Claims are kept by pod uid and need no node (N-23a); the shares of a
claim stand on the registered cards, the others wait as orphans (N-21). A change makes new values only for the cards
that it touches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from scheduling.devices import cards as card_books
from scheduling.devices import register
from scheduling.devices.cards import Card, Holder, holders_of, in_order
from scheduling.devices.claims import Claim
from scheduling.devices.environment import DeviceEnv
from scheduling.devices.fitting import (
    REASON,
    UNSCHEDULABLE,
    Fit,
    Misfit,
    mode_misfit,
    place_pod,
    unresolvable,
)
from scheduling.devices.legacy import crowded_indices, fit_legacy
from scheduling.devices.quick import quick_fit
from scheduling.devices.register import Registration
from scheduling.devices.request import Demand, without_percentage
from scheduling.objects import Node
from scheduling.resources import Vector

__all__ = ["Fit", "Misfit", "NodeDevices", "rebuild"]

_ANSWERS_MAX = 512  # kept for demands that come again while the books stay as they are


@dataclass(frozen=True)
class NodeDevices:
    """Cards of a node and who holds what on them.

    ``books`` are the registered cards by UUID, ``orphans`` the shares on cards that are not registered now (N-21).
    """

    name: str
    env: DeviceEnv = field(default_factory=DeviceEnv)
    registration: Registration = field(default_factory=Registration)
    claims: Mapping[str, Claim] = field(default_factory=dict)
    books: Mapping[str, Card] = field(default_factory=dict)
    orphans: Mapping[str, tuple[Holder, ...]] = field(default_factory=dict)
    node: Node | None = field(default=None, compare=False, repr=False)
    _answers: dict[object, Fit | Misfit] = field(default_factory=dict, init=False, compare=False, repr=False)

    @classmethod
    def empty(cls, name: str, env: DeviceEnv) -> NodeDevices:
        """Return the books of a node of which nothing is known yet."""
        return cls(name, env)

    # --- changes ----------------------------------------------------------------------------------------------------

    def with_node(self, node: Node | None) -> NodeDevices:
        """Return the books with the node as it is now, None if it is gone; claims stay (N-21, N-23, N-23a)."""
        registration = register.read(node, self.env)
        if registration == self.registration:
            return replace(self, node=node)
        return _rebuilt(replace(self, node=node, registration=registration))

    def with_env(self, env: DeviceEnv) -> NodeDevices:
        """Return the books under another configuration: registration and claims are read anew (N-16, X-10)."""
        if env == self.env:
            return self
        claims = {uid: claim.under(env) for uid, claim in self.claims.items()}
        registration = register.read(self.node, env)
        return _rebuilt(replace(self, env=env, registration=registration, claims=claims))

    def with_claim(self, claim: Claim) -> NodeDevices:
        """Return the books with this claim; it replaces an older one of the same pod (A-14, A-17)."""
        if self.claims.get(claim.uid) == claim:
            # The same again, on a pod that reads otherwise in what is no matter here.
            return self._changed({**self.claims, claim.uid: claim}, self.books, self.orphans, claim)
        base = self.without_claim(claim.uid)
        books, orphans = dict(base.books), dict(base.orphans)
        for uuid in dict.fromkeys(share.uuid for share in claim.shares):
            holders = holders_of(claim, uuid)
            if uuid in books:
                books[uuid] = books[uuid].with_holders(holders)
            else:
                orphans[uuid] = in_order((*orphans.get(uuid, ()), *holders))
        return base._changed({**base.claims, claim.uid: claim}, books, orphans, claim)

    def without_claim(self, uid: str) -> NodeDevices:
        """Return the books without this pod's claim; twice is the same as once (devices/A-16a)."""
        claim = self.claims.get(uid)
        if claim is None:
            return self
        books, orphans = dict(self.books), dict(self.orphans)
        for uuid in dict.fromkeys(share.uuid for share in claim.shares):
            if uuid in books:
                books[uuid] = books[uuid].without_pod(uid)
                continue
            left = tuple(holder for holder in orphans.pop(uuid) if holder.uid != uid)
            if left:
                orphans[uuid] = left
        claims = {key: other for key, other in self.claims.items() if key != uid}
        return self._changed(claims, books, orphans)

    def _changed(
        self,
        claims: Mapping[str, Claim],
        books: Mapping[str, Card],
        orphans: Mapping[str, tuple[Holder, ...]],
        added: Claim | None = None,
    ) -> NodeDevices:
        devices = NodeDevices(self.name, self.env, self.registration, claims, books, orphans, self.node)
        if self.__dict__.get("faulty") == () and (added is None or not added.fault):
            devices.__dict__["faulty"] = ()
        return devices

    # --- what is there ----------------------------------------------------------------------------------------------

    @property
    def resource_names(self) -> frozenset[str]:
        """Our resource names as configured (R-12)."""
        return self.env.resource_names

    @property
    def is_vgpu_node(self) -> bool:
        """Whether the node takes vGPU pods at all (N-8)."""
        return self.registration.is_vgpu_node

    @cached_property
    def cards(self) -> tuple[Card, ...]:
        """The registered cards in the order of the registration."""
        return tuple(self.books.values())

    def crowded_for(self, uid: str) -> list[str]:
        """Return the cards of this pod that it and others hold beyond what they have (``Card.crowded_for``)."""
        claim = self.claims.get(uid)
        if claim is None:
            return []
        uuids = {share.uuid for share in claim.shares} & self.books.keys()
        cards = sorted(uuid for uuid in uuids if self.books[uuid].crowded_for(uid))
        shared = crowded_indices(self.registration.legacy, self.claims.values(), claim)
        return [*cards, *(f"card {index}" for index in shared)]

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about the registration, geometries and records (N-5, N-7, N-10, N-13, A-18), in a fixed order."""
        geometry = [
            f"card {card.uuid}: no MIG geometry for GPU type {card.type}" for card in self.cards if card.lacks_geometry
        ]
        lost = [
            f"pod {holder.key} holds a share of card {uuid}, which node {self.name} does not register"
            for uuid in sorted(self.orphans)
            for holder in self.orphans[uuid]
        ]
        return (*self.registration.warnings, *geometry, *dict.fromkeys(lost))

    def held(self, uuid: str) -> tuple[int, int, int]:
        """Return shares, memory and cores that live pods hold on a card, registered at the moment or not."""
        card = self.books.get(uuid)
        if card is not None:
            return card.used_shares, card.used_memory, card.used_cores
        shares = [holder.share for holder in self.orphans.get(uuid, ())]
        return len(shares), sum(share.memory for share in shares), sum(share.cores for share in shares)

    def only_orphans(self, uid: str) -> bool:
        """Tell whether this pod has shares and none of them is on a registered card (devices/N-21a)."""
        claim = self.claims.get(uid)
        if claim is None or not claim.shares or claim.unreadable:
            return False
        return not any(share.uuid in self.books for share in claim.shares)

    def charge(self, uid: str) -> Vector | None:
        """Return the WHOLE vector a placed pod's queue is charged (R-13 after placement); None without a vGPU claim.

        Number as requested, memory and cores of its shares on registered cards; orphans count in nothing (N-21a). A
        record that cannot be read, or is missing, is charged as asked (A-4a, A-4b).
        """
        claim = self.claims.get(uid)
        if claim is None or not claim.is_vgpu:
            return None
        if claim.unreadable or claim.missing:
            return claim.asked
        here = [share for share in claim.shares if share.uuid in self.books]
        number = claim.number if len(here) == len(claim.shares) else min(claim.number, len(here))
        memory = sum(self.books[share.uuid].booked(share) for share in here)
        return claim.demand.charge_of(self.env, number, memory, sum(share.cores for share in here))

    # --- fitting ----------------------------------------------------------------------------------------------------

    def fit(self, demand: Demand) -> Fit | Misfit:
        """Tell whether a pod fits here, and how (F-1, F-7); what the pod itself holds here is as good as free."""
        if demand.uid in self.claims:
            return self.without_claim(demand.uid).fit(demand)
        key = demand.token or demand.key
        answer = self._answers.get(key)
        if answer is None:
            if len(self._answers) >= _ANSWERS_MAX:
                self._answers.clear()
            answer = self._answers[key] = self._fit(demand)
        return answer

    def _fit(self, demand: Demand) -> Fit | Misfit:
        if demand.refusal:
            return unresolvable(demand.refusal)
        if demand.kind == "none":
            return Fit(charge=without_percentage(demand.request, self.env))
        if demand.kind != "vgpu":
            return fit_legacy(self.name, self.registration.legacy, self.claims.values(), demand)
        if not self.is_vgpu_node:
            return unresolvable(f"node {self.name} has no registered vGPU devices")
        misfit = mode_misfit(demand, self.cards) or self._closed()
        if misfit is not None:
            return misfit
        return quick_fit(self.cards, self.env, demand) or place_pod(self.name, self.cards, self.env, demand)

    def _closed(self) -> Misfit | None:
        """A-4a, A-4b: a pod here holds cards that nobody knows."""
        if not self.faulty:
            return None
        first = self.faulty[0]
        return Misfit(UNSCHEDULABLE, REASON, f"pod {first.key} on node {self.name} has {first.fault}")

    @cached_property
    def faulty(self) -> tuple[Claim, ...]:
        """The claims whose cards are not known (A-4a, A-4b), by name."""
        return tuple(sorted((c for c in self.claims.values() if c.fault), key=lambda c: (c.key, c.uid)))

    def allocation_text(self, fit: Fit) -> str:
        """Return the allocation of a fit as it is written on the pod (A-1 to A-3)."""
        return fit.allocation


def _rebuilt(devices: NodeDevices) -> NodeDevices:
    """Return the books with every claim applied to the registration again (N-21)."""
    holders: dict[str, list[Holder]] = {}
    for claim in devices.claims.values():
        for uuid in dict.fromkeys(share.uuid for share in claim.shares):
            holders.setdefault(uuid, []).extend(holders_of(claim, uuid))
    books = {
        spec.uuid: card_books.make(spec, devices.env.config, holders.pop(spec.uuid, ()))
        for spec in devices.registration.cards
    }
    return replace(devices, books=books, orphans={uuid: in_order(items) for uuid, items in holders.items()})


def rebuild(name: str, env: DeviceEnv, node: Node | None, claims: Iterable[Claim]) -> NodeDevices:
    """Return the books from nothing but their sources (A-14); what every other way of events must equal."""
    devices = NodeDevices.empty(name, env).with_node(node)
    return _rebuilt(replace(devices, claims={claim.uid: claim for claim in claims}))
