"""Least privilege: each service is granted exactly the verbs that it uses (docs/threat-model.md).

The services run in the simulation; every request to the API server is noted with who made it. What is used must be
granted; what is granted must be used, or be listed here with the reason why these scenarios do not show it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from services.cluster.api import EmbeddedApi
from services.cluster.routes import Request, target_of
from services.controller.manager import ControllerManager
from services.controller.routes import Switches
from services.simulator.run import play_all
from services.simulator.scenario import read_plays

_ROOT = Path(__file__).parents[3]
_SCENARIOS = _ROOT / "tests" / "scenarios"
_PLAYED = (
    "oracle/102-gang-fits.yaml",
    "oracle/820-preempt-one-of-four.yaml",
    "field/F52-copied-manifest-carries-a-record.yaml",
    "field/F60-stale-node-lock.yaml",
    "field/F62-first-node-refuses.yaml",
    "field/F75-missing-queue.yaml",
    "own/scheduling-A-9-closed-queue.yaml",
)
_VERB = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_WITH_PLUGINS = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: mpi, namespace: team-a, uid: mpi-uid}
spec:
  schedulerName: gpuledger
  minAvailable: 1
  plugins: {svc: [], ssh: [], env: []}
  tasks:
  - {name: w, replicas: 1, template: {spec: {containers: [{name: c, image: none}]}}}
---
apiVersion: bus.volcano.sh/v1alpha1
kind: Command
metadata: {name: mpi-syncjob, namespace: team-a}
action: SyncJob
target: {apiVersion: batch.volcano.sh/v1alpha1, kind: Job, name: mpi, uid: mpi-uid}
"""
#: Granted though these scenarios do not use it.
_UNSEEN = {
    ("binder", "", "events", "get"): "an event that is there already is counted up",
    ("binder", "", "events", "patch"): "an event that is there already is counted up",
    ("binder", "scheduling.volcano.sh", "podgroups", "get"): "a status that somebody else wrote to meanwhile",
    ("binder", "", "persistentvolumeclaims", "get"): "volumes that wait for their first consumer (scheduling/F-3)",
    ("binder", "", "persistentvolumeclaims", "patch"): "volumes that wait for their first consumer (scheduling/F-3)",
    ("controller", "", "events", "get"): "an event that is there already is counted up",
    ("controller", "", "events", "patch"): "an event that is there already is counted up",
    ("controller", "", "persistentvolumeclaims", "get"): "a claim that is there already",
    ("controller", "", "persistentvolumeclaims", "create"): "VolcanoJobs with volume claim templates",
    ("controller", "", "pods", "get"): "a pod that is there already",
    ("controller", "", "pods/status", "patch"): "a pod whose PodGroup was refused (scheduling/AS-13a)",
    ("controller", "", "configmaps", "get"): "one that is there already",
    ("controller", "", "secrets", "get"): "one that is there already",
    ("controller", "", "services", "get"): "one that is there already",
    ("controller", "networking.k8s.io", "networkpolicies", "get"): "one that is there already",
    ("controller", "scheduling.volcano.sh", "podgroups", "get"): "one that is there already",
    ("controller", "scheduling.volcano.sh", "podgroups", "patch"): "kept in line with its job (scheduling/J-4)",
    ("controller", "scheduling.volcano.sh", "podgroups", "delete"): "whole-job kills (scheduling/J-13)",
    ("controller", "scheduling.volcano.sh", "queues", "get"): "one that is there already",
    ("controller", "scheduling.volcano.sh", "queues", "create"): "root and default, where missing (scheduling/Q-2)",
    ("controller", "scheduling.volcano.sh", "queues", "patch"): "children of a closed queue (scheduling/Q-3)",
    ("controller", "", "pods", "delete"): "policies of jobs (scheduling/J-12)",
}

Use = tuple[str, str, str, str]


def _without_garbage(begin: Callable[..., None]) -> Callable[..., None]:
    def begin_so(self: ControllerManager, *arguments: Any, **named: Any) -> None:
        begin(self, *arguments, **{**named, "switches": Switches(garbage=False)})

    return begin_so


def granted(service: str) -> set[Use]:
    documents = yaml.safe_load_all((_ROOT / "deploy" / "rbac" / f"{service}.yaml").read_text())
    rules = next(document for document in documents if document["kind"] == "ClusterRole")["rules"]
    return {
        (service, group, resource, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.fixture
def used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, set[Use]]:
    """Play the scenarios with controllers as on a real cluster (its own garbage collector runs there)."""
    found: dict[str, set[Use]] = defaultdict(set)
    handle, watch = EmbeddedApi.handle, EmbeddedApi.watch

    def note(request: Request, verb: str) -> None:
        target = target_of(request.path)
        resource = f"{target.kind.plural}/{target.subresource}" if target.subresource else target.kind.plural
        found[request.client].add((request.client, target.kind.group, resource, verb))

    def noted_handle(self: EmbeddedApi, request: Request) -> Any:
        named = target_of(request.path).name
        note(request, _VERB.get(request.method) or ("get" if named else "list"))
        return handle(self, request)

    def noted_watch(self: EmbeddedApi, request: Request) -> Any:
        note(request, "watch")
        return watch(self, request)

    monkeypatch.setattr(EmbeddedApi, "handle", noted_handle)
    monkeypatch.setattr(EmbeddedApi, "watch", noted_watch)
    monkeypatch.setattr(ControllerManager, "__init__", _without_garbage(ControllerManager.__init__))
    job = tmp_path / "job.yaml"
    job.write_text(_WITH_PLUGINS)
    files = [str(_SCENARIOS / name) for name in _PLAYED] + [str(job)]
    result = asyncio.run(play_all(read_plays(files, together=False), output="table", seed=0))
    assert result.code == 0, result.problems
    return found


def test_what_is_used_is_granted_and_nothing_else(used: dict[str, set[Use]]) -> None:
    for service in ("watcher", "binder", "controller"):
        assert not used[service] - granted(service), f"{service} uses what it is not granted"
        idle = granted(service) - used[service] - set(_UNSEEN)
        assert not idle, f"{service} is granted what it does not use"
        assert not used[service] & set(_UNSEEN), "what is used needs no excuse"


def test_only_the_binder_binds_and_the_watcher_writes_nothing() -> None:
    binding = ("", "pods/binding", "create")
    assert [name for name in ("watcher", "scheduler", "binder", "controller") if (name, *binding) in granted(name)] == [
        "binder"
    ]
    assert {verb for *_, verb in granted("watcher")} == {"list", "watch"}
    assert granted("scheduler") == {("scheduler", "coordination.k8s.io", "leases", "get")}


def test_nobody_but_the_controller_touches_secrets_and_nobody_lists_them() -> None:
    for service in ("watcher", "scheduler", "binder", "controller"):
        verbs = {verb for _, _, resource, verb in granted(service) if resource == "secrets"}
        assert verbs == ({"get", "create"} if service == "controller" else set())
