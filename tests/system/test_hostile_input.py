"""Hostile input against one running system: each is refused or told of, and a plain pod is served after each.

The cases share one process on purpose: what an earlier one left behind must not stop a later one either.
"""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from system.updriver import COMMAND, LAB, PATIENCE_S, Up, audit, pod, pods_path, until

SCHEDULING = "/apis/scheduling.volcano.sh/v1beta1"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
CARD = "GPU-5f1c3a52-0b6e-4d5c-9c41-7a3070700001"
CONFIG = "/api/v1/namespaces/volcano-system/configmaps/volcano-scheduler-configmap"
RECORD = "volcano.sh/vgpu-ids-new"
GROUP = "scheduling.k8s.io/group-name"
MAX = 2**63 - 1

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    running = Up(tmp_path_factory.mktemp("hostile") / "data", "-f", str(LAB / "00-cluster.yaml"))
    yield running
    assert running.end(signal.SIGTERM) == 0
    errors = running.errors.read_text()
    assert "Traceback" not in errors, errors[-3000:]
    done = audit(running.data)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(autouse=True)
def a_plain_pod_is_served_afterwards(up: Up) -> Iterator[None]:
    yield
    up.ask("DELETE", pods_path())
    name = f"plain-{next(_numbers)}"
    assert up.ask("POST", pods_path(), pod(name))[0] == 201
    found = until(lambda: up.ask("GET", pods_path(name))[1], lambda item: item["status"].get("phase") == "Running")
    assert found["status"].get("phase") == "Running", found["status"]
    assert up.process.poll() is None
    assert until(up.ready, lambda text: text == "ok") == "ok"
    up.ask("DELETE", pods_path())


def events_of(up: Up, name: str, namespace: str = "default") -> str:
    items = up.ask("GET", f"/api/v1/namespaces/{namespace}/events")[1]["items"]
    return "\n".join(item["message"] for item in items if item["involvedObject"]["name"] == name)


def reason_of(up: Up, name: str) -> str:
    conditions = up.ask("GET", pods_path(name))[1]["status"].get("conditions", [])
    return "\n".join(item.get("message", "") for item in conditions if item["status"] == "False")


def told(look: Callable[[], str], words: str) -> None:
    assert words in until(look, lambda text: words in text)


@pytest.mark.parametrize(
    ("register", "words"),
    [
        ("GPU-n,-10,-8192,NVIDIA,true,hami-core:", 'card GPU-n: unreadable memory "-8192"'),
        ("GPU-h,10,9223372036854775807,NVIDIA,true,hami-core:", 'unreadable memory "9223372036854775807"'),
        ("GPU-x,NaN,inf,NVIDIA,true,hami-core:", 'unreadable share count "NaN"'),
        ("GPU-d,1,10,NVIDIA,true,hami-core:GPU-d,1,10,NVIDIA,true,hami-core:", "GPU-d is registered twice"),
        ("GPU-\x00\u202e\ud800,1,10,NVIDIA,true,hami-core:", ""),
        ("x" * 262_000, ""),
        ("".join(f"G{index},1,9,N,true,hami-core:" for index in range(8_000)), ""),
    ],
    ids=["negative", "huge", "nan", "twice", "odd-characters", "256KiB", "8000-cards"],
)
def test_a_node_that_registers_nonsense(up: Up, register: str, words: str) -> None:
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "nonsense", "annotations": {"volcano.sh/node-vgpu-register": register}},
        "status": {"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}},
    }
    assert up.ask("POST", "/api/v1/nodes", node)[0] == 201
    told(lambda: events_of(up, "nonsense"), words)
    assert up.ask("DELETE", "/api/v1/nodes/nonsense")[0] == 200


@pytest.mark.parametrize(
    "record",
    [":", f"{CARD},NVIDIA,{MAX},30:", f"{CARD},NVIDIA,-5,-30:", f"{CARD},NVIDIA,1e3,x:", "GPU-none,N,1,1:", "a,b",
     ";;;", "x" * 200_000, "\ud800,\x00,1,1:"],
)  # fmt: skip
def test_a_bound_pod_with_a_forged_allocation(up: Up, record: str) -> None:
    """devices/A-4b: its cards are not known, so its node takes no vGPU pod until it has gone."""
    notes = {RECORD: record, "volcano.sh/vgpu-node": "master-01", "volcano.sh/vgpu-time": "NaN"}
    forged = pod("forged", meta={"annotations": notes}, spec={"nodeName": "master-01"})
    assert up.ask("POST", pods_path(), forged)[0] == 201
    assert up.ask("POST", pods_path(), pod("beside", meta={"annotations": notes}))[0] == 201
    assert up.ask("GET", pods_path("beside"))[0] == 200


def test_memory_limits_of_the_largest_integer(up: Up) -> None:
    """They fit nowhere, several at once wrap nothing, and the queue's sums stay right."""
    for index in range(3):
        huge = pod(f"huge-{index}", MAX, more={"cpu": str(MAX), "memory": str(MAX)})
        assert up.ask("POST", pods_path(), huge)[0] == 201
    told(lambda: reason_of(up, "huge-0"), "insufficient")
    assert up.ask("GET", f"{SCHEDULING}/queues/default")[1]["status"].get("allocated", {}).get("cpu", "0") == "0"


@pytest.mark.parametrize("group", ["nowhere", "../../x", "a/b", "\x00", "x" * 5_000])
def test_a_pod_group_annotation_that_points_nowhere(up: Up, group: str) -> None:
    assert up.ask("POST", pods_path(), pod("lost", meta={"annotations": {GROUP: group}}))[0] == 201
    told(lambda: reason_of(up, "lost"), f"PodGroup default/{group} does not exist"[:900])


@pytest.mark.parametrize(
    ("path", "body", "words"),
    [
        ("podgroups", {"spec": {"minMember": 2**31}}, "2147483647"),
        ("podgroups", {"spec": {"minMember": -1}}, "spec.minMember"),
        ("podgroups", {"spec": {"queue": "nowhere"}}, "nowhere"),
        ("queues", {"spec": {"parent": "odd"}}, "itself"),
        ("queues", {"spec": {"weight": -1}}, "weight"),
        ("queues", {"spec": {"capability": {"cpu": "x"}}}, "capability[cpu]"),
    ],
)
def test_groups_and_queues_that_cannot_be(up: Up, path: str, body: dict[str, Any], words: str) -> None:
    kind = {"podgroups": "PodGroup", "queues": "Queue"}[path]
    where = f"{SCHEDULING}/namespaces/default/{path}" if kind == "PodGroup" else f"{SCHEDULING}/{path}"
    item = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": kind, "metadata": {"name": "odd"}, **body}
    status, answer = up.ask("POST", where, item)
    assert status in (403, 422)
    assert words in answer["message"]


def test_queues_in_a_circle(up: Up) -> None:
    """scheduling/Q-5: the patch that would close the circle is refused."""
    for name, parent in (("ring-a", "root"), ("ring-b", "ring-a")):
        item = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}}
        assert up.ask("POST", f"{SCHEDULING}/queues", {**item, "spec": {"parent": parent}})[0] == 201
    change = {"spec": {"parent": "ring-b"}}
    status, answer = up.ask("PATCH", f"{SCHEDULING}/queues/ring-a", change, "application/merge-patch+json")
    assert status == 403
    assert "ring-a" in answer["message"]


def job(*tasks: dict[str, Any], **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    full = [{"replicas": 1, "template": template, **task} for task in tasks]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "odd"},
        "spec": {"schedulerName": "volcano", "tasks": full, **spec},
    }


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (job({"name": "a", "dependsOn": {"name": ["b"]}}, {"name": "b", "dependsOn": {"name": ["a"]}}), "DAG"),
        (job({"name": "a"}, {"name": "a"}), "duplicated task name a"),
        (job({"name": "a"}, policies=[{"event": "Nonsense", "action": "Explode"}]), "Explode"),
        (job({"name": "a", "replicas": 2**31}), "replicas"),
        (job(), "No task"),
    ],
    ids=["circle", "twice", "policy", "replicas", "empty"],
)
def test_jobs_that_cannot_be(up: Up, body: dict[str, Any], words: str) -> None:
    status, answer = up.ask("POST", JOBS, body)
    assert status in (403, 422)
    assert words in answer["message"]


def test_a_job_of_many_pods_holds_up_nobody(up: Up) -> None:
    body = job({"name": "t", "replicas": 300}, minAvailable=300)
    body["spec"]["tasks"][0]["template"]["spec"]["containers"][0]["resources"] = {
        "limits": {"volcano.sh/vgpu-number": 1, "volcano.sh/vgpu-memory": 10}
    }
    assert up.ask("POST", JOBS, body)[0] == 201
    assert up.ask("POST", pods_path(), pod("beside"))[0] == 201
    found = until(lambda: up.ask("GET", pods_path("beside"))[1], lambda item: item["status"].get("phase") == "Running")
    assert found["status"]["phase"] == "Running"
    assert up.ask("DELETE", f"{JOBS}/odd")[0] == 200
    until(lambda: len(up.ask("GET", pods_path())[1]["items"]), lambda left: left < 2)


def test_owners_in_a_circle(up: Up) -> None:
    for name, owner in (("own-a", "own-b"), ("own-b", "own-a")):
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner, "uid": f"u-{owner}"}
        meta = {"name": name, "uid": f"u-{name}", "ownerReferences": [reference]}
        item = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
        assert up.ask("POST", "/api/v1/namespaces/default/configmaps", item)[0] == 201


@pytest.mark.parametrize("text", ["a: [", 'actions: "explode"\ntiers: []', "- 1", "\x00", "", "&a [*a]", "x" * 300_000])
def test_a_bad_scheduler_configuration(up: Up, text: str) -> None:
    """scheduling/CFG-6a: the last good one stays in force, and an event says why."""
    change = {"data": {"volcano-scheduler.conf": text}}
    assert up.ask("PATCH", CONFIG, change, "application/merge-patch+json")[0] == 200
    told(lambda: events_of(up, "volcano-scheduler-configmap", "volcano-system"), "the last good configuration stays")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"a":' * 100_000, 400),
        (b'{"metadata":{"name":"x"},"spec":' + b"[" * 50_000 + b"]" * 50_000 + b"}", 400),
        (json.dumps(pod("big", meta={"annotations": {"a": "x" * 4_000_000}})).encode(), 413),
        (b"\xff\xfe", 400),
        (b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"n"},"spec":{"priority":NaN}}', 400),
        (b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"n"},"spec":{"priority":' + b"9" * 5_000 + b"}}", 400),
        (b'{"apiVersion":"v1","kind":"Gizmo","metadata":{"name":"n"}}', 400),
        (json.dumps(pod("a", meta={"labels": {"a": 1}})).encode(), 400),
        (json.dumps(pod("a", meta={"annotations": "x"})).encode(), 400),
        (json.dumps(pod("a", meta={"labels": {"bad key!": "x"}})).encode(), 422),
        (json.dumps(pod("a", "-1")).encode(), 422),
        (json.dumps(pod("a", "NaN")).encode(), 400),
        (json.dumps(pod("a", "1.5")).encode(), 422),
        (json.dumps(pod("a", True)).encode(), 400),
    ],
    ids=["deep", "deep-list", "huge", "bytes", "nan", "digits", "kind", "label", "annotations", "key", "negative",
         "quantity", "fraction", "boolean"],
)  # fmt: skip
def test_bodies_that_are_no_pods(up: Up, body: bytes, status: int) -> None:
    found, answer = up.ask("POST", pods_path(), body)
    assert (found, answer["kind"]) == (status, "Status")
    assert answer["message"]


@pytest.mark.parametrize(("file", "code"), [("log.db", 2), ("cluster.db", 2)], ids=["log", "cluster"])
def test_a_damaged_file_is_named(tmp_path: Path, file: str, code: int) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / file).write_bytes(b"this is no database at all\n" * 500)
    before = (folder / file).read_bytes()
    done = subprocess.run(
        [COMMAND, "up", "--port", "0", "--data", str(folder)],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == code
    assert done.stderr.startswith(f"gpuledger: {folder / file}")
    assert "Traceback" not in done.stderr
    assert (folder / file).read_bytes() == before
