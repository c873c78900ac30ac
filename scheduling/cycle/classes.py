"""Pods that ask for the same are one class: a node is judged and scored for it once, and again when it has changed.

This is a speed-up only: what a class says of a node is what judging the pod there gives. It holds for plain pods, whose
filters and scores depend on nothing but the node: no rules about other pods on either side, no volumes, no host ports,
no soft taints. Which nodes changed is kept as one list (``Memo.changed``), and every class knows how far it has read.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from scheduling.cycle.fitting import DETAILS_MAX, Candidate, judge, refused_by_devices
from scheduling.cycle.job import Task
from scheduling.devices.fitting import REASON, Misfit
from scheduling.devices.request import Demand
from scheduling.nodes.cluster import ClusterView
from scheduling.nodes.columns import Reasons
from scheduling.nodes.ports import host_ports
from scheduling.nodes.requests import assumed_request
from scheduling.objects import Pod
from scheduling.reasons.kinds import NoNode, Refused

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


#: Less than any score: the node is no candidate.
_NONE = int(np.iinfo(np.int64).min)
#: Of so few changed nodes each is judged by itself; more are judged in columns.
FEW = 8


class PodClass:
    """What is known of one class: of each node its reason as a code (0: it takes the class) and its score.

    Nodes stand in the order of their names. ``read`` is how much of ``Memo.changed`` the class has taken in, ``views``
    the books that each node was judged by. ``_exact`` are the answers of those that were judged by themselves: who is
    chosen always is. Scores are ``_now`` where what is idle suffices, else in ``_later``.
    """

    def __init__(self, names: list[str], reasons: Reasons) -> None:
        self.names, self._reasons = names, reasons
        self.read = -1
        self._views: list[NodeView] = []
        self._codes = np.zeros(len(names), dtype=np.int16)
        self._now = np.full(len(names), _NONE, dtype=np.int64)
        self._later = np.full(len(names), _NONE, dtype=np.int64)
        self._exact: dict[int, Candidate | Refused] = {}
        self._waiting = 0
        self._summary: NoNode | None = None
        self._in_columns = False
        self._demand: Demand | None = None

    # --- keeping up ---

    def refresh(self, session: Session, task: Task) -> None:
        """Judge again every node that has changed."""
        changed = session.memo.changed
        if self.read == len(changed):
            return
        if self.read < 0:
            self._views = list(session.memo.columns_of(session).views)
            self._judge_all(session, task)
        else:
            place = session.memo.places
            names = set(changed[self.read :])
            places = sorted(place[name] for name in names if name in place)
            places = [index for index in places if self._views[index] is not session.views[self.names[index]]]
            for index in places:
                self._views[index] = session.views[self.names[index]]
            self._judge_some(session, task, places)
        self.read = len(changed)
        self._summary = None

    def _judge_all(self, session: Session, task: Task) -> None:
        self._demand = task.traits.demand
        self._in_columns = session.bulk.speaks_for(task)
        found = session.bulk.judge(task, slice(None)) if self._in_columns else None
        if found is None:
            self._one_by_one(session, task, range(len(self.names)))
            return
        codes, scores = found
        self._codes = codes
        self._now = np.where(codes == 0, scores, _NONE)
        special = session.memo.columns_of(session).special
        self._one_by_one(session, task, np.flatnonzero(special).tolist())

    def _judge_some(self, session: Session, task: Task, places: list[int]) -> None:
        found = None
        if len(places) > FEW and self._in_columns:
            where = np.array(places, dtype=np.intp)
            found = session.bulk.judge(task, where)
        if found is None:
            self._one_by_one(session, task, places)
            return
        codes, scores = found
        for index in places:
            self._drop(index)
        self._codes[where] = codes
        self._now[where] = np.where(codes == 0, scores, _NONE)
        special = session.memo.columns_of(session).special[where]
        self._one_by_one(session, task, where[special].tolist())

    def _one_by_one(self, session: Session, task: Task, places: Iterable[int]) -> None:
        for index in places:
            self._judge(session, task, index)

    def _judge(self, session: Session, task: Task, index: int) -> Candidate | Refused:
        """Judge one node by itself."""
        view = self._views[index]
        answer = judge(session, task, view)
        self._drop(index)
        self._exact[index] = answer
        self._now[index] = _NONE
        if isinstance(answer, Refused):
            self._codes[index] = self._reasons.code(answer.reason)
            return answer
        self._codes[index] = 0
        score = session.scores(task, [view])[view.name]
        if answer.now:
            self._now[index] = score
        else:
            self._later[index] = score
            self._waiting += 1
        return answer

    def _drop(self, index: int) -> None:
        """Forget what was found out of a node by itself."""
        self._exact.pop(index, None)
        if self._later[index] != _NONE:
            self._later[index] = _NONE
            self._waiting -= 1

    # --- answers ---

    def best(self, session: Session, task: Task) -> Generator[Candidate, None, None]:
        """Yield the candidates, best first (AL-22, AL-23): the greatest score, of equal ones the first name."""
        for scores, now in ((self._now, True), (self._later, False)):
            if not now and not self._waiting:
                return
            aside: list[tuple[int, int]] = []
            try:
                while scores.size:
                    index = int(scores.argmax())
                    score = int(scores[index])
                    if score == _NONE:
                        break
                    answer = self._exact.get(index) or self._judge(session, task, index)
                    if isinstance(answer, Refused) or answer.now is not now or int(scores[index]) != score:
                        continue
                    aside.append((index, score))
                    yield answer
                    scores[index] = _NONE
            finally:
                for index, score in aside:
                    scores[index] = score

    def scores(self) -> dict[str, int]:
        """Return the candidates with their scores."""
        both = np.maximum(self._now, self._later)
        return {self.names[index]: int(both[index]) for index in np.flatnonzero(both != _NONE).tolist()}

    def refused(self) -> dict[str, Refused]:
        """Return the nodes that do not take the class."""
        return {self.names[index]: self._refusal(index) for index in np.flatnonzero(self._codes).tolist()}

    def _refusal(self, index: int) -> Refused:
        answer = self._exact.get(index)
        if isinstance(answer, Refused):
            return answer
        assert self._demand is not None, "who is judged in columns has a demand"
        word = self._reasons.words[self._codes[index]]
        if word != REASON:
            return Refused(word)
        # For a pod of the class that is nowhere yet; the one whose demand this was may be placed by now.
        misfit = self._views[index].devices.fit(replace(self._demand, uid=""))
        assert isinstance(misfit, Misfit), f"node {self.names[index]} refuses the class"
        return refused_by_devices(misfit)

    @property
    def nowhere(self) -> bool:
        """Whether no node takes the class, neither now nor later."""
        return not self._waiting and not bool((self._now != _NONE).any())

    def no_node(self) -> NoNode:
        """Return why no node takes the class."""
        if self._summary is None:
            counts = np.bincount(self._codes, minlength=1).tolist()
            words = {self._reasons.words[code]: count for code, count in enumerate(counts) if code and count}
            self._summary = NoNode(sum(words.values()), words, tuple(self._details()))
        return self._summary

    def _details(self) -> list[tuple[str, str]]:
        """Return what the first nodes say besides (devices/F-6)."""
        found: list[tuple[str, str]] = []
        plain = [code for code, word in enumerate(self._reasons.words) if word != REASON]
        silent = np.isin(self._codes, plain)
        for index, answer in self._exact.items():
            silent[index] = not (isinstance(answer, Refused) and answer.detail)
        for index in np.flatnonzero(~silent).tolist():
            detail = self._refusal(index).detail
            if detail:
                found.append((self.names[index], detail))
            if len(found) == DETAILS_MAX:
                break
        return found


def plain_cluster(session: Session) -> bool:
    """Tell whether plain pods may be judged by class.

    No node has a soft taint or names its images, and no pod has a rule about other pods.
    """
    by_class = all(plugin.by_class for plugin in session.all_plugins())
    return by_class and session.bulk.bounded and not session.memo.relative


def relative(view: NodeView, cluster: ClusterView) -> bool:
    """Tell whether a node is judged in comparison with others: soft taints, images, pods with rules about pods."""
    node = view.node
    if view.sums.carrying and cluster.facts(view).carried:
        return True
    if node is None:
        return False
    return bool(node.images) or any(taint.get("effect") == "PreferNoSchedule" for taint in node.taints)
