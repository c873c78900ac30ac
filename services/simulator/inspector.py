"""The onlooker's fold: the state that the log folds to, and every placement that was ever decided, by its id.

It is there from the first record on, so it still knows what a cut log has lost.
"""

from __future__ import annotations

from events.records import Batch, Member, Record
from scheduling.state.decisions import decision_prefix
from scheduling.state.fold import Fold


class Inspector(Fold):
    """A fold that remembers placements."""

    def __init__(self) -> None:
        super().__init__()
        self.placements: dict[str, list[Member]] = {}

    def apply(self, position: int, record: Record, chain_before: str) -> str:
        verdict = super().apply(position, record, chain_before)
        if isinstance(record.body, Batch) and verdict.startswith("applied"):
            prefix = decision_prefix(self.model, record.term, record.body.batch)
            for command in record.body.binds:
                for member in command.members:
                    self.placements.setdefault(f"{prefix}/{member.n}", []).append(member)
        return verdict
