"""Builds histories by hand: records in the order in which they stand on a log, folded as they come."""

from __future__ import annotations

from typing import Any

from events.kinds import OBSERVED_KINDS
from events.records import (
    Batch,
    BindCommand,
    Body,
    Deleted,
    Genesis,
    ListChunk,
    ListEnd,
    Member,
    Observed,
    Opened,
    Outcome,
    Record,
    Role,
)
from scheduling.state.fold import Fold

START_MS = 1_767_225_600_000
REGISTER = "GPU-a,10,8192,NVIDIA-X,true,hami-core:"


class History:
    """A fold and the records that it was given; ``again`` folds them afresh."""

    def __init__(self) -> None:
        self.fold = Fold()
        self.records: list[tuple[Record, str]] = []
        self.numbers: dict[Role, int] = {}
        self.terms: dict[Role, int] = {}
        self.say("scheduler", Genesis(cluster="c", incarnation="i"))
        for role in ("watcher", "scheduler", "binder"):
            self.open(role)

    def say(self, role: Role, body: Body, *, term: int | None = None, number: int | None = None) -> str:
        at = self.numbers.get(role, 0) if number is None else number
        record = Record("id", role, self.terms.get(role, 0) if term is None else term, at, "", START_MS, body)
        chain = f"chain-{len(self.records)}"
        self.records.append((record, chain))
        if number is None:
            self.numbers[role] = at + 1
        return self.fold.apply(len(self.records) - 1, record, chain)

    def open(self, role: Role, *, previous: int | None = None, time_ms: int = START_MS) -> str:
        before = self.terms.get(role, 0) if previous is None else previous
        self.terms[role], self.numbers[role] = before + 1, 0
        body = Opened(
            role=role, term=before + 1, previous=before, writer="w", reads={}, writes={}, config={}, time_ms=time_ms
        )
        return self.say(role, body)

    def listed(self) -> None:
        for kind in OBSERVED_KINDS:
            self.say(
                "watcher",
                ListEnd(api_version=kind.api_version, kind=kind.name, list_id=1, version="1", count=0, digest=""),
            )

    def list_of(self, kind: str, uids: list[str], api_version: str = "v1") -> str:
        self.say("watcher", ListChunk(api_version=api_version, kind=kind, list_id=9, uids=uids))
        return self.say(
            "watcher",
            ListEnd(api_version=api_version, kind=kind, list_id=9, version="9", count=len(uids), digest=""),
        )

    def see(self, item: dict[str, Any], version: str = "1", *, listed: bool = False) -> str:
        body = Observed(api_version=item["apiVersion"], kind=item["kind"], object=item, version=version, listed=listed)
        return self.say("watcher", body)

    def lose(self, item: dict[str, Any]) -> str:
        meta = item["metadata"]
        body = Deleted(
            api_version=item["apiVersion"],
            kind=item["kind"],
            namespace=meta.get("namespace", ""),
            name=meta["name"],
            uid=meta["uid"],
        )
        return self.say("watcher", body)

    def batch(self, number: int = 0, base: int | None = None, **content: Any) -> str:
        sequence, state = self.fold.mark()
        base = sequence if base is None else base
        body = Batch.model_validate(
            {
                "batch": number,
                "base": base,
                "chain": f"chain-{base}" if base else "",
                "state": content.pop("state", state),
                "time_ms": content.pop("time_ms", START_MS),
                "engine": "test",
                **content,
            }
        )
        return self.say("scheduler", body)

    def outcome(self, command: str, result: str, uid: str = "pod-1", version: str = "", message: str = "") -> str:
        body = Outcome.model_validate(
            {
                "command": command,
                "verb": "bind",
                "namespace": "ns",
                "name": "p",
                "uid": uid,
                "result": result,
                "node": "n1",
                "version": version,
                "message": message,
                "time_ms": START_MS,
            }
        )
        return self.say("binder", body)

    def again(self) -> Fold:
        fresh = Fold()
        for position, (record, chain) in enumerate(self.records):
            fresh.apply(position, record, chain)
        return fresh


def pod(name: str = "p", uid: str = "pod-1", node: str = "", memory: int = 4000, **annotations: str) -> dict[str, Any]:
    limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": str(memory)}
    item: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": "ns", "name": name, "uid": uid, "annotations": annotations},
        "spec": {
            "schedulerName": "gpuledger",
            "containers": [{"name": "c", "resources": {"limits": limits, "requests": limits}}],
        },
    }
    if node:
        item["spec"]["nodeName"] = node
    return item


def node(name: str = "n1", uid: str = "node-1", **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "uid": uid,
            "annotations": {"volcano.sh/node-vgpu-register": REGISTER, **annotations},
        },
        "status": {
            "allocatable": {
                "cpu": "8",
                "memory": "64Gi",
                "pods": "110",
                "volcano.sh/vgpu-number": "10",
                "volcano.sh/vgpu-memory": "8192",
                "volcano.sh/vgpu-cores": "100",
            }
        },
    }


def bind(uid: str = "pod-1", *, name: str = "p", n: int = 0, node: str = "n1", group: str = "") -> BindCommand:
    member = Member(
        n=n,
        namespace="ns",
        name=name,
        uid=uid,
        version="1",
        node=node,
        node_uid="node-1",
        allocation="GPU-a,NVIDIA,4000,0:",
        vgpu_time=1,
    )
    return BindCommand(group=group, group_uid="", members=[member])
