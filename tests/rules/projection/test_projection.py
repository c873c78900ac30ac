"""What reaches the log of an object: named fields only, and nothing that is no change (design section 3)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from events import canonical, names
from events.canonical import Json
from events.kinds import CONFIG_MAP, NODE, OBSERVED_KINDS, POD, POD_GROUP, QUEUE, Kind
from events.projection import Scope, compare_key, list_digest, project, relevant, version_number
from scheduling import objects

SECRET = "tr0ub4dor"


def full_pod(**spec: Any) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": "a",
            "uid": "u",
            "resourceVersion": "17",
            "generation": 3,
            "managedFields": [{"manager": SECRET}],
            "labels": {"app": "x"},
            "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": SECRET,
                "example.test/token": SECRET,
                names.GROUP_NAME: "g",
                names.USE_GPU_TYPE: "A100",
            },
            "ownerReferences": [{"apiVersion": "v1", "kind": "X", "name": "o", "uid": "ou", "controller": True}],
        },
        "spec": {
            "schedulerName": "gpuledger",
            "serviceAccountName": SECRET,
            "imagePullSecrets": [{"name": SECRET}],
            "containers": [
                {
                    "name": "main",
                    "image": SECRET,
                    "command": [SECRET],
                    "args": [SECRET],
                    "env": [{"name": "PASSWORD", "value": SECRET}],
                    "envFrom": [{"secretRef": {"name": SECRET}}],
                    "resources": {"limits": {"volcano.sh/vgpu-number": 1}, "requests": {"cpu": "1"}},
                    "ports": [{"containerPort": 80}, {"containerPort": 81, "hostPort": 8081, "protocol": "TCP"}],
                    "volumeMounts": [{"mountPath": SECRET}],
                    "livenessProbe": {"exec": {"command": [SECRET]}},
                }
            ],
            "initContainers": [{"name": "side", "restartPolicy": "Always", "env": [{"value": SECRET}]}],
            "volumes": [
                {"name": "a", "secret": {"secretName": SECRET}},
                {"name": "b", "persistentVolumeClaim": {"claimName": "claim"}},
            ],
            "tolerations": [{"key": "k", "operator": "Exists"}],
            **spec,
        },
        "status": {
            "phase": "Pending",
            "message": SECRET,
            "conditions": [{"message": SECRET}],
            "containerStatuses": [{"image": SECRET}],
        },
    }


def test_planted_secrets_appear_nowhere() -> None:
    assert SECRET.encode() not in canonical.encode(project(POD, full_pod()))


def test_a_pod_keeps_what_the_rules_need() -> None:
    found = project(POD, full_pod())
    pod = objects.pod(found, "17")
    assert pod.group_key == "a/g"
    assert pod.containers[0].limits == {"volcano.sh/vgpu-number": 1}
    assert pod.containers[0].ports == ({"hostPort": 8081, "protocol": "TCP"},)
    assert pod.init_containers[0].restartable
    assert pod.spec["volumes"] == [{"name": "b", "persistentVolumeClaim": {"claimName": "claim"}}]
    assert pod.spec["tolerations"] == [{"key": "k", "operator": "Exists"}]
    assert "resourceVersion" not in found["metadata"]
    assert found["metadata"]["annotations"] == {names.GROUP_NAME: "g", names.USE_GPU_TYPE: "A100"}


def marked_pod(node: str = "") -> Json:
    item = full_pod(nodeName=node) if node else full_pod()
    item["metadata"]["annotations"] |= {
        names.VGPU_NODE: "n",
        names.VGPU_IDS: "ids",
        names.DEVICES_TO_ALLOCATE: "ids",
        names.BIND_PHASE: "allocating",
        names.VGPU_TIME: "5",
        names.DECISION: "d",
    }
    return item


def test_an_unassigned_pods_allocation_means_nothing_but_its_marks_are_seen_a7a_a7b() -> None:
    notes = project(POD, marked_pod())["metadata"]["annotations"]
    assert notes[names.VGPU_NODE] == "n"
    assert notes[names.DEVICES_TO_ALLOCATE] == ""
    assert not {names.VGPU_IDS, names.BIND_PHASE, names.VGPU_TIME} & notes.keys()


def test_an_assigned_pod_keeps_its_record_and_not_the_work_list() -> None:
    notes = project(POD, marked_pod("n"))["metadata"]["annotations"]
    assert notes[names.VGPU_IDS] == "ids"
    assert notes[names.DECISION] == "d"
    assert names.DEVICES_TO_ALLOCATE not in notes


def test_the_node_agents_marks_are_no_change() -> None:
    before, after = marked_pod("n"), marked_pod("n")
    after["metadata"]["annotations"] |= {
        names.BIND_PHASE: "success",
        names.VGPU_TIME: "18446744073709551615",
        names.DEVICES_TO_ALLOCATE: "",
    }
    assert compare_key(POD, project(POD, before)) == compare_key(POD, project(POD, after))


def test_an_edit_of_the_record_is_a_change_s11() -> None:
    before, after = marked_pod("n"), marked_pod("n")
    after["metadata"]["annotations"][names.VGPU_IDS] = "other"
    assert compare_key(POD, project(POD, before)) != compare_key(POD, project(POD, after))


def test_heartbeats_locks_and_handshakes_of_a_node_are_no_change_c26() -> None:
    node: Json = {
        "metadata": {"name": "n", "annotations": {names.NODE_REGISTER: "r"}},
        "spec": {"podCIDR": "10.0.0.0/24", "taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": "t"}]},
        "status": {"allocatable": {"cpu": "1"}, "images": [{"names": ["x"]}], "conditions": [{"type": "Ready"}]},
    }
    key = compare_key(NODE, project(NODE, node))
    node["metadata"]["annotations"] |= {
        "hamivgpu": "2026-01-01T00:00:00Z",
        "gpu": "x",
        "volcano.sh/node-vgpu-handshake": "Requesting_1",
    }
    node["status"]["conditions"] = []
    node["status"]["images"] = []
    assert compare_key(NODE, project(NODE, node)) == key
    node["metadata"]["annotations"][names.NODE_REGISTER] = "other"
    assert compare_key(NODE, project(NODE, node)) != key


def test_our_own_status_is_no_change_of_podgroup_and_queue() -> None:
    group: Json = {
        "metadata": {"name": "g", "namespace": "a"},
        "spec": {"minMember": 2},
        "status": {"phase": "Pending"},
    }
    other = {**group, "status": {"phase": "Inqueue", "conditions": [], "running": 2}}
    assert compare_key(POD_GROUP, project(POD_GROUP, group)) == compare_key(POD_GROUP, project(POD_GROUP, other))
    assert project(POD_GROUP, group)["status"] == {"phase": "Pending"}
    queue: Json = {"metadata": {"name": "q"}, "spec": {"weight": 1}, "status": {"state": "Open", "allocated": {}}}
    more = {**queue, "status": {"state": "Open", "allocated": {"cpu": "1"}, "pending": 3}}
    assert compare_key(QUEUE, project(QUEUE, queue)) == compare_key(QUEUE, project(QUEUE, more))
    closed = {**queue, "status": {"state": "Closed"}}
    assert compare_key(QUEUE, project(QUEUE, queue)) != compare_key(QUEUE, project(QUEUE, closed))


@pytest.mark.parametrize(
    ("scheduler", "node", "expected"),
    [
        ("gpuledger", "", True),
        ("volcano", "", True),
        ("default-scheduler", "", False),
        ("default-scheduler", "n", True),
    ],
)
def test_which_pods_are_observed_as2(scheduler: str, node: str, expected: bool) -> None:
    item: Json = {"metadata": {"name": "p"}, "spec": {"schedulerName": scheduler, "nodeName": node}}
    assert relevant(POD, item) is expected


def test_which_config_maps_are_observed() -> None:
    def config(namespace: str, name: str, *keys: str) -> Json:
        return {"metadata": {"namespace": namespace, "name": name}, "data": dict.fromkeys(keys, "text")}

    assert relevant(CONFIG_MAP, config("volcano-system", "volcano-scheduler-configmap"))
    assert not relevant(CONFIG_MAP, config("a", "b", "password"))
    renamed = config("gpu", "cards", "device-config.yaml", "password")
    assert relevant(CONFIG_MAP, renamed)
    assert project(CONFIG_MAP, renamed)["data"] == {"device-config.yaml": "text"}
    scope = Scope(scheduler_config=("x", "y", "conf"), device_config=("x", "z", "conf"))
    assert relevant(CONFIG_MAP, config("x", "y"), scope)
    assert not relevant(CONFIG_MAP, renamed, scope)


def test_numbers_that_no_record_holds_become_text() -> None:
    item = full_pod()
    item["spec"]["containers"][0]["resources"]["limits"] = {
        "a/f": 0.5, "a/n": float("nan"), "a/b": True, "a/i": 10**18, "a/j": 10**18 - 1, "a/m": 1 << 5000,
    }  # fmt: skip
    limits = project(POD, item)["spec"]["containers"][0]["resources"]["limits"]
    assert limits["a/f"] == "0.5"
    assert limits["a/n"] == "nan"
    assert limits["a/b"] is True
    assert limits["a/i"] == "1" + "0" * 18
    assert limits["a/j"] == 10**18 - 1
    assert limits["a/m"].startswith("0x1")


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    max_leaves=12,
)
FIELDS = ("metadata", "spec", "status", "data", "annotations", "containers", "volumes", "resources", "limits", "name")
NESTED = st.recursive(JUNK, lambda inner: st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4), max_leaves=20)


@settings(max_examples=300)
@given(st.sampled_from(OBSERVED_KINDS), st.dictionaries(st.sampled_from(FIELDS), NESTED, max_size=5))
def test_wrong_types_never_raise_and_always_give_a_record(kind: Kind, item: Json) -> None:
    relevant(kind, item)
    found = project(kind, item)
    canonical.encode(found)
    compare_key(kind, found)
    assert project(kind, found) == found


def test_endless_nesting_is_cut() -> None:
    deep: Json = {}
    for _ in range(500):
        deep = {"affinity": deep}
    canonical.encode(project(POD, {"metadata": {"name": "p"}, "spec": {"affinity": deep}}))


def test_versions_are_numbers_or_nothing_f4a() -> None:
    assert version_number("17") == 17
    for text in ("", "a", "-1", "1.5", "٣", "9" * 50):
        assert version_number(text) is None


def test_a_lists_digest_knows_no_order() -> None:
    assert list_digest(["b", "a"]) == list_digest(["a", "b"]) != list_digest(["ab"])
