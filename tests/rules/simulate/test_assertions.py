"""The assertions (scenario format, *Assertions*, *Reasons*): what holds is silent, what does not is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.rules.simulate.playing import CARD, group, member, node, player, pod, text

OTHER = "GPU-00000000-0000-4000-8000-000000000002"
RECORD = f"{CARD},NVIDIA,4000,0:"


def spread_pods() -> list[dict[str, Any]]:
    """Two bound pods on a node of two cards, one that waits, and a group of two whose second member waits too."""
    return [
        node(cards=2), pod("one", 9000, uid="u-1"), pod("two", 9000, uid="u-2"),
        pod("big", 20000, uid="u-3"), group("pair", 2), member("pair-0", "pair", 1000, uid="u-4"),
    ]  # fmt: skip


HOLDS: dict[str, list[dict[str, Any]]] = {
    "phases": [{"pod": "team-a/one", "phase": "bound"}, {"pod": "team-a/big", "phase": "pending"}],
    "not bound": [{"pod": "team-a/big", "phase": "notBound"}],
    "nodes": [{"pod": "team-a/one", "node": ["x", "gpu-01"]}, {"pod": "team-a/big", "notNode": ["gpu-01"]}],
    "cards": [
        {"pod": "team-a/one", "gpuIn": [CARD, OTHER], "notGpu": ["GPU-x"], "gpuCount": 1},
        {"disjointGpus": ["team-a/one", "team-a/two"]}, {"sameGpu": ["team-a/one"]},
    ],
    "counts": [
        {"boundCount": {"of": ["team-a/one", "team-a/two", "team-a/big"], "min": 1, "max": 2}},
        {"pod": "team-a/one", "bindings": 1}, {"objects": {"kind": "Node", "equals": 1}},
        {"objects": {"kind": "Queue", "equals": 2}},
    ],
    "reasons": [
        {"pod": "team-a/big", "reasonContains": "quota insufficient"},
        {"podgroup": "team-a/pair", "podgroupPhase": ["Pending", "Inqueue"], "reasonAnyOf": ["x", "2 minAvailable"]},
    ],
    "any of": [{"anyOf": [[{"pod": "team-a/one", "phase": "pending"}], [{"pod": "team-a/two", "phase": "bound"}]]}],
    "annotations": [
        {"annotation": "volcano.sh/vgpu-node", "pod": "team-a/one", "equals": "gpu-01"},
        {"annotation": "volcano.sh/vgpu-ids-new", "pod": "team-a/one", "matches": "9000,0:$"},
        {"annotation": "volcano.sh/vgpu-node", "pod": "team-a/big", "absent": True},
    ],
    "queues": [
        {"queue": "default", "allocated": {"volcano.sh/vgpu-number": 2, "volcano.sh/vgpu-memory": "18k", "x/y": 0}}
    ],
    "configuration": [
        {"config": "scheduler", "accepted": True, "warns": False}, {"config": "device", "accepted": True}
    ],
    "objects": [
        {"object": "Pod/team-a/one", "exists": True, "contains": {"spec": {"nodeName": "gpu-01"}}, "refused": False},
        {"object": "Queue/root", "exists": True},
    ],
    "absence": [{"pod": "team-a/gone", "phase": "absent"}, {"object": "Pod/team-a/gone", "exists": False}],
}  # fmt: skip

FAILS: dict[str, tuple[dict[str, Any], str]] = {
    "phase": (
        {"pod": "team-a/one", "phase": "pending"},
        f"pod team-a/one phase: want pending, found bound (node gpu-01, {CARD})",
    ),
    "node of a waiting pod": (
        {"pod": "team-a/big", "node": ["gpu-01"]},
        "pod team-a/big node: want gpu-01, found pending",
    ),
    "card of a waiting pod": (
        {"pod": "team-a/big", "gpu": [CARD]},
        f'pod team-a/big gpu: want ["{CARD}"], found pending',
    ),
    "other cards": (
        {"pod": "team-a/one", "notGpu": [CARD]},
        f"pod team-a/one notGpu: want cards other than {CARD}, found",
    ),
    "same cards": ({"sameGpu": ["team-a/one", "team-a/two"]}, "sameGpu: want one set of cards, found team-a/one GPU-"),
    "cards of a waiting pod": (
        {"disjointGpus": ["team-a/one", "team-a/big"]},
        "disjointGpus: want all bound with devices, found team-a/big is pending",
    ),
    "bindings": ({"pod": "team-a/big", "bindings": 1}, "pod team-a/big bindings: want 1, found 0"),
    "reason of a bound pod": (
        {"pod": "team-a/one", "reasonContains": "x"},
        "pod team-a/one reasonContains: want x, found bound (node gpu-01",
    ),
    "containers": (
        {"pod": "team-a/one", "containers": [[], [{"uuid": CARD, "mem": 9000}]]},
        'pod team-a/one containers: want [[], [{"mem": 9000',
    ),
    "a pod that is gone": ({"pod": "team-a/gone", "notNode": ["x"]}, "pod team-a/gone notNode: want"),
    "a name that nobody knows": (
        {"pod": "team-a/typo", "phase": "absent"},
        "pod team-a/typo: no document holds it and no controller made it",
    ),
    "an object that nobody knows": (
        {"object": "Pod/team-a/typo", "exists": False},
        "object Pod/team-a/typo: no document holds it and no controller made it",
    ),
    "count": ({"boundCount": {"of": ["team-a/one", "team-a/two"], "max": 1}}, "boundCount: want max 1, found 2 ("),
    "group": (
        {"podgroup": "team-a/pair", "podgroupPhase": ["Running"]},
        "podgroup team-a/pair phase: want Running, found ",
    ),
    "queue": (
        {"queue": "default", "allocated": {"volcano.sh/vgpu-number": 3}},
        "queue default allocated volcano.sh/vgpu-number: want 3, found 2",
    ),
    "device": ({"device": CARD, "usedMem": 1}, f"device {CARD} usedMem: want 1, found 9000"),
    "contains": (
        {"object": "Pod/team-a/one", "contains": {"spec": {"nodeName": "x"}}},
        "object Pod/team-a/one contains: spec.nodeName: want x, found gpu-01",
    ),
    "lists are compared whole": (
        {"object": "Pod/team-a/one", "contains": {"spec": {"containers": [{"name": "main"}]}}},
        "object Pod/team-a/one contains: spec.containers: want",
    ),
    "replay": ({"replay": {"stateEqual": True}}, "replay: there was no replay step before"),
    "any of": (
        {"anyOf": [[{"pod": "team-a/one", "phase": "pending"}], [{"pod": "team-a/big", "phase": "bound"}]]},
        "anyOf: pod team-a/one phase: want pending, found bound",
    ),
    "annotation": (
        {"annotation": "volcano.sh/vgpu-node", "pod": "team-a/one", "absent": True},
        "pod team-a/one annotation volcano.sh/vgpu-node: want absent, found gpu-01",
    ),
}


def steps() -> list[Any]:
    return [{"add": [1, 2, 3, 4, 5, 6, 7]}, {"settle": True}, {"delete": 7}]


@pytest.mark.parametrize("case", HOLDS)
def test_what_holds_is_silent(tmp_path: Path, case: str) -> None:
    content = text(steps(), HOLDS[case], *spread_pods(), pod("gone", 1))
    assert player(tmp_path / "field.yaml", content)[1] == []


@pytest.mark.parametrize("case", FAILS)
def test_what_does_not_hold_is_one_line(tmp_path: Path, case: str) -> None:
    item, wanted = FAILS[case]
    found = player(tmp_path / "field.yaml", text(steps(), [item], *spread_pods(), pod("gone", 1)))[1]
    assert len(found) == 2, found
    assert found[0].startswith(f"expect[0]: {wanted}")
    assert found[1] == "FAILED (1 of 1 assertions)"


def test_a_run_goes_on_and_counts_items(tmp_path: Path) -> None:
    wrong, right = {"pod": "team-a/one", "phase": "pending"}, {"pod": "team-a/one", "phase": "bound"}
    content = text([{"add": [1, 2]}, {"settle": True}, {"assert": [right, wrong]}], [wrong], node(), pod("one"))
    found = player(tmp_path / "field.yaml", content.replace("expect:", "rules: [devices/F-1]\nexpect:"))[1]
    assert [line.split(": ")[0] for line in found[:2]] == ["steps[2].assert[1]", "expect[0]"]
    assert found[2] == "FAILED (2 of 3 assertions; rules devices/F-1)"


def test_a_refused_pod_is_not_bound_and_says_why(tmp_path: Path) -> None:
    quota = {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q", "namespace": "team-a"},
        "spec": {"hard": {"pods": "0"}},
    }  # fmt: skip
    expect = [
        {"pod": "team-a/one", "phase": "notBound", "reasonContains": "exceeded quota: q"},
        {"pod": "team-a/one", "phase": "absent"}, {"object": "Pod/team-a/one", "exists": False, "refused": True},
    ]  # fmt: skip
    assert player(tmp_path / "field.yaml", text([{"apply": [1, 2]}], expect, quota, pod("one")))[1] == []


def test_without_a_valid_configuration_the_report_is_the_reason(tmp_path: Path) -> None:
    config = {
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "volcano-scheduler-configmap", "namespace": "volcano-system"},
        "data": {"volcano-scheduler.conf": 'actions: "allocat"\ntiers: [{plugins: [{name: gang}]}]'},
    }  # fmt: skip
    expect = [
        {"pod": "team-a/one", "phase": "pending", "reasonContains": "failed to find Action allocat"},
        {"config": "scheduler", "accepted": False, "reasonContains": "allocat"}, {"invariants": ["no-crash"]},
    ]  # fmt: skip
    assert player(tmp_path / "field.yaml", text(None, expect, config, node(), pod("one")))[1] == []
