"""Warnings on Queues (scheduling section 9, rows 10 and 11; Q-10, Q-15)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from events.kinds import EVENT
from tests.rules.simulate.playing import node, player, text


def queue(**spec: Any) -> dict[str, Any]:
    version = "scheduling.volcano.sh/v1beta1"
    return {"apiVersion": version, "kind": "Queue", "metadata": {"name": "q"}, "spec": spec}


def warnings(tmp_path: Path, *steps: Any, **spec: Any) -> list[tuple[str, int]]:
    documents = node(), queue(**spec)
    one, lines = player(tmp_path / "field.yaml", text([{"add": [1, 2]}, {"settle": True}, *steps], [], *documents))
    assert lines == []
    events = one.system.store.items(EVENT)
    found = [item for item in events if item["reason"] == "QueueWarning" and item["involvedObject"]["name"] == "q"]
    return [(item["message"], item["count"]) for item in found]


def test_deserved_has_no_effect_with_proportion_and_that_is_told_once(tmp_path: Path) -> None:
    told = warnings(tmp_path, {"restart": "binder"}, {"settle": True}, deserved={"cpu": 1})
    assert told == [("spec.deserved has no effect: the proportion plugin shares the cluster by weight", 1)]


def test_a_zero_that_is_no_limit_is_told(tmp_path: Path) -> None:
    told = warnings(tmp_path, capability={"cpu": 0, "memory": "1Gi", "volcano.sh/vgpu-number": 0})
    assert told == [("spec.capability: cpu 0 means no limit", 1)]


def test_a_plain_queue_is_told_nothing(tmp_path: Path) -> None:
    assert warnings(tmp_path, weight=2) == []
