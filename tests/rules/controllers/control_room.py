"""A small embedded cluster with its controllers and node agents, and the scheduler's part played by hand."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import yaml

from adapters.clock import ManualClock
from events.canonical import Json
from events.kinds import EVENT, POD, POD_GROUP, QUEUE, VOLCANO_JOB, Kind, kind_of
from services.cluster.admission import admission_chain
from services.cluster.cluster import EmbeddedCluster
from services.cluster.nodeagent import NodeAgents
from services.cluster.store import derived_uid
from services.controller.jobs.plugins import KeyPair
from services.controller.manager import ControllerManager
from services.controller.routes import Switches

START_MS = 1_767_225_600_000
NS = "lab"


class ControlRoom:
    """One cluster; ``settle`` steps controllers and agents until nothing is left to do."""

    def __init__(self, switches: Switches | None = None, *, admission: bool = True) -> None:
        self.clock = ManualClock(START_MS)
        self.cluster = EmbeddedCluster(self.clock, derived_uid, admission=admission_chain() if admission else ())
        self.api = self.cluster.direct("test")
        self.agents = NodeAgents(self.cluster.direct("agents"), self.clock, ends="evicted")
        self.switches = switches
        self.manager = self.new_manager()
        for name in (NS, "other"):
            self.cluster.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.cluster.put({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "a"}, "status": {}})

    def new_manager(self) -> ControllerManager:
        return ControllerManager(
            self.cluster.direct("controller"),
            self.clock,
            self.switches,
            keys=lambda uid: KeyPair("private", f"public {uid}"),
            grace_s=0,
        )

    def restart(self) -> None:
        self.manager = self.new_manager()

    def settle(self, turns: int = 200) -> None:
        asyncio.run(self._settle(turns))

    async def _settle(self, turns: int) -> None:
        for _ in range(turns):
            moved = await self.manager.step()
            if not await self.agents.step() and not moved:
                return
        raise AssertionError("the controllers do not come to rest")

    def apply(self, text: str) -> list[Json]:
        """Send YAML documents through the front door."""
        return [self._apply(item) for item in yaml.safe_load_all(text) if item]

    def _apply(self, item: Json) -> Json:
        kind = kind_of(item["apiVersion"], item["kind"])
        assert kind is not None
        return self.api.apply(kind, item)

    def put(self, text: str) -> None:
        """Put YAML documents into the cluster as written."""
        for item in yaml.safe_load_all(text):
            if item:
                self.cluster.put(item)

    def get(self, kind: Kind, name: str, namespace: str = NS) -> Json | None:
        return self.cluster.store.get(kind, namespace if kind.namespaced else "", name)

    def one(self, kind: Kind, name: str, namespace: str = NS) -> Json:
        found = self.get(kind, name, namespace)
        assert found is not None, f"{kind.name} {name} is not there"
        return copy.deepcopy(found)

    def names(self, kind: Kind) -> list[str]:
        return [item["metadata"]["name"] for item in self.cluster.store.items(kind)]

    def patch(self, kind: Kind, name: str, merge: Json, subresource: str = "", namespace: str = NS) -> Json:
        return asyncio.run(self.api.patch(kind, namespace if kind.namespaced else "", name, merge, subresource))

    def delete(self, kind: Kind, name: str, namespace: str = NS) -> None:
        asyncio.run(self.api.delete(kind, namespace if kind.namespaced else "", name, grace_s=0))

    def admit_groups(self, phase: str = "Inqueue") -> None:
        for group in self.cluster.store.items(POD_GROUP):
            if group["spec"].get("queue"):
                self.phase_of_group(group["metadata"]["name"], phase)
        self.settle()

    def phase_of_group(self, name: str, phase: str) -> None:
        self.patch(POD_GROUP, name, {"status": {"phase": phase}}, "status")

    def bind_all(self, node: str = "a") -> None:
        for pod in self.cluster.store.items(POD):
            if not pod["spec"].get("nodeName"):
                self.bind(pod["metadata"]["name"], node)
        self.settle()

    def bind(self, name: str, node: str = "a", notes: dict[str, str] | None = None) -> None:
        binding: Json = {
            "metadata": {"name": name, "annotations": notes or {}},
            "target": {"kind": "Node", "name": node},
        }
        asyncio.run(self.api.bind(NS, name, binding))

    def finish(self, name: str, phase: str, exit_code: int | None = None) -> None:
        status: Json = {"phase": phase}
        if exit_code is not None:
            status["containerStatuses"] = [{"name": "c", "state": {"terminated": {"exitCode": exit_code}}}]
        self.patch(POD, name, {"status": status}, "status")
        self.settle()

    def run_job(self, text: str) -> Json:
        """Apply a job, admit it, and let all its pods run; return the job."""
        (job,) = self.apply(text)
        self.settle()
        self.admit_groups()
        self.bind_all()
        return self.job(job["metadata"]["name"])

    def job(self, name: str) -> Json:
        return self.one(VOLCANO_JOB, name)

    def phase(self, name: str) -> Any:
        return self.job(name)["status"]["state"]["phase"]

    def queue(self, name: str) -> Json:
        return self.one(QUEUE, name)

    def events(self, reason: str) -> list[str]:
        return [event["message"] for event in self.cluster.store.items(EVENT) if event["reason"] == reason]


def job(name: str = "j", *, spec: str = "", tasks: str = "", metadata: str = "") -> str:
    """Return a VolcanoJob as YAML; ``tasks`` and ``spec`` are flow mappings' inner text."""
    body = tasks or "{name: w, replicas: 2, template: " + TEMPLATE + "}"
    return (
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\n"
        f"metadata: {{name: {name}, namespace: {NS}{', ' + metadata if metadata else ''}}}\n"
        f"spec: {{{spec + ', ' if spec else ''}tasks: [{body}]}}\n"
    )


TEMPLATE = "{spec: {restartPolicy: Never, containers: [{name: c, image: none}]}}"


def pod(name: str = "p", *, metadata: str = "", spec: str = "") -> str:
    """Return a pod of ours as YAML."""
    return (
        "apiVersion: v1\nkind: Pod\n"
        f"metadata: {{name: {name}, namespace: {NS}{', ' + metadata if metadata else ''}}}\n"
        "spec: {schedulerName: volcano, "
        f"{spec + ', ' if spec else ''}containers: [{{name: c, image: none, resources: "
        "{limits: {volcano.sh/vgpu-number: 1, volcano.sh/vgpu-memory: 3000}}}]}\n"
    )


def queue(name: str, spec: str = "", status: str = "") -> str:
    """Return a queue as YAML."""
    tail = f"status: {{{status}}}\n" if status else ""
    return (
        f"apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n{tail}"
    )
