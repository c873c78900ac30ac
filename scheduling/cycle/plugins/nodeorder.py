"""nodeorder: how good a place a node is (scheduling/AL-25)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace

from scheduling.cycle.job import Task
from scheduling.cycle.plugin import Plugin
from scheduling.nodes import column_scores
from scheduling.nodes.columns import Integers, NodeColumns, Where
from scheduling.nodes.nodeorder import NodeOrder
from scheduling.nodes.requests import assumed_request
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
        if plain:
            cluster = self.session.cluster
            return {view.name: self._plain.plain_score(task.pod, view, cluster) for view in views}
        return self._rules.scores(task.pod, views, self.session.cluster)

    def scores_at(self, task: Task, columns: NodeColumns, where: Where) -> Integers | None:
        pod = task.pod
        return column_scores.node_order(columns, where, self._plain.weights, assumed_request(pod), pod.request)

    def weights(self) -> Sequence[int]:
        return astuple(self._rules.weights)
