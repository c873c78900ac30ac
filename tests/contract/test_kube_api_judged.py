"""What becomes of an object at the front door, of any API server: what is dropped, counted, completed and refused.

It is asked of the embedded cluster and of a real kube-apiserver; where the two differ, the embedded one is wrong. What
decides where a pod goes is judged field by field, since a scheduler that reads nonsense decides nonsense.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.kube_objects import binding, config, fresh, group, groups, maps, pod, pods
from support.kube_wire import MERGE, STRATEGIC, Kube

Json = dict[str, Any]

# What is kept of an object.


def test_fields_that_a_kind_does_not_have_are_dropped(kube: Kube, space: str) -> None:
    body = pod("a") | {"blah": 1}
    body["spec"]["bogus"] = {"a": 1}
    body["spec"]["containers"][0]["zork"] = 1
    made = kube.ok("POST", pods(space), body)
    assert "blah" not in made
    assert "bogus" not in made["spec"]
    assert "zork" not in made["spec"]["containers"][0]
    patched = kube.ok("PATCH", pods(space, "a"), {"spec": {"other": 1}, "more": 2}, MERGE)
    assert "other" not in patched["spec"]
    assert "more" not in patched


def test_fields_that_a_custom_kind_does_not_have_are_dropped(volcano: Kube, space: str) -> None:
    made = volcano.ok("POST", groups(space), group("a", minMember=1, bogus=1) | {"blah": 2})
    assert "blah" not in made
    assert made["spec"].keys() <= {"minMember", "queue"}


def test_empty_lists_and_maps_are_as_if_absent(kube: Kube, space: str) -> None:
    body = pod("a")
    body["metadata"] |= {"labels": {}, "finalizers": [], "ownerReferences": []}
    body["spec"] |= {"nodeSelector": {}, "schedulingGates": [], "volumes": [{"name": "v", "emptyDir": {}}]}
    body["spec"]["containers"][0] |= {"resources": {"limits": {}}, "env": []}
    made = kube.ok("POST", pods(space), body)
    assert not made["metadata"].keys() & {"labels", "finalizers", "ownerReferences"}
    assert not made["spec"].keys() & {"nodeSelector", "schedulingGates"}
    assert made["spec"]["containers"][0]["resources"] == {}
    assert "env" not in made["spec"]["containers"][0]
    assert made["spec"]["volumes"][0]["emptyDir"] == {}
    assert "data" not in kube.ok("POST", maps(space), config("a"))


def test_empty_texts_are_completed_like_absent_ones(kube: Kube, space: str) -> None:
    body = pod("a")
    body["spec"] |= {"schedulerName": "", "restartPolicy": "", "terminationGracePeriodSeconds": -1}
    spec = kube.ok("POST", pods(space), body)["spec"]
    found = spec["schedulerName"], spec["restartPolicy"], spec["terminationGracePeriodSeconds"]
    assert found == ("default-scheduler", "Always", 1)


def test_a_priority_class_without_a_value_has_zero(kube: Kube) -> None:
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    made = kube.ok("POST", path, {"metadata": {"name": fresh("class")}, "globalDefault": False})
    assert (made["value"], made["metadata"]["generation"]) == (0, 1)
    assert "globalDefault" not in made
    kube.ok("DELETE", f"{path}/{made['metadata']['name']}")


def test_the_generation_of_a_pod_counts_what_is_wanted_of_it(kube: Kube, space: str) -> None:
    def generation(answer: Any) -> int:
        return int(answer["metadata"]["generation"])

    assert generation(kube.ok("POST", pods(space), pod("a"))) == 1
    kube.ok("POST", pods(space, "a", "binding"), binding("a", "n1"))
    assert generation(kube.ok("GET", pods(space, "a"))) == 1
    assert generation(kube.ok("PATCH", pods(space, "a"), {"metadata": {"labels": {"a": "b"}}}, MERGE)) == 1
    image = {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}
    assert generation(kube.ok("PATCH", pods(space, "a"), image, STRATEGIC)) == 2
    assert generation(kube.ok("PATCH", pods(space, "a", "status"), {"status": {"phase": "Running"}}, MERGE)) == 2
    assert generation(kube.ok("DELETE", pods(space, "a"))) == 3


# Who is meant.


@pytest.mark.parametrize("meta", [{}, {"name": "b"}, {"name": ""}])
def test_bindings_and_evictions_name_their_pod(kube: Kube, space: str, meta: Json) -> None:
    kube.ok("POST", pods(space), pod("a"))
    body = {"apiVersion": "v1", "kind": "Binding", "metadata": meta, "target": {"kind": "Node", "name": "n1"}}
    words = "name in URL does not match name in Binding object"
    assert kube.refused("POST", pods(space, "a", "binding"), body) == (400, "BadRequest", words)
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    words = "name in URL does not match name in Eviction object"
    assert kube.refused("POST", pods(space, "a", "eviction"), body) == (400, "BadRequest", words)
    assert kube.refused("POST", pods(space, "a", "eviction"), binding("a", "n1"))[0] == 400
    assert "nodeName" not in kube.ok("GET", pods(space, "a"))["spec"]


# Metadata alone.


def test_who_asks_for_metadata_alone_gets_no_more(kube: Kube, space: str) -> None:
    kube.ok("POST", maps(space), config("a", k="v"))
    version = "g=meta.k8s.io;v=v1"
    one = kube.ask("GET", maps(space, "a"), accept=f"application/json;as=PartialObjectMetadata;{version}")[1]
    assert (one["kind"], one["apiVersion"], one["metadata"]["name"]) == ("PartialObjectMetadata", "meta.k8s.io/v1", "a")
    assert "data" not in one
    found = kube.ask("GET", maps(space), accept=f"application/json;as=PartialObjectMetadataList;{version}")[1]
    assert found["kind"] == "PartialObjectMetadataList"
    assert {item["kind"] for item in found["items"]} == {"PartialObjectMetadata"}
    with kube.watch(maps(space), f"application/json;as=PartialObjectMetadata;{version}", resourceVersion="0") as events:
        event = events.next()
        assert event["object"]["kind"] == "PartialObjectMetadata"
        assert "data" not in event["object"]


def test_the_end_of_a_quota_is_told_with_its_last_form(kube: Kube, space: str) -> None:
    path = f"/api/v1/namespaces/{space}/resourcequotas"
    kube.ok("POST", path, {"metadata": {"name": "a"}, "spec": {"hard": {"pods": "9"}}})
    assert kube.ok("DELETE", f"{path}/a")["kind"] == "ResourceQuota"


def test_apply_without_a_manager_is_422(kube: Kube, space: str) -> None:
    kube.ok("POST", maps(space), config("a"))
    assert kube.refused("PATCH", maps(space, "a"), config("a"), "application/apply-patch+yaml")[:2] == (422, "Invalid")


# What is refused of a pod, with the field that is at fault.


def _terms(*terms: Json) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return {"affinity": {"nodeAffinity": required}}


def _wants(**expression: Any) -> Json:
    return _terms({"matchExpressions": [{"key": "a", **expression}]})


def _near(**term: Any) -> Json:
    return {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _weighed(weight: int) -> Json:
    term = {"weight": weight, "podAffinityTerm": {"topologyKey": "x"}}
    return {"affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _spread(**constraint: Any) -> Json:
    whole = {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [whole | constraint]}


def _bears(**toleration: Any) -> Json:
    return {"tolerations": [toleration]}


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_TERM = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms[0]"
_NEAR = f"spec.affinity.podAffinity.{_REQUIRED}[0]"
REFUSED: list[tuple[Json, str]] = [
    (_terms(), f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"),
    (_wants(operator="Foo", values=["x"]), f"{_TERM}.matchExpressions[0].operator"),
    (_wants(operator="In"), f"{_TERM}.matchExpressions[0].values"),
    (_wants(operator="Exists", values=["x"]), f"{_TERM}.matchExpressions[0].values"),
    (_wants(operator="Gt", values=["1", "2"]), f"{_TERM}.matchExpressions[0].values"),
    (_wants(operator="In", values=["b c"]), f"{_TERM}.matchExpressions[0].values[0]"),
    (_terms({"matchExpressions": [{"key": "a b", "operator": "Exists"}]}), f"{_TERM}.matchExpressions[0].key"),
    (_terms({"matchFields": [{"key": "foo", "operator": "In", "values": ["a"]}]}), f"{_TERM}.matchFields[0].key"),
    (_terms({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]}),
     f"{_TERM}.matchFields[0].values"),
    (_near(topologyKey=""), f"{_NEAR}.topologyKey"),
    (_near(topologyKey="a b"), f"{_NEAR}.topologyKey"),
    (_near(topologyKey="z", namespaces=["Bad_"]), f"{_NEAR}.namespace"),
    (_near(topologyKey="z", labelSelector={"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}),
     f"{_NEAR}.labelSelector.matchExpressions[0].operator"),
    (_weighed(101), "spec.affinity.podAntiAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight"),
    (_spread(maxSkew=0), "spec.topologySpreadConstraints[0].maxSkew"),
    (_spread(topologyKey=""), "spec.topologySpreadConstraints[0].topologyKey"),
    (_spread(whenUnsatisfiable="Foo"), "spec.topologySpreadConstraints[0].whenUnsatisfiable"),
    (_bears(), "spec.tolerations[0].operator"),
    (_bears(key="a b", operator="Exists"), "spec.tolerations[0].key"),
    (_bears(key="a", value="b c"), "spec.tolerations[0].operator"),
    (_bears(key="a", tolerationSeconds=5), "spec.tolerations[0].effect"),
    ({"schedulingGates": [{"name": "a b"}]}, "spec.schedulingGates[0]"),
    ({"schedulingGates": [{"name": ""}]}, "spec.schedulingGates[0]"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "field"), REFUSED, ids=[f"{place}" for place in range(len(REFUSED))])
def test_what_decides_where_a_pod_goes_is_judged(kube: Kube, space: str, spec: Json, field: str) -> None:
    body = pod("a")
    body["spec"] |= spec
    status, answer = kube.ask("POST", pods(space), body)
    assert (status, answer.get("reason")) == (422, "Invalid"), answer
    assert field in {cause["field"] for cause in answer["details"]["causes"]}


@pytest.mark.parametrize(
    "spec",
    [
        _terms({}),
        _wants(operator="Gt", values=["5"]),
        _terms({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}),
        _near(topologyKey="z", labelSelector={"matchLabels": {"a": "b"}}),
        _weighed(100),
        _spread(labelSelector={}),
        _bears(operator="Exists"),
        _bears(key="a", operator="Exists", effect="NoExecute", tolerationSeconds=5),
        {"schedulingGates": [{"name": "a/b"}]},
    ],
)
def test_what_is_sound_passes(kube: Kube, space: str, spec: Json) -> None:
    body = pod("a")
    body["spec"] |= spec
    kube.ok("POST", pods(space), body)


@pytest.mark.parametrize(
    ("container", "field"),
    [
        ({"imagePullPolicy": "Sometimes"}, "imagePullPolicy"),
        ({"ports": [{"containerPort": 80, "protocol": "X"}]}, "ports[0].protocol"),
        ({"ports": [{"containerPort": 80, "hostPort": 70_000}]}, "ports[0].hostPort"),
    ],
)
def test_containers_are_judged(kube: Kube, space: str, container: Json, field: str) -> None:
    body = pod("a")
    body["spec"]["containers"][0] |= container
    _, answer = kube.ask("POST", pods(space), body)
    assert [cause["field"] for cause in answer["details"]["causes"]] == [f"spec.containers[0].{field}"]


@pytest.mark.parametrize(
    "taints",
    [
        [{"key": "a b", "effect": "NoSchedule"}],
        [{"key": "a", "value": "b c", "effect": "NoSchedule"}],
        [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule", "value": "z"}],
    ],
)
def test_taints_are_judged(kube: Kube, taints: list[Json]) -> None:
    body = {"metadata": {"name": fresh("node")}, "spec": {"taints": taints}}
    assert kube.refused("POST", "/api/v1/nodes", body)[:2] == (422, "Invalid")


@pytest.mark.parametrize(
    ("labels", "more", "field"),
    [
        ({"a": "c"}, {}, "spec.template.metadata.labels"),
        ({"a": "b"}, {"replicas": -1}, "spec.replicas"),
        ({"a": "b"}, {"template": {"metadata": {"labels": {"a": "b"}}}}, "spec.template.spec.containers"),
    ],
)
def test_sets_of_pods_are_judged(kube: Kube, space: str, labels: Json, more: Json, field: str) -> None:
    template = {"metadata": {"labels": labels}, "spec": pod("a")["spec"]}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template} | more
    path = f"/apis/apps/v1/namespaces/{space}/replicasets"
    _, answer = kube.ask("POST", path, {"metadata": {"name": "a"}, "spec": spec})
    assert [cause["field"] for cause in answer["details"]["causes"]] == [field]


def test_quotas_count_what_there_is(kube: Kube, space: str) -> None:
    path = f"/api/v1/namespaces/{space}/resourcequotas"
    _, answer = kube.ask("POST", path, {"metadata": {"name": "a"}, "spec": {"hard": {"bad": "1"}}})
    assert answer["details"]["causes"][0]["field"] == "spec.hard[bad]"


def test_the_mode_of_a_topology_is_one_of_two(volcano: Kube, space: str) -> None:
    _, answer = volcano.ask("POST", groups(space), group("a", networkTopology={"mode": "foo"}))
    assert answer["details"]["causes"][0]["field"] == "spec.networkTopology.mode"
