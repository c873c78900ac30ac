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
_Amounts = dict[str, Fraction | int]
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
    dimensions = sorted({*total, *(name for queue in queues for name in queue.guarantee)})
    remaining: _Amounts = {name: max(total.get(name, 0), 0) for name in dimensions}
    deserved: dict[str, _Amounts] = {queue.name: dict.fromkeys(dimensions, 0) for queue in queues}
    unmet = list(queues)
    for _ in range((len(queues) + 1) * max(len(dimensions), 1)):
        if not unmet or not any(remaining.values()):
            return _exact(deserved)
        before = dict(remaining)
        unmet, remaining = _round(unmet, deserved, remaining)
        if remaining == before:
            return _exact(deserved)
    for name in dimensions:
        _pour(name, Fraction(remaining[name]), unmet, deserved)
    return _exact(deserved)


def _exact(deserved: Mapping[str, _Amounts]) -> dict[str, Exact]:
    return {queue: {name: Fraction(value) for name, value in amounts.items()} for queue, amounts in deserved.items()}


def _round(unmet: list[Asking], deserved: dict[str, _Amounts], remaining: _Amounts) -> tuple[list[Asking], _Amounts]:
    weights = sum(queue.weight for queue in unmet)
    changed: _Amounts = dict.fromkeys(remaining, 0)
    still = []
    for queue in unmet:
        old = deserved[queue.name]
        new = {name: _share(queue, name, old[name], rest, weights) for name, rest in remaining.items()}
        deserved[queue.name] = new
        for name, value in new.items():
            if value is not old[name]:
                changed[name] += value - old[name]
        met = all(asked <= new.get(name, 0) for name, asked in queue.request.items())
        if not met and new != old:
            still.append(queue)
    return still, {name: max(rest - changed[name], 0) for name, rest in remaining.items()}


def _share(queue: Asking, name: str, old: Fraction | int, rest: Fraction | int, weights: int) -> Fraction | int:
    """Return a queue's amount after one round: its part of the rest more, within what it asks for and may have."""
    most = queue.most(name)
    part = rest * queue.weight
    more = part >= (most - old) * weights
    return max(most if more else old + Fraction(part) / weights, queue.guarantee.get(name, 0))


def _pour(name: str, rest: Fraction, unmet: Sequence[Asking], deserved: Mapping[str, _Amounts]) -> None:
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
