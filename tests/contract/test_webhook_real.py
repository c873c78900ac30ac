"""The admission webhook before a real kube-apiserver, with the manifests that are delivered (scheduling/J-1 to J-3)."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from parts.kube import TOKEN, KubeApiServer
from support.kube_objects import QUEUES, groups, pods
from support.kube_wire import MERGE, Kube

from adapters.cluster.http import KubernetesApi, kubeconfig_configuration
from services.controller.webhook import Certificates, serve

ROOT = Path(__file__).parents[2]
HOOKS = "/apis/admissionregistration.k8s.io/v1"
JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
QUEUE = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}


class Served:
    """The webhook on a thread of its own, with a certificate of its own."""

    def __init__(self, home: Path, kubeconfig: Path) -> None:
        self.cert, key = home / "tls.crt", home / "tls.key"
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=webhook",
             "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(self.cert)],
            check=True, capture_output=True,
        )  # fmt: skip
        self._certificates, self._kubeconfig = Certificates(str(self.cert), str(key)), kubeconfig
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self._api, self._end, self.port = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(30)

    async def _start(self) -> tuple[KubernetesApi, Any, int]:
        api = await KubernetesApi.connect(kubeconfig_configuration(str(self._kubeconfig)))
        end, port = await serve(api, "127.0.0.1", 0, self._certificates, check_allocated_pods=True)
        return api, end, port

    async def _stop(self) -> None:
        await self._end()
        await self._api.close()

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="module")
def kube(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kube]:
    """A real API server with the custom resources, the queues root and default, and the webhook before it."""
    home = Path(tmp_path_factory.mktemp("webhook"))
    server = KubeApiServer(home / "kube")
    asyncio.run(server.start())
    served = None
    try:
        client = Kube(server.address, TOKEN)
        for path in sorted((ROOT / "deploy" / "crds").glob("*.yaml")):
            client.ok(
                "POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(path.read_text())
            )
        for path in (QUEUES, groups("default"), JOBS):
            _until(client, "GET", path, None, 200)
        served = Served(home, server.kubeconfig)
        _configure(client, served)
        _until(
            client, "POST", f"{QUEUES}?dryRun=All", {**QUEUE, "metadata": {"name": "t"}, "spec": {"weight": 70000}}, 403
        )
        for name in ("root", "default"):
            client.ok("POST", QUEUES, {**QUEUE, "metadata": {"name": name}, "spec": {}})
        yield client
    finally:
        server.stop()  # first, so that it leaves no connection to the webhook open
        if served is not None:
            served.close()


def _until(client: Kube, method: str, path: str, body: Any, status: int) -> None:
    for _ in range(3000):
        found = client.ask(method, path, body)[0]
        if found == status:
            return
    raise AssertionError(f"{method} {path}: {found}")


def _configure(client: Kube, served: Served) -> None:
    """The manifests as they are, but for where the webhook is."""
    bundle = base64.b64encode(served.cert.read_bytes()).decode()
    for document in yaml.safe_load_all((ROOT / "deploy" / "admission" / "webhook.yaml").read_text()):
        kind = document["kind"]
        if not kind.endswith("WebhookConfiguration"):
            continue
        for hook in document["webhooks"]:
            where = hook["clientConfig"]["service"]["path"]
            hook["clientConfig"] = {"url": f"https://127.0.0.1:{served.port}{where}", "caBundle": bundle}
        client.ok("POST", f"{HOOKS}/{kind.lower()}s", document)


def job(name: str, **spec: Any) -> dict[str, Any]:
    task = {"name": "w", "replicas": 2, "template": {"spec": {"containers": [{"name": "c", "image": "none"}]}}}
    body = {"tasks": [task], **spec}
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name}, "spec": body}


def group(name: str, **spec: Any) -> dict[str, Any]:
    api = "scheduling.volcano.sh/v1beta1"
    return {"apiVersion": api, "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {**QUEUE, "metadata": {"name": name}, "spec": spec}


def test_a_job_is_completed(kube: Kube) -> None:
    """scheduling/J-1"""
    spec = kube.ok("POST", JOBS, job("good"))["spec"]
    assert (spec["queue"], spec["minAvailable"], spec["maxRetry"]) == ("default", 2, 3)
    assert (spec["schedulerName"], spec["tasks"][0]["minAvailable"]) == ("gpuledger", 2)


def test_a_job_is_refused(kube: Kube) -> None:
    """scheduling/J-2: with the text that the embedded cluster has"""
    status, reason, message = kube.refused("POST", JOBS, job("bad", queue="none", minAvailable=5))
    assert (status, reason) == (403, "Forbidden")
    assert message == (
        "admission webhook \"mutate.gpuledger.io\" denied the request:  job 'minAvailable' should not be greater than "
        'total replicas in tasks; unable to find job queue: queues.scheduling.volcano.sh "none" not found;'
    )


def test_a_queue_that_closes_takes_nothing_from_then_on(kube: Kube) -> None:
    """scheduling/AS-13, J-2: what was just written counts"""
    kube.ok("POST", QUEUES, queue("shut"))
    kube.ok("POST", groups("default"), group("early", queue="shut"))
    kube.ok("PATCH", f"{QUEUES}/shut/status", {"status": {"state": "Closed"}}, MERGE)
    message = kube.refused("POST", groups("default"), group("late", queue="shut"))[2]
    assert message.endswith("can only submit PodGroup to queue with state `Open`, queue `shut` status is `Closed`.")
    message = kube.refused("POST", JOBS, job("late", queue="shut"))[2]
    assert message.endswith(" can only submit job to queue with state `Open`, queue `shut` status is `Closed`;")


def test_an_update_of_a_job(kube: Kube) -> None:
    """scheduling/J-3"""
    kube.ok("POST", JOBS, job("changing"))
    kube.ok("PATCH", f"{JOBS}/changing", {"spec": {"minAvailable": 1}}, MERGE)
    message = kube.refused("PATCH", f"{JOBS}/changing", {"spec": {"maxRetry": 9}}, MERGE)[2]
    assert "job updates may not change fields other than `minAvailable`" in message


def test_queues_fit_each_other(kube: Kube) -> None:
    """scheduling/Q-2, Q-5"""
    kube.ok("POST", QUEUES, queue("team", capability={"cpu": "4"}))
    assert kube.ok("GET", f"{QUEUES}/team")["spec"]["parent"] == "root"
    message = kube.refused("POST", QUEUES, queue("child", parent="team", capability={"cpu": "5"}))[2]
    assert message.endswith("queue child capability[cpu]=5 must be <= capability[cpu]=4 of its ancestor queue team")
    message = kube.refused("POST", QUEUES, queue("odd", deserved={"cpu": "1"}, guarantee={"resource": {"cpu": "2"}}))[2]
    assert message.endswith("deserved[cpu]=1 must be >= guarantee[cpu]=2")
    kube.ok("POST", QUEUES, queue("child", parent="team"))
    assert "it has 1 child queues: [child]" in kube.refused("DELETE", f"{QUEUES}/team")[2]
    assert "can not be deleted" in kube.refused("DELETE", f"{QUEUES}/default")[2]
    kube.ok("DELETE", f"{QUEUES}/child")


def test_a_closed_parent_keeps_its_children_closed(kube: Kube) -> None:
    """scheduling/Q-3: the status is judged too"""
    kube.ok("POST", QUEUES, queue("above"))
    kube.ok("POST", QUEUES, queue("below", parent="above"))
    for name in ("below", "above"):
        kube.ok("PATCH", f"{QUEUES}/{name}/status", {"status": {"state": "Closed"}}, MERGE)
    message = kube.refused("PATCH", f"{QUEUES}/below/status", {"status": {"state": "Open"}}, MERGE)[2]
    assert message.endswith("queue below cannot be opened: its parent queue above is Closed")


def test_disruption_budgets_of_pods(kube: Kube) -> None:
    """scheduling/AS-13: other pods are never asked about"""
    notes = {"volcano.sh/jdb-min-available": "1", "volcano.sh/jdb-max-unavailable": "1"}
    spec = {"schedulerName": "gpuledger", "containers": [{"name": "c", "image": "none"}]}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": notes}, "spec": spec}
    message = kube.refused("POST", pods("default"), body)[2]
    assert "not allow configure multiple annotations" in message
    body["metadata"] = {"name": "p"}
    kube.ok("POST", pods("default"), body)
