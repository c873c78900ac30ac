"""The client of the load benchmark: makes nodes, pods and gangs on an API server, and sees when each pod is bound.

It speaks plain REST with one session, so that it costs little beside what it measures. A pod's time runs from the
moment its creation is sent to the moment the watch shows its node.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp

from events import names
from events.kinds import NAMESPACE, NODE, POD, POD_GROUP

CARDS, SPLIT, CARD_MIB = 8, 10, 81_920
POD_MIB, POD_CORES = 8_000, 10
IN_FLIGHT: Final = 32


def node(index: int) -> dict[str, Any]:
    """A node as kubelet and device plugin would have registered it."""
    name = f"node-{index:05d}"
    cards = "".join(f"GPU-{index:05d}-{card},{SPLIT},{CARD_MIB},NVIDIA-A100,true,hami-core:" for card in range(CARDS))
    amounts = {
        "cpu": "256", "memory": "2048Gi", "pods": "250", "volcano.sh/vgpu-number": str(CARDS * SPLIT),
        "volcano.sh/vgpu-memory": str(CARDS * CARD_MIB), "volcano.sh/vgpu-cores": str(CARDS * 100),
    }  # fmt: skip
    meta = {"name": name, "labels": {"kubernetes.io/hostname": name}, "annotations": {names.NODE_REGISTER: cards}}
    conditions = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
    status = {"allocatable": amounts, "capacity": amounts, "conditions": conditions}
    return {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": status}


def pod(name: str, namespace: str, scheduler: str, group: str = "") -> dict[str, Any]:
    """A pod with one vGPU of a tenth of a card; ``group`` is its gang."""
    limits = {"cpu": "100m", "memory": "128Mi", "volcano.sh/vgpu-number": "1",
              "volcano.sh/vgpu-memory": str(POD_MIB), "volcano.sh/vgpu-cores": str(POD_CORES)}  # fmt: skip
    meta: dict[str, Any] = {"name": name, "namespace": namespace}
    if group:
        meta["annotations"] = {names.GROUP_NAME: group}
    resources = {"limits": limits, "requests": limits}
    container = {"name": "main", "image": "registry.example.test/train", "resources": resources}
    spec = {"schedulerName": scheduler, "terminationGracePeriodSeconds": 0, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


@dataclass
class Track:
    """What was seen of the pods of one load, in seconds of one clock."""

    expected: int
    begun: float = 0.0
    sent: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    shares: dict[str, str] = field(default_factory=dict)
    complete: asyncio.Event = field(default_factory=asyncio.Event)

    def see(self, item: dict[str, Any]) -> None:
        """Take note of a pod as the API server shows it."""
        name, meta = item["metadata"]["name"], item["metadata"]
        if not item["spec"].get("nodeName") or name in self.bound:
            return
        self.bound[name] = time.perf_counter()
        self.shares[name] = (meta.get("annotations") or {}).get(names.VGPU_IDS, "")
        if len(self.bound) >= self.expected:
            self.complete.set()

    def times(self) -> list[float]:
        """Return each bound pod's time from creation to binding in seconds, sorted."""
        return sorted(at - self.sent[name] for name, at in self.bound.items() if name in self.sent)

    def rate(self) -> float:
        """Return pods bound per second, from the first request to the last binding."""
        return len(self.bound) / (max(self.bound.values()) - self.begun) if self.bound else 0.0

    def without_cards(self) -> list[str]:
        """Return the pods that were bound without an allocation."""
        return sorted(name for name, text in self.shares.items() if not text)

    def overfull(self) -> list[str]:
        """Return the cards on which pods were given more than there is (number, memory, cores)."""
        used: dict[str, list[int]] = {}
        for text in self.shares.values():
            for part in text.replace(";", ":").split(":"):
                if part:
                    card, _, memory, cores = part.split(",")
                    sums = used.setdefault(card, [0, 0, 0])
                    sums[:] = [sums[0] + 1, sums[1] + int(memory), sums[2] + int(cores)]
        limits = (SPLIT, CARD_MIB, 100)
        return sorted(card for card, sums in used.items() if any(a > b for a, b in zip(sums, limits, strict=True)))


class Client:
    """One session with an API server."""

    def __init__(self, server: str, token: str) -> None:
        connector = aiohttp.TCPConnector(limit=IN_FLIGHT + 4, ssl=False)
        timeout = aiohttp.ClientTimeout(total=None)
        headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        self._server = server
        self._session = aiohttp.ClientSession(
            connector=connector, headers=headers, timeout=timeout, read_bufsize=1 << 20
        )

    async def close(self) -> None:
        await self._session.close()

    async def ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Do one request. Raises RuntimeError for an answer that says no."""
        data = None if body is None else json.dumps(body).encode()
        async with self._session.request(method, self._server + path, data=data) as answer:
            content = await answer.read()
            if answer.status >= 300:
                raise RuntimeError(f"{method} {path}: {answer.status} {content[:300]!r}")
            found: dict[str, Any] = json.loads(content) if content else {}
            return found

    async def clear(self, path: str) -> None:
        """Delete all of a kind in a namespace; a server that needs longer than it allows itself is asked again."""
        while True:
            try:
                await self.ask("DELETE", path)
                return
            except RuntimeError as error:
                if ": 504 " not in str(error):
                    raise

    async def make_nodes(self, first: int, count: int) -> None:
        await _spread(self.ask("POST", NODE.path(), node(index)) for index in range(first, first + count))

    async def text(self, path: str) -> str:
        """Return what is served at a path, as it is."""
        async with self._session.get(self._server + path) as answer:
            return await answer.text()

    async def load(self, namespace: str, pods: dict[str, str], scheduler: str, nodes: int = 0) -> Track:
        """Create pods (name to gang) and their gangs, as fast as the server takes them.

        With ``nodes`` bind each from here too. Returns at once when all are sent; ``Track.complete`` tells when all are
        bound.
        """
        await self.ask(
            "POST", NAMESPACE.path(), {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
        )
        track = Track(len(pods), time.perf_counter())
        self._following = asyncio.create_task(self._follow(namespace, track))
        sizes = Counter(group for group in pods.values() if group)
        await _spread(self._make_group(namespace, name, size) for name, size in sizes.items())

        async def one(index: int, name: str, group: str) -> None:
            track.sent[name] = time.perf_counter()
            await self.ask("POST", POD.path(namespace), pod(name, namespace, scheduler, group))
            if nodes:
                target = {"apiVersion": "v1", "kind": "Node", "name": f"node-{index % nodes:05d}"}
                binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target}
                await self.ask("POST", POD.path(namespace, name, "binding"), binding)

        await _spread(one(index, name, group) for index, (name, group) in enumerate(pods.items()))
        return track

    async def _make_group(self, namespace: str, name: str, size: int) -> None:
        meta = {"name": name, "namespace": namespace}
        spec = {"minMember": size, "queue": "default"}
        body = {"apiVersion": POD_GROUP.api_version, "kind": "PodGroup", "metadata": meta, "spec": spec}
        await self.ask("POST", POD_GROUP.path(namespace), body)

    async def end_of(self, track: Track, timeout_s: float) -> None:
        """Wait until all pods of a load are bound, or the time is over."""
        waiting = asyncio.ensure_future(track.complete.wait())
        await asyncio.wait([waiting, self._following], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        self._following.cancel()
        await asyncio.gather(waiting, self._following, return_exceptions=True)

    async def _follow(self, namespace: str, track: Track) -> None:
        """Watch the pods; a watch that the server ends is begun anew with a list."""
        while True:
            listed = await self.ask("GET", POD.path(namespace))
            for item in listed["items"]:
                track.see(item)
            async for event in self._watch(namespace, listed["metadata"]["resourceVersion"]):
                if event["type"] == "ERROR":
                    break
                if event["type"] in ("ADDED", "MODIFIED"):
                    track.see(event["object"])

    async def _watch(self, namespace: str, version: str) -> AsyncIterator[dict[str, Any]]:
        asked = {"watch": "true", "resourceVersion": version}
        async with self._session.get(self._server + POD.path(namespace), params=asked) as answer:
            answer.raise_for_status()
            rest = b""
            async for chunk in answer.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in filter(None, lines):
                    yield json.loads(line)


async def _spread(work: Iterable[Awaitable[Any]]) -> None:
    """Await everything, in order, so many at a time."""
    left = iter(work)

    async def worker() -> None:
        for one in left:
            await one

    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
