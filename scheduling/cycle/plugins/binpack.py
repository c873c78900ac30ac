"""binpack: nodes that are fuller already come first (scheduling/AL-24)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduling.cycle.job import Task
from scheduling.cycle.plugin import Plugin
from scheduling.nodes import column_scores
from scheduling.nodes.binpack import Binpack
from scheduling.nodes.columns import Integers, NodeColumns, Where
from scheduling.nodes.view import NodeView


class BinpackPlugin(Plugin):
    """Asks the packing score; vGPU names count only where they are listed."""

    name = "binpack"

    def opened(self) -> None:
        self._rules = Binpack(self.option)

    def scores(self, task: Task, views: Sequence[NodeView]) -> Mapping[str, int]:
        return {view.name: self._rules.score(task.traits.request, view) for view in views}

    def scores_at(self, task: Task, columns: NodeColumns, where: Where) -> Integers | None:
        return column_scores.binpack(columns, where, self._rules, task.traits.request)

    def weights(self) -> Sequence[int]:
        return (self._rules.weight, *self._rules.resources.values())
