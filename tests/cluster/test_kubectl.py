"""Stock kubectl against the embedded cluster: every verb and form of output, on every kind that a file may hold."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.kube_wire import EmbeddedServer

POD = """
apiVersion: v1
kind: Pod
metadata: {name: first, labels: {app: lab}}
spec:
  schedulerName: volcano
  containers:
  - name: main
    image: none:1
    env: [{name: MODE, value: a}]
    resources: {limits: {volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 2000}}
"""
NODE = """
apiVersion: v1
kind: Node
metadata:
  name: gpu-01
  labels: {kubernetes.io/hostname: gpu-01}
  annotations: {volcano.sh/node-vgpu-register: 'GPU-0,10,8192,NVIDIA-RTX 3070 Ti,true,hami-core:'}
status:
  allocatable: {cpu: '32', memory: 128Gi, pods: '110', volcano.sh/vgpu-number: '10'}
  conditions: [{type: Ready, status: 'True'}]
"""
CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {key: value}
"""
NAMESPACE = """
apiVersion: v1
kind: Namespace
metadata: {name: team-a}
"""
PRIORITY_CLASS = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 1000
"""
QUOTA = """
apiVersion: v1
kind: ResourceQuota
metadata: {name: limits}
spec: {hard: {pods: 5}}
"""
QUEUE = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: lab}
spec: {weight: 2, capability: {volcano.sh/vgpu-memory: 6000}}
"""
POD_GROUP = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: gang}
spec: {minMember: 2, queue: lab}
"""
JOB = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: train}
spec:
  minAvailable: 2
  queue: lab
  tasks:
  - {name: worker, replicas: 2, template: {spec: {containers: [{name: main, image: none}]}}}
"""
REPLICA_SET = """
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: none}]}}
"""
#: What kubectl calls the resource, its object's name, a manifest.
KINDS = {
    "node": ("gpu-01", NODE), "pod": ("first", POD), "configmap": ("settings", CONFIG_MAP),
    "namespace": ("team-a", NAMESPACE), "priorityclass": ("high", PRIORITY_CLASS), "resourcequota": ("limits", QUOTA),
    "queue": ("lab", QUEUE), "podgroup": ("gang", POD_GROUP), "vcjob": ("train", JOB),
    "replicaset": ("web", REPLICA_SET),
}  # fmt: skip


class Kubectl:
    """Runs kubectl against one server."""

    def __init__(self, binary: str, address: str, home: Path) -> None:
        self._command = [binary, "--server", address]
        self._environment = {"PATH": os.environ["PATH"], "HOME": str(home), "KUBECONFIG": "/dev/null"}

    def run(self, *arguments: str, text: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        environment = {**self._environment, **more}
        return subprocess.run([*self._command, *arguments], input=text, env=environment, capture_output=True, text=True,
                              timeout=60, check=False)  # fmt: skip

    def __call__(self, *arguments: str, text: str = "", **more: str) -> str:
        """Run kubectl; return what it prints, fail if it fails."""
        done = self.run(*arguments, text=text, **more)
        assert done.returncode == 0, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout

    def fails(self, *arguments: str, text: str = "") -> str:
        """Run kubectl; return what it says on its way to failure."""
        done = self.run(*arguments, text=text)
        assert done.returncode != 0, f"kubectl {' '.join(arguments)}: {done.stdout}"
        return done.stderr

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json"))

    def watch(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*self._command, *arguments], env=self._environment, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)  # fmt: skip


@pytest.fixture
def kubectl(tmp_path: Path) -> Iterator[Kubectl]:
    """Stock kubectl, with a home of its own, and a fresh cluster."""
    binary = shutil.which("kubectl")
    if binary is None:
        if os.environ.get("CI") == "true":
            pytest.fail("kubectl is not there")
        pytest.skip("needs kubectl on the PATH")
    with EmbeddedServer() as server:
        yield Kubectl(binary, server.address, tmp_path)


@pytest.fixture
def filled(kubectl: Kubectl) -> Kubectl:
    """A cluster with one object of every kind."""
    kubectl("apply", "-f", "-", text="\n---\n".join(manifest for _, manifest in KINDS.values()))
    return kubectl


@pytest.mark.parametrize("kind", KINDS)
def test_apply_get_describe_patch_label_delete(kubectl: Kubectl, kind: str) -> None:
    name, manifest = KINDS[kind]
    created = kubectl("apply", "-f", "-", text=manifest)
    assert created.strip().endswith("created")
    assert name in kubectl("get", kind)
    assert name in kubectl("get", kind, name, "-o", "wide")
    assert yaml.safe_load(kubectl("get", kind, name, "-o", "yaml"))["metadata"]["name"] == name
    assert kubectl("get", kind, name, "-o", "jsonpath={.metadata.name}") == name
    assert kubectl("get", kind, "-o", "custom-columns=N:.metadata.name,U:.metadata.uid").split()[:2] == ["N", "U"]
    assert kubectl("get", kind, name, "-o", "name").strip().endswith(f"/{name}")
    assert kubectl("describe", kind, name).startswith("Name:")
    patch = json.dumps({"metadata": {"annotations": {"patched": "yes"}}})
    kubectl("patch", kind, name, "--type", "merge", "-p", patch)
    kubectl("patch", kind, name, "--type", "json", "-p",
            '[{"op": "add", "path": "/metadata/annotations/more", "value": "1"}]')  # fmt: skip
    kubectl("label", kind, name, "tier=lab")
    kubectl("annotate", kind, name, "note=x")
    assert name in kubectl("get", kind, "-l", "tier=lab", "--show-labels")
    assert name not in kubectl("get", kind, "-l", "tier!=lab")
    found = kubectl.json("get", kind, name)
    assert found["metadata"]["annotations"].items() >= {"patched": "yes", "more": "1", "note": "x"}.items()
    again = kubectl("apply", "-f", "-", text=manifest)
    assert again.strip().endswith(("unchanged", "configured"))
    assert kubectl.json("get", kind, name)["metadata"]["labels"]["tier"] == "lab"
    assert "deleted" in kubectl("delete", kind, name)
    assert "not found" in kubectl.fails("get", kind, name)


def test_apply_changes_and_removes_fields(filled: Kubectl) -> None:
    changed = CONFIG_MAP.replace("key: value", "other: value")
    assert filled("apply", "-f", "-", text=changed).strip() == "configmap/settings configured"
    assert filled.json("get", "cm", "settings")["data"] == {"other": "value"}
    filled("apply", "-f", "-", text=QUEUE.replace("weight: 2", "weight: 5"))
    assert filled.json("get", "queue", "lab")["spec"]["weight"] == 5
    filled("apply", "-f", "-", text=POD.replace("none:1", "none:2"))
    assert filled.json("get", "pod", "first")["spec"]["containers"][0]["image"] == "none:2"


def test_apply_validates(kubectl: Kubectl) -> None:
    assert 'unknown field "spec.container"' in kubectl.fails(
        "apply", "-f", "-", text=POD.replace("containers", "container")
    )
    assert 'unknown field "spec.wait"' in kubectl.fails("apply", "-f", "-", text=QUEUE.replace("weight", "wait"))
    assert "quantities must match" in kubectl.fails("apply", "-f", "-", text=POD.replace("2000", "lots"))
    assert "is invalid" in kubectl.fails("apply", "-f", "-", text=POD.replace("first", "First"))
    assert 'namespaces "nowhere" not found' in kubectl.fails("apply", "-n", "nowhere", "-f", "-", text=POD)


def test_apply_refuses_what_a_pod_may_not_change(filled: Kubectl) -> None:
    message = filled.fails("apply", "-f", "-", text=POD.replace("value: a", "value: b"))
    assert "pod updates may not change fields other than" in message


def test_server_side_apply_and_dry_run(kubectl: Kubectl) -> None:
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", text=CONFIG_MAP)
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", text=CONFIG_MAP)
    assert "server dry run" in kubectl("apply", "--dry-run=server", "-f", "-", text=POD)
    assert "not found" in kubectl.fails("get", "pod", "first")


def test_create_replace_and_diff(kubectl: Kubectl) -> None:
    kubectl("create", "-f", "-", text=POD)
    assert "AlreadyExists" in kubectl.fails("create", "-f", "-", text=POD)
    kubectl("create", "namespace", "team-b")
    kubectl("create", "configmap", "made", "--from-literal=a=b", "-n", "team-b")
    kubectl("create", "secret", "generic", "hidden", "--from-literal=p=q", "-n", "team-b")
    kubectl("create", "quota", "small", "--hard=pods=1,requests.volcano.sh/vgpu-number=2", "-n", "team-b")
    kubectl("create", "priorityclass", "low", "--value=-5")
    kubectl("create", "service", "clusterip", "svc", "--tcp=80:8080", "-n", "team-b")
    assert kubectl.json("get", "cm", "made", "-n", "team-b")["data"] == {"a": "b"}
    assert kubectl.json("get", "secret", "hidden", "-n", "team-b")["data"] == {"p": "cQ=="}
    assert kubectl.json("get", "quota", "small", "-n", "team-b")["status"]["used"] == {
        "pods": "0", "requests.volcano.sh/vgpu-number": "0",
    }  # fmt: skip
    assert kubectl.json("get", "pc", "low")["value"] == -5
    kubectl("apply", "-f", "-", text=CONFIG_MAP)
    kubectl("replace", "-f", "-", text=CONFIG_MAP.replace("value", "new"))
    assert kubectl.json("get", "cm", "settings")["data"] == {"key": "new"}
    assert "+  key: other" in kubectl.run("diff", "-f", "-", text=CONFIG_MAP.replace("value", "other")).stdout
    kubectl("delete", "namespace", "team-b")
    assert "not found" in kubectl.fails("get", "namespace", "team-b")


def test_edit(filled: Kubectl) -> None:
    filled("edit", "queue", "lab", KUBE_EDITOR="sed -i 's/weight: 2/weight: 7/'")
    assert filled.json("get", "queue", "lab")["spec"]["weight"] == 7
    filled("edit", "configmap", "settings", KUBE_EDITOR="sed -i 's/key: value/key: edited/'")
    assert filled.json("get", "cm", "settings")["data"] == {"key": "edited"}


def test_scale(filled: Kubectl) -> None:
    filled("scale", "replicaset", "web", "--replicas=5")
    assert filled("get", "rs", "web", "-o", "jsonpath={.spec.replicas}") == "5"
    assert "could not find the requested resource" in filled.fails("scale", "vcjob", "train", "--replicas=3")


def test_status_subresource(filled: Kubectl) -> None:
    filled(
        "patch", "podgroup", "gang", "--subresource=status", "--type=merge", "-p", '{"status": {"phase": "Inqueue"}}'
    )
    lines = filled("get", "podgroup").splitlines()
    assert lines[0].split() == ["NAME", "STATUS", "MINMEMBER", "RUNNINGS", "AGE", "QUEUE"]
    assert lines[1].split()[:3] == ["gang", "Inqueue", "2"]
    assert filled("get", "pod", "first", "--subresource=status", "-o", "jsonpath={.status.phase}") == "Pending"


def test_columns_of_the_batch_kinds(filled: Kubectl) -> None:
    assert filled("get", "vcjob").splitlines()[0].split() == [
        "NAME", "STATUS", "MINAVAILABLE", "RUNNINGS", "AGE", "QUEUE",
    ]  # fmt: skip
    assert filled("get", "queues").splitlines()[0].split()[:4] == ["NAME", "PARENT", "STATE", "WEIGHT"]
    assert filled("get", "pods", "-o", "wide").splitlines()[0].split()[:7] == [
        "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "NODE",
    ]  # fmt: skip


def test_selectors_sorting_and_namespaces(filled: Kubectl) -> None:
    assert filled("get", "pods", "-l", "app in (lab,x)", "-o", "name").strip() == "pod/first"
    assert (
        filled("get", "pods", "--field-selector", "spec.nodeName=,status.phase=Pending", "-o", "name").strip()
        == "pod/first"
    )
    assert "field label not supported" in filled.fails("get", "pods", "--field-selector", "spec.nothing=1")
    assert filled("get", "pods", "-A", "--sort-by=.metadata.name", "-o", "name").strip() == "pod/first"
    assert "first" in filled("get", "pods", "-L", "app", "--chunk-size=1")
    everything = filled("get", "all,nodes,cm,ns,pc,quota,q,pg,vcjob", "-o", "name").split()
    assert {"pod/first", "node/gpu-01", "queue.scheduling.volcano.sh/lab", "job.batch.volcano.sh/train"} <= set(
        everything
    )


def test_watch_prints_changes(filled: Kubectl) -> None:
    watching = filled.watch("get", "pods", "-w")
    try:
        assert watching.stdout is not None
        assert watching.stdout.readline().split()[0] == "NAME"
        assert watching.stdout.readline().split()[0] == "first"
        filled("apply", "-f", "-", text=POD.replace("first", "second"))
        assert watching.stdout.readline().split()[0] == "second"
        filled("delete", "pod", "first", "--wait=false")
        assert watching.stdout.readline().split()[0] == "first"
    finally:
        watching.kill()
        watching.communicate()


@pytest.mark.parametrize("kind", KINDS)
def test_watch_of_every_kind(kubectl: Kubectl, kind: str) -> None:
    name, manifest = KINDS[kind]
    watching = kubectl.watch("get", kind, "-w", "-o", "name")
    try:
        kubectl("apply", "-f", "-", text=manifest)
        assert watching.stdout is not None
        assert any(line.strip().endswith(f"/{name}") for line in iter(watching.stdout.readline, ""))
    finally:
        watching.kill()
        watching.communicate()


def test_wait(filled: Kubectl) -> None:
    filled("wait", "--for=jsonpath={.status.phase}=Pending", "pod/first", "--timeout=10s")
    filled("wait", "--for=condition=Ready", "node/gpu-01", "--timeout=10s")
    filled("delete", "pod", "first")
    filled("wait", "--for=delete", "pod/first", "--timeout=10s")


def test_nodes_are_cordoned_tainted_and_drained(filled: Kubectl) -> None:
    filled("cordon", "gpu-01")
    assert "Ready,SchedulingDisabled" in filled("get", "nodes")
    filled("uncordon", "gpu-01")
    filled("taint", "node", "gpu-01", "maintenance=yes:NoSchedule")
    assert filled.json("get", "node", "gpu-01")["spec"]["taints"][0]["key"] == "maintenance"
    filled("apply", "-f", "-", text=POD.replace("first", "placed").replace("spec:", "spec:\n  nodeName: gpu-01", 1))
    filled("delete", "pod", "placed", "--grace-period=0", "--force")
    filled("drain", "gpu-01", "--ignore-daemonsets", "--force")
    assert "placed" not in filled("get", "pods")


def test_quota_refuses(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", text=QUOTA.replace("pods: 5", "requests.volcano.sh/vgpu-number: 1"))
    kubectl("apply", "-f", "-", text=POD)
    message = kubectl.fails("apply", "-f", "-", text=POD.replace("first", "second"))
    assert (
        "exceeded quota: limits, requested: requests.volcano.sh/vgpu-number=1, used: requests.volcano.sh/vgpu-number=1"
        in message
    )
    assert "1/1" in kubectl("get", "quota")


def test_delete_variants(filled: Kubectl) -> None:
    filled("delete", "rs", "web", "--cascade=orphan")
    filled("delete", "pods", "-l", "app=lab")
    filled("delete", "queue", "lab", "--wait=false")
    filled("delete", "cm", "--all")
    assert "not found" in filled.fails("delete", "cm", "settings")
    filled("delete", "cm", "settings", "--ignore-not-found")
    filled("delete", "podgroup", "gang", "--cascade=foreground")
    assert "gang" not in filled("get", "pg")


def test_logs_and_events(filled: Kubectl) -> None:
    assert "does not have a host assigned" in filled.fails("logs", "first")
    event = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "first.1"}, "type": "Warning",
        "reason": "FailedScheduling",
        "message": "not enough gpu fitted", "count": 1, "lastTimestamp": "2026-01-01T00:00:00Z",
        "involvedObject": {"apiVersion": "v1", "kind": "Pod", "name": "first", "namespace": "default",
                           "uid": filled("get", "pod", "first", "-o", "jsonpath={.metadata.uid}")},
    }  # fmt: skip
    filled("create", "-f", "-", text=json.dumps(event))
    assert "not enough gpu fitted" in filled("get", "events")
    assert "not enough gpu fitted" in filled("describe", "pod", "first")
    assert "not enough gpu fitted" in filled("events", "--for", "pod/first")


def test_discovery_explain_and_version(filled: Kubectl) -> None:
    resources = filled("api-resources", "-o", "wide")
    assert all(word in resources for word in ("podgroups", "queues", "vcjob", "priorityclasses", "resourcequotas"))
    assert "scheduling.volcano.sh/v1beta1" in filled("api-versions")
    assert "minMember" in filled("explain", "podgroup.spec")
    assert "containers" in filled("explain", "pod.spec")
    assert "tasks" in filled("explain", "vcjob.spec")
    assert "capability" in filled("explain", "queue.spec", "--recursive")
    assert "v1.32" in filled("version")
    assert "is running at" in filled("cluster-info")
    assert filled("get", "--raw", "/readyz") == "ok"
