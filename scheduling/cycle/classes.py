"""Pods that ask for the same are one class: a node is judged and scored for it once, and again when it has changed.

This is a speed-up only: what a class says of a node is what judging the pod there gives. It holds for plain pods, whose
filters and scores depend on nothing but the node: no rules about other pods on either side, no volumes, no host ports,
no soft taints. Which nodes changed is kept as one list (``Memo.changed``), and every class knows how far it has read.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Generator, Hashable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from scheduling.cycle.fitting import Candidate, errors_of, judge
from scheduling.cycle.job import FitErrors, Task
from scheduling.cycle.plugin import Refused
from scheduling.nodes.ports import host_ports
from scheduling.nodes.requests import assumed_request
from scheduling.objects import Pod

if TYPE_CHECKING:
    from scheduling.cycle.session import Session
    from scheduling.cycle.traits import Traits
    from scheduling.nodes.view import NodeView

#: Beyond these, what is remembered is dropped and found out again.
CLASSES_MAX, CHANGES_MAX = 256, 200_000


def class_of(pod: Pod, traits: Traits) -> Hashable | None:
    """Return what a plain pod's answers depend on, None for a pod that is not plain."""
    spec = pod.spec
    if spec.get("affinity") or spec.get("topologySpreadConstraints") or spec.get("volumes") or host_ports(pod):
        return None
    demand = traits.demand
    asked = (demand.kind, demand.requests, demand.legacy, demand.mode, demand.selection, demand.rules)
    return (
        tuple(sorted(traits.request.items())),
        tuple(sorted(assumed_request(pod).items())),
        tuple(sorted(pod.request.items())),
        asked,
        demand.group if demand.spread else "",
        json.dumps([spec.get("nodeSelector"), spec.get("tolerations"), spec.get("nodeName")], sort_keys=True),
        traits.revocable,
    )


@dataclass
class PodClass:
    """What is known of one class: the answer of each node, and the candidates, best first.

    ``read`` is how much of ``Memo.changed`` it has taken in. A heap entry counts only while its stamp is its node's.
    """

    read: int = 0
    answers: dict[str, Candidate | Refused] = field(default_factory=dict)
    stamps: dict[str, int] = field(default_factory=dict)
    now: list[tuple[int, str, int]] = field(default_factory=list)
    later: list[tuple[int, str, int]] = field(default_factory=list)
    stamp: int = 0
    summary: FitErrors | None = None

    def refresh(self, session: Session, task: Task) -> None:
        """Judge again every node that has changed."""
        changed = session.memo.changed
        if not self.stamps:
            names: list[str] = session.names
        elif self.read == len(changed):
            return
        else:
            names = sorted(set(changed[self.read :]))
        self.read = len(changed)
        self.summary = None
        for name in names:
            self._judge(session, task, name)
        if len(self.now) + len(self.later) > 4 * len(self.answers) + 64:
            self.now = [entry for entry in self.now if self.stamps.get(entry[1]) == entry[2]]
            self.later = [entry for entry in self.later if self.stamps.get(entry[1]) == entry[2]]
            heapq.heapify(self.now)
            heapq.heapify(self.later)

    def _judge(self, session: Session, task: Task, name: str) -> None:
        self.stamp += 1
        self.stamps[name] = self.stamp
        view = session.views.get(name)
        if view is None or view.node is None:
            self.answers.pop(name, None)
            return
        answer = self.answers[name] = judge(session, task, view)
        if isinstance(answer, Candidate):
            score = session.scores(task, [view])[name]
            heapq.heappush(self.now if answer.now else self.later, (-score, name, self.stamp))

    def best(self) -> Generator[Candidate, None, None]:
        """Yield the candidates, best first (AL-22, AL-23). What was yielded is kept when the reader stops."""
        for heap in (self.now, self.later):
            aside = []
            try:
                while heap:
                    entry = heapq.heappop(heap)
                    if self.stamps.get(entry[1]) != entry[2]:
                        continue
                    aside.append(entry)
                    answer = self.answers[entry[1]]
                    assert isinstance(answer, Candidate), entry
                    yield answer
            finally:
                for entry in aside:
                    heapq.heappush(heap, entry)

    def refused(self) -> dict[str, Refused]:
        """Return the nodes that do not take the class."""
        return {name: answer for name, answer in self.answers.items() if isinstance(answer, Refused)}

    def errors(self) -> FitErrors:
        """Return why no node takes the class."""
        if self.summary is None:
            self.summary = errors_of(self.refused())
        return self.summary


def plain_cluster(session: Session) -> bool:
    """Tell whether plain pods may be judged by class.

    No node has a soft taint or names its images, and no pod has a rule about other pods.
    """
    if not all(plugin.by_class for plugin in session.all_plugins()):
        return False
    return not any(_relative(view) or session.cluster.facts(view).carried for view in _known(session))


def _known(session: Session) -> Iterator[NodeView]:
    return (session.views[name] for name in session.names)


def _relative(view: NodeView) -> bool:
    """Tell whether a node is scored in comparison with others: by soft taints, or by the images that it has."""
    node = view.node
    if node is None:
        return False
    return bool(node.images) or any(taint.get("effect") == "PreferNoSchedule" for taint in node.taints)
