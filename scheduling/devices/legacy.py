"""Legacy GPU sharing: one shared card for memory, whole cards for a number (devices/G-4 to G-6)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from scheduling.devices.claims import Claim
from scheduling.devices.fitting import UNSCHEDULABLE, Fit, Misfit
from scheduling.devices.register import Legacy
from scheduling.devices.request import Demand


def fit_legacy(node: str, cards: Legacy, claims: Iterable[Claim], demand: Demand) -> Fit | Misfit:
    """Place a legacy pod; the enabled mode decides (G-6). Its score is 0 and its charge is what it requests."""
    held: dict[int, int] = {}
    for claim in claims:
        for index in claim.indices:
            held[index] = held.get(index, 0) + claim.legacy_memory
    if demand.kind == "share":
        free = (index for index in cards.indices if max(cards.memory - held.get(index, 0), 0) >= demand.legacy)
        chosen = list(islice(free, 1))
        if not chosen:
            return Misfit(UNSCHEDULABLE, f"GpuShare no enough gpu memory on node {node}", "")
    else:
        empty = [index for index in cards.indices if index not in held]
        chosen = empty[: demand.legacy]
        if len(chosen) < demand.legacy:
            return Misfit(UNSCHEDULABLE, f"GpuNumber no enough gpu number on node {node}", "")
    return Fit(gpu_index=",".join(map(str, chosen)), charge=demand.request)


def crowded_indices(cards: Legacy, claims: Iterable[Claim], mine: Claim) -> list[int]:
    """Return the cards that a pod and others hold beyond what they have (G-4), or that it should have alone (G-5)."""
    found: dict[int, int] = {}
    for claim in claims:
        if claim.uid != mine.uid:
            for index in set(claim.indices).intersection(mine.indices):
                found[index] = found.get(index, 0) + claim.legacy_memory
    alone = mine.demand.kind == "number"
    return sorted(index for index, held in found.items() if alone or held + mine.legacy_memory > cards.memory)
