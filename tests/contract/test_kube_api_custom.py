"""Custom resources, of any API server.

It is asked of the embedded cluster and of a real kube-apiserver; where the two differ, the embedded one is wrong.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.kube_objects import QUEUES, columns, fresh, group, groups
from support.kube_wire import MERGE, STRATEGIC, TABLE, Kube

# Custom resources.


def test_custom_resources_are_defaulted_and_counted(volcano: Kube, space: str) -> None:
    made = volcano.ok("POST", groups(space), group("g", minMember=2) | {"status": {"phase": "Running"}})
    assert made["spec"] == {"minMember": 2, "queue": "default"}
    assert "status" not in made
    assert made["metadata"]["generation"] == 1
    changed = volcano.ok("PATCH", groups(space, "g"), {"spec": {"minMember": 3}}, MERGE)
    assert changed["metadata"]["generation"] == 2
    labelled = volcano.ok("PATCH", groups(space, "g"), {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert labelled["metadata"]["generation"] == 2
    name = fresh("queue")
    body = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": {}}
    spec = volcano.ok("POST", QUEUES, body)["spec"]
    wanted = {"weight": 1, "reclaimable": True, "priority": 0, "dequeueStrategy": "traverse"}
    assert {key: spec[key] for key in wanted} == wanted


def test_quantities_of_custom_resources_stay_as_written(volcano: Kube, space: str) -> None:
    amounts = {"volcano.sh/vgpu-memory": 6000, "cpu": "0.5", "memory": "1024Mi"}
    assert (
        volcano.ok("POST", groups(space), group("g", minMember=1, minResources=amounts))["spec"]["minResources"]
        == amounts
    )


def test_custom_resources_take_no_strategic_patch_and_no_blind_update(volcano: Kube, space: str) -> None:
    made = volcano.ok("POST", groups(space), group("g", minMember=1))
    assert volcano.refused("PATCH", groups(space, "g"), {}, STRATEGIC)[0] == 415
    status, reason, message = volcano.refused("PUT", groups(space, "g"), group("g", minMember=2))
    assert (status, reason) == (422, "Invalid")
    assert "must be specified for an update" in message
    made["spec"]["minMember"] = 2
    assert volcano.ok("PUT", groups(space, "g"), made)["spec"]["minMember"] == 2


def test_status_of_custom_resources(volcano: Kube, space: str) -> None:
    volcano.ok("POST", groups(space), group("g", minMember=1))
    change = {"status": {"phase": "Inqueue"}, "spec": {"minMember": 9}, "metadata": {"labels": {"a": "b"}}}
    written = volcano.ok("PATCH", groups(space, "g", "status"), change, MERGE)
    assert (written["status"], written["spec"]["minMember"]) == ({"phase": "Inqueue"}, 1)
    assert "labels" not in written["metadata"]
    assert written["metadata"]["generation"] == 1
    assert volcano.ok("PATCH", groups(space, "g"), {"status": None}, MERGE)["status"] == {"phase": "Inqueue"}


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"minMember": "two"}, "spec.minMember"), ({"minMember": -1}, "spec.minMember"), ({"queue": 5}, "spec.queue"),
        ({"minResources": {"cpu": "lots"}}, "spec.minResources"), ({"minResources": []}, "spec.minResources"),
    ],
)  # fmt: skip
def test_wrong_custom_resources_are_422(volcano: Kube, space: str, spec: dict[str, Any], field: str) -> None:
    status, answer = volcano.ask("POST", groups(space), group("g", **spec))
    assert (status, answer["reason"]) == (422, "Invalid")
    assert answer["details"]["causes"][0]["field"].startswith(field)


def test_tables_of_custom_resources(volcano: Kube, space: str) -> None:
    jobs = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{space}/jobs"
    volcano.ok("POST", groups(space), group("g", minMember=2))
    wanted = {
        groups(space): ["Name", "STATUS", "minMember", "RUNNINGS", "AGE", "QUEUE"],
        jobs: ["Name", "STATUS", "minAvailable", "RUNNINGS", "AGE", "QUEUE"],
        QUEUES: ["Name", "PARENT", "STATE", "WEIGHT", "INQUEUE", "PENDING", "RUNNING", "UNKNOWN", "AGE"],
    }
    assert {path: columns(volcano.ask("GET", path, accept=TABLE)[1]) for path in wanted} == wanted
    row = volcano.ask("GET", groups(space), accept=TABLE)[1]["rows"][0]["cells"]
    assert (row[0], row[1], row[2], row[5]) == ("g", None, 2, "default")


def test_items_of_custom_lists_carry_their_type(volcano: Kube, space: str) -> None:
    volcano.ok("POST", groups(space), group("g", minMember=1))
    found = volcano.ok("GET", groups(space))
    assert (found["kind"], found["items"][0]["kind"]) == ("PodGroupList", "PodGroup")


def test_custom_watch(volcano: Kube, space: str) -> None:
    version = volcano.ok("GET", groups(space))["metadata"]["resourceVersion"]
    with volcano.watch(groups(space), resourceVersion=version) as watch:
        volcano.ok("POST", groups(space), group("g", minMember=1))
        volcano.ok("DELETE", groups(space, "g"))
        assert watch.take(2) == [("ADDED", "g"), ("DELETED", "g")]


def test_commands(volcano: Kube, space: str) -> None:
    """scheduling/E-11: no spec, no status; a name made up by the server; what is missing is named"""
    path = f"/apis/bus.volcano.sh/v1alpha1/namespaces/{space}/commands"
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    body = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": {"generateName": "j-abortjob-"}}
    made = volcano.ok("POST", path, body | {"action": "AbortJob", "target": target})
    assert made["metadata"]["name"].startswith("j-abortjob-")
    assert (made["action"], made["target"]) == ("AbortJob", target)
    assert {"spec", "status"} & made.keys() == set()
    assert columns(volcano.ask("GET", path, accept=TABLE)[1]) == ["Name", "ACTION", "TARGET", "AGE"]
    status, answer = volcano.ask("POST", path, body | {"target": {"kind": "Job", "name": "j"}})
    assert (status, answer["reason"]) == (422, "Invalid")
    causes = answer["details"]["causes"]
    assert sorted(cause["field"] for cause in causes) == ["action", "target.apiVersion", "target.uid"]
    assert {cause["reason"] for cause in causes} == {"FieldValueRequired"}
    volcano.ok("DELETE", f"{path}/{made['metadata']['name']}", {"preconditions": {"uid": made["metadata"]["uid"]}})
    assert volcano.ok("GET", path)["items"] == []
