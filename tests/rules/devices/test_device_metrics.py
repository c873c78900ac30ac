"""Metric values: devices/M-1, M-2, M-4."""

from __future__ import annotations

from fractions import Fraction

from device_builders import World, card, container, holding, mig_card, mig_env, node, pod

from scheduling.devices.metrics import completed, series

PREFIX = "volcano_vgpu_device_"


def values(world: World) -> dict[tuple[str, str, str], object]:
    """By metric (prefix cut off), card and pod."""
    found = {}
    for sample in series([world.books]):
        labels = dict(sample.labels)
        assert labels["NodeName"] == "n1"
        owner = f"{labels['podNamespace']}/{labels['podName']}" if "podName" in labels else ""
        found[(sample.name.removeprefix(PREFIX), labels["devID"], owner)] = sample.value
    return found


def test_m1_m2_m4_values() -> None:
    """devices/M-1, M-2 (K-35), M-4"""
    world = World(card("GPU-a") + mig_card(), mig_env())
    world.place(pod("m", number=1, memory=3000, cores=7))
    lists = {"volcano.sh/vgpu-use-gpuuuid": "GPU-a"}
    pair = [container(number=1, memory=1000, cores=10), container(number=1, memory=1048, cores=5)]
    world.place(pod("p", *pair, annotations=lists))
    world.place(pod("p", number=1, memory=1, annotations=lists, namespace="e", uid="other"))
    found = values(world)
    pod_memory, pod_cores = (f"{kind}_allocation_for_a_certain_pod" for kind in ("memory", "core"))
    expected = {
        ("shared_number", "GPU-a", ""): 3,
        ("allocated_memory", "GPU-a", ""): 2049,
        ("allocated_cores", "GPU-a", ""): 15,
        ("memory_limit", "GPU-a", ""): 8192,
        ("volcano_vgpu_utilization", "GPU-a", ""): Fraction(15, 100),
        ("volcano_vgpu_memory_usage", "GPU-a", ""): Fraction(2049, 8192),
        (pod_memory, "GPU-a", "d/p"): 2048,
        (pod_cores, "GPU-a", "d/p"): 15,
        (pod_memory, "GPU-a", "e/p"): 1,
        (pod_cores, "GPU-a", "e/p"): 0,
        ("shared_number", "GPU-m", ""): 1,
        ("allocated_memory", "GPU-m", ""): 5120,
        ("allocated_cores", "GPU-m", ""): 7,
        ("memory_limit", "GPU-m", ""): 40960,
        ("volcano_vgpu_utilization", "GPU-m", ""): Fraction(7, 100),
        ("volcano_vgpu_memory_usage", "GPU-m", ""): Fraction(5120, 40960),
        (pod_memory, "GPU-m", "d/m"): 5120,
        (pod_cores, "GPU-m", "d/m"): 7,
    }
    assert found == expected


def test_m2_series_vanish_with_what_they_show() -> None:
    """devices/M-2"""
    world = World(card("GPU-a") + card("GPU-b"), mig_env())
    world.place(pod("p", number=1, memory=5))
    world.drop("p")
    assert len(values(world)) == 12
    world.books = world.books.with_node(node(card("GPU-a")))
    assert {uuid for _, uuid, _ in values(world)} == {"GPU-a"}
    world.books = world.books.with_node(None)
    assert values(world) == {}


def test_m4_completed_counts_once_per_card() -> None:
    """devices/M-4"""
    world = World(card("GPU-a") + card("GPU-b"), mig_env())
    world.see(holding("p", "GPU-a,NVIDIA,1,0:;GPU-a,NVIDIA,1,0:GPU-b,NVIDIA,1,0:GPU-z,NVIDIA,1,0:"))
    assert completed(world.books, "uid-p") == (
        (("devID", "GPU-a"), ("NodeName", "n1")),
        (("devID", "GPU-b"), ("NodeName", "n1")),
    )
    assert completed(world.books, "nobody") == ()
