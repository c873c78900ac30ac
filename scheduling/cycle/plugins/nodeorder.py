"""nodeorder: how good a place a node is (scheduling/AL-25)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduling.cycle.job import Task
from scheduling.cycle.plugin import Plugin
from scheduling.nodes.nodeorder import NodeOrder
from scheduling.nodes.view import NodeView


class NodeorderPlugin(Plugin):
    """Asks the node scores, over the nodes as tried so far."""

    name = "nodeorder"

    def opened(self) -> None:
        self._rules = NodeOrder(self.option)

    def scores(self, task: Task, views: Sequence[NodeView]) -> Mapping[str, int]:
        return self._rules.scores(task.pod, views, self.session.cluster)
