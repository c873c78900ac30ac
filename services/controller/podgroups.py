"""The PodGroup controller: a PodGroup for every pod of ours that has none (scheduling/AS-3 to AS-8, AS-13a).

A pod that names no PodGroup gets ``podgroup-<uid of its controlling owner, or its own>``; once that exists the pod is
annotated with it, and only then may it be scheduled. Where the API server was restored to an older state, a pod may
name one that is not there: it is made again. Workloads that scale to zero lose their PodGroup (AS-7); one that changes
has its PodGroup brought in line with a pod that it has now.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from events import names
from events.canonical import Json
from events.kinds import BATCH_JOB, DAEMON_SET, NAMESPACE, POD, POD_GROUP, REPLICA_SET, STATEFUL_SET, Kind
from events.reading import (
    deleting,
    integer,
    items,
    mapping,
    meta,
    name_of,
    namespace_of,
    phase_of,
    spec,
    status,
    text,
    uid_of,
)
from services.controller import usage
from services.controller.actions import Action, Create, Delete, Patch
from services.controller.conditions import pod_unschedulable
from services.controller.objects import Ref, controller_of, count_in, labels, lacking, notes_of, owner_reference, ref_of
from services.controller.world import World

#: The owners whose annotations are inherited (AS-5), and those whose scaling matters (AS-7).
WORKLOADS: tuple[Kind, ...] = (REPLICA_SET, STATEFUL_SET, DAEMON_SET, BATCH_JOB)
SCALED: tuple[Kind, ...] = (REPLICA_SET, STATEFUL_SET)

_INHERITED = "volcano.sh/"
_COPIED_ANNOTATIONS = (names.PREEMPTABLE, "volcano.sh/cooldown-time", names.REVOCABLE_ZONE)
_COPIED_LABELS = (names.PREEMPTABLE, "volcano.sh/cooldown-time")
_BUDGETS = ("volcano.sh/jdb-min-available", "volcano.sh/jdb-max-unavailable")
_TOPOLOGY_MODE = "volcano.sh/network-topology-mode"
_TOPOLOGY_TIER = "volcano.sh/network-topology-highest-tier"


def reconcile_pod(world: World, ref: Ref, schedulers: Collection[str]) -> list[Action]:
    """Give a pod of ours its PodGroup (AS-3); an empty name is none, its own automatic one is made again."""
    pod = world.at(ref)
    if pod is None or not _is_ours(pod, schedulers):
        return []
    name, named = group_name(pod), notes_of(pod).get(names.GROUP_NAME)
    its_own = named == name and controller_of(pod) is None
    if (named and not its_own) or deleting(pod) or phase_of(pod) in ("Succeeded", "Failed"):
        return []
    group = world.get(POD_GROUP, ref.namespace, name)
    if group is None:
        return [Create(POD_GROUP, desired(world, pod), refused=lambda why: _refusal(pod, why))]
    if named or deleting(group):
        return []
    return [Patch(ref, {"metadata": {"annotations": {names.GROUP_NAME: name}}}, uid=uid_of(pod))]


def reconcile_workload(world: World, ref: Ref, schedulers: Collection[str]) -> list[Action]:
    """Keep the PodGroup of a ReplicaSet or StatefulSet in line with its scale (AS-7)."""
    owner = world.at(ref)
    if owner is None or deleting(owner):
        return []
    group = world.get(POD_GROUP, ref.namespace, f"podgroup-{uid_of(owner)}")
    if integer(spec(owner).get("replicas"), 1) == 0:
        return [Delete(ref_of(POD_GROUP, group), uid_of(group))] if group is not None and not deleting(group) else []
    pods = [pod for pod in world.owned(uid_of(owner), POD) if _is_current(pod, owner, schedulers)]
    if not pods:
        return []
    pod = max(pods, key=lambda item: (text(meta(item).get("creationTimestamp")), name_of(item)))
    wanted = desired(world, pod)
    if group is None:
        return [Create(POD_GROUP, wanted, refused=lambda why: _refusal(pod, why))]
    return _align(group, wanted) if not deleting(group) else []


def _is_ours(pod: Json, schedulers: Collection[str]) -> bool:
    return text(spec(pod).get("schedulerName")) in schedulers


def _is_current(pod: Json, owner: Json, schedulers: Collection[str]) -> bool:
    """A live pod of ours that the owner controls and that is (or will be) in the owner's automatic PodGroup."""
    if not _is_ours(pod, schedulers) or deleting(pod) or phase_of(pod) in ("Succeeded", "Failed"):
        return False
    named = notes_of(pod).get(names.GROUP_NAME)
    mine = mapping(controller_of(pod)).get("uid") == uid_of(owner)
    return mine and named in (None, "", f"podgroup-{uid_of(owner)}")


def _align(group: Json, wanted: Json) -> list[Action]:
    merge: Json = {}
    changed = {key: value for key, value in wanted["spec"].items() if spec(group).get(key) != value}
    if changed:
        merge["spec"] = changed
    missing = lacking(group, wanted)
    if missing:
        merge["metadata"] = missing
    return [Patch(ref_of(POD_GROUP, group), merge, uid=uid_of(group))] if merge else []


def group_name(pod: Json) -> str:
    """The name of a pod's automatic PodGroup (AS-3)."""
    owner = mapping(controller_of(pod))
    return f"podgroup-{text(owner.get('uid')) or uid_of(pod)}"


def desired(world: World, pod: Json) -> Json:
    """Return the automatic PodGroup of a pod (AS-4 to AS-6)."""
    owner = _workload(world, pod)
    minimum = _min_member(owner)
    notes, marks = _notes(owner, pod)
    about: Json = {
        "name": group_name(pod),
        "namespace": namespace_of(pod),
        "ownerReferences": _owners(pod),
    }
    if notes:
        about["annotations"] = notes
    if marks:
        about["labels"] = marks
    content: Json = {
        "minMember": minimum,
        "queue": _queue(world, pod),
        "minResources": usage.written(usage.times(usage.of_pod(spec(pod)), minimum)),
    }
    if text(spec(pod).get("priorityClassName")):
        content["priorityClassName"] = spec(pod)["priorityClassName"]
    topology = _topology(pod)
    if topology:
        content["networkTopology"] = topology
    return {
        "apiVersion": POD_GROUP.api_version,
        "kind": POD_GROUP.name,
        "metadata": about,
        "spec": content,
        "status": {"phase": "Pending"},
    }


def _owners(pod: Json) -> list[Json]:
    if controller_of(pod) is not None:
        return items(meta(pod).get("ownerReferences"))
    return [owner_reference(POD, pod)]


def _workload(world: World, pod: Json) -> Json | None:
    owner = mapping(controller_of(pod))
    for kind in WORKLOADS:
        if owner.get("kind") == kind.name and owner.get("apiVersion") == kind.api_version:
            found = world.get(kind, namespace_of(pod), text(owner.get("name")))
            return found if found is not None and uid_of(found) == owner.get("uid") else None
    return None


def _min_member(owner: Json | None) -> int:
    asked = count_in(notes_of(owner).get(names.GROUP_MIN_MEMBER, ""))
    return 1 if asked is None else asked


def _notes(owner: Json | None, pod: Json) -> tuple[dict[str, str], dict[str, str]]:
    """The annotations and labels of the PodGroup: inherited ones (AS-5), overridden by the pod's (AS-6)."""
    notes = {key: value for key, value in notes_of(owner).items() if key.startswith(_INHERITED)}
    mine = notes_of(pod)
    notes |= {key: mine[key] for key in _COPIED_ANNOTATIONS if key in mine}
    budget = next((key for key in _BUDGETS if key in mine), None)
    if budget is not None:
        notes = {key: value for key, value in notes.items() if key not in _BUDGETS} | {budget: mine[budget]}
    return notes, {key: labels(pod)[key] for key in _COPIED_LABELS if key in labels(pod)}


def _queue(world: World, pod: Json) -> str:
    """The pod's queue; a namespace annotation of the same name replaces ``default`` (AS-4)."""
    asked = notes_of(pod).get(names.QUEUE_NAME) or "default"
    if asked != "default":
        return asked
    return notes_of(world.get(NAMESPACE, "", namespace_of(pod))).get(names.QUEUE_NAME) or asked


def _topology(pod: Json) -> Json:
    notes = notes_of(pod)
    if _TOPOLOGY_MODE not in notes and _TOPOLOGY_TIER not in notes:
        return {}
    mode = notes.get(_TOPOLOGY_MODE, "hard")
    topology: Json = {"mode": mode if mode in ("hard", "soft") else "hard"}
    tier = count_in(notes.get(_TOPOLOGY_TIER, ""))
    if tier is not None:
        topology["highestTierAllowed"] = tier
    return topology


def _refusal(pod: Json, why: str) -> Sequence[Action]:
    """Tell a pod that its PodGroup was refused (AS-13a)."""
    return pod_unschedulable(pod, why)


def group_phase(group: Json) -> str:
    """The phase of a PodGroup; empty counts as Pending (PG-4)."""
    return text(status(group).get("phase")) or "Pending"
