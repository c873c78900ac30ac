"""Automatic PodGroups (scheduling/AS-3 to AS-8, AS-13a)."""

from __future__ import annotations

import pytest
import yaml
from control_room import NS, ControlRoom, pod, queue

from events.kinds import NAMESPACE, POD, POD_GROUP, QUEUE, REPLICA_SET
from events.reading import spec
from services.controller import podgroups, usage
from services.controller.world import World

GROUP = "scheduling.k8s.io/group-name"


@pytest.fixture
def room() -> ControlRoom:
    return ControlRoom()


def workload(kind: str, name: str, annotations: str = "", replicas: int = 1) -> str:
    group = "batch/v1" if kind == "Job" else "apps/v1"
    return (
        f"apiVersion: {group}\nkind: {kind}\n"
        f"metadata: {{name: {name}, namespace: {NS}, uid: uid-{name}, annotations: {{{annotations}}}}}\n"
        f"spec: {{replicas: {replicas}, selector: {{matchLabels: {{a: b}}}}, "
        "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: none}]}}}\n"
    )


def owned_by(kind: str, name: str) -> str:
    group = "batch/v1" if kind == "Job" else "apps/v1"
    return f"ownerReferences: [{{apiVersion: {group}, kind: {kind}, name: {name}, uid: uid-{name}, controller: true}}]"


def test_a_bare_pod_gets_a_group_of_its_own_and_is_annotated(room: ControlRoom) -> None:
    """scheduling/AS-3, AS-4, AS-8"""
    room.apply(pod(spec="priorityClassName: system-node-critical", metadata="uid: u-1"))
    room.settle()
    group = room.one(POD_GROUP, "podgroup-u-1")
    assert group["spec"]["minMember"] == 1
    assert group["spec"]["queue"] == "default"
    assert group["spec"]["priorityClassName"] == "system-node-critical"
    assert group["spec"]["minResources"] == {
        "count/pods": "1",
        "pods": "1",
        "volcano.sh/vgpu-number": "1",
        "requests.volcano.sh/vgpu-number": "1",
        "volcano.sh/vgpu-memory": "3k",
        "requests.volcano.sh/vgpu-memory": "3k",
    }
    (owner,) = group["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Pod", "p", True)
    assert room.one(POD, "p")["metadata"]["annotations"][GROUP] == "podgroup-u-1"


def test_only_pods_of_ours_without_annotation_get_one(room: ControlRoom) -> None:
    """scheduling/AS-2, AS-7: other schedulers' pods and annotated ones are left alone"""
    room.put(pod("other").replace("volcano,", "default-scheduler,"))
    room.put(pod("given", metadata=f"annotations: {{{GROUP}: mine}}"))
    room.settle()
    assert room.names(POD_GROUP) == []
    assert room.one(POD, "given")["metadata"]["annotations"][GROUP] == "mine"


@pytest.mark.parametrize("kind", ["ReplicaSet", "StatefulSet", "DaemonSet", "Job"])
def test_pods_of_one_owner_share_a_group(room: ControlRoom, kind: str) -> None:
    """scheduling/AS-3, AS-4, AS-5"""
    room.put(workload(kind, "rs", "volcano.sh/x: 'y', other/z: '1', scheduling.volcano.sh/group-min-member: '2'"))
    for name in ("one", "two"):
        room.put(pod(name, metadata=owned_by(kind, "rs")))
    room.settle()
    assert room.names(POD_GROUP) == ["podgroup-uid-rs"]
    group = room.one(POD_GROUP, "podgroup-uid-rs")
    assert group["spec"]["minMember"] == 2
    assert group["spec"]["minResources"]["pods"] == "2"
    assert group["spec"]["minResources"]["volcano.sh/vgpu-memory"] == "6k"
    assert group["metadata"]["annotations"] == {"volcano.sh/x": "y"}
    assert group["metadata"]["ownerReferences"][0]["kind"] == kind
    for name in ("one", "two"):
        assert room.one(POD, name)["metadata"]["annotations"][GROUP] == "podgroup-uid-rs"


def test_an_owner_that_nobody_has_seen_names_the_group_all_the_same(room: ControlRoom) -> None:
    """scheduling/AS-3: the uid of the reference counts"""
    room.put(pod("p", metadata=owned_by("ReplicaSet", "unseen")))
    room.settle()
    assert room.names(POD_GROUP) == ["podgroup-uid-unseen"]
    assert room.names(POD) == ["p"]


@pytest.mark.parametrize(("value", "minimum"), [("3", 3), ("0", 0), ("-1", 1), ("many", 1), ("", 1)])
def test_min_member_of_the_owner(room: ControlRoom, value: str, minimum: int) -> None:
    """scheduling/AS-5"""
    room.put(workload("ReplicaSet", "rs", f"scheduling.volcano.sh/group-min-member: '{value}'"))
    room.put(pod("p", metadata=owned_by("ReplicaSet", "rs")))
    room.settle()
    assert room.one(POD_GROUP, "podgroup-uid-rs")["spec"]["minMember"] == minimum


def test_the_pod_overrides_what_is_inherited(room: ControlRoom) -> None:
    """scheduling/AS-6"""
    room.put(workload("ReplicaSet", "rs", "volcano.sh/preemptable: 'false', volcano.sh/jdb-min-available: '1'"))
    mine = "{volcano.sh/preemptable: 'true', volcano.sh/jdb-max-unavailable: '2', volcano.sh/sla-waiting-time: 1h}"
    marks = "{volcano.sh/preemptable: 'true', volcano.sh/cooldown-time: 5m, else: x}"
    room.put(pod("p", metadata=f"annotations: {mine}, labels: {marks}, {owned_by('ReplicaSet', 'rs')}"))
    room.settle()
    about = room.one(POD_GROUP, "podgroup-uid-rs")["metadata"]
    assert about["annotations"] == {"volcano.sh/preemptable": "true", "volcano.sh/jdb-max-unavailable": "2"}
    assert about["labels"] == {"volcano.sh/preemptable": "true", "volcano.sh/cooldown-time": "5m"}


def test_topology_annotations_become_a_topology(room: ControlRoom) -> None:
    """scheduling/AS-6: an invalid mode is hard"""
    notes = "{volcano.sh/network-topology-mode: tight, volcano.sh/network-topology-highest-tier: '2'}"
    room.put(pod("p", metadata=f"uid: u, annotations: {notes}"))
    room.settle()
    assert room.one(POD_GROUP, "podgroup-u")["spec"]["networkTopology"] == {"mode": "hard", "highestTierAllowed": 2}


def test_the_queue_comes_from_the_pod_or_its_namespace(room: ControlRoom) -> None:
    """scheduling/AS-4"""
    room.apply(queue("one") + "---\n" + queue("two"))
    room.patch(NAMESPACE, NS, {"metadata": {"annotations": {"scheduling.volcano.sh/queue-name": "two"}}})
    room.put(pod("plain", metadata="uid: u-plain"))
    room.put(pod("asks", metadata="uid: u-asks, annotations: {scheduling.volcano.sh/queue-name: one}"))
    room.settle()
    assert room.one(POD_GROUP, "podgroup-u-plain")["spec"]["queue"] == "two"
    assert room.one(POD_GROUP, "podgroup-u-asks")["spec"]["queue"] == "one"


def test_scaling_to_zero_deletes_the_group_and_scaling_up_makes_it_anew(room: ControlRoom) -> None:
    """scheduling/AS-7"""
    room.put(workload("ReplicaSet", "rs"))
    room.put(pod("p", metadata=owned_by("ReplicaSet", "rs")))
    room.settle()
    assert room.names(POD_GROUP) == ["podgroup-uid-rs"]
    room.patch(REPLICA_SET, "rs", {"spec": {"replicas": 0}})
    room.settle()
    assert room.names(POD_GROUP) == []
    room.patch(REPLICA_SET, "rs", {"spec": {"replicas": 1}})
    room.settle()
    assert room.names(POD_GROUP) == ["podgroup-uid-rs"]


def test_an_update_of_the_owner_brings_the_group_in_line(room: ControlRoom) -> None:
    """scheduling/AS-7"""
    room.put(workload("ReplicaSet", "rs"))
    room.put(pod("p", metadata=owned_by("ReplicaSet", "rs")))
    room.settle()
    note = {"scheduling.volcano.sh/group-min-member": "4", "volcano.sh/x": "y"}
    room.patch(REPLICA_SET, "rs", {"metadata": {"annotations": note}})
    room.settle()
    group = room.one(POD_GROUP, "podgroup-uid-rs")
    assert group["spec"]["minMember"] == 4
    assert group["metadata"]["annotations"]["volcano.sh/x"] == "y"


def test_a_refused_group_is_told_on_the_pod_and_tried_again_when_a_queue_changes(room: ControlRoom) -> None:
    """scheduling/AS-13a"""
    room.put(queue("one", status="state: Closed"))
    room.put(pod("p", metadata="uid: u, annotations: {scheduling.volcano.sh/queue-name: one}"))
    room.settle()
    (condition,) = room.one(POD, "p")["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "Unschedulable")
    assert (
        "can only submit PodGroup to queue with state `Open`, queue `one` status is `Closed`." in condition["message"]
    )
    assert room.names(POD_GROUP) == []
    room.patch(QUEUE, "one", {"status": {"state": "Open"}}, "status")
    room.settle()
    assert room.names(POD_GROUP) == ["podgroup-u"]


def test_a_refused_group_is_tried_again_with_back_off(room: ControlRoom) -> None:
    """scheduling/AS-13a"""
    room.put(pod("p", metadata="uid: u, annotations: {scheduling.volcano.sh/queue-name: none}"))
    room.settle()
    assert room.manager.next_due_ms() == room.clock.now_ms() + 1000
    room.clock.time_ms += 1000
    room.settle()
    assert room.manager.next_due_ms() == room.clock.now_ms() + 2000


def test_usage_follows_the_quota_rules() -> None:
    """scheduling/AS-8: requests count twice, limits of cpu and memory under limits., extended limits not at all"""
    pod_spec = yaml.safe_load(
        "containers: [{resources: {requests: {cpu: 500m, memory: 1Gi, e/x: 2}, limits: {cpu: 1, memory: 2Gi, e/y: 3}}},"
        "{resources: {requests: {cpu: 250m}}}]\n"
        "initContainers: [{resources: {requests: {cpu: 2}}}]\n"
        "overhead: {memory: 1Gi}"
    )
    assert usage.written(usage.of_pod(pod_spec)) == {
        "count/pods": "1",
        "cpu": "2",
        "e/x": "2",
        "limits.cpu": "1",
        "limits.memory": "3Gi",
        "memory": "2Gi",
        "pods": "1",
        "requests.cpu": "2",
        "requests.e/x": "2",
        "requests.memory": "2Gi",
    }


def test_content_of_the_wrong_type_is_as_if_it_were_absent() -> None:
    """One bad object never stops the others."""
    item = {"metadata": {"name": 3, "annotations": [], "ownerReferences": "x", "uid": "u"}, "spec": {"containers": "x"}}
    made = podgroups.desired(World(), item)
    assert spec(made)["minMember"] == 1


def test_an_automatic_group_that_is_lost_is_made_again(room: ControlRoom) -> None:
    """scheduling/AS-3: a restored server may have the annotation, and not what it names; nobody else's is made."""
    room.put(pod("lost", metadata=f"uid: u-1, annotations: {{{GROUP}: podgroup-u-1}}"))
    room.put(pod("named", metadata=f"uid: u-2, annotations: {{{GROUP}: podgroup-u-1}}"))
    room.put(
        pod("owned", metadata=f"uid: u-3, annotations: {{{GROUP}: podgroup-uid-rs}}, {owned_by('ReplicaSet', 'rs')}")
    )
    room.put(pod("ended", metadata=f"uid: u-4, annotations: {{{GROUP}: podgroup-u-4}}"))
    room.finish("ended", "Succeeded")
    room.settle()
    assert room.names(POD_GROUP) == ["podgroup-u-1"]
    assert room.one(POD_GROUP, "podgroup-u-1")["metadata"]["ownerReferences"][0]["uid"] == "u-1"
    room.delete(POD_GROUP, "podgroup-u-1")
    room.settle()
    assert room.names(POD_GROUP) == ["podgroup-u-1"]
