"""What the kills take for a card that is over-given, in what the API server says."""

from __future__ import annotations

import pytest
from system.killing import EXCLUSIVE, SHARED, SLICE, misgiven

from events import names
from events.canonical import Json


def pod(card: str, memory: int, cores: int, what: str) -> Json:
    record = f"{card},NVIDIA,{memory},{cores}:;"
    return {"metadata": {"labels": {"workloadType": what}, "annotations": {names.VGPU_IDS: record}}}


@pytest.mark.parametrize(
    ("count", "item", "wrong"),
    [
        (7, pod("GPU-n0-0", 1200, 0, SHARED), "GPU-n0-0: 8400 MiB"),
        (11, pod("GPU-n0-0", 0, 0, SHARED), "GPU-n0-0: 11 shares"),
        (3, pod("GPU-n0-0", 1200, 40, SHARED), "GPU-n0-0: 120 % of its cores"),
        (2, pod("GPU-n0-0", 1200, 0, EXCLUSIVE), "training on GPU-n0-0: 2 times"),
        (2, pod("GPU-m0-0[group1-3]", 3000, 0, SLICE), "GPU-m0-0[group1-3: 2 times"),
    ],
    ids=["memory", "shares", "cores", "an exclusive one", "a slice"],
)
def test_one_too_many_is_named(count: int, item: Json, wrong: str) -> None:
    assert misgiven([item] * (count - 1)) == []
    assert [found.replace("]", "") for found in misgiven([item] * count)] == [wrong]


def test_a_card_that_is_cut_in_two_ways_is_named() -> None:
    pods = [pod("GPU-x0-0[group1-0]", 3000, 0, SLICE), pod("GPU-x0-0[group2-1]", 6000, 0, SLICE)]
    assert [found.partition(" into ")[0] for found in misgiven(pods)] == ["GPU-x0-0: cut"]
    assert misgiven(pods[:1]) == misgiven(pods[1:]) == []
