"""Making a failing plan short: steps are left out, in ever smaller pieces, as long as the same thing still fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from services.simulator.chaos.plan import Plan, Step
from services.simulator.chaos.playing import Result, play

#: Plans that are played at most.
TRIES_MAX = 600


def kind_of_failure(result: Result) -> str:
    """Return what a failure is about, without the names in it: the invariant's number, or who stopped of what."""
    if not result.failures:
        return ""
    first = result.failures[0]
    if " stopped: " in first:
        return first.partition(" stopped: ")[2].partition(":")[0]
    words = first.split()
    return " ".join(word for word in words[:2] if not any(letter.isdigit() for letter in word[1:]))


def reduced(plan: Plan, tries: int = TRIES_MAX, fails: Callable[[Plan], str] | None = None) -> tuple[Plan, int]:
    """Return a shorter plan that fails in the same way, and how many plans were played. ``fails`` names a failure."""
    judge = fails or (lambda candidate: kind_of_failure(play(candidate)))
    result = play(plan)
    wanted = judge(plan) if fails else kind_of_failure(result)
    if not wanted:
        return plan, 1
    steps: Sequence[Step] = plan.steps[: result.at + 1] if not fails else plan.steps
    played, size = 1, max(len(steps) // 2, 1)
    while played < tries:
        place, shorter = 0, False
        while place < len(steps) and played < tries:
            candidate = [*steps[:place], *steps[place + size :]]
            played += 1
            if judge(plan.only(candidate)) == wanted:
                steps, shorter = candidate, True
            else:
                place += size
        if size == 1 and not shorter:
            break
        size = max(size // 2, 1) if size > 1 or shorter else 1
    return plan.only(steps), played
