"""scheduling/AL-20: the prepared filters against the plain definitions, on random small clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from nodes_support import HOST, ZONE, cluster, pod, view

from scheduling.config.model import PluginOption
from scheduling.nodes.cluster import without_releasing
from scheduling.nodes.predicates import Predicates
from scheduling.nodes.view import NodeView
from scheduling.objects import Pod
from scheduling.status import TaskStatus

RULE = "requiredDuringSchedulingIgnoredDuringExecution"
FAR = "node(s) didn't match pod affinity rules"
NEAR = "node(s) didn't match pod anti-affinity rules"
CLOSED = "node(s) didn't satisfy existing pods anti-affinity rules"
SKEW = "node(s) didn't match pod topology spread constraints"

APPS = st.sampled_from(["x", "y"])
TERMS = st.lists(st.tuples(st.sampled_from([HOST, ZONE]), APPS), max_size=2)


def _affinity(towards: Sequence[tuple[str, str]], away: Sequence[tuple[str, str]]) -> dict[str, Any]:
    def terms(found: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        return [{"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}} for key, app in found]

    return {"podAffinity": {RULE: terms(towards)}, "podAntiAffinity": {RULE: terms(away)}}


@st.composite
def pods(draw: st.DrawFn, name: str) -> tuple[Pod, Sequence[tuple[str, str]], Sequence[tuple[str, str]]]:
    """A pod with its affinity and anti-affinity terms as (topology key, app)."""
    towards, away = draw(TERMS), draw(TERMS)
    return pod(name, labels={"app": draw(APPS)}, affinity=_affinity(towards, away)), towards, away


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[NodeView], dict[str, Any]]:
    """Up to four nodes, some without zone, with pods; and the anti-affinity of each pod by uid."""
    views, rules = [], {}
    for number in range(draw(st.integers(1, 4))):
        zone = draw(st.sampled_from(["", "1", "2"]))
        found = [draw(pods(f"n{number}p{index}")) for index in range(draw(st.integers(0, 2)))]
        rules.update({each.uid: away for each, _, away in found})
        labels = {ZONE: zone} if zone else {}
        views.append(view(f"n{number}", tuple(each for each, _, _ in found), labels=labels))
    return views, rules


def _labels(node: NodeView) -> dict[str, str]:
    assert node.node is not None
    return dict(node.node.labels)


def _together(one: NodeView, other: NodeView, key: str) -> bool:
    return key in _labels(one) and _labels(one).get(key) == _labels(other).get(key)


def _defined(incoming: Any, node: NodeView, views: list[NodeView], rules: dict[str, Any]) -> str | None:
    """The definition of inter-pod affinity, pair by pair."""
    subject, towards, away = incoming
    placed = [(task.pod, other) for other in views for task in other.tasks.values()]
    if towards:
        met = [
            (other_pod, other)
            for other_pod, other in placed
            if all(other_pod.labels["app"] == app for _, app in towards)
        ]
        labelled = all(key in _labels(node) for key, _ in towards)
        near = all(any(_together(node, other, key) for _, other in met) for key, _ in towards)
        first = all(subject.labels["app"] == app for _, app in towards) and not any(
            key in _labels(other) for _, other in met for key, _ in towards
        )
        if not labelled or not (near or first):
            return FAR
    if any(other_pod.labels["app"] == app and _together(node, other, key) for other_pod, other in placed
           for key, app in away):  # fmt: skip
        return NEAR
    if any(subject.labels["app"] == app and _together(node, other, key) for other_pod, other in placed
           for key, app in rules[other_pod.uid]):  # fmt: skip
        return CLOSED
    return None


@given(clusters(), pods("new"))
def test_inter_pod_rules_are_the_definition(found: tuple[list[NodeView], dict[str, Any]], incoming: Any) -> None:
    """scheduling/AL-20: what is looked up by domain is what holds pair by pair."""
    views, rules = found
    where, filters = cluster(*views), Predicates()
    assert filters.prefilter(incoming[0], where) is None
    for node in views:
        assert filters.check(incoming[0], node, where) == _defined(incoming, node, views, rules)


@given(clusters(), clusters(), pods("new"))
def test_trial_is_judged_as_its_own_cluster(one: Any, other: Any, incoming: Any) -> None:
    """scheduling/AL-11: a trial's books give what a cluster with these books would give."""
    trial, first = other[0][0], one[0]
    filters = Predicates()
    where = cluster(*first)
    filters.prefilter(incoming[0], where)
    swapped = [trial, *first[1:]]
    assert filters.check(incoming[0], trial, where) == Predicates().check(incoming[0], trial, cluster(*swapped))


@given(clusters(), APPS, st.integers(1, 2), st.sampled_from([HOST, ZONE]))
def test_spread_is_the_definition(found: Any, app: str, skew: int, key: str) -> None:
    """scheduling/AL-20: no domain gets more than maxSkew ahead of the least."""
    views = found[0]
    rule = {
        "topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    }  # fmt: skip
    incoming = pod("new", labels={"app": app}, topologySpreadConstraints=[rule])
    where, off = cluster(*views), {"predicate.PodAffinityEnable": False}
    filters = Predicates(PluginOption("predicates", off))
    domains: dict[str, int] = {}
    for node in views:
        if key in _labels(node):
            here = sum(task.pod.labels["app"] == app for task in node.tasks.values())
            domains[_labels(node)[key]] = domains.get(_labels(node)[key], 0) + here
    for node in views:
        value = _labels(node).get(key)
        if value is None:
            assert filters.check(incoming, node, where) == f"{SKEW} (missing required label)"
        else:
            fits = domains[value] + 1 - min(domains.values()) <= skew
            assert filters.check(incoming, node, where) == (None if fits else SKEW)


def test_what_terminates_is_left_out_for_a_promise() -> None:
    """scheduling/PG-11c: the filters of a promise do not see the pods that make way for it."""
    leaving = view(pods=(pod("x", ports=[{"hostPort": 80}]),), status=TaskStatus.RELEASING, places="1")
    incoming = pod(ports=[{"hostPort": 80}])
    where = cluster(leaving)
    assert Predicates().check(incoming, leaving, where) == "node(s) pod number exceeded"
    assert Predicates().check(incoming, without_releasing(leaving), where) is None
    running = view(pods=(pod("x"),))
    assert without_releasing(running) is running
