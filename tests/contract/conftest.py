"""The API servers that the contract is asked of: the embedded cluster, and a real kube-apiserver if one can be had."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from parts.kube import TOKEN, KubeApiServer
from support.kube_objects import fresh
from support.kube_wire import EmbeddedServer, Kube, with_crds


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
    return with_crds(kube)
