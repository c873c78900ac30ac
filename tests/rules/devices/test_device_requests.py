"""What pods ask for: devices/R-1 to R-13, A-12, G-2, G-3."""

from __future__ import annotations

from typing import Any

import pytest
from device_builders import CORES, MEMORY, NUMBER, PERCENTAGE, World, card, container, env, mig_card, mig_env, pod

from scheduling.devices.arguments import DeviceShareArgs
from scheduling.devices.config import DeviceConfig
from scheduling.devices.environment import DeviceEnv
from scheduling.devices.request import Demand, demand_of, node_request

OFF = "vGPU sharing is off: deviceshare.VGPUEnable is not true"


def demand(*containers: Any, under: DeviceEnv | None = None, **rest: Any) -> Demand:
    return demand_of(pod("p", *containers, **rest), under or env())


@pytest.mark.parametrize(
    ("asked", "entries"),
    [
        ({"number": 1, "memory": 2000, "cores": 30}, [("2000", "30")]),
        ({"number": 2}, [("8192", "0"), ("8192", "0")]),
        ({"memory": 3000}, [("3000", "0")]),
        ({"number": 1, "memory": 2000, "percentage": 33}, [("2703", "0")]),
    ],
)
def test_r1_r6_examples(asked: dict[str, int], entries: list[tuple[str, str]]) -> None:
    """devices/R-1, R-2, R-3, R-5, R-6: the table of section 3"""
    found = World(card("GPU-a") + card("GPU-b"), env()).place(pod("p", **asked))
    assert [tuple(part.split(",")[2:]) for part in found.split(":") if part] == entries


def test_r1_what_is_no_request() -> None:
    """devices/R-1"""
    only_requests = {"name": "c", "resources": {"requests": {NUMBER: 1}}}
    for item in (container(cores=50), container(percentage=50), only_requests, {"name": "c"}):
        assert demand(item).kind == "none"


def test_r1a_vgpu_off() -> None:
    """devices/R-1a, R-9a"""
    off = DeviceEnv()
    for item in (container(number=1), container(memory=1), container(number="0.5")):
        assert demand(item, under=off).refusal == OFF
    for item in (container(cores=50), container(number=0), container()):
        assert demand(item, under=off).refusal == ""


def test_r2_each_container_with_a_count_is_a_request() -> None:
    """devices/R-2"""
    found = demand(container(), container(number=1), container(cores=5), container(number=2, memory=7))
    assert [(item.container, item.count) for item in found.requests] == [(1, 1), (3, 2)]


@pytest.mark.parametrize(("default", "count"), [(1, 1), (3, 3)])
def test_r3_memory_without_count(default: int, count: int) -> None:
    """devices/R-3"""
    found = demand(container(memory=5), under=env(DeviceConfig(default_number=default)))
    assert [item.count for item in found.requests] == [count]
    assert found.warnings == ("container main has no limit volcano.sh/vgpu-number: the node agent gives it no device",)


def test_r3_default_zero_is_no_request() -> None:
    """devices/R-3"""
    assert demand(container(memory=5), under=env(DeviceConfig(default_number=0))).kind == "none"


def test_r4_count_zero_is_no_request() -> None:
    """devices/R-4, scheduling/Q-20: its limits count as plain scalars"""
    item = pod("p", number=0, memory=500, cores=50)
    found = demand_of(item, env())
    assert found.kind == "none"
    assert found.charge_before(env()) == item.request
    assert item.request[CORES] == 50000


def test_r5_requests_stand_in_for_limits() -> None:
    """devices/R-5, R-7"""
    item = container(number=1)
    item["resources"]["requests"] |= {MEMORY: 500, CORES: 20}
    assert [(found.memory, found.cores) for found in demand(item).requests] == [(500, 20)]
    item["resources"]["requests"] |= {PERCENTAGE: 20}
    assert [(found.memory, found.percentage) for found in demand(item).requests] == [(0, 20)]


@pytest.mark.parametrize("asked", [{}, {"memory": 0}, {"percentage": 0}])
def test_r5_nothing_given_is_the_default_or_the_whole_card(asked: dict[str, int]) -> None:
    """devices/R-5, R-8: percentage 0 counts as not given"""
    (whole,) = demand(container(number=1, **asked)).requests
    assert (whole.memory, whole.percentage) == (0, 100)
    (default,) = demand(container(number=1, **asked), under=env(DeviceConfig(default_memory=700))).requests
    assert (default.memory, default.percentage) == (700, None)


@pytest.mark.parametrize(("text", "units"), [("20k", 20000), ("2e3", 2000), ("8Gi", 8589934592), ("3Gi", 3221225472)])
def test_r5a_quantities_are_whole_units(text: str, units: int) -> None:
    """devices/R-5a, R-8: nothing wraps (K-22)"""
    (found,) = demand(container(number=1, memory=text)).requests
    assert found.memory == units
    world = World(card("GPU-a"), env())
    assert world.place(pod("p", number=1, memory="3Gi")) == "not enough gpu fitted on this node"


def test_r6_percentage_rounds_down_on_each_card() -> None:
    """devices/R-6"""
    world = World(card("GPU-a", 1001) + card("GPU-b", 999), env(policy="binpack"))
    assert world.place(pod("p", number=2, percentage=50)) == "GPU-a,NVIDIA,500,0:GPU-b,NVIDIA,499,0:"


@pytest.mark.parametrize(("text", "cores"), [("40", 40), (" 40 ", 40), ("101", 7), ("x", 7), ("-1", 7), ("", 7)])
def test_r7_cores_annotation(text: str, cores: int) -> None:
    """devices/R-7"""
    under = env(DeviceConfig(default_cores=7))
    found = demand(container(number=1), under=under, annotations={CORES: text})
    assert [item.cores for item in found.requests] == [cores]
    found = demand(container(number=1, cores=0), under=under, annotations={CORES: text})
    assert [item.cores for item in found.requests] == [0]


@pytest.mark.parametrize(
    ("asked", "text"),
    [
        ({"number": "0.5"}, f"invalid {NUMBER} 500m in container main"),
        ({"number": "-1"}, f"invalid {NUMBER} -1 in container main"),
        ({"number": "x"}, f"invalid {NUMBER} x in container main"),
        ({"number": 1, "memory": "1500m"}, f"invalid {MEMORY} 1500m in container main"),
        ({"number": 1, "memory": -5}, f"invalid {MEMORY} -5 in container main"),
        ({"number": 1, "percentage": 101}, f"invalid {PERCENTAGE} 101 in container main"),
        ({"number": 1, "percentage": "0.5"}, f"invalid {PERCENTAGE} 500m in container main"),
        ({"number": 1, "percentage": -1}, f"invalid {PERCENTAGE} -1 in container main"),
        ({"number": 1, "cores": 101}, f"invalid {CORES} 101 in container main"),
        ({"number": 1, "cores": "2.5"}, f"invalid {CORES} 2500m in container main"),
    ],
)
def test_r8_invalid_quantities(asked: dict[str, Any], text: str) -> None:
    """devices/R-8, R-9a"""
    found = demand(container(**asked))
    assert found.refusal == text
    answer = World(card("GPU-a"), env()).answer(pod("p", **asked))
    assert (answer.code, answer.detail) == (3, text)  # type: ignore[union-attr]


@pytest.mark.parametrize("restart", [{}, {"restartPolicy": "Always"}])
@pytest.mark.parametrize("asked", [{"number": 1}, {"memory": 100}])
def test_r9_init_containers(restart: dict[str, str], asked: dict[str, int]) -> None:
    """devices/R-9"""
    init = container(name="setup", **asked) | restart
    text = "vGPU requests in init containers are not supported (container setup)"
    assert demand(container(number=1), init=(init,)).refusal == text
    assert demand(container(), init=(init,)).refusal == text


def test_r9_other_init_containers_do_not_matter() -> None:
    """devices/R-9"""
    found = demand(container(number=1), init=(container(name="a"), container(name="b", number=0)))
    assert found.refusal == ""
    assert len(found.requests) == 1


def test_r10_containers_see_what_the_earlier_ones_took() -> None:
    """devices/R-10"""
    world = World(card("GPU-a"), env())
    pair = [container(number=1, memory=5000), container(number=1, memory=5000)]
    assert world.place(pod("p", *pair)) == "not enough gpu fitted on this node"
    fits = pod("q", container(number=1, memory=5000), container(number=1, memory=3192))
    assert world.place(fits) == "GPU-a,NVIDIA,5000,0:;GPU-a,NVIDIA,3192,0:"


def test_r11_percentage_is_left_out_of_sums() -> None:
    """devices/R-11 (K-23)"""
    item = pod("p", number=1, percentage=50)
    assert PERCENTAGE in item.request
    assert PERCENTAGE not in node_request(item, env())
    assert PERCENTAGE not in demand_of(item, env()).charge_before(env())
    assert PERCENTAGE not in demand_of(pod("q", percentage=50), env()).charge_before(env())


def test_r12_a_renamed_count_serves_its_new_name_only() -> None:
    """devices/R-12"""
    under = env(DeviceConfig(number_name="nvidia.com/gpu"))
    item = container(limits={"nvidia.com/gpu": 1})
    assert demand(item, under=under).kind == "vgpu"
    assert demand(item).kind == "none"
    assert demand(container(number=1), under=under).kind == "none"


def test_r12_mixing_models_warns() -> None:
    """devices/R-12"""
    found = demand(container(number=1, limits={"nvidia.com/gpu": 1, "nvidia.com/gpucores": 5}))
    assert found.warnings == (
        "pod mixes volcano.sh/vgpu-number with limits of another device model: nvidia.com/gpu, nvidia.com/gpucores",
    )


def test_a12_several_containers_warn() -> None:
    """devices/A-12"""
    found = demand(container(number=1), container(number=1), container(number=2))
    assert found.warnings == ("pod has 3 vGPU containers; the node agent serves only one",)


def test_r13_charge_before_placement() -> None:
    """devices/R-13, scheduling/Q-21: per share, not per container; what depends on the card counts 0"""
    found = demand(container(number=2, memory=1500, cores=10), container(number=3, percentage=50, cores=5))
    charge = found.charge_before(env())
    assert charge == {"pods": 1, NUMBER: 5000, MEMORY: 3000000, CORES: 35000}
    most = found.requested_at_most(env(), 8192)
    assert most == {**charge, MEMORY: 3000000 + 3 * 8192000}


def test_r13_charge_after_placement() -> None:
    """devices/R-13, scheduling/Q-17a: exact, equal in the answer and in the books"""
    world = World(card("GPU-a") + card("GPU-b", 4096), env())
    item = pod("p", container(number=2, percentage=50, cores=10), container(number=1, memory=100))
    answer = world.answer(item)
    world.place(item)
    expected = {"pods": 1, NUMBER: 3000, MEMORY: (4096 + 2048 + 100) * 1000, CORES: 20000}
    assert world.books.charge("uid-p") == answer.charge == expected  # type: ignore[union-attr]


def test_r13_a_mig_share_is_charged_as_its_slice() -> None:
    """devices/R-13, scheduling/Q-7"""
    world = World(mig_card(), mig_env())
    item = pod("p", number=1, memory=8000)
    answer = world.answer(item)
    assert world.place(item) == "GPU-m[group2-0],NVIDIA,8000,0:"
    assert world.books.charge("uid-p") == answer.charge  # type: ignore[union-attr]
    assert world.books.charge("uid-p") == {"pods": 1, NUMBER: 1000, MEMORY: 10240000}


def test_r13_pods_without_vgpu_have_no_charge_of_their_own() -> None:
    """devices/R-13"""
    world = World(card("GPU-a"), env())
    assert world.books.charge("uid-nobody") is None
    world.see(pod("p", number=0, memory=5, node="n1"))
    assert world.books.charge("uid-p") is None


def legacy(**switches: bool) -> DeviceEnv:
    return DeviceEnv(args=DeviceShareArgs(**switches))


def part(memory: int, **rest: Any) -> Any:
    return container(limits={"volcano.sh/gpu-memory": memory}, **rest)


@pytest.mark.parametrize(
    ("app", "init", "amount"),
    [
        ([part(1), part(3)], [], 4),
        ([part(2)], [part(1, name="a"), part(3, name="b")], 3),
        ([part(4000)], [part(4000, name="s", restartPolicy="Always")], 8000),
        ([part(4000)], [part(4000, name="i")], 4000),
        ([part(1)], [part(2, name="s", restartPolicy="Always"), part(3, name="i")], 5),
        ([part(1)], [part(3, name="i"), part(2, name="s", restartPolicy="Always")], 3),
    ],
)
def test_g2_pod_memory(app: list[Any], init: list[Any], amount: int) -> None:
    """devices/G-2, G-2a"""
    found = demand_of(pod("p", *app, init=tuple(init)), legacy(sharing=True))
    assert (found.kind, found.legacy) == ("share", amount)


def test_g3_g6_the_enabled_mode_decides() -> None:
    """devices/G-3, G-6"""
    both = pod("p", container(limits={"volcano.sh/gpu-memory": 100, "volcano.sh/gpu-number": 2}))
    assert demand_of(both, legacy(sharing=True)).kind == "share"
    assert demand_of(both, legacy(number=True)).kind == "number"
    assert demand_of(both, legacy()).kind == "none"
    assert demand_of(pod("q", container()), legacy(sharing=True)).kind == "none"
