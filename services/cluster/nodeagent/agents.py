"""All node agents of the embedded cluster, as one object that is stepped.

For every pod that is bound to a node that exists: the device plugin serves its work list, container by container, then
the kubelet reports it Running. Pods that are to end do so at once: those that the scheduler evicts, and, if ``ends`` is
``all``, every pod with a deletion timestamp (a simulation lets those that its author marked linger). Nobody else ends,
and pods on nodes that do not exist stay as they are.

Writes name the version they were made from; a conflict means that the pod is looked at again in the next step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from adapters.clock import Clock
from adapters.cluster.mirror import Change, Mirror
from adapters.cluster.port import ApiError, ApiUnknown, ClusterApi
from adapters.cluster.reflector import Reflector
from events import names
from events.canonical import Json
from events.kinds import CONFIG_MAP, NODE, POD
from events.reading import deleting, items, mapping, meta, phase_of, status, text
from services.cluster.nodeagent import kubelet, plugin
from services.cluster.nodeagent.environment import AgentConfig, agent_config, environment
from services.cluster.nodeagent.reading import node_of, note

_CONFIG_NAMESPACES = (names.DEVICE_CONFIG[0], "volcano-system")  # C-27: the agent also looks in the second
_ROUNDS_MAX = 1_000

PodKey = tuple[str, str]


class NodeAgents:
    """The kubelets and device plugins of every node."""

    def __init__(
        self,
        api: ClusterApi,
        clock: Clock,
        *,
        ends: Literal["evicted", "all"] = "all",
        jitter: Callable[[], float] | None = None,
    ) -> None:
        self._api, self._clock, self._ends = api, clock, ends
        self._mirror = Mirror(api, (CONFIG_MAP, NODE, POD), clock, jitter)
        self._marked: dict[PodKey, None] = {}
        self._on_node: dict[str, dict[PodKey, None]] = {}

    async def step(self) -> bool:
        """Do all that can be done now; return whether anything was done. Never waits."""
        changes = await self._mirror.poll()
        self._take(changes)
        if not self._mirror.ready:
            return bool(changes)
        acted, again = False, []
        for _ in range(_ROUNDS_MAX):
            if not self._marked:
                break
            batch, self._marked = sorted(self._marked, key=self._start_order), {}
            for key in batch:
                try:
                    acted = await self._look_after(key) or acted
                except (ApiError, ApiUnknown) as error:
                    if isinstance(error, ApiUnknown) or error.status == 409:
                        again.append(key)
        self._marked |= dict.fromkeys(again)
        return acted or bool(changes) or bool(again)

    def logs(self, pod: Json, container: str) -> str:
        """Return what a container that prints its environment has printed, a variable a line."""
        if phase_of(pod) == "Pending":
            return ""
        node = self._mirror.get(NODE, "", node_of(pod))
        variables = environment(pod, node, container, self._config())
        return "".join(f"{name}={variables[name]}\n" for name in sorted(variables))

    @property
    def reflectors(self) -> Sequence[Reflector]:
        """The reflectors, for who waits until one of them has news."""
        return self._mirror.reflectors

    async def close(self) -> None:
        """Close the watches."""
        await self._mirror.close()

    def _config(self) -> AgentConfig:
        _, name, key = names.DEVICE_CONFIG
        for namespace in _CONFIG_NAMESPACES:
            found = self._mirror.get(CONFIG_MAP, namespace, name)
            if found is not None:
                data = mapping(found.get("data")).get(key)
                return agent_config(data if isinstance(data, str) else None)
        return AgentConfig()

    def _take(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.kind == NODE:
                self._marked |= self._on_node.get(change.key[1], {})
            elif change.kind == POD:
                for item, add in ((change.old, False), (change.new, True)):
                    if item is not None and node_of(item):
                        self._index(node_of(item), change.key, add)
                if change.new is not None and node_of(change.new):
                    self._marked[change.key] = None

    def _index(self, node: str, key: PodKey, add: bool) -> None:
        pods = self._on_node.setdefault(node, {})
        if add:
            pods[key] = None
        else:
            pods.pop(key, None)

    def _start_order(self, key: PodKey) -> tuple[int, PodKey]:
        """Pods start in the order of their vgpu-time, as the plugin expects (A-8)."""
        time = note(self._mirror.get(POD, *key), names.VGPU_TIME)
        return int(time) if time.isascii() and time.isdecimal() and len(time) <= 20 else 0, key

    async def _look_after(self, key: PodKey) -> bool:
        pod = self._mirror.get(POD, *key)
        node = self._mirror.get(NODE, "", node_of(pod)) if pod is not None else None
        if pod is None or node is None:
            return False
        if deleting(pod):
            return await self._end(pod)
        if phase_of(pod) != "Pending":
            return False
        while plugin.is_candidate(pod):
            pod = await self._serve(pod)
        if note(pod, names.VGPU_IDS) or note(pod, names.GPU_INDEX):
            await self._unlock(pod, node)
        await self._patch(pod, {"status": kubelet.running(pod, node, self._clock.now_ms())}, "status")
        return True

    async def _end(self, pod: Json) -> bool:
        if self._ends != "all" and not _evicted(pod):
            return False
        namespace, name = text(meta(pod).get("namespace")), text(meta(pod).get("name"))
        await self._api.delete(POD, namespace, name, uid=text(meta(pod).get("uid")), grace_s=0)
        return True

    async def _serve(self, pod: Json) -> Json:
        return await self._patch(pod, {"metadata": {"annotations": dict(plugin.serve(pod).annotations)}}, "")

    async def _unlock(self, pod: Json, node: Json) -> None:
        gone = plugin.locks(pod, node)
        if gone:
            name = text(meta(node).get("name"))
            merge = {"metadata": {"annotations": dict.fromkeys(gone)}}
            self._take(self._mirror.learn(NODE, await self._api.patch(NODE, "", name, merge)))

    async def _patch(self, pod: Json, merge: Json, subresource: str) -> Json:
        about = {"uid": meta(pod).get("uid"), "resourceVersion": meta(pod).get("resourceVersion")}
        merge = {**merge, "metadata": {**mapping(merge.get("metadata")), **{k: v for k, v in about.items() if v}}}
        namespace, name = text(meta(pod).get("namespace")), text(meta(pod).get("name"))
        answer = await self._api.patch(POD, namespace, name, merge, subresource)
        self._take(self._mirror.learn(POD, answer))
        return answer


def _evicted(pod: Json) -> bool:
    """Whether the scheduler has evicted the pod (scheduling/F-7)."""
    return any(
        item.get("type") == "DisruptionTarget" and item.get("status") == "True"
        for item in items(status(pod).get("conditions"))
    )
