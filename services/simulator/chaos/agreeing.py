"""What must agree once all is at rest: the log with the API server, what people are shown with both, work with its end.

The state has come about by everything that went wrong on the way. Beside it stands one that was folded from a fresh
list of the cluster: they must know the same objects, and that the same pods hold the same on every node.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from events import names
from events.canonical import Json
from events.kinds import NODE, OBSERVED_KINDS, POD, POD_GROUP, QUEUE, VOLCANO_JOB
from events.projection import compare_key
from scheduling.cycle.queue_status import allocated, as_status
from scheduling.nodes.view import NodeView
from scheduling.objects import Pod
from scheduling.objects import pod as parse_pod
from scheduling.state.fold import Fold
from services.binder.status_groups import status_of, wanted_status
from services.simulator.chaos.world import World

#: Phases of a PodGroup for which no pods of a job are made (scheduling/J-5).
_WAITING: Final = (None, "", "Pending")


def told_otherwise(world: World) -> Iterator[str]:
    """Yield what the log says of the cluster's objects that is not so."""
    model = world.inspector.state.model
    folded = {
        POD: {uid for uid, entry in model.pods.items() if model.ours(entry.pod)},
        POD_GROUP: {entry.group.uid for entry in model.groups.values()},
        NODE: {view.node.uid for view in model.nodes.values() if view.node is not None},
    }
    for kind, uids in folded.items():
        there = {item["metadata"]["uid"] for item in world.store.items(kind)}
        for what, found in (("does not exist", uids - there), ("is not on the log", there - uids)):
            if found:
                yield f"7: {kind.name} {', '.join(sorted(found))} {what}"
    for item in world.store.items(POD):
        truth, entry = parse_pod(item), model.pods.get(item["metadata"]["uid"])
        if entry is not None and (entry.pod.node, entry.pod.finished) != (truth.node, truth.finished):
            told = f"{_where(entry.pod)} on the log, {_where(truth)} on the API server"
            yield f"7: Pod {truth.key} {truth.uid} is {told}"


def _where(pod: Pod) -> str:
    return f"{'ended' if pod.finished else 'live'} on {pod.node or 'no node'}"


def known_otherwise(state: Fold, fresh: Fold) -> Iterator[str]:
    """Yield which objects, and what of those that pods hold on nodes, a state knows otherwise than a fresh list."""
    for kind in OBSERVED_KINDS:
        of = f"{kind.api_version}/{kind.name}"
        was, now = ({key: compare_key(kind, item) for key, item in fold.objects(of)} for fold in (state, fresh))
        for key in sorted(was.keys() | now.keys()):
            if was.get(key) != now.get(key):
                yield f"7: {kind.name} {key} is otherwise on the log than on the API server"
    nodes, others = state.model.nodes, fresh.model.nodes
    for name in sorted(nodes.keys() | others.keys()):
        if _books(nodes.get(name)) != _books(others.get(name)):
            yield f"1: what pods hold on node {name} is otherwise in the state than by their own records"
    for uid in sorted(state.model.promises.keys() - state.model.pods.keys()):
        yield f"8: pod {uid} is gone, and has a promise"


def _books(view: NodeView | None) -> object:
    """Return what stands on a node's books: requests and claims, and what follows from these for its cards."""
    if view is None:
        return None
    return {uid: task.request for uid, task in view.tasks.items()}, view.devices


def shown_otherwise(world: World) -> Iterator[str]:
    """Yield the PodGroups and queues whose status on the API server is not what the state says."""
    model = world.inspector.state.model
    groups = {item["metadata"]["uid"]: item for item in world.store.items(POD_GROUP)}
    for key, entry in sorted(model.groups.items()):
        found = groups.get(entry.group.uid)
        if found is not None and (wrong := status_of(found, wanted_status(entry, model), "", "")):
            yield f"7: the status of PodGroup {key} is out of date: {sorted(wrong)}"
    charged = allocated(model)
    for item in world.store.items(QUEUE):
        name, status = item["metadata"]["name"], item.get("status") or {}
        if status.get("allocated", {}) != as_status(charged.get(name, {})):
            yield f"7: queue {name} is shown as holding {status.get('allocated')}"


def left_undone(world: World) -> Iterator[str]:
    """Yield what the controllers and the binder left half done."""
    pods = [item for item in world.store.items(POD) if not item["metadata"].get("deletionTimestamp")]
    groups = world.store.items(POD_GROUP)
    yield from _outlived(groups, {item["metadata"]["uid"] for item in world.store.items(POD)})
    named = {(item["metadata"]["namespace"], item["metadata"]["name"]) for item in groups}
    for item in pods:
        pod = parse_pod(item)
        name = pod.annotations.get(names.GROUP_NAME, "")
        made_for = name in ("", f"podgroup-{pod.uid}")
        ours = pod.scheduler in names.SCHEDULER_NAMES and not pod.finished
        if ours and made_for and (pod.namespace, name) not in named:
            yield f"8: pod {pod.key} has no PodGroup"
    let_in = {item["metadata"]["name"] for item in groups if (item.get("status") or {}).get("phase") not in _WAITING}
    for job in world.store.items(VOLCANO_JOB):
        if f"{job['metadata']['name']}-{job['metadata']['uid']}" in let_in:
            yield from _short(job, world.store.items(POD))
    for item in world.store.items(NODE):
        notes = item["metadata"].get("annotations") or {}
        for lock, mark in names.LOCK_MARKS.items():
            command = notes.get(mark, "").partition(" ")[0]
            # One that a restore brought back is nobody's, and ends by itself (devices/A-20).
            back = notes.get(mark, "") in world.locks_back
            if lock in notes and command in world.inspector.state.refused and not back:
                yield f"8: node {item['metadata']['name']} is still locked, by {notes.get(mark)}"


def _outlived(groups: list[Json], pods: set[str]) -> Iterator[str]:
    """Yield the PodGroups that were made for a pod which is gone."""
    for item in groups:
        owners = [owner for owner in item["metadata"].get("ownerReferences") or [] if owner.get("kind") == "Pod"]
        if owners and not pods & {owner.get("uid") for owner in owners}:
            yield f"8: PodGroup {item['metadata']['name']} outlived its pod"


def _short(job: Json, pods: list[Json]) -> Iterator[str]:
    """Yield a job that goes on, was let into its queue, and has fewer pods than it asks for.

    One that is on its way out, of this job or an earlier one of its name, keeps its name as long as its node is away.
    """
    meta, phase = job["metadata"], ((job.get("status") or {}).get("state") or {}).get("phase", "")
    owned = {
        item["metadata"]["name"]: {owner.get("uid") for owner in item["metadata"].get("ownerReferences") or []}
        for item in pods
        if item["metadata"]["namespace"] == meta["namespace"]
    }
    leaving = {item["metadata"]["name"] for item in pods if item["metadata"].get("deletionTimestamp")}
    wanted = {
        f"{meta['name']}-{task['name']}-{index}" for task in job["spec"]["tasks"] for index in range(task["replicas"])
    }
    there = {name for name in wanted if meta["uid"] in owned.get(name, ()) or name in leaving}
    if phase in ("", "Pending", "Running") and not meta.get("deletionTimestamp") and there != wanted:
        yield f"8: job {meta['name']} ({phase}) lacks {', '.join(sorted(wanted - there))}"
