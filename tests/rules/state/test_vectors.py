"""Resource vectors and pod requests."""

from __future__ import annotations

from typing import Any

import pytest

from scheduling import objects, quantity, resources


@pytest.mark.parametrize(
    ("name", "value", "amount"),
    [
        ("cpu", "250m", 250),
        ("cpu", "2", 2000),
        ("memory", "1Gi", 1 << 30),
        ("memory", "1500m", 2),
        ("pods", "110", 110),
        ("volcano.sh/vgpu-memory", "3000", 3_000_000),
        ("volcano.sh/vgpu-memory", "9223372036854775807", 9_223_372_036_854_775_807_000),
    ],
)
def test_units(name: str, value: str, amount: int) -> None:
    """scheduling/R-1: CPU and scalars in thousandths, memory in bytes, pods whole."""
    assert resources.vector({name: value}) == {name: amount}


@pytest.mark.parametrize("name", ["count/pods", "requests.cpu", "limits.memory", "storage"])
def test_names_that_are_dropped(name: str) -> None:
    """scheduling/R-1."""
    assert resources.vector({name: "3"}) == {}


def pod(containers: list[dict[str, Any]], init: list[dict[str, Any]] | None = None, **spec: Any) -> objects.Pod:
    return objects.pod(
        {"metadata": {"name": "p"}, "spec": {"containers": containers, "initContainers": init or [], **spec}}
    )


def asks(cpu: str, **more: Any) -> dict[str, Any]:
    return {"name": "c", "resources": {"requests": {"cpu": cpu}}, **more}


@pytest.mark.parametrize(
    ("app", "init", "cpu"),
    [
        ([asks("1"), asks("2")], [], 3000),
        ([asks("1")], [asks("5")], 5000),
        ([asks("1")], [asks("2", restartPolicy="Always")], 3000),
        ([asks("1")], [asks("2", restartPolicy="Always"), asks("4")], 6000),
        ([asks("1")], [asks("4"), asks("2", restartPolicy="Always")], 4000),
    ],
)
def test_a_pods_request(app: list[dict[str, Any]], init: list[dict[str, Any]], cpu: int) -> None:
    """scheduling/R-2: sum of the containers, raised by init containers, restartable ones beside the app."""
    assert pod(app, init).request == {"cpu": cpu, "pods": 1}


def test_overhead_counts_and_limits_do_not() -> None:
    """scheduling/R-2."""
    limited = {"name": "c", "resources": {"limits": {"cpu": "9"}}}
    assert pod([limited], overhead={"cpu": "100m"}).request == {"cpu": 100, "pods": 1}


def test_vgpu_names_are_ordinary_scalars() -> None:
    """scheduling/R-3."""
    amounts = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "3000", "volcano.sh/vgpu-cores": "30"}
    assert resources.vector(amounts) == {name: int(value) * 1000 for name, value in amounts.items()}


def test_what_is_exceeded_is_named_in_order() -> None:
    """scheduling/R-4, R-5: requested dimensions only, strictly, cpu and memory first, a missing limit is 0."""
    future = {"cpu": 2, "memory": 2, "b/x": 2, "a/x": 2, "pods": 9, "z/idle": 5}
    asked = {"cpu": 1, "memory": 1, "b/x": 1, "a/x": 1, "pods": 1, "z/idle": 0}
    assert resources.exceeded(future, {"cpu": 1, "memory": 2}, asked) == ["cpu", "a/x", "b/x"]


def test_best_effort_has_nothing_but_pods() -> None:
    """scheduling/R-6: a pod that asks for vGPU only is not best-effort."""
    assert resources.is_best_effort({"pods": 1, "cpu": 0})
    assert not resources.is_best_effort({"pods": 1, "volcano.sh/vgpu-number": 1000})


@pytest.mark.parametrize(
    ("text", "canonical"),
    [("0.5", "500m"), ("1024Mi", "1Gi"), ("2e3", "2e3"), ("6000", "6k"), ("1500", "1500"), ("-1", "-1"), ("x", "x")],
)
def test_a_quantity_reads_as_the_api_returns_it(text: str, canonical: str) -> None:
    """devices/R-8, R-5a."""
    assert quantity.canonical(text) == canonical


@pytest.mark.parametrize(
    "text", ["1e999", "١٢", "1 ", "+", "0x10", "1,5", "NaN", "Inf", "1_0", "9" * 65, True, 1.5, None]
)
def test_what_is_no_quantity_is_none_and_nothing_is_guessed(text: Any) -> None:
    """devices/R-8."""
    assert quantity.parse(text) is None
