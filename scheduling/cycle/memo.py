"""What earlier cycles of one process found out and still holds: it saves work and never changes a result."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, replace

from scheduling.config.model import SchedulerConfig
from scheduling.cycle.classes import CHANGES_MAX, CLASSES_MAX, PodClass, class_of
from scheduling.cycle.traits import Traits, traits_of
from scheduling.devices.environment import DeviceEnv
from scheduling.nodes.cluster import ClusterView
from scheduling.nodes.view import NodeView
from scheduling.objects import Other, Pod

_SLACK = 64


@dataclass
class Memo:
    """Traits by pod uid, classes by number, and which nodes changed since the first cycle, in order.

    ``cluster`` holds the views as the last cycle left them, trials included.
    """

    env: DeviceEnv | None = None
    raw: bool = False
    config: SchedulerConfig | None = None
    traits: dict[str, tuple[Pod, Traits]] = field(default_factory=dict)
    kinds: dict[Hashable, int] = field(default_factory=dict)
    classes: dict[int, PodClass] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    cluster: ClusterView = field(default_factory=lambda: ClusterView({}))
    _last_kind: int = 0

    def traits_of(self, pod: Pod, env: DeviceEnv, raw: bool) -> Traits:
        """Return the traits of a pod, worked out once for each form of it."""
        if env is not self.env or raw != self.raw:
            self.env, self.raw, self.traits = env, raw, {}
            self._forget_classes()
        known = self.traits.get(pod.uid)
        if known is not None and known[0] is pod:
            return known[1]
        traits = traits_of(pod, env, raw)
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

    def begin(
        self, views: Mapping[str, NodeView], others: Mapping[str, Mapping[str, Other]], config: SchedulerConfig
    ) -> ClusterView:
        """Begin a cycle over these views; return the cluster with what is still known of its nodes."""
        before = self.cluster.views
        if config is not self.config or len(self.classes) > CLASSES_MAX or len(self.changed) > CHANGES_MAX:
            self.config = config
            self._forget_classes()
        if self.classes:
            names = {*before, *views}
            self.changed += sorted(name for name in names if before.get(name) is not views.get(name))
        self.cluster.views, self.cluster.others = views, others
        return self.cluster

    def _forget_classes(self) -> None:
        self.classes, self.changed = {}, []

    def forget(self, alive: Mapping[str, object]) -> None:
        """Drop what belongs to pods that are gone, once it is more than half."""
        if len(self.traits) > 2 * len(alive) + _SLACK:
            self.traits = {uid: item for uid, item in self.traits.items() if uid in alive}
        if len(self.kinds) > 2 * len(self.traits) + _SLACK:
            self.kinds, self.traits = {}, {}
            self._forget_classes()
