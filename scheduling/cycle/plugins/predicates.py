"""predicates: the filters that Kubernetes has (scheduling/AL-20)."""

from __future__ import annotations

from scheduling.cycle.job import Task
from scheduling.cycle.plugin import Plugin, Refused
from scheduling.nodes.predicates import Predicates
from scheduling.nodes.view import NodeView


class PredicatesPlugin(Plugin):
    """Asks the node rules, over the nodes as tried so far."""

    name = "predicates"

    def opened(self) -> None:
        self._rules = Predicates(self.option)

    def prepare(self, task: Task) -> str:
        return self._rules.prefilter(task.pod, self.session.cluster) or ""

    def check(self, task: Task, view: NodeView) -> Refused | None:
        reason = self._rules.check(task.pod, view, self.session.cluster)
        return Refused(reason) if reason else None
