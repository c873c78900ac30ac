"""Why a binding came to nothing, as its outcome tells it."""

from __future__ import annotations

from events.records import Outcome
from scheduling.reasons.kinds import BindFailed, BindReason, PreBindFailed


def of_refusal(outcome: Outcome) -> BindReason:
    """Return the reason of a bind that was refused (scheduling/F-2, F-3)."""
    if outcome.prebind:
        return PreBindFailed(f"{outcome.namespace}/{outcome.name}", outcome.message)
    return BindFailed(outcome.node, outcome.message)
