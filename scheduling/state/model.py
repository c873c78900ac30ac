"""The state that the log folds to, as the cycle and everyone else reads it.

Only ``scheduling.state.fold`` changes it. A decision reads it and never writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from events.canonical import Json
from events.projection import DEFAULT_SCOPE, Scope
from events.records import BindCommand, EvictCommand, GroupBook, Member, PodBook, Promise
from scheduling.config.model import ConfigReport, SchedulerConfig
from scheduling.devices.environment import DeviceEnv
from scheduling.nodes.view import NodeView
from scheduling.objects import ConfigMap, Other, Pod, PodGroup, PriorityClass, Queue
from scheduling.state.changes import Changes
from scheduling.status import TaskStatus, observed_status


@dataclass(slots=True)
class PodEntry:
    """One pod: what was observed, what was decided, what is said of it.

    ``changed_at`` is the position of the last record that changed what a decision rests on (overtaken commands,
    F-12). ``placement`` is a decided binding that is neither refused nor seen on the pod yet (A-17); ``evicting`` an
    eviction that was decided. ``bind_failures`` counts refusals since the pod was last observed bound. ``lost`` says
    that somebody else bound it and the observation of that is still to come, or that it waits until a command of it,
    whose place is not held any more, is given up: until then it is not tried again.
    """

    pod: Pod
    changed_at: int
    first_seen: int = 0
    placement: Member | None = None
    placement_id: str = ""
    applied_version: str = ""
    evicting: EvictCommand | None = None
    book: PodBook = field(default_factory=PodBook)
    bind_failures: int = 0
    lost: bool = False

    @property
    def node(self) -> str:
        """The node it is on: as observed, else as decided, else empty."""
        return self.pod.node or (self.placement.node if self.placement else "")

    @property
    def status(self) -> TaskStatus:
        """Its status (T-1, T-2): Binding from the decision on, Releasing from an eviction on (F-7)."""
        seen = observed_status(self.pod.phase, bool(self.pod.node), self.pod.deleting)
        if seen is TaskStatus.PENDING and self.placement:
            return TaskStatus.BINDING
        if seen is TaskStatus.PENDING and self.lost:
            return TaskStatus.UNKNOWN
        if self.evicting and seen in (TaskStatus.BOUND, TaskStatus.RUNNING):
            return TaskStatus.RELEASING
        return seen


@dataclass(slots=True)
class GroupEntry:
    """One PodGroup: what was observed and what the scheduler says of it.

    ``complete``: it had minMember of its members on nodes, and since then one at least (scheduling/F-9). Until it has,
    ``attempts`` counts refused bindings of its members (scheduling/F-2).
    """

    group: PodGroup
    changed_at: int
    first_seen: int = 0
    book: GroupBook = field(default_factory=GroupBook)
    attempts: int = 0
    complete: bool = False


@dataclass(slots=True)
class Command:
    """One effect on its way: decided, valid at its place on the log, and without an outcome yet."""

    id: str
    bind: Member | None = None
    evict: EvictCommand | None = None
    group: str = ""


@dataclass(frozen=True, slots=True)
class Term:
    """A role's current term: its number, who holds it, and how many of its records were folded."""

    number: int = 0
    writer: str = ""
    next_record: int = 0


@dataclass
class Model:
    """The whole state.

    Keys: pods by uid, nodes (``NodeView``) by name in no order, PodGroups, PriorityClasses, Queues, ... by ``key``
    (``namespace/name`` or name). ``members`` are the uids of our pods by PodGroup key, whether the group exists or not.
    """

    cluster: str = ""
    incarnation: str = ""
    time_ms: int = 0
    terms: dict[str, Term] = field(default_factory=dict)
    #: Whose pods are ours (scheduling/AS-2) and where the configurations are: as the watcher's term says.
    scope: Scope = DEFAULT_SCOPE
    listed: set[str] = field(default_factory=set)

    pods: dict[str, PodEntry] = field(default_factory=dict)
    pod_uids: dict[str, str] = field(default_factory=dict)
    nodes: dict[str, NodeView] = field(default_factory=dict)
    node_changed_at: dict[str, int] = field(default_factory=dict)
    groups: dict[str, GroupEntry] = field(default_factory=dict)
    members: dict[str, set[str]] = field(default_factory=dict)
    queues: dict[str, Queue] = field(default_factory=dict)
    priority_classes: dict[str, PriorityClass] = field(default_factory=dict)
    config_maps: dict[str, ConfigMap] = field(default_factory=dict)
    others: dict[str, dict[str, Other]] = field(default_factory=dict)

    config: SchedulerConfig | None = None
    config_report: ConfigReport = field(default_factory=lambda: ConfigReport(None))
    config_seen: bool = False
    config_accepted: bool = False
    #: What the last configuration that was accepted is written as.
    config_text: str = ""
    env: DeviceEnv = field(default_factory=DeviceEnv)
    device_warnings: tuple[str, ...] = ()

    commands: dict[str, Command] = field(default_factory=dict)
    promises: dict[str, Promise] = field(default_factory=dict)
    search_start: int = 0
    last_vgpu_time: dict[str, int] = field(default_factory=dict)
    decided: bool = False
    #: Who changed lately, for whoever keeps something between decisions; no part of the state.
    changes: Changes = field(default_factory=Changes, compare=False, repr=False)

    def ours(self, pod: Pod) -> bool:
        """Tell whether we schedule this pod (scheduling/AS-2)."""
        return pod.scheduler in self.scope.scheduler_names


@dataclass
class Placed:
    """One pod placed by a cycle: its node and what its Binding carries (``Member`` without numbers and times)."""

    uid: str
    node: str
    allocation: str = ""
    gpu_index: str = ""
    score: int = 0


@dataclass
class Gang:
    """What one commit of a cycle binds together."""

    group: str
    placed: list[Placed]


@dataclass
class Evicted:
    """A pod that makes way, and for whom (fields as ``EvictCommand``)."""

    uid: str
    reason: str
    for_group: str = ""
    rule: str = ""
    victim_share: str = ""
    preemptor_share: str = ""


@dataclass
class CycleResult:
    """What one cycle found: the whole answer, not only what is new (``scheduling.decide`` takes the difference).

    ``groups`` and ``pods`` hold the books of PodGroups (by key) and waiting pods of ours (by uid) that were looked at;
    of all others it says what is said already. A cycle without memory looks at every one.
    """

    gangs: list[Gang] = field(default_factory=list)
    evictions: list[Evicted] = field(default_factory=list)
    groups: dict[str, GroupBook] = field(default_factory=dict)
    pods: dict[str, PodBook] = field(default_factory=dict)
    promises: list[Promise] = field(default_factory=list)
    search_start: int = 0


__all__ = [
    "BindCommand", "Command", "CycleResult", "Evicted", "Gang", "GroupEntry", "Json", "Mapping", "Model", "Placed",
    "PodEntry", "Term",
]  # fmt: skip
