"""scheduling/AL-19, AL-20: resource fit, pod number, cordon, selectors, taints, ports."""

from __future__ import annotations

from typing import Any

import pytest
from nodes_support import cluster, pod, reasons, view

from scheduling.nodes.predicates import Predicates, resource_fit
from scheduling.nodes.view import NodeView
from scheduling.status import TaskStatus

VGPU = "volcano.sh/vgpu-memory"


def test_resource_fit_names_the_first_exceeded_resource() -> None:
    """scheduling/AL-19, R-5: cpu, then memory, then scalars by name; only what is requested."""
    node = view(cpu="2", memory="1Gi", **{VGPU: "1000"})
    assert resource_fit(pod(requests={"cpu": "3", "memory": "2Gi", VGPU: "2000"}).request, node) == "Insufficient cpu"
    assert resource_fit(pod(requests={"memory": "2Gi", VGPU: "2000"}).request, node) == "Insufficient memory"
    assert resource_fit(pod(requests={VGPU: "2000", "a.b/c": "1"}).request, node) == "Insufficient a.b/c"
    assert resource_fit(pod(requests={VGPU: "1000", "cpu": "2"}).request, node) is None


def test_resource_fit_counts_what_is_being_released_and_promised() -> None:
    """scheduling/AL-3, AL-19: future idle is idle plus releasing less pipelined."""
    held = pod("held", {"cpu": "2"})
    asked = pod(requests={"cpu": "1"}).request
    assert resource_fit(asked, view(pods=(held,), cpu="2")) == "Insufficient cpu"
    assert resource_fit(asked, view(pods=(held,), status=TaskStatus.RELEASING, cpu="2")) is None
    assert resource_fit(asked, view(pods=(held,), status=TaskStatus.PIPELINED, cpu="2")) == "Insufficient cpu"


def test_resource_fit_does_not_look_at_the_number_of_pods() -> None:
    """scheduling/R-5: ``pods`` is left to AL-20."""
    assert resource_fit(pod().request, view(pods=(pod("x"),))) is None


def test_pod_number() -> None:
    """scheduling/AL-20: pods that have not ended count, those being released or promised included."""
    full = "node(s) pod number exceeded"
    for status in (TaskStatus.RUNNING, TaskStatus.RELEASING, TaskStatus.PIPELINED):
        assert reasons(pod(), view(pods=(pod("x"),), status=status, places="1")) == [full]
    assert reasons(pod(), view(pods=(pod("x"),), status=TaskStatus.SUCCEEDED, places="1")) == [None]


def test_pod_that_is_already_on_the_node_does_not_count_against_itself() -> None:
    """scheduling/AL-20: a promised pod is judged again on its node."""
    incoming = pod("x")
    assert reasons(incoming, view(pods=(incoming,), status=TaskStatus.PIPELINED, places="1")) == [None]


def test_unknown_node() -> None:
    """scheduling/POD-4: a name without a node."""
    where = cluster(view())
    nowhere = view().with_node(None, view().devices)
    assert Predicates().check(pod(), nowhere, where) == "node info not found"


def test_cordoned_node() -> None:
    """scheduling/AL-20: an unschedulable node, unless its taint is tolerated."""
    assert reasons(pod(), view(unschedulable=True)) == ["node(s) were unschedulable"]
    tolerant = pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}])
    assert reasons(tolerant, view(unschedulable=True)) == [None]
    assert reasons(pod(tolerations=[{"operator": "Exists"}]), view(unschedulable=True)) == [None]


AFFINITY = "node(s) didn't match Pod's node affinity/selector"


def required(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, **({"values": list(values)} if values else {})}


def test_node_selector() -> None:
    """scheduling/AL-20: every label of nodeSelector."""
    incoming = pod(nodeSelector={"gpu": "a", "zone": "b"})
    both, one = view("x", labels={"gpu": "a", "zone": "b"}), view("y", labels={"gpu": "a"})
    assert reasons(incoming, both, one) == [None, AFFINITY]


@pytest.mark.parametrize(
    ("operator", "values", "label", "fits"),
    [
        ("In", ("a", "b"), "a", True),
        ("In", ("a", "b"), "c", False),
        ("In", ("a",), None, False),
        ("NotIn", ("a",), "b", True),
        ("NotIn", ("a",), None, True),
        ("NotIn", ("a",), "a", False),
        ("Exists", (), "x", True),
        ("Exists", (), None, False),
        ("DoesNotExist", (), None, True),
        ("DoesNotExist", (), "x", False),
        ("Gt", ("5",), "6", True),
        ("Gt", ("5",), "5", False),
        ("Gt", ("5",), "many", False),
        ("Lt", ("5",), "4", True),
        ("Lt", ("5",), "5", False),
        ("Lt", ("5",), None, False),
    ],
)
def test_node_affinity_operators(operator: str, values: tuple[str, ...], label: str | None, fits: bool) -> None:
    """scheduling/AL-20: all operators of node affinity."""
    incoming = pod(affinity=required({"matchExpressions": [expression("k", operator, *values)]}))
    node = view(labels={"k": label} if label is not None else {})
    assert reasons(incoming, node) == [None if fits else AFFINITY]


def test_node_affinity_terms() -> None:
    """scheduling/AL-20: terms are alternatives, their parts all hold; an empty term and no term match nothing."""
    by_name = {"matchFields": [expression("metadata.name", "In", "b")]}
    by_label = {"matchExpressions": [expression("k", "Exists"), expression("l", "Exists")]}
    nodes = view("a", labels={"k": "1"}), view("b"), view("c", labels={"k": "1", "l": "1"})
    assert reasons(pod(affinity=required(by_name, by_label)), *nodes) == [AFFINITY, None, None]
    assert reasons(pod(affinity=required({})), view("b")) == [AFFINITY]
    assert reasons(pod(affinity=required()), view("b")) == [AFFINITY]


def test_node_affinity_that_cannot_be_read_is_the_pods_failure() -> None:
    """scheduling/POD-4: the pre-predicate text names plugin, field and value."""
    incoming = pod(affinity=required({"matchExpressions": [expression("k", "Near", "x")]}))
    found = Predicates().prefilter(incoming, cluster(view()))
    assert found is not None
    assert found.startswith("plugin NodeAffinity pre-predicates failed nodeAffinity.")
    assert "'Near'" in found


TAINT = "node(s) had untolerated taint(s)"


@pytest.mark.parametrize(
    ("taint", "toleration", "fits"),
    [
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, None, False),
        ({"key": "k", "value": "v", "effect": "NoExecute"}, None, False),
        ({"key": "k", "value": "v", "effect": "PreferNoSchedule"}, None, True),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "k", "value": "v"}, True),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "k", "operator": "Equal", "value": "w"}, False),
        ({"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "k", "operator": "Exists"}, True),
        ({"key": "k", "effect": "NoSchedule"}, {"key": "k", "effect": "NoExecute", "operator": "Exists"}, False),
        ({"key": "k", "effect": "NoExecute"}, {"key": "k", "effect": "NoExecute", "operator": "Exists"}, True),
        ({"key": "k", "effect": "NoSchedule"}, {"operator": "Exists"}, True),
        ({"key": "k", "effect": "NoSchedule"}, {"key": "k"}, True),
    ],
)
def test_taints(taint: dict[str, str], toleration: dict[str, str] | None, fits: bool) -> None:
    """scheduling/AL-20: NoSchedule and NoExecute must be tolerated, in effect, key and value."""
    incoming = pod(tolerations=[toleration] if toleration else [])
    assert reasons(incoming, view(taints=(taint,))) == [None if fits else TAINT]


@pytest.mark.parametrize(
    ("wanted", "taken", "fits"),
    [
        ({"hostPort": 80}, {"hostPort": 80}, False),
        ({"hostPort": 80}, {"hostPort": 81}, True),
        ({"hostPort": 80, "protocol": "UDP"}, {"hostPort": 80}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "10.0.0.2"}, True),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80, "hostIP": "0.0.0.0"}, False),
        ({"hostPort": 80, "hostIP": "10.0.0.1"}, {"hostPort": 80}, False),
        ({"containerPort": 80}, {"hostPort": 80}, True),
    ],
)
def test_host_ports(wanted: dict[str, Any], taken: dict[str, Any], fits: bool) -> None:
    """scheduling/AL-20: a host port is taken by port, protocol and address."""
    word = "node(s) didn't have free ports for the requested pod ports"
    assert reasons(pod(ports=[wanted]), view(pods=(pod("x", ports=[taken]),))) == [None if fits else word]


def test_order_of_the_checks() -> None:
    """scheduling/AL-20: the first reason in the order of the rule is the node's."""
    incoming, taint = pod(nodeSelector={"x": "y"}), {"key": "k", "effect": "NoSchedule"}
    full = view("a", unschedulable=True, taints=(taint,), places="0")
    cordoned = view("b", unschedulable=True, taints=(taint,))
    found = reasons(incoming, full, cordoned, view("c", taints=(taint,)))
    assert found == ["node(s) pod number exceeded", "node(s) were unschedulable", AFFINITY]


@pytest.mark.parametrize(
    ("switch", "incoming", "node"),
    [
        ("NodeAffinity", pod(nodeSelector={"x": "y"}), view()),
        ("TaintToleration", pod(), view(taints=({"key": "k", "effect": "NoSchedule"},))),
        ("NodePorts", pod(ports=[{"hostPort": 80}]), view(pods=(pod("x", ports=[{"hostPort": 80}]),))),
    ],
)
def test_switches(switch: str, incoming: Any, node: NodeView) -> None:
    """scheduling/AL-20, CFG-11: each check has its switch; booleans may be strings."""
    assert reasons(incoming, node) != [None]
    for off in (False, "false", "F", "0"):
        assert reasons(incoming, node, arguments={f"predicate.{switch}Enable": off}) == [None]
    assert reasons(incoming, node, arguments={f"predicate.{switch}Enable": "no"}) != [None]
