"""What one pod holds on its node (devices/A-4 to A-5, A-14, A-16, G-8).

A claim belongs to the pod: it waits for its node, survives the node's changes, and ends with the pod (N-23a). It is a
function of the pod, its record and the environment, so a change of configuration reads it anew (N-16, X-10).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from events import names
from scheduling import resources
from scheduling.devices import record as grammar
from scheduling.devices.arguments import Rule, matching
from scheduling.devices.environment import DeviceEnv
from scheduling.devices.record import Share
from scheduling.devices.register import index as card_index
from scheduling.devices.request import Demand, demand_of, group_key, legacy_amount
from scheduling.objects import Pod
from scheduling.resources import Vector


@dataclass(frozen=True)
class Claim:
    """The claim of a live pod.

    ``asked`` is its queue charge as asked (R-13 before placement). ``unreadable``: its record has an entry whose card
    is unknown (A-4a); ``missing``: it asked for cards and has no record (A-4b). ``indices`` and ``legacy_memory`` are
    legacy sharing's. ``record`` and ``gpu_index`` are the texts it was read from.
    """

    uid: str
    key: str
    group: str = ""
    rules: tuple[Rule, ...] = ()
    shares: tuple[Share, ...] = ()
    asked: Vector = field(default_factory=dict)
    number: int = 0
    is_vgpu: bool = False
    unreadable: bool = False
    missing: bool = False
    indices: tuple[int, ...] = ()
    legacy_memory: int = 0
    record: str = ""
    gpu_index: str = ""
    demand: Demand = field(default_factory=lambda: Demand("none", "", resources.EMPTY), compare=False, repr=False)
    pod: Pod = field(default_factory=lambda: Pod(name=""), compare=False, repr=False)

    @property
    def fault(self) -> str:
        """Why the node of this pod takes no new vGPU pods, after the pod's and node's names; empty if it does."""
        if self.unreadable:
            return "an unreadable allocation record"
        return "no allocation record" if self.missing else ""

    def under(self, env: DeviceEnv) -> Claim:
        """Return the same claim as another configuration reads it."""
        return _claim(self.pod, env, self.record, self.gpu_index)


def claim_of(pod: Pod, env: DeviceEnv) -> Claim | None:
    """Return what an assigned, live pod holds by its annotations (A-16); None if it can hold nothing.

    On a pod without a node the annotations mean nothing (A-7a). A pod with a deletion timestamp is still live.
    """
    if not pod.node or pod.finished:
        return None
    record, gpu_index = pod.annotations.get(names.VGPU_IDS, ""), pod.annotations.get(names.GPU_INDEX, "")
    extended = any("/" in name for item in pod.containers for name in item.limits)
    return _claim(pod, env, record, gpu_index) if record or gpu_index or extended else None


def planned_claim(pod: Pod, env: DeviceEnv, allocation: str, gpu_index: str) -> Claim:
    """Return what a pod holds by a decision, whatever its annotations say (A-7a, A-17)."""
    known: tuple[DeviceEnv, Claim] | None = pod.__dict__.get("_planned")
    if known is not None and known[0] is env and (known[1].record, known[1].gpu_index) == (allocation, gpu_index):
        return known[1]
    claim = _claim(pod, env, allocation, gpu_index)
    # A decision is tried, and then folded, for the same pod.
    pod.__dict__["_planned"] = (env, claim)
    return claim


def _claim(pod: Pod, env: DeviceEnv, record: str, gpu_index: str) -> Claim:
    demand = demand_of(pod, env)
    read = grammar.decode(record)
    number = sum(item.count for item in demand.requests)
    # Stray text is harmless only while the record still says where every share asked for is.
    torn = bool(read.stray and read.shares and len(read.shares) < number)
    unreadable = bool(read.unreadable) or torn
    return Claim(
        uid=pod.uid,
        key=pod.key,
        group=group_key(pod),
        rules=matching(env.args.rules, pod.labels),
        shares=read.shares,
        asked=demand.charge_before(env),
        number=number,
        is_vgpu=bool(demand.requests),
        unreadable=unreadable,
        missing=demand.kind == "vgpu" and not read.shares and not unreadable,
        indices=read_indices(gpu_index),
        legacy_memory=max(legacy_amount(pod, names.GPU_MEMORY), 0),
        record=record,
        gpu_index=gpu_index,
        demand=demand,
        pod=pod,
    )


def read_indices(text: str) -> tuple[int, ...]:
    """Read a ``gpu-index`` list; any unreadable item voids the whole (G-8)."""
    found = [card_index(item) for item in text.split(",")]
    return tuple(sorted({item for item in found if item is not None})) if None not in found else ()
