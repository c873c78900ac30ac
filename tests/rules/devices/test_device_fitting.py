"""Fitting and scoring on hami-core cards: devices/F-1 to F-14, R-14."""

from __future__ import annotations

from typing import Any

import pytest
from device_builders import World, card, container, env, holding, node, pod

from scheduling.devices.fitting import Fit, Misfit

NOT_ENOUGH = "not enough gpu fitted on this node"
REASON = "hami-vgpuDeviceSharing error"
USE, NOUSE = "volcano.sh/vgpu-use-gpuuuid", "volcano.sh/vgpu-nouse-gpuuuid"
USE_TYPE, NOUSE_TYPE = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
GROUP, VOLCANO_GROUP = "scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name"
SPREAD = {"volcano.sh/vgpu-podgroup-policy": "spread"}
THREE = card("GPU-0") + card("GPU-1") + card("GPU-2")


def uuids(allocation: str) -> list[str]:
    return [part.split(",")[0] for part in allocation.replace(";", "").split(":") if part]


def test_f1_no_request_fits_everywhere() -> None:
    """devices/F-1 a, F-13, A-9"""
    for item in (None, node("junk"), node(card("GPU-a"))):
        world = World(item, env(weight=5))
        answer = world.answer(pod("p"))
        assert isinstance(answer, Fit)
        assert (answer.allocation, answer.score) == ("", 0)


def test_f1_more_cards_than_the_node_has() -> None:
    """devices/F-1 d, F-6"""
    answer = World(card("GPU-a") + card("GPU-b"), env()).answer(pod("p", number=3, memory=1))
    assert answer == Misfit(3, REASON, "no enough gpu cards on node n1")


def test_f1_one_share_per_card_and_container() -> None:
    """devices/F-1, F-4"""
    world = World(card("GPU-a") + card("GPU-b", 100), env())
    answer = world.answer(pod("p", number=2, memory=200))
    assert answer == Misfit(2, REASON, NOT_ENOUGH, (("GPU-b", "insufficient-memory"),))


@pytest.mark.parametrize(
    ("held", "asked", "word"),
    [
        ("", {"number": 1, "annotations": {USE: "GPU-z"}}, "uuid-filter"),
        ("", {"number": 1, "memory": 8193}, "insufficient-memory"),
        ("GPU-a,NVIDIA,8000,0:", {"number": 1, "memory": 193}, "insufficient-memory"),
        ("GPU-a,NVIDIA,10,60:", {"number": 1, "memory": 10, "cores": 41}, "insufficient-cores"),
        ("GPU-a,NVIDIA,10,0:", {"number": 1, "memory": 10, "cores": 100}, "card-not-empty"),
        ("GPU-a,NVIDIA,10,100:", {"number": 1, "memory": 10}, "cores-full"),
        ("GPU-a,NVIDIA,10,100:", {"number": 1, "memory": 10, "cores": 1}, "insufficient-cores"),
        ("GPU-a,NVIDIA,1,0:" * 3, {"number": 1, "memory": 1}, "shares-exhausted"),
        ("", {"number": 1, "memory": 1, "annotations": {USE_TYPE: "T4"}}, "type-mismatch"),
    ],
)
def test_f2_tests_and_their_words(held: str, asked: dict[str, Any], word: str) -> None:
    """devices/F-2"""
    world = World(card("GPU-a", shares=3), env())
    if held:
        world.see(holding("other", held))
    assert world.words(pod("p", **asked)) == [word]


def test_f2_the_first_failing_test_is_named() -> None:
    """devices/F-2: the order of the tests"""
    world = World("GPU-a,1,8192,AMD,false,hami-core:", env())
    world.see(holding("other", "GPU-a,NVIDIA,8192,100:"))
    item = pod("p", number=1, memory=1, annotations={NOUSE: "GPU-a"})
    assert world.words(item) == ["uuid-filter"]
    assert world.words(pod("p", number=1, memory=1)) == ["card-unusable"]


def test_f2_exact_bounds() -> None:
    """devices/F-2"""
    world = World(card("GPU-a"), env())
    assert world.place(pod("a", number=1, memory=8000, cores=60)) == "GPU-a,NVIDIA,8000,60:"
    assert world.place(pod("b", number=1, memory=192, cores=40)) == "GPU-a,NVIDIA,192,40:"
    assert world.books.held("GPU-a") == (2, 8192, 100)


def test_f3_a_failed_trial_leaves_no_trace() -> None:
    """devices/F-3 (K-5)"""
    world = World(card("GPU-a"), env())
    before = world.books
    pair = [container(number=1, memory=5000), container(number=1, memory=5000)]
    assert world.place(pod("p", *pair)) == NOT_ENOUGH
    assert world.books is before
    assert world.books.held("GPU-a") == (0, 0, 0)


def test_f4_the_uuid_message_needs_that_no_card_passed() -> None:
    """devices/F-4, F-6"""
    world = World(card("GPU-a") + card("GPU-b"), env())
    item = pod("p", number=1, memory=1, annotations={USE: " GPU-x ,", NOUSE: "GPU-y"})
    answer = world.answer(item)
    assert isinstance(answer, Misfit)
    assert answer.code == 3
    assert answer.detail == f'no GPU matches UUID constraints {USE}=" GPU-x ,", {NOUSE}="GPU-y" on node n1'
    full = world.answer(pod("p", number=1, memory=9000, annotations={USE: "GPU-a"}))
    assert isinstance(full, Misfit)
    assert (full.code, full.detail) == (2, NOT_ENOUGH)
    one_of_two = world.answer(pod("p", number=2, memory=1, annotations={USE: "GPU-a"}))
    assert isinstance(one_of_two, Misfit)
    assert (one_of_two.code, one_of_two.detail) == (2, NOT_ENOUGH)


@pytest.mark.parametrize(
    ("policy", "held", "order"),
    [
        ("binpack", "GPU-1,NVIDIA,4096,0:GPU-2,NVIDIA,4096,0:", ["GPU-1", "GPU-2", "GPU-0"]),
        ("spread", "GPU-0,NVIDIA,1,0:", ["GPU-1", "GPU-2", "GPU-0"]),
        ("", "", ["GPU-2", "GPU-1", "GPU-0"]),
        ("binpack", "", ["GPU-0", "GPU-1", "GPU-2"]),
    ],
)
def test_f5_card_order(policy: str, held: str, order: list[str]) -> None:
    """devices/F-5"""
    world = World(THREE, env(policy=policy))
    if held:
        world.see(holding("other", held))
    assert uuids(world.place(pod("p", number=3, memory=10))) == order


def test_f5_order_is_computed_anew_for_each_container() -> None:
    """devices/F-5"""
    world = World(THREE, env(policy="spread"))
    pair = [container(number=1, memory=10) for _ in range(4)]
    assert uuids(world.place(pod("p", *pair))) == ["GPU-0", "GPU-1", "GPU-2", "GPU-0"]
    packed = World(THREE, env(policy="binpack"))
    assert uuids(packed.place(pod("p", container(number=1, memory=10), container(number=2, memory=10)))) == [
        "GPU-0",
        "GPU-0",
        "GPU-1",
    ]


def test_f5_binpack_goes_by_memory_not_by_shares() -> None:
    """devices/F-5"""
    world = World(THREE, env(policy="binpack"))
    world.see(holding("small", "GPU-0,NVIDIA,1,0:;GPU-0,NVIDIA,1,0:;GPU-1,NVIDIA,500,0:"))
    assert uuids(world.place(pod("p", number=1, memory=10))) == ["GPU-1"]


def test_f7_equal_input_gives_equal_answers() -> None:
    """devices/F-7 (K-7): no score or answer stays behind from another pod"""
    world = World(card("GPU-a"), env(policy="binpack", weight=1))
    small, large = pod("s", number=1, memory=819), pod("l", number=1, memory=8192)
    first = world.answer(small)
    assert world.answer(large) != first
    assert world.answer(small) == first
    assert World(card("GPU-a"), env(policy="binpack", weight=1)).answer(small) == first


@pytest.mark.parametrize(
    ("use", "nouse", "uuid", "passes"),
    [
        ("GPU-0, GPU-1", None, "GPU-1", True),
        ("GPU-10", None, "GPU-1", False),
        ("GPU-1", None, "GPU-10", False),
        (", ,", None, "GPU-1", True),
        ("GPU-1", "GPU-1", "GPU-1", False),
        (None, "GPU-1", "GPU-1", False),
        (None, "GPU-0,", "GPU-1", True),
        (None, "", "GPU-1", True),
        ("gpu-1", None, "GPU-1", False),
    ],
)
def test_f8_uuid_lists(use: str | None, nouse: str | None, uuid: str, passes: bool) -> None:
    """devices/F-8"""
    lists = {key: text for key, text in ((USE, use), (NOUSE, nouse)) if text is not None}
    answer = World(card(uuid), env()).answer(pod("p", number=1, memory=1, annotations=lists))
    assert isinstance(answer, Fit) == passes


def test_f8_a_card_without_uuid_passes_no_filter() -> None:
    """devices/F-8"""
    world = World(card(""), env())
    assert world.words(pod("p", number=1, annotations={NOUSE: "GPU-0,"})) == ["uuid-filter"]


@pytest.mark.parametrize(
    ("use", "nouse", "model", "passes"),
    [
        ("a100, v100", None, "NVIDIA-Tesla V100-SXM2-32GB", True),
        ("AMD,INTEL", None, "NVIDIA-Tesla V100-SXM2-32GB", False),
        ("A100,", None, "NVIDIA-Tesla T4", False),
        (" , ", None, "NVIDIA-Tesla T4", True),
        (None, "t4", "NVIDIA-Tesla T4", False),
        (None, "A100", "NVIDIA-Tesla T4", True),
        ("tesla", "T4", "NVIDIA-Tesla T4", False),
        (None, None, "AMD-MI300", False),
        (None, None, "nvidia-T4", False),
    ],
)
def test_f9_type_lists(use: str | None, nouse: str | None, model: str, passes: bool) -> None:
    """devices/F-9 (K-17)"""
    lists = {key: text for key, text in ((USE_TYPE, use), (NOUSE_TYPE, nouse)) if text is not None}
    answer = World(card("GPU-a", model=model), env()).answer(pod("p", number=1, memory=1, annotations=lists))
    assert isinstance(answer, Fit) == passes


def test_f10_f11_podgroup_spread() -> None:
    """devices/F-10, F-11: the example"""
    world = World(card("GPU-a", 16384, 4), env())
    job1, job2 = ({**SPREAD, GROUP: name} for name in ("job-1", "job-2"))
    assert world.place(pod("a", number=1, memory=4096, annotations=job1)) == "GPU-a,NVIDIA,4096,0:"
    assert world.place(pod("b", number=1, memory=4096, annotations=job1)) == NOT_ENOUGH
    assert world.words(pod("b", number=1, memory=4096, annotations=job1)) == ["podgroup-spread"]
    assert world.place(pod("c", number=1, memory=4096, annotations=job2)) == "GPU-a,NVIDIA,4096,0:"


def test_f10_the_first_non_empty_group_name() -> None:
    """devices/F-10, C-19"""
    world = World(card("GPU-a"), env())
    world.place(pod("a", number=1, memory=1, annotations={GROUP: "", VOLCANO_GROUP: "g"}))
    same = {**SPREAD, GROUP: "g", VOLCANO_GROUP: "x"}
    other = {**SPREAD, GROUP: "x", VOLCANO_GROUP: "g"}
    assert world.words(pod("b", number=1, memory=1, annotations=same)) == ["podgroup-spread"]
    assert world.place(pod("b", number=1, memory=1, annotations=other)) == "GPU-a,NVIDIA,1,0:"


def test_f11_who_is_not_bound_by_spread() -> None:
    """devices/F-11: other words, no group, other namespaces, members without the annotation, the pod itself"""
    world = World(card("GPU-a"), env())
    world.place(pod("a", number=1, memory=1, annotations={**SPREAD, GROUP: "g"}))
    fine = "GPU-a,NVIDIA,1,0:"
    policy = "volcano.sh/vgpu-podgroup-policy"
    for name, item in (
        ("word", pod("word", number=1, memory=1, annotations={policy: "Spread", GROUP: "g"})),
        ("none", pod("none", number=1, memory=1, annotations={GROUP: "g"})),
        ("free", pod("free", number=1, memory=1, annotations=SPREAD)),
        ("else", pod("else", number=1, memory=1, annotations={**SPREAD, GROUP: "g"}, namespace="other")),
    ):
        assert world.place(item) == fine, name
    pair = [container(number=1, memory=1), container(number=1, memory=1)]
    alone = World(card("GPU-a"), env())
    assert alone.place(pod("p", *pair, annotations={**SPREAD, GROUP: "g"})) == fine + ";" + fine


def test_f11_a_member_that_holds_nothing_does_not_count() -> None:
    """devices/F-11: memory or cores above 0"""
    world = World(card("GPU-a"), env())
    world.see(holding("a", "GPU-a,NVIDIA,0,0:", annotations={GROUP: "g"}))
    assert world.place(pod("b", number=1, memory=1, annotations={**SPREAD, GROUP: "g"})) == "GPU-a,NVIDIA,1,0:"
    world.see(holding("a", "GPU-a,NVIDIA,0,5:", annotations={GROUP: "g"}))
    assert world.words(pod("c", number=1, memory=1, annotations={**SPREAD, GROUP: "g"})) == ["podgroup-spread"]


@pytest.mark.parametrize(
    ("policy", "weight", "held", "asked", "score"),
    [
        ("binpack", 1, "GPU-0,NVIDIA,3000,0:", {"number": 1, "memory": 1000}, 13),
        ("binpack", 10, "GPU-0,NVIDIA,3000,0:", {"number": 1, "memory": 1000}, 130),
        ("spread", 10, "", {"number": 1, "memory": 1000}, 1000),
        ("spread", 1, "GPU-0,NVIDIA,1,0:GPU-1,NVIDIA,1,0:", {"number": 1, "memory": 1000}, 0),
        ("spread", 1, "GPU-0,NVIDIA,1,0:", {"number": 2, "memory": 1000}, 100),
        ("binpack", 1, "GPU-0,NVIDIA,3000,0:", {"number": 2, "memory": 1000}, 17),
        ("", 10, "", {"number": 1, "memory": 1000}, 0),
        ("binpack", 0, "GPU-0,NVIDIA,3000,0:", {"number": 1, "memory": 1000}, 0),
        ("binpack", 1, "", {"number": 1, "memory": 150}, 1),
    ],
)
def test_f12_f13_scores(policy: str, weight: int, held: str, asked: dict[str, int], score: int) -> None:
    """devices/F-12, F-13 (K-6): exact, half rounds up"""
    world = World(card("GPU-0", 30000) + card("GPU-1", 30000), env(policy=policy, weight=weight))
    if held:
        world.see(holding("other", held))
    answer = world.answer(pod("p", **asked))
    assert isinstance(answer, Fit)
    assert answer.score == score


def test_f12_the_device_score_in_thousandths() -> None:
    """devices/F-12"""
    world = World(card("GPU-0", 30000), env(policy="binpack", weight=1))
    world.see(holding("other", "GPU-0,NVIDIA,3000,0:"))
    answer = world.answer(pod("p", number=1, memory=1000))
    assert isinstance(answer, Fit)
    assert answer.score_milli == 13333


@pytest.mark.parametrize("mode", ["mig", "MIG", "mps", "mixed", " hami-core"])
def test_r14_another_mode(mode: str) -> None:
    """devices/R-14, C-8"""
    item = pod("p", number=1, annotations={"volcano.sh/vgpu-mode": mode})
    detail = f"pod required sharing mode {mode} is not the same as the node mode hami-core"
    assert World(card("GPU-a"), env()).answer(item) == Misfit(3, REASON, detail)


@pytest.mark.parametrize("mode", ["", "  ", "hami-core"])
def test_r14_blank_means_any(mode: str) -> None:
    """devices/R-14 (K-37)"""
    item = pod("p", number=1, memory=1, annotations={"volcano.sh/vgpu-mode": mode})
    assert World(card("GPU-a"), env()).place(item) == "GPU-a,NVIDIA,1,0:"


@pytest.mark.parametrize("mode", ["mps", "mixed"])
def test_r14_on_a_mixed_node(mode: str) -> None:
    """devices/R-14, N-12"""
    from device_builders import mig_card, mig_env

    item = pod("p", number=1, annotations={"volcano.sh/vgpu-mode": mode})
    detail = f"pod required sharing mode {mode} is not the same as the node mode mixed"
    assert World(card("GPU-a") + mig_card(), mig_env()).answer(item) == Misfit(3, REASON, detail)
