"""The cluster as filters and scores see it: the nodes' books, and the objects that rules refer to.

What the rules need to know of one node again and again (its pods, ports, sums) is derived once per value of its books
(``NodeFacts``): a ``NodeView`` never changes, so its facts hold as long as the view is the same object.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from scheduling import resources
from scheduling.nodes.interpod import PodTerms, carried_terms
from scheduling.nodes.ports import HostPort, host_ports
from scheduling.nodes.view import NodeView
from scheduling.objects import Other, Pod
from scheduling.resources import Vector
from scheduling.status import TERMINAL, TaskStatus


@dataclass(frozen=True)
class NodeFacts:
    """What is derived from one node's books: of the pods that have not ended, those promised or ending included."""

    view: NodeView

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        return tuple(task.pod for task in self.view.tasks.values() if task.status not in TERMINAL)

    @property
    def labels(self) -> Mapping[str, str]:
        return self.view.node.labels if self.view.node else {}

    @cached_property
    def ports(self) -> tuple[tuple[str, HostPort], ...]:
        """The host ports in use, each with the uid of its pod."""
        return tuple((pod.uid, port) for pod in self.pods for port in host_ports(pod))

    @cached_property
    def assumed(self) -> tuple[int, int]:
        """CPU (milli) and memory (bytes) of its pods, containers without a request counted (AL-25)."""
        sums = self.view.sums
        return sums.cpu, sums.memory

    @cached_property
    def used(self) -> Vector:
        """What its pods ask, those included that are only promised (the sums of AL-25)."""
        sums = self.view.sums
        return resources.add(sums.used, sums.pipelined) if sums.pipelined else sums.used

    @cached_property
    def carried(self) -> tuple[tuple[Pod, PodTerms], ...]:
        """Its pods that have rules about other pods, with these rules."""
        if not self.view.sums.carrying:
            return ()
        found = ((pod, carried_terms(pod)) for pod in self.pods if pod.spec.get("affinity"))
        return tuple((pod, terms) for pod, terms in found if terms)

    @cached_property
    def images(self) -> Mapping[str, int]:
        """The sizes in bytes of the images it has, by each of their names."""
        found: dict[str, int] = {}
        for image in self.view.node.images if self.view.node else ():
            size, known = image.get("sizeBytes"), image.get("names")
            if isinstance(size, int) and isinstance(known, list):
                found.update((name, size) for name in known if isinstance(name, str))
        return found


def without_releasing(view: NodeView) -> NodeView:
    """Return the books as the filters will find them once everything that terminates is gone.

    For judging a promise (scheduling/PG-11c); what is bound now must pass with the terminating pods still there.
    """
    left = {uid: task for uid, task in view.tasks.items() if task.status is not TaskStatus.RELEASING}
    return view if len(left) == len(view.tasks) else replace(view, tasks=left)


@dataclass
class ClusterView:
    """The nodes by name and the other objects by kind and key (``Model.others``).

    ``views`` may be a mapping that its owner changes between the placements of a cycle.
    """

    views: Mapping[str, NodeView]
    others: Mapping[str, Mapping[str, Other]] = field(default_factory=dict)
    _facts: dict[str, NodeFacts] = field(default_factory=dict, repr=False)

    def facts(self, view: NodeView) -> NodeFacts:
        """Return the facts of a node's books as they are in ``view``."""
        found = self._facts.get(view.name)
        if found is None or found.view is not view:
            found = NodeFacts(view)
            if self.views.get(view.name) is view:
                self._facts[view.name] = found
        return found

    def all_facts(self, instead: NodeView | None = None) -> list[NodeFacts]:
        """Return the facts of every known node, with ``instead`` in place of the books of that name."""
        views: Iterable[NodeView] = self.views.values()
        if instead is not None:
            views = [instead if view.name == instead.name else view for view in views]
        return [self.facts(view) for view in views if view.node is not None]

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """Return the labels of a namespace, with the one that the API server gives to each."""
        found = self.other("Namespace", name)
        return {"kubernetes.io/metadata.name": name, **(found.labels if found else {})}

    def other(self, kind: str, key: str) -> Other | None:
        """Return an object of a kind that rules refer to, by ``namespace/name`` or name."""
        return self.others.get(kind, {}).get(key)
