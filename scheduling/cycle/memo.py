"""What earlier cycles of one process found out and still holds: it saves work and never changes a result."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from scheduling import resources
from scheduling.config.model import SchedulerConfig
from scheduling.cycle.classes import CHANGES_MAX, CLASSES_MAX, PodClass, class_of, relative
from scheduling.cycle.standing import Standing
from scheduling.cycle.traits import Traits, traits_of
from scheduling.devices.environment import DeviceEnv
from scheduling.nodes.cluster import ClusterView
from scheduling.nodes.columns import NodeColumns, Reasons
from scheduling.nodes.view import NodeView
from scheduling.objects import Other, Pod
from scheduling.resources import Vector

if TYPE_CHECKING:
    from scheduling.cycle.session import Session

_SLACK = 64


@dataclass
class Memo:
    """Traits by pod uid, classes by number, and which nodes changed since the first cycle, in order.

    ``cluster`` holds the views as the last cycle left them, trials included. ``searches`` counts the tasks for which
    nodes were searched.

    ``names`` are the nodes that exist, in order, ``places`` where each stands, ``total`` what they have together, and
    ``relative`` those that are judged in comparison with others. ``moves`` counts the changes of nodes. ``standing``
    are the jobs; there are none while a cycle is under way, so one that fails leaves nothing half-done behind.
    """

    env: DeviceEnv | None = None
    raw: bool = False
    config: SchedulerConfig | None = None
    traits: dict[str, tuple[Pod, Traits]] = field(default_factory=dict)
    kinds: dict[Hashable, int] = field(default_factory=dict)
    classes: dict[int, PodClass] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    cluster: ClusterView = field(default_factory=lambda: ClusterView({}))
    searches: int = 0
    names: list[str] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    total: Vector = field(default_factory=dict)
    relative: set[str] = field(default_factory=set)
    columns: NodeColumns | None = None
    reasons: Reasons = field(default_factory=Reasons)
    _last_kind: int = 0
    moves: int = 0
    _largest: int | None = None
    standing: Standing | None = None

    def begin(self, env: DeviceEnv, config: SchedulerConfig, raw: bool) -> None:
        """Begin a cycle; what rests on another configuration is forgotten."""
        if env is not self.env or config is not self.config or raw != self.raw:
            self.env, self.config, self.raw = env, config, raw
            self.traits, self.standing, self._largest = {}, None, None
            self._forget_classes()
        if len(self.classes) > CLASSES_MAX or len(self.changed) > CHANGES_MAX:
            self._forget_classes()

    def traits_of(self, pod: Pod) -> Traits:
        """Return the traits of a pod, worked out once for each form of it."""
        assert self.env is not None, "a cycle has begun"
        known = self.traits.get(pod.uid)
        if known is not None and known[0] is pod:
            return known[1]
        traits = traits_of(pod, self.env, self.raw)
        found = class_of(pod, traits)
        traits = traits if found is None else replace(traits, kind=self._kind(found))
        self.traits[pod.uid] = (pod, traits)
        return traits

    def _kind(self, found: Hashable) -> int:
        number = self.kinds.get(found)
        if number is None:
            self._last_kind += 1
            number = self.kinds[found] = self._last_kind
        return number

    def look_at(self, views: Mapping[str, NodeView], others: Mapping[str, Mapping[str, Other]]) -> ClusterView:
        """Take these views for the cycle; return the cluster with what is still known of its nodes."""
        before = self.cluster.views
        changed = [name for name, view in views.items() if before.get(name) is not view]
        gone = [name for name in before if name not in views] if len(before) != len(views) - len(changed) else []
        self.moves += len(changed) + len(gone)
        if self.classes:
            self.changed += sorted((*changed, *gone))
        self.cluster.views, self.cluster.others = views, others
        moved = bool(gone)
        for name in changed:
            old, view = before.get(name), views[name]
            moved = moved or old is None or old.node is not view.node
            self.note(view)
        self.relative.difference_update(gone)
        if moved:
            self._look_at_nodes(views)
        return self.cluster

    def largest_card(self, views: Mapping[str, NodeView]) -> int:
        """Return the memory of the largest card of all nodes (MiB)."""
        if self._largest is None:
            cards = (card.spec.memory for name in self.names for card in views[name].devices.cards)
            self._largest = max(cards, default=0)
        return self._largest

    def _look_at_nodes(self, views: Mapping[str, NodeView]) -> None:
        self._largest = None
        names = sorted(name for name, view in views.items() if view.node is not None)
        total = resources.total(views[name].room for name in names)
        self.total = self.total if total == self.total else total
        if names != self.names:
            self.names = names
            self.places = {name: index for index, name in enumerate(names)}

    def note(self, view: NodeView) -> None:
        """See whether a node is judged by itself alone."""
        if view.node is not None and relative(view, self.cluster):
            self.relative.add(view.name)
        else:
            self.relative.discard(view.name)

    def columns_of(self, session: Session) -> NodeColumns:
        """Return the nodes in columns, up to date."""
        found = self.columns
        if found is None or found.names is not self.names:
            found = self.columns = NodeColumns(self.names, session.views, self.reasons)
        elif found.read != len(self.changed):
            found.update(dict.fromkeys(self.changed[found.read :]), session.views)
        found.read = len(self.changed)
        return found

    def class_known(self, kind: int) -> PodClass:
        """Return what is known of a class; nothing yet if the nodes are others now."""
        known = self.classes.get(kind)
        if known is None or known.names is not self.names:
            known = self.classes[kind] = PodClass(self.names, self.reasons)
        return known

    def _forget_classes(self) -> None:
        self.classes, self.changed, self.columns = {}, [], None

    def forget(self, alive: Mapping[str, object]) -> None:
        """Drop what belongs to pods that are gone, once it is more than half."""
        if len(self.traits) > 2 * len(alive) + _SLACK:
            self.traits = {uid: item for uid, item in self.traits.items() if uid in alive}
        if len(self.kinds) > 2 * len(self.traits) + _SLACK:
            self.kinds, self.traits = {}, {}
            self._forget_classes()
