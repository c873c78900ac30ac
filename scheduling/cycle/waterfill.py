"""Water filling: how a cluster is split among queues by weight (scheduling/Q-12), in exact fractions.

The rounds are those of the rule. Where they would go on for ever, each giving half of the rest, they end after
(queues + 1) × dimensions of them, and what remains is given out at once as the rounds would have in the limit (section
9 number 12).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from scheduling.resources import Vector

Exact = dict[str, Fraction]
#: While it is worked out: an amount is a whole number as long as it can be one, since those are cheaper by far.
Amounts = dict[str, Fraction | int]
_ZERO = Fraction(0)


@dataclass(frozen=True)
class Asking:
    """A queue that takes part: what it asks for, at most gets (a missing name: no limit) and is guaranteed."""

    name: str
    weight: int
    request: Vector
    limit: Vector
    guarantee: Vector

    def most(self, dimension: str) -> int:
        """Return the amount above which the queue gets nothing by sharing."""
        request = self.request.get(dimension, 0)
        return min(request, self.limit.get(dimension, request))


def fill(total: Vector, queues: Sequence[Asking]) -> dict[str, Exact]:
    """Return what each queue deserves of the total."""
    return {name: exact(amounts) for name, amounts in split(total, queues).items()}


def exact(amounts: Mapping[str, Fraction | int]) -> Exact:
    """Return amounts in fractions."""
    return {name: Fraction(value) for name, value in amounts.items()}


def split(total: Vector, queues: Sequence[Asking]) -> dict[str, Amounts]:
    """Return what each queue deserves of the total, in whole numbers as far as it goes."""
    dimensions = sorted({*total, *(name for queue in queues for name in queue.guarantee)})
    remaining: Amounts = {name: max(total.get(name, 0), 0) for name in dimensions}
    deserved: dict[str, Amounts] = {queue.name: dict.fromkeys(dimensions, 0) for queue in queues}
    mosts = {queue.name: {name: queue.most(name) for name in dimensions} for queue in queues}
    unmet = list(queues)
    for _ in range((len(queues) + 1) * max(len(dimensions), 1)):
        if not unmet or not any(remaining.values()):
            return deserved
        before = dict(remaining)
        unmet, remaining = _round(unmet, deserved, remaining, mosts)
        if remaining == before:
            return deserved
    for name in dimensions:
        _pour(name, Fraction(remaining[name]), unmet, deserved)
    return deserved


def _round(
    unmet: list[Asking], deserved: dict[str, Amounts], remaining: Amounts, mosts: Mapping[str, Mapping[str, int]]
) -> tuple[list[Asking], Amounts]:
    """Give every queue its part of the rest, within what it asks for and may have, and at least its guarantee."""
    weights = sum(queue.weight for queue in unmet)
    changed: Amounts = dict.fromkeys(remaining, 0)
    still = []
    for queue in unmet:
        old, most, guarantee = deserved[queue.name], mosts[queue.name], queue.guarantee
        new: Amounts = {}
        for name, rest in remaining.items():
            was, top, part = old[name], most[name], rest * queue.weight
            value = top if part >= (top - was) * weights else was + Fraction(part) / weights
            if name in guarantee:
                value = max(value, guarantee[name])
            elif value < 0:
                value = 0
            new[name] = value
            if value is not was:
                changed[name] += value - was
        deserved[queue.name] = new
        met = all(asked <= new.get(name, 0) for name, asked in queue.request.items())
        if not met and new != old:
            still.append(queue)
    return still, {name: max(rest - changed[name], 0) for name, rest in remaining.items()}


def _pour(name: str, rest: Fraction, unmet: Sequence[Asking], deserved: Mapping[str, Amounts]) -> None:
    """Give the rest of one dimension to those who want more, by weight, until it or their wish is used up."""
    thirsty = [queue for queue in unmet if deserved[queue.name][name] < queue.most(name)]
    while rest > 0 and thirsty:
        weights = sum(queue.weight for queue in thirsty)
        step = min(Fraction(queue.most(name) - deserved[queue.name][name]) / queue.weight for queue in thirsty)
        step = min(step, rest / weights)
        for queue in thirsty:
            deserved[queue.name][name] += step * queue.weight
        rest -= step * weights
        thirsty = [queue for queue in thirsty if deserved[queue.name][name] < queue.most(name)]


def share(allocated: Vector, deserved: Mapping[str, Fraction]) -> Fraction:
    """Return a queue's share (Q-13): 0/0 is 0, x/0 is 1."""
    return max((_ratio(allocated.get(name, 0), limit) for name, limit in deserved.items()), default=_ZERO)


def _ratio(amount: int, limit: Fraction) -> Fraction:
    if limit == 0:
        return Fraction(1) if amount > 0 else _ZERO
    return amount / limit
