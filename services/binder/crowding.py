"""Places of decisions that stand, on which there is no room for them any more.

A decision holds its place from where it stands on the log. Others may come upon its node and cards all the same: a pod
that an API server brought back that was restored to an older state, or one that somebody else bound. And a card, or
what a node offers, may shrink. The binder sees that as soon as the log tells of it; the command is given up then, and
decided anew. It measures as the scheduler does: what that would not place there now is not bound there.
"""

from __future__ import annotations

from events.records import Member
from scheduling.config.model import SchedulerConfig
from scheduling.state.model import Command, Model


def no_room(model: Model, command: Command, member: Member) -> str:
    """Say of what a placement's node has no room left, as far as the log tells; empty if there is room."""
    view, entry = model.nodes.get(member.node), model.pods.get(member.uid)
    if view is None or view.node is None or entry is None or entry.placement_id != command.id:
        return ""
    cards = view.devices.crowded_for(member.uid)
    short = view.crowded_for(member.uid, pods=_counts_pods(model.config))
    parts = [f"{word} {', '.join(found)}" for word, found in (("on", cards), ("in", short)) if found]
    return f"node {member.node} has no room left {' and '.join(parts)}" if parts else ""


def _counts_pods(config: SchedulerConfig | None) -> bool:
    """Tell whether a node's number of pods is looked at (AL-20); so it is in the built-in configuration (CFG-4a)."""
    if config is None:
        return True
    predicates = config.plugin("predicates")
    return predicates is not None and predicates.on("enablePredicate")
