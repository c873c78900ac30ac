"""Writing, of any API server: create, update, the kinds of patch, delete, dry run.

It is asked of the embedded cluster and of a real kube-apiserver; where the two differ, the embedded one is wrong.
"""

from __future__ import annotations

from typing import Any

import pytest
from support.kube_objects import config, maps, pod, pods
from support.kube_wire import APPLY, JSON_PATCH, MERGE, STRATEGIC, Kube

# Create and get.


def test_create_fills_in_what_the_server_owns(kube: Kube, space: str) -> None:
    body = config("a", k="v")
    body["metadata"] |= {"uid": "mine", "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
    made = kube.ok("POST", maps(space), body)
    assert made["metadata"]["namespace"] == space
    assert made["metadata"]["uid"] not in ("", "mine")
    assert not made["metadata"]["creationTimestamp"].startswith("2001")
    assert int(made["metadata"]["resourceVersion"]) > 0
    assert kube.ok("GET", maps(space, "a"))["data"] == {"k": "v"}


def test_create_answers_201_and_repeats_are_409(kube: Kube, space: str) -> None:
    assert kube.ask("POST", maps(space), config("a"))[0] == 201
    assert kube.refused("POST", maps(space), config("a")) == (409, "AlreadyExists", 'configmaps "a" already exists')


def test_generate_name(kube: Kube, space: str) -> None:
    body = {"metadata": {"generateName": "run-"}}
    names = {kube.ok("POST", maps(space), body)["metadata"]["name"] for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("run-") and len(name) == 9 for name in names)


def test_what_is_not_there_is_404(kube: Kube, space: str) -> None:
    assert kube.refused("GET", maps(space, "no")) == (404, "NotFound", 'configmaps "no" not found')
    assert kube.refused("DELETE", maps(space, "no"))[:2] == (404, "NotFound")
    assert kube.refused("PUT", maps(space, "no"), config("no"))[:2] == (404, "NotFound")
    assert kube.refused("PATCH", maps(space, "no"), {}, MERGE)[:2] == (404, "NotFound")
    assert kube.send("GET", "/api/v1/widgets")[0] == 404
    assert kube.send("GET", "/apis/no.such/v1/widgets")[0] == 404


def test_details_of_a_refusal_name_the_object(kube: Kube, space: str) -> None:
    _, answer = kube.ask("GET", maps(space, "no"))
    assert answer["details"] == {"name": "no", "kind": "configmaps"}
    _, answer = kube.ask("GET", "/apis/scheduling.k8s.io/v1/priorityclasses/no")
    assert answer["message"] == 'priorityclasses.scheduling.k8s.io "no" not found'
    assert answer["details"] == {"name": "no", "group": "scheduling.k8s.io", "kind": "priorityclasses"}


def test_a_namespace_must_exist(kube: Kube) -> None:
    assert kube.refused("POST", maps("nowhere"), config("a")) == (404, "NotFound", 'namespaces "nowhere" not found')


def test_methods_that_are_not_served_are_405(kube: Kube, space: str) -> None:
    assert kube.ask("PUT", maps(space), config("a"))[0] == 405
    assert kube.ask("POST", maps(space, "a"), config("a"))[0] == 405
    assert kube.ask("POST", "/api/v1/configmaps", config("a"))[0] == 405


@pytest.mark.parametrize("data", [b"{", b'{"a": NaN}', b"[1,", b"nonsense: ["])
def test_broken_bodies_are_400(kube: Kube, space: str, data: bytes) -> None:
    assert kube.send("POST", maps(space), data)[0] == 400


def test_unknown_media_types_are_415(kube: Kube, space: str) -> None:
    assert kube.send("POST", maps(space), b"{}", "text/csv")[0] == 415
    kube.ok("POST", maps(space), config("a"))
    assert kube.send("PATCH", maps(space, "a"), b"{}", "application/json")[0] == 415


def test_yaml_bodies_are_read(kube: Kube, space: str) -> None:
    data = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: v\n"
    assert kube.send("POST", maps(space), data, "application/yaml")[0] == 201
    assert kube.ok("GET", maps(space, "a"))["data"] == {"k": "v"}


def test_wrong_kinds_names_and_spaces_are_400(kube: Kube, space: str) -> None:
    assert kube.refused("POST", maps(space), pod("a"))[0] == 400
    elsewhere = {"metadata": {"name": "a", "namespace": "default"}}
    assert kube.refused("POST", maps(space), elsewhere)[0] == 400
    kube.ok("POST", maps(space), config("a"))
    assert kube.refused("PUT", maps(space, "a"), config("b"))[0] == 400


def test_wrong_types_are_400_and_name_the_field(kube: Kube, space: str) -> None:
    status, reason, message = kube.refused("POST", maps(space), {"metadata": {"name": "a"}, "data": {"k": 5}})
    assert (status, reason) == (400, "BadRequest")
    assert "data" in message


def test_invalid_names_are_422(kube: Kube, space: str) -> None:
    status, reason, message = kube.refused("POST", maps(space), config("Not_A_Name"))
    assert (status, reason) == (422, "Invalid")
    assert message.startswith('ConfigMap "Not_A_Name" is invalid: metadata.name: Invalid value: "Not_A_Name": ')
    _, answer = kube.ask("POST", maps(space), config("Not_A_Name"))
    assert answer["details"]["causes"][0]["field"] == "metadata.name"
    assert answer["details"]["causes"][0]["reason"] == "FieldValueInvalid"
    assert kube.refused("POST", maps(space), {"metadata": {}})[0] == 422


def test_strict_field_validation(kube: Kube, space: str) -> None:
    body = config("a") | {"dato": {}}
    status, _, message = kube.refused("POST", maps(space), body, fieldValidation="Strict")
    assert status == 400
    assert 'strict decoding error: unknown field "dato"' in message
    assert kube.ask("POST", maps(space), body, fieldValidation="Ignore")[0] == 201


# Dry run.


def test_dry_run_changes_nothing(kube: Kube, space: str) -> None:
    made = kube.ok("POST", maps(space), config("a", k="v"), dryRun="All")
    assert made["metadata"]["uid"]
    assert kube.ask("GET", maps(space, "a"))[0] == 404
    kube.ok("POST", maps(space), config("a", k="v"))
    changed = kube.ok("PATCH", maps(space, "a"), {"data": {"k": "w"}}, MERGE, dryRun="All")
    assert changed["data"] == {"k": "w"}
    kube.ok("DELETE", maps(space, "a"), dryRun="All")
    assert kube.ok("GET", maps(space, "a"))["data"] == {"k": "v"}
    assert kube.refused("POST", maps(space), config("b"), dryRun="Some")[0] in (400, 422)


# Update and conflicts.


def test_update_needs_the_version_it_saw(kube: Kube, space: str) -> None:
    first = kube.ok("POST", maps(space), config("a", k="1"))
    second = kube.ok("PUT", maps(space, "a"), {**first, "data": {"k": "2"}})
    assert int(second["metadata"]["resourceVersion"]) > int(first["metadata"]["resourceVersion"])
    assert second["metadata"]["uid"] == first["metadata"]["uid"]
    assert second["metadata"]["creationTimestamp"] == first["metadata"]["creationTimestamp"]
    assert kube.refused("PUT", maps(space, "a"), {**first, "data": {"k": "3"}}) == (
        409, "Conflict", 'Operation cannot be fulfilled on configmaps "a": the object has been modified; please apply '
        "your changes to the latest version and try again",
    )  # fmt: skip


def test_update_without_version_is_unconditional_for_core_kinds(kube: Kube, space: str) -> None:
    kube.ok("POST", maps(space), config("a", k="1"))
    assert kube.ok("PUT", maps(space, "a"), config("a", k="2"))["data"] == {"k": "2"}


def test_an_update_that_changes_nothing_writes_nothing(kube: Kube, space: str) -> None:
    first = kube.ok("POST", maps(space), config("a", k="1"))
    second = kube.ok("PUT", maps(space, "a"), first)
    assert second["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]


def test_another_uid_is_a_conflict(kube: Kube, space: str) -> None:
    first = kube.ok("POST", maps(space), config("a", k="1"))
    other = {**first, "metadata": {**first["metadata"], "uid": "11111111-1111-1111-1111-111111111111"}}
    status, reason, message = kube.refused("PUT", maps(space, "a"), other)
    assert (status, reason) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: 11111111-1111-1111-1111-111111111111" in message
    assert kube.refused("PATCH", maps(space, "a"), {"metadata": {"uid": "x"}}, MERGE)[:2] == (422, "Invalid")


# The kinds of patch.


def test_merge_patch(kube: Kube, space: str) -> None:
    kube.ok("POST", maps(space), config("a", k="1", gone="x"))
    patched = kube.ok("PATCH", maps(space, "a"), {"data": {"k": "2", "gone": None, "new": "y"}}, MERGE)
    assert patched["data"] == {"k": "2", "new": "y"}


def test_merge_patch_with_a_version_is_conditional(kube: Kube, space: str) -> None:
    first = kube.ok("POST", maps(space), config("a", k="1"))
    version = first["metadata"]["resourceVersion"]
    kube.ok("PATCH", maps(space, "a"), {"metadata": {"resourceVersion": version}, "data": {"k": "2"}}, MERGE)
    again = {"metadata": {"resourceVersion": version}, "data": {"k": "3"}}
    assert kube.refused("PATCH", maps(space, "a"), again, MERGE)[:2] == (409, "Conflict")


def test_json_patch(kube: Kube, space: str) -> None:
    body = config("a", k="2")
    body["metadata"]["annotations"] = {"x/y": "1"}
    kube.ok("POST", maps(space), body)
    operations = [
        {"op": "test", "path": "/data/k", "value": "2"},
        {"op": "replace", "path": "/data/k", "value": "3"},
        {"op": "copy", "from": "/metadata/annotations/x~1y", "path": "/data/copy"},
        {"op": "move", "from": "/data/copy", "path": "/data/moved"},
        {"op": "remove", "path": "/metadata/annotations/x~1y"},
        {"op": "add", "path": "/metadata/labels", "value": {"l": "1"}},
    ]
    patched = kube.ok("PATCH", maps(space, "a"), operations, JSON_PATCH)
    assert patched["data"] == {"k": "3", "moved": "1"}
    assert patched["metadata"]["labels"] == {"l": "1"}
    failing = [{"op": "test", "path": "/data/k", "value": "9"}]
    assert kube.refused("PATCH", maps(space, "a"), failing, JSON_PATCH)[:2] == (422, "Invalid")
    missing = [{"op": "remove", "path": "/data/none"}]
    assert kube.refused("PATCH", maps(space, "a"), missing, JSON_PATCH)[0] == 422
    assert kube.refused("PATCH", maps(space, "a"), {"op": "add"}, JSON_PATCH)[0] == 400


def test_strategic_merge_patch_merges_lists_by_key(kube: Kube, space: str) -> None:
    body = pod("a")
    body["spec"]["containers"].append({"name": "side", "image": "side:1"})
    kube.ok("POST", pods(space), body)
    change = {"spec": {"containers": [{"name": "side", "image": "side:2"}]}}
    patched = kube.ok("PATCH", pods(space, "a"), change, STRATEGIC)
    assert [(item["name"], item["image"]) for item in patched["spec"]["containers"]] == [
        ("main", "app:1"), ("side", "side:2"),
    ]  # fmt: skip


def test_strategic_merge_patch_of_conditions_and_finalizers(kube: Kube, space: str) -> None:
    kube.ok("POST", pods(space), pod("a"))
    conditions = [{"type": "One", "status": "True"}, {"type": "Two", "status": "True"}]
    kube.ok("PATCH", pods(space, "a", "status"), {"status": {"conditions": conditions}}, STRATEGIC)
    change = {"status": {"conditions": [{"type": "Two", "status": "False"}]}}
    patched = kube.ok("PATCH", pods(space, "a", "status"), change, STRATEGIC)
    found = {item["type"]: item["status"] for item in patched["status"]["conditions"]}
    assert (found["One"], found["Two"]) == ("True", "False")
    drop = {"status": {"conditions": [{"type": "One", "$patch": "delete"}]}}
    patched = kube.ok("PATCH", pods(space, "a", "status"), drop, STRATEGIC)
    assert "One" not in [item["type"] for item in patched["status"]["conditions"]]
    kube.ok("PATCH", pods(space, "a"), {"metadata": {"finalizers": ["x.example/a"]}}, STRATEGIC)
    patched = kube.ok("PATCH", pods(space, "a"), {"metadata": {"finalizers": ["x.example/b"]}}, STRATEGIC)
    assert sorted(patched["metadata"]["finalizers"]) == ["x.example/a", "x.example/b"]
    drop = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["x.example/a", "x.example/b"]}}
    assert not kube.ok("PATCH", pods(space, "a"), drop, STRATEGIC)["metadata"].get("finalizers")


def test_strategic_merge_patch_puts_what_is_new_first(kube: Kube, space: str) -> None:
    kube.ok("POST", pods(space), pod("a"))

    def patched(conditions: list[dict[str, str]], **more: Any) -> list[str]:
        body = {"status": {"conditions": conditions, **more}}
        found = kube.ok("PATCH", pods(space, "a", "status"), body, STRATEGIC)
        return [item["type"] for item in found["status"]["conditions"]]

    assert patched([{"type": "B", "status": "True"}, {"type": "A", "status": "True"}]) == ["B", "A"]
    assert patched([{"type": "C", "status": "True"}, {"type": "A", "status": "False"}]) == ["C", "B", "A"]
    order = {"$setElementOrder/conditions": [{"type": "A"}, {"type": "B"}, {"type": "C"}]}
    assert patched([{"type": "A", "status": "Unknown"}], **order) == ["A", "B", "C"]
    assert patched([{"$patch": "replace"}, {"type": "Z", "status": "True"}]) == ["Z"]


def test_finalizers_are_qualified(kube: Kube, space: str) -> None:
    kube.ok("POST", maps(space), config("a"))
    assert kube.refused("PATCH", maps(space, "a"), {"metadata": {"finalizers": ["mine"]}}, MERGE)[:2] == (
        422,
        "Invalid",
    )


def test_apply_patch_creates_and_merges(kube: Kube, space: str) -> None:
    body = config("a", k="1")
    assert kube.ask("PATCH", maps(space, "a"), body, APPLY, fieldManager="test")[0] == 201
    body["data"] = {"k": "2"}
    status, answer = kube.ask("PATCH", maps(space, "a"), body, APPLY, fieldManager="test")
    assert (status, answer["data"]) == (200, {"k": "2"})
    assert kube.ask("PATCH", maps(space, "a"), body, APPLY)[0] in (400, 422)


# Delete.


def test_delete_answers_with_a_status_and_is_final(kube: Kube, space: str) -> None:
    made = kube.ok("POST", maps(space), config("a"))
    answer = kube.ok("DELETE", maps(space, "a"))
    assert (answer["kind"], answer["status"]) == ("Status", "Success")
    assert answer["details"] == {"name": "a", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    assert kube.ask("GET", maps(space, "a"))[0] == 404


def test_delete_preconditions(kube: Kube, space: str) -> None:
    made = kube.ok("POST", maps(space), config("a"))
    for wanted in ({"uid": "other"}, {"resourceVersion": "1"}):
        options = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": wanted}
        assert kube.refused("DELETE", maps(space, "a"), options)[:2] == (409, "Conflict")
    right = {"uid": made["metadata"]["uid"], "resourceVersion": made["metadata"]["resourceVersion"]}
    kube.ok("DELETE", maps(space, "a"), {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": right})


def test_finalizers_hold_an_object(kube: Kube, space: str) -> None:
    body = config("a")
    body["metadata"]["finalizers"] = ["x.example/wait"]
    kube.ok("POST", maps(space), body)
    held = kube.ok("DELETE", maps(space, "a"))
    assert held["metadata"]["deletionTimestamp"]
    more = {"metadata": {"finalizers": ["x.example/wait", "x.example/more"]}}
    assert kube.refused("PATCH", maps(space, "a"), more, MERGE)[:2] == (422, "Invalid")
    kube.ok("PATCH", maps(space, "a"), {"metadata": {"finalizers": None}}, MERGE)
    assert kube.ask("GET", maps(space, "a"))[0] == 404


def test_a_pod_on_a_node_gets_its_grace(kube: Kube, space: str) -> None:
    body = pod("a")
    body["spec"] |= {"nodeName": "somewhere", "terminationGracePeriodSeconds": 7}
    kube.ok("POST", pods(space), body)
    ending = kube.ok("DELETE", pods(space, "a"))
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 7
    assert ending["metadata"]["deletionTimestamp"]
    assert kube.ask("GET", pods(space, "a"))[0] == 200
    kube.ok("DELETE", pods(space, "a"), {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
    assert kube.ask("GET", pods(space, "a"))[0] == 404


def test_a_pod_without_node_goes_at_once(kube: Kube, space: str) -> None:
    kube.ok("POST", pods(space), pod("a"))
    assert kube.ok("DELETE", pods(space, "a"))["metadata"]["name"] == "a"
    assert kube.ask("GET", pods(space, "a"))[0] == 404


def test_delete_collection_by_label(kube: Kube, space: str) -> None:
    for name, label in (("a", "x"), ("b", "y"), ("c", "x")):
        body = config(name)
        body["metadata"]["labels"] = {"l": label}
        kube.ok("POST", maps(space), body)
    kube.ok("DELETE", maps(space), labelSelector="l=x")
    names = [item["metadata"]["name"] for item in kube.ok("GET", maps(space))["items"]]
    assert "b" in names
    assert not {"a", "c"} & set(names)
