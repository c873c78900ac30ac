"""The API servers that the contract is asked of: the embedded cluster, and a real kube-apiserver if one can be had."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from parts.kube import TOKEN, KubeApiServer
from support.kube_objects import QUEUES, fresh
from support.kube_wire import EmbeddedServer, Kube

CUSTOM = (
    "/apis/scheduling.volcano.sh/v1beta1/podgroups",
    "/apis/batch.volcano.sh/v1alpha1/jobs",
    "/apis/bus.volcano.sh/v1alpha1/commands",
)
CRDS = Path(__file__).parents[2] / "deploy" / "crds"


@pytest.fixture(scope="session", params=["embedded", "real"])
def kube(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kube]:
    """Each API server in turn."""
    if request.param == "embedded":
        with EmbeddedServer() as server:
            yield Kube(server.address)
        return
    real = KubeApiServer(Path(tmp_path_factory.mktemp("kube")))
    asyncio.run(real.start())
    try:
        yield Kube(real.address, TOKEN)
    finally:
        real.stop()


@pytest.fixture
def space(kube: Kube) -> str:
    """A fresh namespace."""
    name = fresh("space")
    kube.ok("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    return name


@pytest.fixture(scope="session")
def volcano(kube: Kube) -> Kube:
    """The server with the custom resources of the batch system; a real one is given their definitions."""
    if kube.send("GET", QUEUES)[0] == 200:
        return kube
    for path in sorted(CRDS.glob("*.yaml")):
        body = yaml.safe_load(path.read_text())
        kube.ok("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", body)
    for path in (QUEUES, *CUSTOM):
        for _ in range(2000):
            if kube.send("GET", path)[0] == 200:
                break
    return kube
