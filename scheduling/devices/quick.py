"""The short way to a fit: one container, any of a node's hami-core cards, no rules (devices/F-1, F-2, F-5, F-12).

Most pods ask so. It gives what ``fitting.place_pod`` gives (a property test holds it to that), or None: then the pod
asks for more than this, or does not fit, and the definition says why.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from scheduling.devices import record
from scheduling.devices.arguments import BINPACK, SPREAD
from scheduling.devices.cards import Card
from scheduling.devices.environment import DeviceEnv
from scheduling.devices.fitting import Fit, needed, walk_order
from scheduling.devices.record import DEVICE_TYPE, Share
from scheduling.devices.register import MIG
from scheduling.devices.request import ContainerRequest, Demand


def quick_fit(cards: Sequence[Card], env: DeviceEnv, demand: Demand) -> Fit | None:
    """Return where a plain demand fits, None if it is not plain or does not fit."""
    if len(demand.requests) != 1 or demand.spread or demand.rules or demand.mode or demand.chooses:
        return None
    request, policy = demand.requests[0], env.args.policy
    if request.count > len(cards):
        return None
    taken: list[tuple[Card, Share]] = []
    words: list[tuple[int, str, str]] = []
    for card in walk_order(cards, policy):
        if card.spec.mode == MIG:
            return None
        if len(taken) == request.count:
            break
        asked = needed(card, request)
        word = _refusal(card, request, asked)
        if word:
            words.append((request.container, card.spec.uuid, word))
        else:
            share = Share(card.spec.uuid, "", asked, request.cores, request.container, len(taken))
            taken.append((card, share))
    return _fit(env, demand, taken, words) if len(taken) == request.count else None


def _refusal(card: Card, request: ContainerRequest, asked: int) -> str:
    """F-2, the tests that matter here, in their order."""
    spec, used, cores = card.spec, len(card.holders), card.used_cores
    if not card.usable:
        return "card-unusable"
    if used >= spec.shares:
        return "shares-exhausted"
    if spec.memory - card.used_memory < asked:
        return "insufficient-memory"
    if cores + request.cores > 100:
        return "insufficient-cores"
    if request.cores == 100 and used > 0:
        return "card-not-empty"
    if request.cores == 0 and cores == 100:
        return "cores-full"
    return "" if DEVICE_TYPE in spec.type else "type-mismatch"


def _fit(env: DeviceEnv, demand: Demand, taken: list[tuple[Card, Share]], words: list[tuple[int, str, str]]) -> Fit:
    shares = tuple(share for _, share in taken)
    request, weight = demand.requests[0], env.args.weight
    above, below = _score(env.args.policy, taken)
    if request.percentage is None:
        charge = demand.charge_before(env)
    else:
        memory = sum(share.memory for share in shares)
        charge = demand.charge_of(env, len(shares), memory, request.cores * len(shares))
    return Fit(
        allocation=record.encode(shares),
        score=(2 * above + below) // (2 * below) * weight if weight > 0 else 0,
        score_milli=above * 1000 // below,
        charge=charge,
        shares=shares,
        words=tuple(words),
    )


def _score(policy: str, taken: list[tuple[Card, Share]]) -> tuple[int, int]:
    """Return the device score (F-12) as a fraction."""
    if policy == SPREAD:
        return sum(100 for card, _ in taken if not card.holders and card.spec.memory > 0), 1
    if policy != BINPACK:
        return 0, 1
    if len(taken) == 1:
        card, share = taken[0]
        after = 100 * (card.used_memory + share.memory)
        return (after, card.spec.memory) if card.spec.memory > 0 else (0, 1)
    parts = [(card, share) for card, share in taken if card.spec.memory > 0]
    total = sum((Fraction(100 * (c.used_memory + s.memory), c.spec.memory) for c, s in parts), Fraction(0))
    return total.numerator, total.denominator
