"""scheduling/AL-20: inter-pod affinity, topology spread and volumes."""

from __future__ import annotations

from typing import Any

import pytest
from nodes_support import HOST, ZONE, cluster, pod, reasons, view

from scheduling.nodes.predicates import Predicates

FAR = "node(s) didn't match pod affinity rules"
NEAR = "node(s) didn't match pod anti-affinity rules"
CLOSED = "node(s) didn't satisfy existing pods anti-affinity rules"
SKEW = "node(s) didn't match pod topology spread constraints"
RULE = "requiredDuringSchedulingIgnoredDuringExecution"


def term(key: str = HOST, **fields: Any) -> dict[str, Any]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": "db"}}, **fields}


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAffinity": {RULE: list(terms)}}


def anti(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"podAntiAffinity": {RULE: list(terms)}}


DB = pod("db", labels={"app": "db"})


def test_affinity_needs_a_matching_pod_in_the_domain() -> None:
    """scheduling/AL-20: by host, and by zone."""
    nodes = view("a", (DB,), labels={ZONE: "1"}), view("b", labels={ZONE: "1"}), view("c", labels={ZONE: "2"})
    assert reasons(pod(affinity=affinity(term())), *nodes) == [None, FAR, FAR]
    assert reasons(pod(affinity=affinity(term(ZONE))), *nodes) == [None, None, FAR]


def test_first_pod_of_its_kind_is_let_in() -> None:
    """scheduling/AL-20: a pod that matches its own affinity where nobody does, on nodes with the label."""
    incoming = pod(labels={"app": "db"}, affinity=affinity(term(ZONE)))
    nodes = view("a", labels={ZONE: "1"}), view("b")
    assert reasons(incoming, *nodes) == [None, FAR]
    assert reasons(pod(affinity=affinity(term(ZONE))), *nodes) == [FAR, FAR]


def test_anti_affinity_keeps_away_from_matching_pods() -> None:
    """scheduling/AL-20: a node without the topology label is in no domain."""
    nodes = view("a", (DB,), labels={ZONE: "1"}), view("b", labels={ZONE: "1"}), view("c")
    assert reasons(pod(affinity=anti(term())), *nodes) == [NEAR, None, None]
    assert reasons(pod(affinity=anti(term(ZONE))), *nodes) == [NEAR, NEAR, None]


def test_anti_affinity_of_pods_already_there_is_kept() -> None:
    """scheduling/AL-20: a plain pod stays out of the domain that a running pod keeps for itself."""
    shy = pod("shy", affinity=anti(term(ZONE)))
    nodes = view("a", (shy,), labels={ZONE: "1"}), view("b", labels={ZONE: "1"}), view("c", labels={ZONE: "2"})
    assert reasons(pod(labels={"app": "db"}), *nodes) == [CLOSED, CLOSED, None]
    assert reasons(pod(labels={"app": "web"}), *nodes) == [None, None, None]


def test_namespaces_of_a_term() -> None:
    """scheduling/AL-20: the pod's own namespace, the listed ones, and those whose labels are selected."""
    node = view("a", (pod("far", namespace="other", labels={"app": "db"}),))
    spaces = [{"metadata": {"name": "other", "labels": {"team": "x"}}}]
    assert reasons(pod(affinity=affinity(term())), node, Namespace=spaces) == [FAR]
    assert reasons(pod(affinity=affinity(term(namespaces=["other"]))), node, Namespace=spaces) == [None]
    chosen = term(namespaceSelector={"matchLabels": {"team": "x"}})
    assert reasons(pod(affinity=affinity(chosen)), node, Namespace=spaces) == [None]
    assert reasons(pod(affinity=affinity(term(namespaceSelector={}))), node, Namespace=spaces) == [None]
    other = term(namespaceSelector={"matchLabels": {"team": "y"}})
    assert reasons(pod(affinity=affinity(other)), node, Namespace=spaces) == [FAR]


def test_selector_of_a_term() -> None:
    """scheduling/AL-20: an absent selector matches no pod, an empty one every pod; label keys narrow it."""
    node = view("a", (DB,))
    assert reasons(pod(affinity=affinity({"topologyKey": HOST})), node) == [FAR]
    assert reasons(pod(affinity=affinity({"topologyKey": HOST, "labelSelector": {}})), node) == [None]
    same = term(matchLabelKeys=["app"])
    assert reasons(pod(labels={"app": "web"}, affinity=anti(same)), node) == [None]
    assert reasons(pod(labels={"app": "db"}, affinity=anti(same)), node) == [NEAR]
    other = term(mismatchLabelKeys=["app"])
    assert reasons(pod(labels={"app": "db"}, affinity=anti(other)), node) == [None]


def test_unreadable_rules() -> None:
    """scheduling/POD-4: of the pod itself they are its failure, of a running pod they count for nothing."""
    broken = pod("broken", labels={"app": "db"}, affinity=anti({"topologyKey": 7}))
    found = Predicates().prefilter(broken, cluster(view()))
    assert found == (
        "plugin InterPodAffinity pre-predicates failed podAntiAffinity.topologyKey: must be a string, got 7"
    )
    assert reasons(pod(labels={"app": "db"}), view("a", (broken,))) == [None]


def test_trial_view_counts_as_given() -> None:
    """scheduling/AL-11: a node's books of a trial are judged, not those of the cluster."""
    where = cluster(view("a", (DB,)), view("b"))
    incoming = pod(affinity=anti(term()))
    found = Predicates()
    found.prefilter(incoming, where)
    assert found.check(incoming, view("a"), where) is None
    assert found.check(incoming, view("b", (DB,)), where) == NEAR
    shy = pod("shy", affinity=anti(term()))
    plain = pod("q", labels={"app": "db"})
    kept = cluster(view("a", (shy,)))
    found.prefilter(plain, kept)
    assert found.check(plain, kept.views["a"], kept) == CLOSED
    assert found.check(plain, view("a"), kept) is None


def test_pod_affinity_switch() -> None:
    """scheduling/AL-20: ``predicate.PodAffinityEnable``."""
    node = view("a", (DB,))
    assert reasons(pod(affinity=anti(term())), node, arguments={"predicate.PodAffinityEnable": False}) == [None]


def constraint(key: str = ZONE, skew: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "topologyKey": key, "maxSkew": skew, "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "db"}}, **fields,
    }  # fmt: skip


def spread(*rules: dict[str, Any], **more: Any) -> Any:
    return pod(labels={"app": "db"}, topologySpreadConstraints=list(rules), **more)


ZONES = (
    view("a", (DB,), labels={ZONE: "1"}),
    view("b", labels={ZONE: "1"}),
    view("c", labels={ZONE: "2"}),
    view("d"),
)


def test_spread_keeps_the_skew() -> None:
    """scheduling/AL-20: the domain with this pod may be ahead of the least by maxSkew."""
    missing = f"{SKEW} (missing required label)"
    assert reasons(spread(constraint()), *ZONES) == [SKEW, SKEW, None, missing]
    assert reasons(spread(constraint(skew=2)), *ZONES) == [None, None, None, missing]


def test_spread_of_a_pod_that_its_selector_does_not_match() -> None:
    """scheduling/AL-20: such a pod adds nothing to its domain."""
    incoming = pod(topologySpreadConstraints=[constraint()])
    assert reasons(incoming, *ZONES)[:3] == [None, None, None]


def test_spread_counts_only_what_is_alive_and_near() -> None:
    """scheduling/AL-20: same namespace, not ending."""
    away = pod("away", labels={"app": "db"}, namespace="other")
    ending = pod("ending", labels={"app": "db"}, deleting=True)
    nodes = view("a", (away, ending), labels={ZONE: "1"}), view("b", labels={ZONE: "2"})
    assert reasons(spread(constraint()), *nodes) == [None, None]


def test_spread_min_domains() -> None:
    """scheduling/AL-20: with fewer domains than minDomains the least counts as 0."""
    node = view("a", (DB,), labels={ZONE: "1"})
    assert reasons(spread(constraint()), node) == [None]
    assert reasons(spread(constraint(minDomains=2)), node) == [SKEW]


def test_spread_node_policies() -> None:
    """scheduling/AL-20: nodes that affinity (by default) or taints (on demand) exclude are no domains."""
    out = view("b", labels={ZONE: "2"}, taints=({"key": "k", "effect": "NoSchedule"},))
    inside = view("a", (DB,), labels={ZONE: "1", "pool": "x"})
    assert reasons(spread(constraint()), inside, out)[0] == SKEW
    assert reasons(spread(constraint(nodeTaintsPolicy="Honor")), inside, out)[0] is None
    assert reasons(spread(constraint(), nodeSelector={"pool": "x"}), inside, out)[0] is None
    ignored = constraint(nodeAffinityPolicy="Ignore")
    assert reasons(spread(ignored, nodeSelector={"pool": "x"}), inside, out)[0] == SKEW


def test_spread_match_label_keys() -> None:
    """scheduling/AL-20: the pod's own value narrows the selector."""
    old = pod("old", labels={"app": "db", "rev": "1"})
    nodes = view("a", (old,), labels={ZONE: "1"}), view("b", labels={ZONE: "2"})
    incoming = pod(labels={"app": "db", "rev": "2"}, topologySpreadConstraints=[constraint(matchLabelKeys=["rev"])])
    assert reasons(incoming, *nodes) == [None, None]


def test_soft_spread_does_not_filter() -> None:
    """scheduling/AL-20: ScheduleAnyway only scores; and the switch."""
    assert reasons(spread(constraint(whenUnsatisfiable="ScheduleAnyway")), *ZONES) == [None] * 4
    off = {"predicate.PodTopologySpreadEnable": "false"}
    assert reasons(spread(constraint()), *ZONES, arguments=off) == [None] * 4


def claim(volume: str = "", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "data", "namespace": "lab"}, "spec": {"volumeName": volume, **spec}}


USER = pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
HERE = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": HOST, "operator": "In", "values": ["a"]}]}]}}


def failure(**others: Any) -> str | None:
    return Predicates().prefilter(USER, cluster(view(), **others))


def test_bound_volume_keeps_its_pod_near() -> None:
    """scheduling/AL-20: the volume's node affinity and its zones."""
    volume = {"metadata": {"name": "pv"}, "spec": {"nodeAffinity": HERE}}
    found = {"PersistentVolumeClaim": [claim("pv")], "PersistentVolume": [volume]}
    elsewhere = "node(s) didn't match PersistentVolume's node affinity"
    assert reasons(USER, view("a"), view("b"), **found) == [None, elsewhere]
    zoned = {"metadata": {"name": "pv", "labels": {ZONE: "1__2"}}}
    found = {"PersistentVolumeClaim": [claim("pv")], "PersistentVolume": [zoned]}
    nodes = view("a", labels={ZONE: "2"}), view("b", labels={ZONE: "3"}), view("c")
    assert reasons(USER, *nodes, **found) == [None, "node(s) had no available volume zone", None]
    assert reasons(USER, *nodes, arguments={"predicate.VolumeZoneEnable": False}, **found) == [None] * 3


def test_claims_that_keep_a_pod_from_every_node() -> None:
    """scheduling/POD-4: the pre-predicate says which."""
    begin = "plugin VolumeBinding pre-predicates failed "
    assert failure() == f'{begin}persistentvolumeclaim "data" not found'
    gone = {**claim(), "metadata": {**claim()["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}
    assert failure(PersistentVolumeClaim=[gone]) == f'{begin}persistentvolumeclaim "data" is being deleted'
    unbound = f"{begin}pod has unbound immediate PersistentVolumeClaims"
    assert failure(PersistentVolumeClaim=[claim()]) == unbound
    now = [{"metadata": {"name": "now"}, "volumeBindingMode": "Immediate"}]
    assert failure(PersistentVolumeClaim=[claim(storageClassName="now")], StorageClass=now) == unbound
    lost = failure(PersistentVolumeClaim=[claim("pv")])
    assert lost == f'{begin}persistentvolumeclaim "data" bound to non-existent persistentvolume "pv"'
    off = {"predicate.VolumeBindingEnable": False, "predicate.VolumeZoneEnable": False}
    assert reasons(USER, view(), arguments=off) == [None]


def test_claim_that_waits_for_its_first_consumer() -> None:
    """scheduling/AL-20: left to the binder, within the topologies that its class allows."""
    late = {"metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"}
    found = {"PersistentVolumeClaim": [claim(storageClassName="late")], "StorageClass": [late]}
    assert reasons(USER, view("a"), **found) == [None]
    zone = [{"matchLabelExpressions": [{"key": ZONE, "values": ["1"]}]}]
    found["StorageClass"] = [{**late, "allowedTopologies": zone}]
    nodes = view("a", labels={ZONE: "1"}), view("b", labels={ZONE: "2"})
    assert reasons(USER, *nodes, **found) == [None, "node(s) didn't find available persistent volumes to bind"]


@pytest.mark.parametrize("spec", ["x", 7, [1], [{"persistentVolumeClaim": {"claimName": 5}}]])
def test_volumes_of_a_wrong_shape_do_not_escape(spec: Any) -> None:
    """scheduling/AL-20: a wrong field is the pod's failure, never an exception."""
    found = Predicates().prefilter(pod(volumes=spec), cluster(view()))
    assert found is not None
    assert found.startswith("plugin VolumeBinding pre-predicates failed ")
