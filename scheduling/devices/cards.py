"""The books of one card: a value made of its registration and its holders (devices/N-20 to N-22, F-3, F-15 to F-20).

All sums follow from the holders, so the books after any way of events are the books of what is held (K-5). A holder
that is added or removed makes a new card.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from scheduling.devices import geometry
from scheduling.devices.arguments import Rule
from scheduling.devices.claims import Claim
from scheduling.devices.config import DeviceConfig
from scheduling.devices.geometry import Group, Slice
from scheduling.devices.record import Share
from scheduling.devices.register import MIG, CardSpec


@dataclass(frozen=True, slots=True)
class Holder:
    """One share on the card and what is known of its pod."""

    uid: str
    key: str
    group: str
    rules: tuple[Rule, ...]
    share: Share

    @property
    def order(self) -> tuple[str, int, int]:
        """The share's identity (A-14)."""
        return (self.uid, self.share.container, self.share.place)


def holders_of(claim: Claim, uuid: str) -> list[Holder]:
    """Return the shares that a claim has on one card."""
    return [
        Holder(claim.uid, claim.key, claim.group, claim.rules, share) for share in claim.shares if share.uuid == uuid
    ]


def in_order(holders: Iterable[Holder]) -> tuple[Holder, ...]:
    """Sort holders by identity, so that equal books are equal values whatever way they came about."""
    return tuple(sorted(holders, key=lambda holder: holder.order))


@dataclass(frozen=True)
class Card:
    """One registered card. Memory in units, cores in percent, ``shares`` is the most it takes.

    ``groups`` is its MIG geometry, empty for a hami-core card and for a model that has none (N-13). ``factor`` is the
    MiB per unit. ``holders`` are in the order of their identity.
    """

    spec: CardSpec
    groups: tuple[Group, ...] = ()
    factor: int = 1
    holders: tuple[Holder, ...] = ()

    @property
    def uuid(self) -> str:
        return self.spec.uuid

    @property
    def index(self) -> int:
        return self.spec.index

    @property
    def type(self) -> str:
        return self.spec.type

    @property
    def mode(self) -> str:
        return self.spec.mode

    @property
    def memory(self) -> int:
        return self.spec.memory

    @property
    def shares(self) -> int:
        return self.spec.shares

    @property
    def healthy(self) -> bool:
        return self.spec.healthy

    @property
    def is_mig(self) -> bool:
        return self.spec.mode == MIG

    @property
    def used_shares(self) -> int:
        return len(self.holders)

    @cached_property
    def used_memory(self) -> int:
        """Units held; a MIG share counts with its slice (F-15)."""
        return sum(self.booked(holder.share) for holder in self.holders)

    @cached_property
    def used_cores(self) -> int:
        return sum(holder.share.cores for holder in self.holders)

    def slice_of(self, share: Share) -> Slice | None:
        """Return the slice that a share has on this card, None if it names none (N-22)."""
        if not self.is_mig or not share.suffix:
            return None
        return geometry.find(self.groups, share.suffix)

    def booked(self, share: Share) -> int:
        """Return the units that a share takes: its slice's, else what its record says (F-15, F-23, N-22)."""
        if self.spec.mode != MIG:
            return share.memory
        found = self.slice_of(share)
        return share.memory if found is None else found.memory // self.factor

    @cached_property
    def slices(self) -> frozenset[tuple[str, int]]:
        """The slices in use, as group and position."""
        found = (self.slice_of(holder.share) for holder in self.holders)
        return frozenset((item.group, item.position) for item in found if item is not None)

    @cached_property
    def active(self) -> str | None:
        """The group in use (F-17), None on an empty card (F-18)."""
        return min((group for group, _ in self.slices), default=None)

    @cached_property
    def blocked(self) -> bool:
        """Whether a share on this MIG card fits no slice of one group: no new pods until it is gone (N-22, F-19)."""
        if not self.is_mig or not self.holders:
            return False
        lost = any(self.slice_of(holder.share) is None for holder in self.holders)
        return lost or len({group for group, _ in self.slices}) > 1

    def crowded_for(self, uid: str) -> bool:
        """Whether this pod and others hold more than there is, one slice, or the card against a rule of this pod's.

        No decision on the pod brings that about by itself: the card has changed, or somebody came of whom nobody had
        told. What others do to each other is no matter of this pod's (X-9), nor a geometry that was changed (N-22).
        """
        mine = [holder for holder in self.holders if holder.uid == uid]
        others = [holder for holder in self.holders if holder.uid != uid]
        if not mine or not others:
            return False
        if self.used_shares > self.shares or self.used_cores > 100:
            return True
        if self.is_mig:
            return not {holder.share.suffix for holder in mine}.isdisjoint(holder.share.suffix for holder in others)
        rules = {rule for holder in mine for rule in holder.rules}
        return self.used_memory > self.memory or any(not rules.isdisjoint(holder.rules) for holder in others)

    @property
    def lacks_geometry(self) -> bool:
        """Whether there is nothing that this MIG card could be cut into (N-13)."""
        return self.is_mig and not self.groups

    @cached_property
    def usable(self) -> bool:
        """Whether the card takes new pods at all (F-2 test 2)."""
        return self.spec.sound and self.spec.healthy and not self.lacks_geometry and not self.blocked

    def choose_slice(self, asked: int) -> Slice | None:
        """Choose a slice of at least ``asked`` units (F-16, F-17)."""
        used = frozenset(position for group, position in self.slices if group == self.active)
        return geometry.choose(self.groups, self.active, used, asked * self.factor)

    @cached_property
    def whole(self) -> int:
        """What a request for 100 % asks for, in units (F-22)."""
        if not self.is_mig:
            return self.memory
        return min(self.memory, geometry.largest(self.groups) // self.factor)

    def with_holders(self, holders: Iterable[Holder]) -> Card:
        """Return the card with more holders; sums that are known move with them."""
        more = tuple(holders)
        return self._holding(in_order((*self.holders, *more)), more, 1)

    def without_pod(self, uid: str) -> Card:
        gone = tuple(holder for holder in self.holders if holder.uid == uid)
        return self._holding(tuple(holder for holder in self.holders if holder.uid != uid), gone, -1)

    def _holding(self, holders: tuple[Holder, ...], moved: tuple[Holder, ...], by: int) -> Card:
        card = Card(self.spec, self.groups, self.factor, holders)
        known = self.__dict__
        if "used_memory" in known:
            card.__dict__["used_memory"] = self.used_memory + by * sum(self.booked(item.share) for item in moved)
        if not self.is_mig and "usable" in known:
            card.__dict__["usable"] = self.usable
        if "used_cores" in known:
            card.__dict__["used_cores"] = self.used_cores + by * sum(item.share.cores for item in moved)
        return card


def make(spec: CardSpec, config: DeviceConfig, holders: Iterable[Holder] = ()) -> Card:
    """Return a card as registered under a configuration, with its holders."""
    groups = geometry.groups_of(config.geometries, spec.type) if spec.mode == MIG else ()
    return Card(spec, groups, config.factor, in_order(holders))
