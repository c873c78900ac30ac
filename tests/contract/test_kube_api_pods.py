"""Pods, of any API server: status, defaults, validation, binding, eviction, priority, quota, scale.

It is asked of the embedded cluster and of a real kube-apiserver; where the two differ, the embedded one is wrong.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.kube_objects import binding, fresh, pod, pods
from support.kube_wire import MERGE, STRATEGIC, Kube

# Status.


def test_status_is_written_apart(kube: Kube, space: str) -> None:
    made = kube.ok("POST", pods(space), pod("a") | {"status": {"phase": "Running"}})
    assert made["status"]["phase"] == "Pending"
    main = kube.ok("PATCH", pods(space, "a"), {"status": {"phase": "Running"}}, MERGE)
    assert main["status"]["phase"] == "Pending"
    change = {"status": {"phase": "Running"}, "spec": {"priority": 5}, "metadata": {"annotations": {"k": "v"}}}
    written = kube.ok("PATCH", pods(space, "a", "status"), change, MERGE)
    assert written["status"]["phase"] == "Running"
    assert written["spec"]["priority"] == 0
    replaced = kube.ok("PUT", pods(space, "a", "status"), {**written, "status": {"phase": "Succeeded"}})
    assert replaced["status"]["phase"] == "Succeeded"
    assert kube.ok("GET", pods(space, "a", "status"))["status"]["phase"] == "Succeeded"


def test_a_node_brings_its_status(kube: Kube) -> None:
    name = fresh("node")
    capacity = {"cpu": "0.5", "memory": "1024Mi", "volcano.sh/vgpu-number": "10"}
    made = kube.ok("POST", "/api/v1/nodes", {"metadata": {"name": name}, "status": {"capacity": capacity}})
    assert made["status"]["capacity"] == {"cpu": "500m", "memory": "1Gi", "volcano.sh/vgpu-number": "10"}
    assert made["status"]["allocatable"] == made["status"]["capacity"]


# Pods: defaults, validation, what may change.


def test_limits_become_requests(kube: Kube, space: str) -> None:
    made = kube.ok("POST", pods(space), pod("a", **{"volcano.sh/vgpu-number": "1", "cpu": "0.5", "memory": "1024Mi"}))
    resources = made["spec"]["containers"][0]["resources"]
    assert resources["requests"] == {"volcano.sh/vgpu-number": "1", "cpu": "500m", "memory": "1Gi"}
    assert resources["limits"] == resources["requests"]


def test_pod_defaults(kube: Kube, space: str) -> None:
    made = kube.ok("POST", pods(space), pod("a"))
    spec, container = made["spec"], made["spec"]["containers"][0]
    wanted = {
        "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler",
        "terminationGracePeriodSeconds": 30, "securityContext": {}, "enableServiceLinks": True, "priority": 0,
        "preemptionPolicy": "PreemptLowerPriority",
    }  # fmt: skip
    assert {key: spec[key] for key in wanted} == wanted
    assert (container["imagePullPolicy"], container["terminationMessagePath"]) == (
        "IfNotPresent",
        "/dev/termination-log",
    )
    assert (made["status"]["phase"], made["status"]["qosClass"]) == ("Pending", "BestEffort")


@pytest.mark.parametrize(
    ("limits", "status"),
    [
        ({"volcano.sh/vgpu-memory": "1.5"}, 422), ({"volcano.sh/vgpu-memory": "-1"}, 422), ({"cpu": "lots"}, 400),
        ({"volcano.sh/vgpu-memory": "5k"}, 201), ({"cpu": ""}, 400), ({"memory": "1Zi"}, 400),
    ],
)  # fmt: skip
def test_quantities(kube: Kube, space: str, limits: dict[str, str], status: int) -> None:
    assert kube.ask("POST", pods(space), pod("a", **limits))[0] == status


def test_extended_resources_need_equal_request_and_limit(kube: Kube, space: str) -> None:
    body = pod("a", **{"volcano.sh/vgpu-number": "2"})
    body["spec"]["containers"][0]["resources"]["requests"] = {"volcano.sh/vgpu-number": "1"}
    message = kube.refused("POST", pods(space), body)[2]
    assert 'resources.requests: Invalid value: "1": must be equal to volcano.sh/vgpu-number limit of 2' in message


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"containers": []}, "spec.containers"),
        ({"containers": [{"name": "a", "image": "x"}, {"name": "a", "image": "x"}]}, "spec.containers[1].name"),
        ({"containers": [{"name": "a"}]}, "spec.containers[0].image"),
        ({"containers": [{"image": "x"}]}, "spec.containers[0].name"),
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy"),
        ({"tolerations": [{"key": "a", "operator": "Like"}]}, "spec.tolerations[0].operator"),
        ({"nodeSelector": {"a b": "c"}}, "spec.nodeSelector"),
        (
            {"containers": [{"name": "a", "image": "x", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]},
            "spec.containers[0].volumeMounts[0].name",
        ),
        (
            {"containers": [{"name": "a", "image": "x", "resources": {"limits": {"gpu": "1"}}}]},
            "spec.containers[0].resources.limits[gpu]",
        ),
    ],
)
def test_pod_validation_names_the_field(kube: Kube, space: str, change: dict[str, Any], field: str) -> None:
    body = pod("a")
    body["spec"] |= change
    status, answer = kube.ask("POST", pods(space), body)
    assert (status, answer["reason"]) == (422, "Invalid")
    assert field in [cause["field"] for cause in answer["details"]["causes"]]


def test_a_pods_spec_stands(kube: Kube, space: str) -> None:
    kube.ok("POST", pods(space), pod("a"))
    status, reason, message = kube.refused("PATCH", pods(space, "a"), {"spec": {"nodeName": "n"}}, MERGE)
    assert (status, reason) == (422, "Invalid")
    assert "pod updates may not change fields other than" in message
    for change in ({"terminationGracePeriodSeconds": 5}, {"nodeSelector": {"a": "b"}}, {"schedulerName": "x"}):
        assert kube.refused("PATCH", pods(space, "a"), {"spec": change}, MERGE)[0] == 422
    image = {"spec": {"containers": [{"name": "main", "image": "app:2"}]}}
    assert kube.ok("PATCH", pods(space, "a"), image, STRATEGIC)["spec"]["containers"][0]["image"] == "app:2"


def test_scheduling_gates_only_go(kube: Kube, space: str) -> None:
    body = pod("a")
    body["spec"]["schedulingGates"] = [{"name": "x.example/wait"}]
    kube.ok("POST", pods(space), body)
    more = {"spec": {"schedulingGates": [{"name": "x.example/more"}]}}
    assert kube.refused("PATCH", pods(space, "a"), more, STRATEGIC)[0] == 422
    assert (
        "schedulingGates" not in kube.ok("PATCH", pods(space, "a"), {"spec": {"schedulingGates": None}}, MERGE)["spec"]
    )


def test_defaults_of_ports_probes_and_volumes(kube: Kube, space: str) -> None:
    body = pod("a")
    body["spec"] |= {
        "hostNetwork": True,
        "volumes": [{"name": "c", "configMap": {"name": "x"}}, {"name": "h", "hostPath": {"path": "/"}}],
    }  # fmt: skip
    body["spec"]["containers"][0] |= {
        "ports": [{"containerPort": 80}], "livenessProbe": {"httpGet": {"port": 80}},
        "volumeMounts": [{"name": "c", "mountPath": "/c"}],
    }  # fmt: skip
    spec = kube.ok("POST", pods(space), body)["spec"]
    container = spec["containers"][0]
    assert container["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]
    assert container["livenessProbe"] == {
        "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10,
        "successThreshold": 1, "failureThreshold": 3,
    }  # fmt: skip
    assert spec["volumes"][0]["configMap"]["defaultMode"] == 420
    assert spec["volumes"][1]["hostPath"]["type"] == ""


def test_a_gated_pod_says_so(kube: Kube, space: str) -> None:
    body = pod("a")
    body["spec"]["schedulingGates"] = [{"name": "x.example/wait"}]
    [condition] = kube.ok("POST", pods(space), body)["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")
    body = pod("b")
    body["spec"] |= {"schedulingGates": [{"name": "x.example/wait"}], "nodeName": "n"}
    assert kube.refused("POST", pods(space), body)[0] == 422


# Binding and eviction.


def test_binding_sets_node_annotations_and_condition(kube: Kube, space: str) -> None:
    body = pod("a")
    body["metadata"]["annotations"] = {"old": "1"}
    made = kube.ok("POST", pods(space), body)
    meta = {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}
    status, answer = kube.ask("POST", pods(space, "a", "binding"), binding("a", "n1", annotations={"new": "2"}, **meta))
    assert (status, answer["status"]) == (201, "Success")
    bound = kube.ok("GET", pods(space, "a"))
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["annotations"] == {"old": "1", "new": "2"}
    condition = next(item for item in bound["status"]["conditions"] if item["type"] == "PodScheduled")
    assert condition["status"] == "True"


def test_binding_refusals(kube: Kube, space: str) -> None:
    assert kube.refused("POST", pods(space, "a", "binding"), binding("a", "n1"))[:2] == (404, "NotFound")
    made = kube.ok("POST", pods(space), pod("a"))
    path = pods(space, "a", "binding")
    assert kube.refused("POST", path, binding("a", "n1", uid="other"))[:2] == (409, "Conflict")
    kube.ok("PATCH", pods(space, "a"), {"metadata": {"labels": {"l": "1"}}}, MERGE)
    stale = binding("a", "n1", resourceVersion=made["metadata"]["resourceVersion"])
    assert kube.refused("POST", path, stale)[:2] == (409, "Conflict")
    assert "nodeName" not in kube.ok("GET", pods(space, "a"))["spec"]
    kube.ok("POST", path, binding("a", "n1"))
    assert kube.refused("POST", path, binding("a", "n2")) == (
        409, "Conflict",
        'Operation cannot be fulfilled on pods/binding "a": pod a is already assigned to node "n1"',
    )  # fmt: skip


def test_binding_of_gated_and_ending_pods_is_refused(kube: Kube, space: str) -> None:
    gated = pod("gated")
    gated["spec"]["schedulingGates"] = [{"name": "x.example/wait"}]
    kube.ok("POST", pods(space), gated)
    assert kube.refused("POST", pods(space, "gated", "binding"), binding("gated", "n"))[:2] == (409, "Conflict")
    ending = pod("ending")
    ending["metadata"]["finalizers"] = ["x.example/wait"]
    kube.ok("POST", pods(space), ending)
    kube.ok("DELETE", pods(space, "ending"))
    assert kube.refused("POST", pods(space, "ending", "binding"), binding("ending", "n"))[:2] == (409, "Conflict")


def test_binding_dry_run(kube: Kube, space: str) -> None:
    kube.ok("POST", pods(space), pod("a"))
    kube.ok("POST", pods(space, "a", "binding"), binding("a", "n1"), dryRun="All")
    assert "nodeName" not in kube.ok("GET", pods(space, "a"))["spec"]


def test_eviction(kube: Kube, space: str) -> None:
    kube.ok("POST", pods(space), pod("a"))
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "a"}}
    assert kube.ask("POST", pods(space, "a", "eviction"), body)[0] == 201
    assert kube.ask("GET", pods(space, "a"))[0] == 404
    assert kube.ask("POST", pods(space, "a", "eviction"), body)[0] == 404


# Priority classes.


def test_priority_comes_from_the_class(kube: Kube, space: str) -> None:
    name = fresh("class")
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    made = kube.ok("POST", classes, {"metadata": {"name": name}, "value": 1000, "preemptionPolicy": "Never"})
    assert made["value"] == 1000
    body = pod("a")
    body["spec"]["priorityClassName"] = name
    spec = kube.ok("POST", pods(space), body)["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (1000, "Never")
    body = pod("b")
    body["spec"]["priorityClassName"] = "no-such-class"
    assert kube.refused("POST", pods(space), body) == (
        403, "Forbidden", 'pods "b" is forbidden: no PriorityClass with name no-such-class was found',
    )  # fmt: skip
    assert kube.refused("PATCH", f"{classes}/{name}", {"value": 5}, MERGE)[0] == 422
    too_high = {"metadata": {"name": "too-high"}, "value": 1_000_000_001}
    assert kube.refused("POST", classes, too_high)[0] in (403, 422)


# Quotas.


def test_quota_refuses_what_exceeds_it(kube: Kube, space: str) -> None:
    quotas = f"/api/v1/namespaces/{space}/resourcequotas"
    hard = {"requests.volcano.sh/vgpu-number": "2", "pods": "5"}
    kube.ok("POST", quotas, {"metadata": {"name": "limits"}, "spec": {"hard": hard}})
    zero = {"status": {"hard": hard, "used": {"requests.volcano.sh/vgpu-number": "0", "pods": "0"}}}
    kube.ok("PATCH", f"{quotas}/limits/status", zero, MERGE)  # a real server waits for its controller to write this
    kube.ok("POST", pods(space), pod("a", **{"volcano.sh/vgpu-number": "1"}))
    found = _settled_quota(kube, f"{quotas}/limits")
    assert found["status"]["used"] == {"requests.volcano.sh/vgpu-number": "1", "pods": "1"}
    assert kube.refused("POST", pods(space), pod("b", **{"volcano.sh/vgpu-number": "2"})) == (
        403, "Forbidden",
        'pods "b" is forbidden: exceeded quota: limits, requested: requests.volcano.sh/vgpu-number=2, '
        "used: requests.volcano.sh/vgpu-number=1, limited: requests.volcano.sh/vgpu-number=2",
    )  # fmt: skip
    kube.ok("POST", pods(space), pod("c"))


def _settled_quota(kube: Kube, path: str) -> Any:
    for _ in range(50):
        found = kube.ok("GET", path)
        if found.get("status", {}).get("used", {}).get("pods") == "1":
            return found
    return found


# Scale.


def test_scale_of_a_replica_set(kube: Kube, space: str) -> None:
    sets = f"/apis/apps/v1/namespaces/{space}/replicasets"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = kube.ok("POST", sets, {"metadata": {"name": "r"}, "spec": spec})
    assert made["metadata"]["generation"] == 1
    scale = kube.ok("GET", f"{sets}/r/scale")
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {"replicas": 1})
    assert scale["status"]["selector"] == "a=b"
    scale["spec"]["replicas"] = 3
    assert kube.ok("PUT", f"{sets}/r/scale", scale)["spec"] == {"replicas": 3}
    kube.ok("PATCH", f"{sets}/r/scale", {"spec": {"replicas": 4}}, MERGE)
    found = kube.ok("GET", f"{sets}/r")
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (4, 3)
    assert kube.refused("PATCH", f"{sets}/r/scale", {"spec": {"replicas": -1}}, MERGE)[0] == 422
