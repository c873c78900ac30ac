"""The parts of the node order that look at CPU, memory and GPUs of a node (scheduling/AL-25): 0 to 100, integers.

Everything is exact: where the reference takes the root of a variance as a float, the floor here is that of the true
root.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isqrt, prod

from scheduling.nodes.cluster import NodeFacts
from scheduling.resources import CPU, MEMORY, Vector

SCORE_MAX = 100
GPU = "nvidia.com/gpu"

#: Scores one resource from what the node has (above 0) and what is asked on it.
PartScore = Callable[[int, int], int]


def least_requested(facts: NodeFacts, assumed: Vector) -> int:
    """Return the mean over CPU and memory of the part that stays free, rounded down twice; over-full counts 0."""
    return _mean(facts, assumed, lambda room, asked: max(room - asked, 0) * SCORE_MAX // room)


def most_requested(facts: NodeFacts, assumed: Vector) -> int:
    """Return the mean over CPU and memory of the part that is asked for, rounded down twice; over-full counts 100."""
    return _mean(facts, assumed, lambda room, asked: min(asked, room) * SCORE_MAX // room)


def _mean(facts: NodeFacts, assumed: Vector, part: PartScore) -> int:
    """Return the mean over the resources that the node has, of what is assumed to be asked on it with this pod."""
    cpu, memory = facts.assumed
    room = facts.view.room
    asked = ((room.get(CPU, 0), cpu + assumed[CPU]), (room.get(MEMORY, 0), memory + assumed[MEMORY]))
    found = [part(have, want) for have, want in asked if have > 0]
    return sum(found) // len(found) if found else 0


def balanced(facts: NodeFacts, request: Vector) -> int:
    """Return how much this pod evens out the use of CPU, memory and GPUs: 50 to 100 for the better, 0 to 99 else.

    The score is 50 plus half of (50 + what the balance gains), rounded down. A pod that asks none of them scores 0.
    """
    if not any(request.get(name, 0) > 0 for name in (CPU, MEMORY, GPU)):
        return 0
    room, used = facts.view.room, facts.used
    names = [name for name in (CPU, MEMORY) if room.get(name, 0) > 0]
    if request.get(GPU, 0) > 0 and room.get(GPU, 0) > 0:
        names.append(GPU)
    before = [(used.get(name, 0), room[name]) for name in names]
    after = [(used.get(name, 0) + request.get(name, 0), room[name]) for name in names]
    return SCORE_MAX // 2 + (SCORE_MAX // 2 + balance(after) - balance(before)) // 2


def balance(shares: Sequence[tuple[int, int]]) -> int:
    """Return floor((1 - standard deviation) * 100) of the used shares, each given as (asked, room), at most 1.

    With x_i the shares over one denominator d, the deviation of k of them is the root of
    sum((k * x_i - sum(x))^2) / (k^3 * d^2), so whole numbers are enough.
    """
    count = len(shares)
    if count < 2:
        return SCORE_MAX
    common = prod(room for _, room in shares)
    parts = [min(max(asked, 0), room) * (common // room) for asked, room in shares]
    total = sum(parts)
    square = SCORE_MAX**2 * sum((count * part - total) ** 2 for part in parts)
    return SCORE_MAX - _root_up(square, count**3 * common**2)


def _root_up(above: int, below: int) -> int:
    """Return the least whole number whose square is not below ``above / below``."""
    root = isqrt(-(-above // below))
    return root if root * root * below >= above else root + 1
