"""predicates: the filters that Kubernetes has (scheduling/AL-20)."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np

from scheduling.cycle.job import Task
from scheduling.cycle.plugin import Plugin
from scheduling.nodes.columns import FITS, Codes, NodeColumns, Where
from scheduling.nodes.predicates import POD_NUMBER, PodFilter, Predicates
from scheduling.nodes.view import NodeView
from scheduling.objects import Node
from scheduling.reasons.kinds import Refused


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
            reason = self._filter_of(task).check(view)
        else:
            reason = self._rules.check(task.pod, view, self.session.cluster)
        return Refused(reason) if reason else None

    def check_at(self, task: Task, columns: NodeColumns, where: Where, codes: Codes) -> None:
        reasons = columns.reasons
        full = (columns.live[where] >= columns.pods[where]) & (codes == FITS)
        if full.any():
            codes[full] = reasons.code(POD_NUMBER)

        def code(node: Node) -> int:
            word = self._filter_of(task).fixed(node)
            return reasons.code(word) if word else FITS

        fixed = columns.fixed(_rules(task), code)
        if fixed is not None:
            np.copyto(codes, fixed[where], where=codes == FITS)

    def _filter_of(self, task: Task) -> PodFilter:
        """Return the filter of a class of plain pods in a plain cluster: for a pod of it that is nowhere yet."""
        kind = task.traits.kind
        assert kind is not None, f"{task.uid} is of no class"
        found = self._filters.get(kind)
        if found is None:
            pod = replace(task.pod, uid="")
            found = self._filters[kind] = self._rules.prepare(pod, self.session.cluster, alone=True)
        return found


def _rules(task: Task) -> str:
    """Return what a plain pod says of nodes themselves, as a text."""
    spec = task.pod.spec
    rules = [spec.get("nodeSelector"), spec.get("tolerations")]
    return json.dumps(rules, sort_keys=True) if any(rules) else ""
