"""scheduling/AL-24, AL-25: binpack and the parts of the node order."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from math import floor, sqrt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nodes_support import HOST, ZONE, cluster, pod, view

from scheduling.config.model import PluginOption
from scheduling.nodes.binpack import Binpack
from scheduling.nodes.nodeorder import NodeOrder
from scheduling.nodes.resource_scores import balance
from scheduling.nodes.soft_spread import log_nano
from scheduling.nodes.view import NodeView
from scheduling.objects import Pod
from scheduling.status import TaskStatus

VGPU = "volcano.sh/vgpu-memory"
PARTS = (
    "leastrequested", "mostrequested", "balancedresource", "nodeaffinity", "podaffinity", "tainttoleration",
    "imagelocality", "podtopologyspread",
)  # fmt: skip
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def only(part: str, incoming: Pod, *views: NodeView, weight: int = 1) -> list[int]:
    """The scores that one part alone gives, whole points."""
    arguments = {f"{name}.weight": weight if name == part else 0 for name in PARTS}
    found = NodeOrder(PluginOption("nodeorder", arguments)).scores(incoming, views, cluster(*views))
    assert all(score % 1000 == 0 for score in found.values())
    return [found[each.name] // 1000 for each in views]


def used_node() -> NodeView:
    """The node of the rule's examples: 8 cpu, 16 GiB, of which 2 and 4 are used."""
    return view(pods=(pod("held", {"cpu": "2", "memory": "4Gi"}),), cpu="8", memory="16Gi")


ASK = {"cpu": "2", "memory": "2Gi"}


def test_idle_node_gives_399_to_a_pod_of_gpus_only() -> None:
    """scheduling/AL-25: 99 of least requested and 300 of taint toleration, nothing else."""
    incoming = pod(requests={VGPU: "1000"})
    node = view()
    assert NodeOrder().scores(incoming, [node], cluster(node)) == {"a": 399_000}


def test_pods_that_ask_for_nothing_still_count() -> None:
    """scheduling/AL-25: on 32 cpu and 128 GiB three pods see 99, three 98, the seventh 97."""
    seen = []
    for count in range(7):
        node = view(pods=tuple(pod(f"x{number}", {VGPU: "1"}) for number in range(count)))
        seen += only("leastrequested", pod(requests={VGPU: "1"}), node)
    assert seen == [99, 99, 99, 98, 98, 98, 97]


def test_least_requested() -> None:
    """scheduling/AL-25: cpu 50 and memory 62 make 56; an over-full resource counts 0."""
    assert only("leastrequested", pod(requests=ASK), used_node()) == [56]
    assert only("leastrequested", pod(requests={"cpu": "7", "memory": "2Gi"}), used_node()) == [31]
    assert only("leastrequested", pod(requests=ASK), used_node(), weight=3) == [168]


def test_most_requested() -> None:
    """scheduling/AL-25: the same with what is asked: cpu 50 and memory 37 make 43."""
    assert only("mostrequested", pod(requests=ASK), used_node()) == [43]


def test_zero_request_is_a_request() -> None:
    """scheduling/AL-25: the assumption is for containers without a request, not for one of 0."""
    assert only("leastrequested", pod(requests={"cpu": "0", "memory": "0"}), view()) == [100]


def test_promised_pods_count() -> None:
    """scheduling/AL-25: what was placed or promised in this cycle is on the node."""
    held = pod("held", {"cpu": "2", "memory": "4Gi"})
    for status in (TaskStatus.ALLOCATED, TaskStatus.PIPELINED, TaskStatus.RELEASING):
        assert only("leastrequested", pod(requests=ASK), view(pods=(held,), status=status, cpu="8", memory="16Gi")) == [
            56
        ]
    ended = view(pods=(held,), status=TaskStatus.SUCCEEDED, cpu="8", memory="16Gi")
    assert only("leastrequested", pod(requests=ASK), ended) == [81]


def test_balanced() -> None:
    """scheduling/AL-25: 100 before and 93 after make 71; a pod that asks neither scores 0."""
    assert only("balancedresource", pod(requests=ASK), used_node()) == [71]
    assert only("balancedresource", pod(requests={VGPU: "1"}), used_node()) == [0]


def test_balanced_counts_gpus_that_are_asked_for() -> None:
    """scheduling/AL-25: ``nvidia.com/gpu`` takes part where node and pod have it."""
    gpu = {"nvidia.com/gpu": "4"}
    asked = {"cpu": "4", "memory": "8Gi", "nvidia.com/gpu": "2"}
    assert only("balancedresource", pod(requests=asked), view(cpu="8", memory="16Gi", **gpu)) == [75]
    assert only("balancedresource", pod(requests=asked), view(cpu="8", memory="16Gi")) == [75]
    uneven = {**asked, "nvidia.com/gpu": "4"}
    assert only("balancedresource", pod(requests=uneven), view(cpu="8", memory="16Gi", **gpu)) == [63]


@given(st.lists(st.fractions(min_value=0, max_value=1, max_denominator=97), min_size=1, max_size=3))
def test_balance_is_the_floor_of_the_true_value(fractions: list[Fraction]) -> None:
    """scheduling/AL-25: the float agrees but where it stands on the edge of a whole number."""
    mean = sum(fractions) / len(fractions)
    deviation = sqrt(sum((item - mean) ** 2 for item in fractions) / len(fractions))
    shares = [(item.numerator, item.denominator) for item in fractions]
    assert balance(shares) in {floor((1 - deviation) * 100 - 1e-9), floor((1 - deviation) * 100 + 1e-9)}


def prefer(weight: int, key: str, value: str) -> dict[str, Any]:
    rule = {"key": key, "operator": "In", "values": [value]}
    return {"weight": weight, "preference": {"matchExpressions": [rule]}}


def test_node_affinity() -> None:
    """scheduling/AL-25: the weights that a node earns, the best node has 100; empty terms count nothing."""
    rules = [prefer(3, "disk", "ssd"), prefer(1, "zone", "x"), {"weight": 9, "preference": {}}]
    incoming = pod(affinity={"nodeAffinity": {PREFERRED: rules}})
    nodes = view("a", labels={"disk": "ssd"}), view("b", labels={"zone": "x"}), view("c")
    assert only("nodeaffinity", incoming, *nodes) == [100, 33, 0]
    assert only("nodeaffinity", pod(), *nodes) == [0, 0, 0]


def test_taint_toleration() -> None:
    """scheduling/AL-25: 100 less the share of untolerated PreferNoSchedule taints, 100 where nobody has any."""
    one, two = {"key": "k", "effect": "PreferNoSchedule"}, {"key": "l", "effect": "PreferNoSchedule"}
    nodes = view("a"), view("b", taints=(one,)), view("c", taints=(one, two))
    assert only("tainttoleration", pod(), *nodes) == [100, 50, 0]
    tolerant = pod(tolerations=[{"key": "k", "operator": "Exists"}])
    assert only("tainttoleration", tolerant, *nodes) == [100, 100, 0]
    assert only("tainttoleration", pod(), view("a"), view("b"), weight=3) == [300, 300]


def pod_term(key: str = HOST) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "db"}}}


def weighted(weight: int, key: str = HOST) -> dict[str, Any]:
    return {PREFERRED: [{"weight": weight, "podAffinityTerm": pod_term(key)}]}


DB = pod("db", labels={"app": "db"})


def test_pod_affinity() -> None:
    """scheduling/AL-25: nearest to 100, farthest to 0; anti-affinity the other way; both directions count."""
    nodes = view("a", (DB,), labels={ZONE: "1"}), view("b", labels={ZONE: "1"}), view("c", labels={ZONE: "2"})
    assert only("podaffinity", pod(affinity={"podAffinity": weighted(5)}), *nodes) == [100, 0, 0]
    assert only("podaffinity", pod(affinity={"podAffinity": weighted(5, ZONE)}), *nodes) == [100, 100, 0]
    assert only("podaffinity", pod(affinity={"podAntiAffinity": weighted(5)}), *nodes) == [0, 100, 100]
    assert only("podaffinity", pod(), *nodes) == [0, 0, 0]
    fond = pod("fond", affinity={"podAffinity": weighted(5)})
    assert only("podaffinity", pod(labels={"app": "db"}), view("a", (fond,)), view("b")) == [100, 0]


def test_image_locality() -> None:
    """scheduling/AL-25: the size of the images a node has, times the share of nodes that have them."""
    mib = 1024 * 1024
    image = {"names": ["cuda:12"], "sizeBytes": 1000 * mib}
    incoming = pod(containers=[{"name": "c", "image": "cuda:12"}])
    assert only("imagelocality", incoming, view("a", images=(image,)), view("b", images=(image,))) == [100, 100]
    assert only("imagelocality", incoming, view("a", images=(image,)), view("b")) == [48, 0]
    untagged = {"names": ["cuda:latest"], "sizeBytes": 1000 * mib}
    bare = pod(containers=[{"name": "c", "image": "cuda"}])
    assert only("imagelocality", bare, view("a", images=(untagged,))) == [100]


def soft(key: str, skew: int = 1) -> dict[str, Any]:
    return {
        "topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": "db"}},
    }  # fmt: skip


def test_topology_spread() -> None:
    """scheduling/AL-25: the emptier domain scores more; a node without the label 0; all empty, all 100."""
    incoming = pod(topologySpreadConstraints=[soft(ZONE)])
    nodes = view("a", (DB,), labels={ZONE: "1"}), view("b", labels={ZONE: "2"}), view("c")
    assert only("podtopologyspread", incoming, *nodes) == [0, 100, 0]
    assert only("podtopologyspread", incoming, view("a", labels={ZONE: "1"}), view("b")) == [100, 0]
    by_host = pod(topologySpreadConstraints=[soft(HOST)])
    more = tuple(pod(f"d{number}", labels={"app": "db"}) for number in range(3))
    assert only("podtopologyspread", by_host, view("a", (DB,)), view("b", more), view("c")) == [60, 0, 100]
    assert only("podtopologyspread", pod(), *nodes) == [0, 0, 0]


def test_logarithm_is_exact() -> None:
    """scheduling/AL-25: billionths of the natural logarithm, equal on every machine."""
    assert [log_nano(number) for number in (1, 2, 3, 10)] == [0, 693147180, 1098612288, 2302585092]
    assert Decimal(log_nano(5000)) == Decimal("8517193191")


def test_rules_of_a_wrong_shape_count_for_nothing() -> None:
    """scheduling/AL-25: scoring never fails for one pod's content."""
    broken = pod(
        affinity={"nodeAffinity": {PREFERRED: 7}, "podAffinity": []},
        topologySpreadConstraints=[{"maxSkew": "x"}],
        tolerations={"a": 1},
        containers="none",
    )
    node = view()
    assert NodeOrder().scores(broken, [node], cluster(node)) == {"a": 400_000}


def test_weights() -> None:
    """scheduling/AL-25, CFG-11: 0 disables a part; a quoted number is ignored."""
    node = view()
    off = NodeOrder(PluginOption("nodeorder", {"tainttoleration.weight": 0, "leastrequested.weight": "0"}))
    assert off.scores(pod(requests={VGPU: "1"}), [node], cluster(node)) == {"a": 99_000}


def score(arguments: dict[str, Any], requests: dict[str, Any], node: NodeView) -> int:
    return Binpack(PluginOption("binpack", arguments)).score(pod(requests=requests).request, node)


def test_binpack() -> None:
    """scheduling/AL-24: 43.75, and 47.916 with cpu weight 5."""
    assert score({}, ASK, used_node()) == 43_750
    assert score({"binpack.cpu": 5}, ASK, used_node()) == 47_916
    assert score({"binpack.weight": 2}, ASK, used_node()) == 87_500
    assert score({"binpack.weight": 0}, ASK, used_node()) == 0


def test_binpack_looks_at_weighted_resources_only() -> None:
    """scheduling/AL-24: a resource that is not listed does not matter; a listed one has weight 1 or its own."""
    node = view(cpu="8", **{VGPU: "1000"})
    asked = {"cpu": "4", VGPU: "1000"}
    assert score({}, asked, node) == 50_000
    assert score({"binpack.resources": f"{VGPU}, a.b/c"}, asked, node) == 75_000
    assert score({"binpack.resources": VGPU, f"binpack.resources.{VGPU}": 3}, asked, node) == 87_500
    assert score({}, {VGPU: "1000"}, node) == 0


def test_binpack_over_full_and_absent_resources() -> None:
    """scheduling/AL-24: over-full makes 0; what the node does not have adds nothing but its weight."""
    assert score({}, {"cpu": "7", "memory": "1Gi"}, used_node()) == 0
    assert score({"binpack.resources": VGPU}, {"cpu": "2", VGPU: "1"}, used_node()) == 25_000


@pytest.mark.parametrize("key", ["binpack.cpu", "binpack.memory", f"binpack.resources.{VGPU}"])
def test_binpack_negative_weights(key: str) -> None:
    """scheduling/AL-24: a negative weight becomes 1."""
    node = view(cpu="8", memory="16Gi", **{VGPU: "1000"})
    asked = {**ASK, VGPU: "500"}
    listed = {"binpack.resources": VGPU}
    assert score({**listed, key: -4}, asked, node) == score(listed, asked, node)
