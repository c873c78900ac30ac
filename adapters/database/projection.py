"""The fold that notes which rows change: the pure part of the projector, without a database.

It folds like everybody (it holds a ``Fold``) and collects what the tables have to become since it was last asked. What
happened (decisions, commands) is noted record by record; what is (placements, shares, claims) is taken from the nodes'
books, which are values: a node whose books are the same value has the same rows.
"""

from __future__ import annotations

from collections.abc import Iterable

from adapters.database import rows
from adapters.database.rows import Key, Row
from adapters.database.tables import CommandRow, Decision
from events.records import Batch, Observed, Outcome, Record
from scheduling.nodes.view import NodeView
from scheduling.state.fold import APPLIED, Fold


class Projection:
    """Folds records and collects row changes. ``take`` hands them over.

    It may start from a state; then ``resume`` tells it which commands the tables hold as waiting.
    """

    def __init__(self, fold: Fold | None = None) -> None:
        self.fold = fold or Fold()
        self._changes: dict[Key, Row | None] = {}
        self._waiting: dict[str, Row] = {}
        self._views: dict[str, NodeView] = {}
        self._rows: dict[str, dict[Key, Row]] = {}

    def apply(self, position: int, record: Record, chain_before: str) -> str:
        """Fold one record and note what it changes."""
        anchored = self.fold.model.incarnation
        verdict = self.fold.apply(position, record, chain_before)
        if self.fold.model.incarnation != anchored:
            for name in sorted(self._waiting):
                self._settle(name, position, "dropped", "the log began anew")
        match record.body:
            case Batch() as batch:
                self._batch(position, record, batch, verdict)
            case Outcome() as outcome if verdict == APPLIED:
                self._settle(outcome.command, position, outcome.result, outcome.message)
            case Observed(kind="PodGroup") as seen:
                self._regroup(seen)
        return verdict

    def set_aside(self, position: int, reason: str, chain_before: str = "") -> None:
        """A message that is no record changes no row; the fold counts it."""
        self.fold.set_aside(position, reason, chain_before)

    def resume(self, waiting: Iterable[Row]) -> None:
        """Take over the rows of the commands that wait, as the tables hold them at this place."""
        self._waiting = {row["id"]: row for row in waiting}

    def take(self) -> dict[Key, Row | None]:
        """Return the rows that have changed since the last call (None: to be removed)."""
        for name in sorted(self._waiting.keys() - self.fold.model.commands.keys()):
            row = self._waiting[name]
            self._settle(name, row["position"], "dropped", "the pod is gone")
        self._follow_nodes()
        changes, self._changes = self._changes, {}
        return changes

    def _batch(self, position: int, record: Record, batch: Batch, verdict: str) -> None:
        model = self.fold.model
        self._note(Decision, rows.decision(model, position, record, batch, verdict))
        if not verdict.startswith(APPLIED):
            return
        for row in rows.commands(model, position, record, batch):
            self._note(CommandRow, row)
            if row["result"] == "waiting":
                self._waiting[row["id"]] = row

    def _settle(self, command: str, position: int, result: str, message: str) -> None:
        row = self._waiting.pop(command, None)
        if row is not None:
            settled = {**row, "result": result, "result_position": position, "message": message}
            self._note(CommandRow, rows.clean(settled))

    def _regroup(self, seen: Observed) -> None:
        """A PodGroup's queue stands in the rows of its pods: their nodes are looked at again."""
        meta = seen.object.get("metadata")
        if isinstance(meta, dict):
            for uid in self.fold.model.members.get(f"{meta.get('namespace')}/{meta.get('name')}", ()):
                entry = self.fold.model.pods.get(uid)
                if entry is not None:
                    self._views.pop(entry.node, None)

    def _follow_nodes(self) -> None:
        model = self.fold.model
        changed = [name for name, view in model.nodes.items() if self._views.get(name) is not view]
        gone = [name for name in self._rows if name not in model.nodes]
        for name in (*gone, *changed):
            self._changes.update(dict.fromkeys(self._rows.pop(name, {})))
            self._views.pop(name, None)
        for name in changed:
            view = model.nodes[name]
            self._views[name], self._rows[name] = view, rows.of_node(model, view)
            self._changes.update(self._rows[name])

    def _note(self, table: type[Decision] | type[CommandRow], row: Row) -> None:
        self._changes[rows.key_of(table, row)] = row
