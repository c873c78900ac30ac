"""The judge of the invariants (scenario format, *Invariants*): what nobody of ours did is forgiven, the rest is not."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from events import names
from events.canonical import Json
from events.kinds import NODE, POD
from services.simulator.player import Player
from services.simulator.system import System
from tests.rules.simulate.playing import CARD, group, member, node, player, pod, text

RECORD = f"{CARD},NVIDIA,9000,0:"


def assigned(name: str, record: str = RECORD) -> dict[str, Any]:
    return pod(name, 9000, uid=f"u-{name}", annotations={names.VGPU_IDS: record}, spec={"nodeName": "gpu-01"})


def breaches(tmp_path: Path, *documents: dict[str, Any], spoil: Callable[[System], None]) -> dict[str, list[str]]:
    """Play documents to rest, spoil the cluster behind the scheduler's back, and look once more."""
    one, lines = player(tmp_path / "field.yaml", text(None, [], *documents))
    assert lines == []
    spoil(one.system)
    one.invariants.check("the end", one.system.model)
    return one.invariants.breaches


def edit(system: System, name: str, change: Callable[[Json], None]) -> None:
    """Change a pod of the store in place of a service."""
    found = copy.deepcopy(system.store.get(POD, "team-a", name))
    assert found is not None
    change(found)
    system.store.write(POD, found)


def bind_by_hand(system: System, name: str, record: str, node_name: str = "gpu-01") -> None:
    """Bind a pod as a scheduler would that does not look."""

    def change(item: Json) -> None:
        item["spec"]["nodeName"] = node_name
        notes = {names.VGPU_IDS: record, names.VGPU_NODE: node_name}
        item["metadata"].setdefault("annotations", {}).update(notes)
        existed = system.store.get(NODE, "", node_name) is not None
        system.store.accept_binding(item["metadata"]["uid"], node_name, existed)

    edit(system, name, change)


def test_a_card_given_twice_is_told(tmp_path: Path) -> None:
    big = pod("two", 20000)
    found = breaches(tmp_path, node(), pod("one", 9000), big, spoil=lambda system: bind_by_hand(system, "two", RECORD))
    assert found["no-oversubscription"] == [
        f"after the end: {CARD} on gpu-01: memory 18000 of 12288 held, newly by team-a/two"
    ]


def test_assigned_pods_from_elsewhere_are_forgiven(tmp_path: Path) -> None:
    found = breaches(tmp_path, node(), assigned("one"), assigned("two"), spoil=lambda system: None)
    assert found == {}


def test_a_second_binding_is_told(tmp_path: Path) -> None:
    def spoil(system: System) -> None:
        system.store.accept_binding("u-1", "gpu-01", True)

    found = breaches(tmp_path, node(), pod("one", uid="u-1"), spoil=spoil)
    assert found["one-bind-per-pod"] == ["after the end: pod with uid u-1 was bound 2 times"]


def test_a_binding_to_a_node_that_is_not_there_is_told(tmp_path: Path) -> None:
    found = breaches(
        tmp_path, node(), pod("one", 20000, uid="u-1"), spoil=lambda system: bind_by_hand(system, "one", RECORD, "gone")
    )
    assert found["no-dead-node-binding"] == [
        "after the end: pod with uid u-1 was bound to node gone, which did not exist"
    ]


def test_half_a_gang_is_told(tmp_path: Path) -> None:
    documents = node(), group("pair", 2), member("pair-0", "pair", 1000)
    found = breaches(tmp_path, *documents, spoil=lambda system: bind_by_hand(system, "pair-0", RECORD))
    assert found["gang-atomic"] == ["after the end: PodGroup team-a/pair: 1 of minMember 2 bound"]


def test_a_lost_member_is_forgiven(tmp_path: Path) -> None:
    documents = node(), group("pair", 2), member("pair-0", "pair", 1000), member("pair-1", "pair", 1000)
    found = breaches(tmp_path, *documents, spoil=lambda system: bool(system.store.remove(POD, "team-a", "pair-0")))
    assert "gang-atomic" not in found


def test_a_record_that_does_not_match_is_told(tmp_path: Path) -> None:
    def spoil(system: System) -> None:
        edit(system, "one", lambda item: item["metadata"]["annotations"].update({names.VGPU_NODE: "gpu-02"}))

    found = breaches(tmp_path, node(), pod("one"), spoil=spoil)
    assert found["annotation-matches-node"] == [
        "after the end: pod team-a/one is bound to gpu-01, its volcano.sh/vgpu-node is gpu-02"
    ]


def test_a_binding_without_a_placement_on_the_log_is_told(tmp_path: Path) -> None:
    def spoil(system: System) -> None:
        binding = {
            "metadata": {"name": "two", "namespace": "team-a", "uid": "u-2", "annotations": {names.DECISION: "x"}},
            "target": {"kind": "Node", "name": "gpu-01"},
        }  # fmt: skip
        asyncio.run(system.binder_api.bind("team-a", "two", binding))

    found = breaches(tmp_path, node(), pod("one"), pod("two", 20000, uid="u-2"), spoil=spoil)
    assert found["placement-on-log"] == ["after the end: pod two was bound to gpu-01 by no placement on the log"]


def test_a_queue_above_its_capability_is_told(tmp_path: Path) -> None:
    queue = {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "small"},
        "spec": {"capability": {"volcano.sh/vgpu-memory": 1000}},
    }  # fmt: skip
    documents = queue, node(), group("one", 1, queue="small"), member("one-0", "one", 4000)
    record = f"{CARD},NVIDIA,4000,0:"
    found = breaches(tmp_path, *documents, spoil=lambda system: bind_by_hand(system, "one-0", record))
    assert found["queue-cap"] == [
        "after the end: queue small: volcano.sh/vgpu-memory 4000000 of 1000000 charged, newly by team-a/one-0"
    ]


def test_a_claim_without_a_holder_is_told(tmp_path: Path) -> None:
    """The state still holds the card: nobody has read yet that the pod is gone."""
    found = breaches(
        tmp_path, node(), pod("one", 9000), spoil=lambda system: bool(system.store.remove(POD, "team-a", "one"))
    )
    assert found["released"] == [
        f"after the end: {CARD} usedSlots 1 without a holder",
        f"after the end: {CARD} usedMem 9000 without a holder",
    ]


@pytest.mark.parametrize("name", ["scheduler", "binder", "watcher", "controller"])
def test_a_service_that_stops_by_itself_is_told(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def spoiled(self: System, role: str, step: Any) -> Any:
        async def fail() -> bool:
            raise ValueError("broken")

        return original(self, role, fail if role == name else step)

    original = System._run
    monkeypatch.setattr(System, "_run", spoiled)
    expect = [{"invariants": ["no-crash"]}]
    lines = player(tmp_path / "field.yaml", text(None, expect, node(), pod("one")))[1]
    assert lines[0].endswith(f"{name} stopped: ValueError: broken")
    assert lines[-1] == "FAILED (1 of 1 assertions)"


def test_an_invariant_is_judged_wherever_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check = Player._check_replay

    async def told(self: Player, place: str) -> None:
        self.invariants.report("replay-equal", place, "not equal")
        await check(self, place)

    monkeypatch.setattr(Player, "_check_replay", told)
    steps = [{"assert": [{"invariants": ["replay-equal"]}]}, {"add": [1]}, {"settle": True}]
    lines = player(tmp_path / "field.yaml", text(steps, [], node()))[1]
    assert lines[0] == "steps[0].assert[0]: invariant replay-equal: after steps[2]: not equal"
