"""predicates: the filters that Kubernetes has (scheduling/AL-20)."""

from __future__ import annotations

from dataclasses import replace

from scheduling.cycle.job import Task
from scheduling.cycle.plugin import Plugin, Refused
from scheduling.nodes.predicates import PodFilter, Predicates
from scheduling.nodes.view import NodeView


class PredicatesPlugin(Plugin):
    """Asks the node rules, over the nodes as tried so far."""

    name = "predicates"

    def opened(self) -> None:
        self._rules = Predicates(self.option)
        self._filters: dict[int, PodFilter] = {}

    def prepare(self, task: Task) -> str:
        return self._rules.prefilter(task.pod, self.session.cluster) or ""

    def check(self, task: Task, view: NodeView) -> Refused | None:
        if self.session.plain and task.traits.kind is not None:
            reason = self._filter(task, task.traits.kind).check(view)
        else:
            reason = self._rules.check(task.pod, view, self.session.cluster)
        return Refused(reason) if reason else None

    def _filter(self, task: Task, kind: int) -> PodFilter:
        """Return the filter of a class of plain pods: for a pod of it that is nowhere yet."""
        found = self._filters.get(kind)
        if found is None:
            found = self._filters[kind] = self._rules.prepare(replace(task.pod, uid=""), self.session.cluster)
        return found
