"""The scores of AL-24 and AL-25 for many nodes at once, exactly as ``resource_scores`` and ``binpack`` give them.

Where a product of amounts could leave 64 bits, the columns cannot say (None), and the nodes are scored one by one.
Memory is counted in the greatest power of two that divides all of its amounts, which makes that rare.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from scheduling.nodes.binpack import Binpack
from scheduling.nodes.columns import Integers, NodeColumns, Where
from scheduling.nodes.nodeorder import THOUSAND, Weights
from scheduling.nodes.resource_scores import GPU, SCORE_MAX
from scheduling.resources import CPU, MEMORY, Vector

_BOUND = 1 << 62
_HALF = SCORE_MAX // 2


def node_order(
    columns: NodeColumns, where: Where, weights: Weights, assumed: Vector, request: Vector
) -> Integers | None:
    """Return the sum of the parts of AL-25 that matter for plain pods, in thousandths."""
    if request.get(GPU, 0) > 0:
        return None
    room_cpu, room_memory = columns.room[CPU][where], columns.room[MEMORY][where]
    total = np.zeros(len(room_cpu), dtype=np.int64)
    if weights.least_requested or weights.most_requested:
        cpu = columns.assumed[CPU][where] + assumed[CPU]
        memory = columns.assumed[MEMORY][where] + assumed[MEMORY]
        if weights.least_requested:
            parts = np.maximum(room_cpu - cpu, 0) * SCORE_MAX // room_cpu
            parts += np.maximum(room_memory - memory, 0) * SCORE_MAX // room_memory
            total += weights.least_requested * (parts // 2)
        if weights.most_requested:
            parts = np.minimum(cpu, room_cpu) * SCORE_MAX // room_cpu
            parts += np.minimum(memory, room_memory) * SCORE_MAX // room_memory
            total += weights.most_requested * (parts // 2)
    if weights.balanced_resource and (request.get(CPU, 0) > 0 or request.get(MEMORY, 0) > 0):
        found = _balanced(columns, where, request)
        if found is None:
            return None
        total += weights.balanced_resource * found
    # Nodes of a plain cluster have no soft taint (``cycle.classes``).
    return THOUSAND * (total + weights.taint_toleration * SCORE_MAX)


def _balanced(columns: NodeColumns, where: Where, request: Vector) -> Integers | None:
    room_cpu, used_cpu = columns.room[CPU][where], columns.used[CPU][where]
    room_memory, used_memory = columns.room[MEMORY][where], columns.used[MEMORY][where]
    if not len(room_cpu):
        return room_cpu
    asked = request.get(MEMORY, 0)
    shift = _shift(room_memory, used_memory, asked)
    room_memory, used_memory, asked = room_memory >> shift, used_memory >> shift, asked >> shift
    if _HALF * int(room_cpu.max()) * int(room_memory.max()) >= _BOUND:
        return None
    whole = room_cpu * room_memory
    before = _imbalance(used_cpu, room_cpu, used_memory, room_memory, whole)
    after = _imbalance(used_cpu + request.get(CPU, 0), room_cpu, used_memory + asked, room_memory, whole)
    # balance = 100 - imbalance, so what is gained is the imbalance before less the one after.
    gained: Integers = _HALF + (_HALF + before - after) // 2
    return gained


def _shift(*amounts: Integers | int) -> int:
    together = 0
    for item in amounts:
        together |= item if isinstance(item, int) else int(np.bitwise_or.reduce(item))
    return (together & -together).bit_length() - 1 if together > 0 else 0


def _imbalance(
    used_cpu: Integers, room_cpu: Integers, used_memory: Integers, room_memory: Integers, whole: Integers
) -> Integers:
    """Return 100 times the standard deviation of two used shares, rounded up: half of what they differ by."""
    cpu = np.minimum(np.maximum(used_cpu, 0), room_cpu) * room_memory
    memory = np.minimum(np.maximum(used_memory, 0), room_memory) * room_cpu
    found: Integers = -(-_HALF * np.abs(cpu - memory) // whole)
    return found


def binpack(columns: NodeColumns, where: Where, rules: Binpack, request: Vector) -> Integers | None:
    """Return the score of AL-24, in thousandths."""
    count = len(columns.live[where])
    if not rules.weight:
        return np.zeros(count, dtype=np.int64)
    asked = {name: weight for name, weight in rules.resources.items() if request.get(name, 0) > 0}
    weights = sum(asked.values())
    terms = [name for name, weight in asked.items() if weight]
    if not weights or not terms or not count:
        return np.zeros(count, dtype=np.int64)
    if len(terms) > 2 or rules.weight < 0 or max(abs(request[name]) for name in terms) >= _BOUND >> 10:
        return None
    return _packed(columns, where, rules.weight, weights, {name: (asked[name], request[name]) for name in terms})


def _packed(
    columns: NodeColumns, where: Where, factor: int, weights: int, terms: Mapping[str, tuple[int, int]]
) -> Integers | None:
    """Sum up weighted used shares over one denominator: ``above / below``, then scale by long division."""
    above: Integers | int = 0
    below: Integers | int = 1
    bound = 1
    over = np.zeros(len(columns.live[where]), dtype=np.bool_)
    for name, (weight, asked) in terms.items():
        rooms, useds = columns.room_and_used(name)
        room, after = rooms[where], useds[where] + asked
        there = room > 0
        over |= there & (after > room)
        shift = _shift(np.where(there, room, 0), np.where(there, after, 0))
        room, after = np.where(there, room >> shift, 1), np.where(there, after >> shift, 0)
        bound *= int(room.max()) + 1
        if int(after.min()) < 0 or bound * weights * factor * THOUSAND >= _BOUND:
            return None
        above, below = above * room + weight * after * below, below * room
    # Full nodes are 0 anyway, and their sums might leave the bounds.
    above = np.where(over, 0, above) * factor
    below = below * weights
    first = above * THOUSAND // below
    rest = above * THOUSAND % below
    scaled: Integers = first * SCORE_MAX + rest * SCORE_MAX // below
    return np.where(over, 0, scaled)
