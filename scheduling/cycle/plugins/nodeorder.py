"""nodeorder: how good a place a node is (scheduling/AL-25)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from scheduling.cycle.job import Task
from scheduling.cycle.plugin import Plugin
from scheduling.nodes.nodeorder import NodeOrder
from scheduling.nodes.view import NodeView


class NodeorderPlugin(Plugin):
    """Asks the node scores, over the nodes as tried so far."""

    name = "nodeorder"

    def opened(self) -> None:
        self._rules = NodeOrder(self.option)
        # For plain pods (``cycle.classes``) these parts are the same on every node; looking at all nodes is saved.
        self._plain = NodeOrder(self.option)
        self._plain.weights = replace(self._rules.weights, pod_affinity=0, image_locality=0, topology_spread=0)

    def scores(self, task: Task, views: Sequence[NodeView]) -> Mapping[str, int]:
        plain = self.session.plain and task.traits.kind is not None
        rules = self._plain if plain else self._rules
        return rules.scores(task.pod, views, self.session.cluster)
