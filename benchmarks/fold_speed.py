"""How fast a log is read back: records decoded a second, and records folded a second from bytes.

    python benchmarks/fold_speed.py [--pods 10000] [--nodes 200]

The history is made by hand in the shape of a real one: a pod is observed, grouped, decided, reported and observed bound
and running. Printed: records, bytes a pod, decode rate, fold rate from bytes, and the rate of both without the chain.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from typing import Any

from events import chain
from events.codec import CODEC, Message, SetAside, record_id, to_message
from events.kinds import OBSERVED_KINDS
from events.records import Batch, BindCommand, Body, Genesis, ListEnd, Member, Observed, Opened, Outcome, Record, Role
from scheduling.state.fold import Fold
from services.runtime.memory import collect_rarely

_START_MS = 1_767_225_600_000
_PER_BATCH = 200


class _Writer:
    """Writes records as the services would, folding along so that batches carry the right digests."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.fold = Fold()
        self.digest = chain.GENESIS
        self.numbers: dict[Role, int] = {}

    def say(self, role: Role, body: Body, subject: str = "") -> None:
        term = 0 if isinstance(body, Genesis) else 1
        number = self.numbers.get(role, 0)
        self.numbers[role] = 0 if isinstance(body, Genesis) else number + 1
        record = Record(record_id("c", "i", role, term, number), role, term, number, subject, _START_MS, body)
        message = to_message(record, "c")
        verdict = self.fold.apply(len(self.messages), record, self.digest.hex())
        assert verdict == "applied", verdict
        self.digest = chain.extend(self.digest, message)
        self.messages.append(message)


def _node(index: int) -> dict[str, Any]:
    cards = "".join(f"GPU-{index:05d}-{card},10,81920,NVIDIA-A100,true,hami-core:" for card in range(8))
    amounts = {"cpu": "128", "memory": "1Ti", "pods": "1000", "volcano.sh/vgpu-number": "80",
               "volcano.sh/vgpu-memory": "655360", "volcano.sh/vgpu-cores": "800"}  # fmt: skip
    return {"metadata": {"name": f"node-{index:05d}", "uid": f"n{index}",
                         "annotations": {"volcano.sh/node-vgpu-register": cards}},
            "status": {"allocatable": amounts, "capacity": amounts}}  # fmt: skip


def _pod(index: int, **more: Any) -> dict[str, Any]:
    amounts = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "1000", "volcano.sh/vgpu-cores": "5"}
    annotations = {"scheduling.k8s.io/group-name": f"podgroup-p{index}", **more.get("annotations", {})}
    spec = {"schedulerName": "gpuledger", "priority": 0,
            "containers": [{"name": "main", "resources": {"limits": amounts, "requests": amounts}}],
            **more.get("spec", {})}  # fmt: skip
    return {"metadata": {"namespace": "team", "name": f"pod-{index}", "uid": f"p{index}",
                         "creationTimestamp": "2026-01-01T00:00:00Z", "annotations": annotations},
            "spec": spec, "status": {"phase": more.get("phase", "Pending")}}  # fmt: skip


def _observed(kind: str, item: dict[str, Any], version: int, api_version: str = "v1") -> Observed:
    return Observed(api_version=api_version, kind=kind, object=item, version=str(version))


def _history(pods: int, nodes: int) -> list[Message]:
    writer = _Writer()
    writer.say("scheduler", Genesis(cluster="c", incarnation="i"))
    for role in ("watcher", "scheduler", "binder"):
        writer.say(
            role, Opened(role=role, term=1, previous=0, writer="w", reads={}, writes={}, config={}, time_ms=_START_MS)
        )
    for kind in OBSERVED_KINDS:
        writer.say(
            "watcher", ListEnd(api_version=kind.api_version, kind=kind.name, list_id=1, version="1", count=0, digest="")
        )
    for index in range(nodes):
        writer.say("watcher", _observed("Node", _node(index), 2 + index), f"Node/node-{index:05d}")
    version = nodes + 10
    for start in range(0, pods, _PER_BATCH):
        chosen = range(start, min(start + _PER_BATCH, pods))
        for index in chosen:
            version += 2
            group = {
                "metadata": {"namespace": "team", "name": f"podgroup-p{index}", "uid": f"g{index}"},
                "spec": {"minMember": 1},
            }
            writer.say("watcher", _observed("Pod", _pod(index), version), f"Pod/team/pod-{index}")
            writer.say(
                "watcher",
                _observed("PodGroup", group, version + 1, "scheduling.volcano.sh/v1beta1"),
                f"PodGroup/team/podgroup-p{index}",
            )
        _decide(writer, chosen, nodes, start // _PER_BATCH)
        for index in chosen:
            version += 2
            node, record = f"node-{index % nodes:05d}", f"GPU-{index % nodes:05d}-{index // nodes % 8},NVIDIA,1000,5:"
            bound: dict[str, Any] = {
                "annotations": {"volcano.sh/vgpu-ids-new": record, "volcano.sh/vgpu-node": node},
                "spec": {"nodeName": node},
            }
            writer.say("watcher", _observed("Pod", _pod(index, **bound), version), f"Pod/team/pod-{index}")
            writer.say(
                "watcher", _observed("Pod", _pod(index, phase="Running", **bound), version + 1), f"Pod/team/pod-{index}"
            )
    return writer.messages


def _member(index: int, place: int, nodes: int) -> Member:
    return Member(
        n=place,
        namespace="team",
        name=f"pod-{index}",
        uid=f"p{index}",
        version="1",
        node=f"node-{index % nodes:05d}",
        node_uid=f"n{index % nodes}",
        allocation=f"GPU-{index % nodes:05d}-{index // nodes % 8},NVIDIA,1000,5:",
        vgpu_time=1,
    )


def _outcome(index: int, command: str, nodes: int) -> Outcome:
    return Outcome(
        command=command,
        verb="bind",
        namespace="team",
        name=f"pod-{index}",
        uid=f"p{index}",
        result="applied",
        node=f"node-{index % nodes:05d}",
        version="9",
        time_ms=_START_MS,
    )


def _decide(writer: _Writer, chosen: range, nodes: int, number: int) -> None:
    base, state = writer.fold.mark()
    binds = [
        BindCommand(group=f"team/podgroup-p{index}", group_uid=f"g{index}", members=[_member(index, place, nodes)])
        for place, index in enumerate(chosen)
    ]
    chain_here = writer.digest.hex()
    writer.say(
        "scheduler",
        Batch(batch=number, base=base, chain=chain_here, state=state, time_ms=_START_MS, engine="e", binds=binds),
    )
    for place, index in enumerate(chosen):
        writer.say("binder", _outcome(index, f"c/i/1.{number}/{place}", nodes))


def _fold(messages: list[Message]) -> str:
    fold, digest = Fold(), chain.GENESIS
    for position, message in enumerate(messages):
        record = CODEC.from_message(message)
        assert not isinstance(record, SetAside), record
        fold.apply(position, record, digest.hex())
        digest = chain.extend(digest, message)
    return fold.digest()


def _digests(messages: list[Message]) -> list[str]:
    """The chain's digest before each message."""
    found, digest = [], chain.GENESIS
    for message in messages:
        found.append(digest.hex())
        digest = chain.extend(digest, message)
    return found


def _decoded(messages: list[Message]) -> Iterator[Record]:
    for message in messages:
        record = CODEC.from_message(message)
        assert not isinstance(record, SetAside), record
        yield record


def main(pods: int, nodes: int) -> None:
    messages = _history(pods, nodes)
    size = sum(
        len(message.value) + sum(len(key) + len(value) for key, value in message.headers) for message in messages
    )
    print(f"{len(messages)} records, {(len(messages) - nodes) / pods:.1f} records and {size // pods} bytes a pod")
    started = time.process_time()
    records = list(_decoded(messages))
    decoded = time.process_time() - started
    digests = _digests(messages)
    started = time.process_time()
    fold = Fold()
    for position, record in enumerate(records):
        fold.apply(position, record, digests[position])
    applied = time.process_time() - started
    started = time.process_time()
    _fold(messages)
    whole = time.process_time() - started
    for label, took in (
        ("decoded", decoded),
        ("folded, already decoded", applied),
        ("folded from bytes, chained", whole),
    ):
        print(f"{label}: {len(messages) / took:,.0f} records a second")


if __name__ == "__main__":
    collect_rarely()  # as every service does
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--nodes", type=int, default=200)
    chosen = parser.parse_args()
    main(chosen.pods, chosen.nodes)
