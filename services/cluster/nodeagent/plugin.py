"""The vGPU device plugin's part for one pod (devices/A-10 to A-13): the work list, container by container.

The plugin knows a pod to serve by two keys: ``vgpu-node`` is its node, and ``devices-to-allocate`` still holds devices.
The real one guesses which pod kubelet means from the number of devices alone, and so serves only pods with one vGPU
container; this one is told the pod, and serves them all. Each call erases one segment of the work list; when none is
left the pod is marked ``success`` and the node's lock may go.
"""

from __future__ import annotations

from dataclasses import dataclass

from events import names
from events.canonical import Json
from services.cluster.nodeagent.reading import node_of, note

SERVED_TIME = "18446744073709551615"  # what the agent writes to vgpu-time when it is done (C-13)


@dataclass(frozen=True)
class Served:
    """One call of the plugin: the annotations it writes, and whether the pod has all its devices now."""

    annotations: dict[str, str]
    done: bool


def is_candidate(pod: Json) -> bool:
    """Whether the pod waits for devices on the node that it is bound to (A-11)."""
    node = node_of(pod)
    return bool(node) and note(pod, names.VGPU_NODE) == node and "GPU" in note(pod, names.DEVICES_TO_ALLOCATE)


def serve(pod: Json) -> Served:
    """Serve the next container of a candidate."""
    segments = note(pod, names.DEVICES_TO_ALLOCATE).split(";")
    first = next((place for place, segment in enumerate(segments) if "GPU" in segment), len(segments))
    rest = ";".join(segments[first + 1 :])
    if "GPU" in rest:
        return Served({names.DEVICES_TO_ALLOCATE: rest}, done=False)
    written = {names.DEVICES_TO_ALLOCATE: "", names.BIND_PHASE: "success", names.VGPU_TIME: SERVED_TIME}
    return Served(written, done=True)


def locks(pod: Json, node: Json) -> list[str]:
    """The node locks that end when this pod has its devices (A-11, A-21): vGPU's, or legacy sharing's."""
    mine = [names.VGPU_NODE_LOCK] if note(pod, names.VGPU_IDS) else []
    if note(pod, names.GPU_INDEX):
        mine.append(names.GPUSHARE_NODE_LOCK)
    return [key for key in mine if note(node, key)]
