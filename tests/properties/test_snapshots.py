"""Design section 3, snapshots: dumped, loaded and folded on, a state is the one that folding everything gives.

Random histories (nodes that come, change and go, gangs, bindings that are refused or lost, configurations good and
bad, new terms) are folded whole; a snapshot is taken wherever one may be, and from some of them the rest is folded
again: every verdict, every decision made again, and the digest at the end are the same.
"""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rules.state.history import START_MS, History, node, pod

from events import chain
from events.codec import CODEC, Message, SetAside
from events.kinds import OBSERVED_KINDS
from events.names import SCHEDULER_CONFIG
from events.records import Batch, Genesis, Record, Ticked
from scheduling.decide import decide
from scheduling.state.fold import Fold
from scheduling.state.snapshot import NotNow, Unusable, dump, load, refusal, seen_in

CONFIGS = (
    'actions: "enqueue, allocate, backfill"\ntiers:\n- plugins: [{name: priority}, {name: gang}]\n'
    "- plugins: [{name: drf}, {name: deviceshare, arguments: {deviceshare.VGPUEnable: true}},"
    " {name: predicates}, {name: proportion}]\n",
    'actions: "allocate"\ntiers:\n- plugins: [{name: gang}, {name: deviceshare, arguments: '
    "{deviceshare.VGPUEnable: true, deviceshare.GPUExclusiveRules: [{workloadType: training}]}}, {name: predicates}]\n",
    "actions: [no",
)


class Story(History):
    """A history that goes on at random: each turn is one thing that happens in a cluster."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.chance = random.Random(seed)
        self.version, self.uids, self.batches = 10, 0, 0
        self.now_ms = START_MS
        self.pods: dict[str, dict[str, Any]] = {}
        self.nodes: dict[str, dict[str, Any]] = {}
        self.snapshots: list[tuple[int, bytes]] = []
        self.listed()
        self.see_as("Queue", "default", "", {"spec": {"weight": 1}}, "scheduling.volcano.sh/v1beta1")
        for name in ("n1", "n2"):
            self.node(name)

    def see_as(self, kind: str, name: str, namespace: str, content: dict[str, Any], api: str = "v1") -> None:
        meta = {"name": name, "uid": f"{kind}-{name}", **({"namespace": namespace} if namespace else {})}
        self.next({"apiVersion": api, "kind": kind, **content, "metadata": meta})

    def next(self, item: dict[str, Any]) -> None:
        self.version += 1
        self.see(item, str(self.version))

    def turn(self) -> None:
        turns = (self.new_gang, self.node_turn, self.pod_turn, self.configuration, self.settle, self.reopen, self.time)
        self.chance.choices(turns, (6, 2, 5, 1, 6, 1, 1))[0]()
        if self.chance.random() < 0.6:
            self.decide()

    def node(self, name: str) -> None:
        cards = "".join(f"GPU-{name}-{i},10,8192,NVIDIA-X,true,hami-core:" for i in range(self.chance.randrange(0, 3)))
        item = node(name, f"node-{name}", **{"volcano.sh/node-vgpu-register": cards})
        self.nodes[name] = item
        self.next(item)

    def node_turn(self) -> None:
        name = self.chance.choice(("n1", "n2", "n3"))
        if name in self.nodes and self.chance.random() < 0.3:
            self.lose(self.nodes.pop(name))
        else:
            self.node(name)

    def new_gang(self) -> None:
        self.uids += 1
        size = self.chance.randrange(1, 4)
        self.see_as(
            "PodGroup", f"g{self.uids}", "ns", {"spec": {"minMember": size, "queue": "default"}},
            "scheduling.volcano.sh/v1beta1",
        )  # fmt: skip
        for index in range(size):
            self.uids += 1
            memory = self.chance.choice((1000, 4000, 9000))
            item = pod(f"p{self.uids % 7}-{index}", f"u{self.uids}", memory=memory)
            item["metadata"]["annotations"]["scheduling.k8s.io/group-name"] = f"g{self.uids - index - 1}"
            item["metadata"]["labels"] = {"workloadType": self.chance.choice(("training", "other"))}
            self.pods[item["metadata"]["name"]] = item
            self.next(item)

    def pod_turn(self) -> None:
        """A pod goes, runs, ends, or is seen bound as it was decided."""
        if not self.pods:
            return
        name = self.chance.choice(sorted(self.pods))
        item = self.pods[name]
        entry = self.fold.model.pods.get(item["metadata"]["uid"])
        if self.chance.random() < 0.25:
            self.lose(self.pods.pop(name))
        elif entry is not None and entry.placement:
            notes = {**item["metadata"]["annotations"], "volcano.sh/vgpu-ids-new": entry.placement.allocation,
                     "volcano.sh/vgpu-time": str(entry.placement.vgpu_time)}  # fmt: skip
            self.pods[name] = {**item, "metadata": {**item["metadata"], "annotations": notes},
                               "spec": {**item["spec"], "nodeName": entry.placement.node}}  # fmt: skip
            self.next(self.pods[name])
        else:
            phase = self.chance.choice(("Pending", "Running", "Succeeded")) if entry and entry.node else "Pending"
            self.pods[name] = {**item, "status": {"phase": phase}}
            self.next(self.pods[name])

    def configuration(self) -> None:
        namespace, name, key = SCHEDULER_CONFIG
        item = {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": namespace, "uid": "config"}}  # fmt: skip
        if self.chance.random() < 0.2:
            self.lose(item)
        else:
            self.next({**item, "data": {key: self.chance.choice(CONFIGS)}})

    def settle(self) -> None:
        """One command that waits has its answer."""
        waiting = sorted(self.fold.model.commands)
        if waiting:
            name = self.chance.choice(waiting)
            command = self.fold.model.commands[name]
            uid = (command.bind or command.evict).uid
            result = self.chance.choice(("applied", "applied", "applied", "refused", "lost", "gone"))
            self.outcome(name, result, uid, str(self.version))

    def reopen(self) -> None:
        """Another writer takes a role; a new watcher lists everything."""
        role = self.chance.choice(("watcher", "scheduler", "binder"))
        self.open(role, time_ms=self.now_ms)
        if role == "scheduler":
            self.batches = 0
        if role == "watcher":
            there = {kind: [] for kind, _ in self.fold._observing._known}
            for (kind, _), known in self.fold._observing._known.items():
                there[kind].append(known.uid)
            self.listed_with(there)

    def listed_with(self, there: dict[str, list[str]]) -> None:
        for kind, uids in there.items():
            api_version, _, name = kind.rpartition("/")
            self.list_of(name, uids, api_version)
        for one in OBSERVED_KINDS:
            if f"{one.api_version}/{one.name}" not in there:
                self.list_of(one.name, [], one.api_version)

    def time(self) -> None:
        self.now_ms += self.chance.choice((1_000, 60_000, 3_600_000))
        self.say("scheduler", Ticked(time_ms=self.now_ms))

    def decide(self) -> None:
        if not self.fold.ready:
            return
        self.now_ms += 1_000
        body = decide(self.fold, self.now_ms, f"chain-{len(self.records)}", self.batches)
        if body is not None:
            self.batches += 1
            self.say("scheduler", body)
        if self.fold.after_batch and len(self.snapshots) < 40:
            self.snapshots.append((len(self.records), dump(self.fold)))


def told(seed: int, turns: int = 60) -> Story:
    story = Story(seed)
    for _ in range(turns):
        story.turn()
    return story


def fold_on(fold: Fold, story: Story, start: int) -> list[str]:
    """Fold the rest of a story; each of its batches is decided again first and must come out the same."""
    verdicts = []
    for position, (record, before) in enumerate(story.records[start:], start):
        if isinstance(record.body, Batch):
            assert decide(fold, record.body.time_ms, before, record.body.batch) == record.body
        verdicts.append(fold.apply(position, record, before))
    return verdicts


@given(seed=st.integers(0, 2**32))
@settings(max_examples=40, deadline=None, database=None)
def test_dumped_loaded_and_folded_on_is_folded_whole(seed: int) -> None:
    story = told(seed)
    whole = fold_on(Fold(), story, 0)
    chosen = story.chance.sample(story.snapshots, min(3, len(story.snapshots)))
    for start, data in chosen:
        fold = load(data)
        assert dump(fold) == data
        assert fold_on(fold, story, start) == whole[start:]
        assert fold.digest() == story.fold.digest()
        assert fold.sequence == story.fold.sequence
        assert fold.model.config_report == story.fold.model.config_report
        assert fold.model.nodes == story.fold.model.nodes
        assert fold.model.pods == story.fold.model.pods


def one() -> tuple[Story, bytes]:
    story = next(found for seed in range(100) if (found := told(seed, 20)).snapshots)
    return story, story.snapshots[-1][1]


def test_a_snapshot_is_refused_whatever_is_wrong_with_it() -> None:
    _, data = one()
    head, rest = data.split(b"\n", 1)
    for wrong, words in (
        (data[: len(data) // 2], "digest"),
        (data.replace(b'"n1"', b'"n9"', 1), "digest"),
        (data.replace(b"snapshot/3", b"snapshot/0", 1), "format"),
        (head.replace(b'"state":"', b'"state":"0') + b"\n" + rest, "come to its state"),
        (b"", "damaged"),
        (b"[]\n", "format"),
        (b"\xff\x00", "damaged"),
    ):
        with pytest.raises(Unusable, match=words):
            load(wrong)


@given(place=st.integers(0, 2**20), bit=st.integers(0, 7))
@settings(max_examples=150, deadline=None, database=None)
def test_a_flipped_bit_is_refused(place: int, bit: int) -> None:
    data = bytearray(ONE)
    data[place % len(data)] ^= 1 << bit
    with pytest.raises(Unusable):
        load(bytes(data))


ONE = one()[1]


def test_none_is_taken_but_right_after_a_batch_that_counts() -> None:
    fresh = Fold()
    with pytest.raises(NotNow, match="not whole"):
        dump(fresh)
    story, data = one()
    story.say("scheduler", Ticked(time_ms=story.now_ms))
    with pytest.raises(NotNow, match="not a batch"):
        dump(story.fold)
    story.open("watcher")
    with pytest.raises(NotNow, match="not whole"):
        dump(story.fold)
    assert load(data).after_batch


def test_what_a_watcher_needs_is_read_without_building_the_state() -> None:
    story, data = one()
    small, seen, reported = seen_in(data)
    fold = load(data)
    assert small["incarnation"] == story.fold.model.incarnation
    assert {(item.kind, item.uid) for item in seen} >= {("Pod", uid) for uid in fold.model.pods}
    under_way = {command.evict.uid for command in fold.model.commands.values() if command.evict}
    assert {(uid, verb) for _, uid, verb, _ in reported} == {
        (uid, "evict" if entry.evicting else "lost" if entry.lost else "bind")
        for uid, entry in fold.model.pods.items()
        if (entry.evicting and uid not in under_way)
        or (not entry.evicting and (entry.applied_version or (entry.lost and fold._observing._waiting(uid) is None)))
    }


GOLDEN = sorted((Path(__file__).parents[1] / "golden").glob("*.jsonl.gz"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.name.partition(".")[0])
def test_recorded_logs_go_on_from_a_snapshot_with_the_same_verdicts_and_decisions(path: Path) -> None:
    """Logs of the simulation with faults: evictions, MIG, exclusivity, legacy sharing, superseded writers."""
    digest, whole, records, verdicts = chain.GENESIS, Fold(), [], []
    snapshots: list[tuple[int, bytes]] = []
    for line in gzip.decompress(path.read_bytes()).decode("ascii").splitlines():
        headers, value = json.loads(line)
        message = Message(tuple((name, text.encode("latin-1")) for name, text in headers), value.encode("latin-1"))
        record = CODEC.from_message(message)
        records.append((record, digest.hex()))
        verdicts.append(told_to(whole, len(verdicts), record, digest.hex()))
        if verdicts[-1] == "applied" and isinstance(record, Record) and isinstance(record.body, Genesis):
            digest = chain.GENESIS
        digest = chain.extend(digest, message)
        if not refusal(whole):
            snapshots.append((len(records), dump(whole)))
    assert snapshots
    for start, data in (snapshots[0], snapshots[len(snapshots) // 2]):
        fold = load(data)
        for position, (record, before) in enumerate(records[start:], start):
            assert told_to(fold, position, record, before) == verdicts[position]
        assert fold.digest() == whole.digest()
        assert fold.model.nodes == whole.model.nodes
        time_ms = whole.model.time_ms + 60_000
        assert decide(fold, time_ms, digest.hex(), 1) == decide(whole, time_ms, digest.hex(), 1)


def told_to(fold: Fold, position: int, record: Record | SetAside, before: str) -> str:
    if isinstance(record, SetAside):
        fold.set_aside(position, record.reason, before)
        return "set aside"
    return fold.apply(position, record, before)
