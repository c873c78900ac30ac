"""Cards of a decision that stands, on which there is no room for it any more.

A decision holds its place from where it stands on the log. Others may come upon its cards all the same: a pod that an
API server brought back that was restored to an older state, or one that somebody else bound. And a card may shrink. The
binder sees that as soon as the log tells of it; the command is given up then, and decided anew.
"""

from __future__ import annotations

from events.records import Member
from scheduling.devices import record
from scheduling.state.model import Command, Model


def crowded_cards(model: Model, command: Command, member: Member) -> list[str]:
    """Return the cards of a placement that are held beyond what they have, as far as the log tells."""
    view, entry = model.nodes.get(member.node), model.pods.get(member.uid)
    if not member.allocation or view is None or entry is None or entry.placement_id != command.id:
        return []
    books = view.devices.books
    cards = {share.uuid for share in record.decode(member.allocation).shares}
    return sorted(uuid for uuid in cards if uuid in books and books[uuid].crowded_for(member.uid))
