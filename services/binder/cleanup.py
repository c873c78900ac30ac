"""Copied manifests (devices/A-7b): allocation marks on pods that are not assigned to any node.

The node agent serves any pod whose ``vgpu-node`` and list length match, bound or not. So before anything is bound to a
node, those two keys are removed from every unassigned pod of ours that names it.
"""

from __future__ import annotations

from adapters.cluster.port import ApiError, ClusterApi
from events import names
from events.kinds import POD
from scheduling.objects import Pod
from scheduling.state.model import Command, Model
from services.binder.recorder import Recorder
from services.runtime.kube_events import Subject

REASON = "StaleAllocation"


class Cleanup:
    """Finds and removes the marks; what it has removed it remembers until the state shows it."""

    def __init__(self, api: ClusterApi, recorder: Recorder) -> None:
        self._api, self._recorder = api, recorder
        self._marked: dict[str, list[Pod]] = {}
        self._done: set[str] = set()

    def begin(self, model: Model) -> None:
        """A step begins: look once for pods that carry marks, by the node that they name."""
        self._marked = {}
        for entry in model.pods.values():
            node = entry.pod.annotations.get(names.VGPU_NODE)
            if node and not entry.pod.node and model.ours(entry.pod):
                self._marked.setdefault(node, []).append(entry.pod)
        marked = {pod.uid for pods in self._marked.values() for pod in pods}
        self._done &= marked

    async def before_binding(self, node: str, command: Command) -> str:
        """Clear a node's marks; return the new version of the command's own pod if it was one of them.

        Raises ApiError, ApiUnknown; a pod that is gone or another one by now is passed over.
        """
        own = ""
        for pod in self._marked.get(node, ()):
            if pod.uid in self._done:
                continue
            version = await self._clear(pod)
            self._done.add(pod.uid)
            if version and command.bind and command.bind.uid == pod.uid:
                own = version
        return own

    async def _clear(self, pod: Pod) -> str:
        marks = {names.VGPU_NODE: None, names.DEVICES_TO_ALLOCATE: None}
        try:
            found = await self._api.get(POD, pod.namespace, pod.name)
            meta, spec = found["metadata"], found.get("spec", {})
            if meta.get("uid") != pod.uid or spec.get("nodeName") or not _carries(meta):
                return ""
            merge = {
                "metadata": {
                    "uid": pod.uid,
                    "resourceVersion": meta.get("resourceVersion", ""),
                    "annotations": marks,
                }
            }
            found = await self._api.patch(POD, pod.namespace, pod.name, merge)
        except ApiError as error:
            if error.status in (404, 422):
                return ""
            raise
        node = pod.annotations.get(names.VGPU_NODE, "")
        text = f"removed {names.VGPU_NODE}={node} and {names.DEVICES_TO_ALLOCATE}: the pod is not bound to that node"
        self._recorder.emit(Subject(POD, pod.namespace, pod.name, pod.uid), "Warning", REASON, text, again=False)
        return str(found["metadata"].get("resourceVersion", ""))


def _carries(meta: dict[str, object]) -> bool:
    notes = meta.get("annotations")
    return isinstance(notes, dict) and (names.VGPU_NODE in notes or names.DEVICES_TO_ALLOCATE in notes)
