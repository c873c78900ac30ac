"""A small world for the services' tests: an embedded cluster, a log in memory, a clock that stands still."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from adapters.clock import ManualClock
from adapters.cluster.port import ApiError, ApiUnknown, Page, WatchStream
from adapters.log.follower import Follower
from adapters.log.memory import MemoryLog
from adapters.log.port import LogError
from events import names
from events.canonical import Json
from events.codec import Message, from_message
from events.kinds import CONFIG_MAP, EVENT, OBSERVED_KINDS, POD_GROUP, Kind, kind_of
from events.records import Body, Record
from scheduling.state.fold import Fold
from services.binder.binder import Binder
from services.binder.status import StatusWriter
from services.cluster import defaults, patches
from services.cluster.api import EmbeddedApi
from services.cluster.direct import DirectApi
from services.cluster.store import Store, derived_uid
from services.runtime.following import catch_up
from services.scheduler.scheduler import Scheduler
from services.watcher.watcher import Watcher

START_MS = 1_767_225_600_000
ANNOTATION = "scheduling.k8s.io/group-name"
#: What a node registers, and a pod that takes a share of it.
CARD = "GPU-1,10,8192,NVIDIA-Tesla T4,true,hami-core:"
LIMITS = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1000"}


class FaultyLog(MemoryLog):
    """A log in memory whose appends fail when told to: the answer is lost, or the append certainly did not happen."""

    def __init__(self) -> None:
        super().__init__()
        self.faults: dict[str, list[str]] = {}

    async def append(self, messages: Sequence[Message]) -> int:
        role = from_message(messages[-1])
        queue = self.faults.get(role.role, []) if isinstance(role, Record) else []
        fault = queue.pop(0) if queue else ""
        if fault in ("refused", "vanished"):
            raise LogError("refused by the test", known_lost=fault == "refused")
        position = await super().append(messages)
        if fault == "answer lost":
            raise LogError("the answer was lost")
        return position


class FaultyApi:
    """The embedded API with answers that are replaced: ``faults[verb]`` are taken one by one before a call."""

    def __init__(self, api: DirectApi) -> None:
        self._api = api
        self.faults: dict[str, list[Exception | None]] = {}
        self.after: dict[str, list[Exception | None]] = {}
        self.calls: list[tuple[str, str]] = []

    def _before(self, verb: str, name: str) -> None:
        self.calls.append((verb, name))
        queue = self.faults.get(verb, [])
        fault = queue.pop(0) if queue else None
        if fault is not None:
            raise fault

    def _lose_answer(self, verb: str) -> None:
        queue = self.after.get(verb, [])
        fault = queue.pop(0) if queue else None
        if fault is not None:
            raise fault

    async def list(self, kind: Kind, **more: Any) -> Page:
        self._before("list", kind.name)
        return await self._api.list(kind, **more)

    async def watch(self, kind: Kind, version: str, *, timeout_s: int = 300) -> WatchStream:
        self._before("watch", kind.name)
        return await self._api.watch(kind, version, timeout_s=timeout_s)

    async def get(self, kind: Kind, namespace: str, name: str) -> Json:
        self._before("get", name)
        return await self._api.get(kind, namespace, name)

    async def create(self, kind: Kind, item: Json) -> Json:
        self._before("create", kind.name)
        return await self._api.create(kind, item)

    async def update(self, kind: Kind, item: Json, subresource: str = "") -> Json:
        self._before("update", kind.name)
        return await self._api.update(kind, item, subresource)

    async def patch(self, kind: Kind, namespace: str, name: str, merge: Json, subresource: str = "") -> Json:
        self._before("patch", name)
        return await self._api.patch(kind, namespace, name, merge, subresource)

    async def delete(self, kind: Kind, namespace: str, name: str, **more: Any) -> None:
        self._before("delete", name)
        await self._api.delete(kind, namespace, name, **more)

    async def bind(self, namespace: str, name: str, binding: Json) -> None:
        self._before("bind", name)
        await self._api.bind(namespace, name, binding)
        self._lose_answer("bind")


@dataclass
class Backup:
    """An API server's state, to begin with."""

    version: int
    items: list[tuple[Kind, Json]]

    def load(self) -> tuple[int, list[tuple[Kind, Json]]]:
        return self.version, [(kind, patches.copied(item)) for kind, item in self.items]

    def save(self, kind: Kind, key: tuple[str, str], item: Json | None, version: int) -> None:
        """What is written later is not kept."""


@dataclass
class World:
    """Everything on one log and one cluster; ``settle`` steps all services until nothing moves."""

    clock: ManualClock = field(default_factory=lambda: ManualClock(START_MS))

    def __post_init__(self) -> None:
        self.store = Store(self.clock, derived_uid)
        self.embedded = EmbeddedApi(self.store)
        self.log = FaultyLog()
        self.api = FaultyApi(DirectApi(self.embedded, "binder"))
        self.watch_api = FaultyApi(DirectApi(self.embedded, "watcher"))
        self._count = 0
        for kind, item in (("Namespace", {"name": "team-a"}), ("Queue", {"name": "default"})):
            api_version = "v1" if kind == "Namespace" else POD_GROUP.api_version
            self.put({"apiVersion": api_version, "kind": kind, "metadata": item, "spec": {}})
        self.start_all()

    def start_all(self) -> None:
        """Start every service with nothing but the log."""
        self.watcher = self.new_watcher()
        self.scheduler = self.new_scheduler()
        self.binder = self.new_binder()

    def new_watcher(self) -> Watcher:
        return Watcher(self.watch_api, self.log, self.clock, "c1", self._name("w"), incarnation=lambda: self._name("i"))

    def new_scheduler(self) -> Scheduler:
        return Scheduler(self.log, self.clock, "c1", self._name("s"))

    def new_binder(self) -> Binder:
        follower: Follower[Fold] = Follower(self.log, Fold())
        binder = Binder(self.api, self.log, follower, self.clock, "c1", self._name("b"))
        self.status = StatusWriter(self.api, follower, self.clock, leads=lambda: binder.leading)
        return binder

    def _name(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def put(self, item: Json) -> Json:
        """Put an object into the cluster as it is, new or in place of the old one."""
        made = patches.copied(item)
        kind = kind_of(made["apiVersion"], made["kind"])
        assert kind is not None
        defaults.apply(kind, made)
        meta = made["metadata"]
        if self.store.get(kind, meta.get("namespace", ""), meta["name"]) is not None:
            return self.store.replace(kind, made)
        return self.store.put(kind, made)

    def node(self, name: str, cpu: str = "4", register: str = "", **meta: Any) -> Json:
        resources = {"cpu": cpu, "memory": "64Gi", "pods": "110"}
        notes = dict(meta.pop("annotations", {}))
        if register:
            resources |= {
                "volcano.sh/vgpu-number": "10",
                "volcano.sh/vgpu-memory": "8192",
                "volcano.sh/vgpu-cores": "100",
            }
            notes["volcano.sh/node-vgpu-register"] = register
        return self.put(
            {
                "apiVersion": "v1",
                "kind": "Node",
                "metadata": {"name": name, "annotations": notes, **meta},
                "status": {"allocatable": resources, "capacity": resources},
            }
        )

    def group(self, name: str, members: int = 1) -> Json:
        return self.put(
            {
                "apiVersion": POD_GROUP.api_version,
                "kind": "PodGroup",
                "metadata": {"namespace": "team-a", "name": name},
                "spec": {"minMember": members, "queue": "default"},
            }
        )

    def pod(self, name: str, group: str = "", *, cpu: str = "1", limits: Json | None = None, **fields: Any) -> Json:
        notes = {ANNOTATION: group or name} | fields.pop("annotations", {})
        return self.put(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"namespace": "team-a", "name": name, "annotations": notes, **fields.pop("metadata", {})},
                "spec": {
                    "schedulerName": "volcano",
                    "containers": [
                        {
                            "name": "main",
                            "image": "registry.example.test/x",
                            "resources": {"requests": {"cpu": cpu}, "limits": limits or {}},
                        }
                    ],
                    **fields,
                },
            }
        )

    def configure(self, text: str) -> Json:
        """Set the scheduler's configuration."""
        namespace, name, key = names.SCHEDULER_CONFIG
        meta = {"namespace": namespace, "name": name}
        return self.put({"apiVersion": "v1", "kind": CONFIG_MAP.name, "metadata": meta, "data": {key: text}})

    def single(self, name: str, **fields: Any) -> Json:
        """A pod with a PodGroup of its own."""
        self.group(name)
        return self.pod(name, **fields)

    def get(self, kind: Kind, name: str, namespace: str = "team-a") -> Json:
        found = self.store.get(kind, namespace if kind.namespaced else "", name)
        assert found is not None, f"{kind.name} {name} is not there"
        return found

    def events(self, reason: str) -> list[str]:
        return [item["message"] for item in self.store.items(EVENT) if item["reason"] == reason]

    def backup(self) -> Backup:
        """Return the API server's objects and its version as they are now."""
        return Backup(self.store.version, [(kind, patches.copied(item)) for kind in self.store.kinds()
                                           for item in self.store.items(kind)])  # fmt: skip

    def restore(self, saved: Backup) -> None:
        """Restart the API server with an older state: watches end, versions go back, new uids stay new."""
        old = self.store
        self.store = Store(self.clock, derived_uid, saved)
        self.store._created = old._created
        for kind in OBSERVED_KINDS:
            old.break_watch(kind, 500)
        self.embedded = EmbeddedApi(self.store)
        self.api._api = DirectApi(self.embedded, "binder")
        self.watch_api._api = DirectApi(self.embedded, "watcher")

    async def decide(self) -> None:
        """Observe and decide, but bind nothing yet."""
        for _ in range(5):
            await self.watcher.step()
            await self.scheduler.step()

    async def settle(self, turns: int = 50) -> None:
        for _ in range(turns):
            busy = [
                await self.watcher.step(),
                await self.scheduler.step(),
                await self.binder.step(),
                await self.status.step(),
            ]
            if not any(busy) and not await self.status.step(rest=True):
                return
        raise AssertionError("not at rest")

    async def fold(self) -> Fold:
        """Fold the log afresh."""
        follower: Follower[Fold] = Follower(self.log, Fold())
        await catch_up(follower)
        return follower.state

    async def records(self) -> list[Record]:
        first, _ = await self.log.bounds()
        found = [from_message(message) for _, message in await self.log.read(first, 100_000)]
        return [item for item in found if isinstance(item, Record)]

    async def bodies(self, kind: type[Body]) -> list[Any]:
        return [record.body for record in await self.records() if isinstance(record.body, kind)]


def unknown() -> ApiUnknown:
    return ApiUnknown("no answer came")


def refused(status: int, message: str = "refused by the test") -> ApiError:
    return ApiError(status, "Test", message)
