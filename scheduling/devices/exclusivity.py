"""The audit view of exclusivity: who reserves which card for which rule (devices/X-4)."""

from __future__ import annotations

from scheduling.devices.arguments import rule_id
from scheduling.devices.books import NodeDevices
from scheduling.devices.register import HAMI_CORE


def exclusivity_map(devices: NodeDevices) -> list[tuple[str, str, str]]:
    """Return (rule id, card UUID, pod uid) of every reservation on the node, sorted; MIG cards have none (X-6)."""
    found = {
        (rule_id(rule), card.uuid, holder.uid)
        for card in devices.cards
        if card.mode == HAMI_CORE
        for holder in card.holders
        for rule in holder.rules
    }
    return sorted(found)
