"""Deletions that take their time: namespaces, dependents, pods on nodes."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from adapters.clock import ManualClock
from adapters.cluster.port import ApiError
from events.kinds import CONFIG_MAP, NAMESPACE, POD, REPLICA_SET, RESOURCE_QUOTA, Kind
from services.cluster.cluster import EmbeddedCluster
from services.cluster.store import derived_uid

START_MS = 1_767_225_600_000


@pytest.fixture
def cluster() -> EmbeddedCluster:
    return EmbeddedCluster(ManualClock(START_MS), derived_uid)


def put(cluster: EmbeddedCluster, kind: Kind, name: str, namespace: str = "default", owner: str = "",
        **more: Any) -> dict[str, Any]:  # fmt: skip
    meta: dict[str, Any] = {"name": name, "uid": f"uid-{name}"}
    if kind.namespaced:
        meta["namespace"] = namespace
    if owner:
        meta["ownerReferences"] = [{"apiVersion": "v1", "kind": "X", "name": owner, "uid": f"uid-{owner}"}]
    return cluster.put({"apiVersion": kind.api_version, "kind": kind.name, "metadata": meta, **more})


def names(cluster: EmbeddedCluster, kind: Kind) -> list[str]:
    return [item["metadata"]["name"] for item in cluster.store.items(kind)]


async def test_a_namespace_goes_with_what_is_in_it(cluster: EmbeddedCluster) -> None:
    put(cluster, NAMESPACE, "team")
    put(cluster, CONFIG_MAP, "a", "team")
    put(cluster, POD, "waiting", "team", spec={})
    put(cluster, POD, "placed", "team", spec={"nodeName": "n"})
    api = cluster.direct()
    await api.delete(NAMESPACE, "", "team")
    assert names(cluster, CONFIG_MAP) == []
    assert names(cluster, POD) == ["placed"]
    ending = await api.get(NAMESPACE, "", "team")
    assert ending["status"]["phase"] == "Terminating"
    with pytest.raises(ApiError, match="because it is being terminated"):
        await api.create(CONFIG_MAP, {"metadata": {"name": "late", "namespace": "team"}})
    await api.delete(POD, "team", "placed", grace_s=0)
    assert "team" not in names(cluster, NAMESPACE)


async def test_the_own_namespaces_stay(cluster: EmbeddedCluster) -> None:
    with pytest.raises(ApiError, match="this namespace may not be deleted"):
        await cluster.direct().delete(NAMESPACE, "", "default")


async def test_foreground_waits_for_the_dependents(cluster: EmbeddedCluster) -> None:
    put(cluster, REPLICA_SET, "set")
    put(cluster, POD, "waiting", owner="set", spec={})
    put(cluster, POD, "placed", owner="set", spec={"nodeName": "n"})
    api = cluster.direct()
    await api.delete(REPLICA_SET, "default", "set", propagation="Foreground")
    assert names(cluster, REPLICA_SET) == ["set"]
    assert names(cluster, POD) == ["placed"]
    assert (await api.get(POD, "default", "placed"))["metadata"]["deletionTimestamp"]
    await api.delete(POD, "default", "placed", grace_s=0)
    assert names(cluster, REPLICA_SET) == []


async def test_foreground_without_dependents_is_at_once(cluster: EmbeddedCluster) -> None:
    put(cluster, REPLICA_SET, "set")
    await cluster.direct().delete(REPLICA_SET, "default", "set", propagation="Foreground")
    assert names(cluster, REPLICA_SET) == []


async def test_orphans_lose_their_owner_and_stay(cluster: EmbeddedCluster) -> None:
    put(cluster, REPLICA_SET, "set")
    put(cluster, POD, "kept", owner="set", spec={})
    api = cluster.direct()
    await api.delete(REPLICA_SET, "default", "set", propagation="Orphan")
    assert names(cluster, REPLICA_SET) == []
    assert "ownerReferences" not in (await api.get(POD, "default", "kept"))["metadata"]


async def test_background_leaves_dependents_to_the_controllers(cluster: EmbeddedCluster) -> None:
    put(cluster, REPLICA_SET, "set")
    put(cluster, POD, "left", owner="set", spec={})
    await cluster.direct().delete(REPLICA_SET, "default", "set")
    assert (names(cluster, REPLICA_SET), names(cluster, POD)) == ([], ["left"])


@pytest.mark.parametrize(("phase", "stays"), [("Running", True), ("Succeeded", False), ("Failed", False)])
async def test_grace_is_for_pods_that_live_on_a_node(cluster: EmbeddedCluster, phase: str, stays: bool) -> None:
    put(cluster, POD, "a", spec={"nodeName": "n"}, status={"phase": phase})
    await cluster.direct().delete(POD, "default", "a")
    assert names(cluster, POD) == (["a"] if stays else [])


async def test_a_shorter_grace_wins_and_a_longer_one_does_not(cluster: EmbeddedCluster) -> None:
    put(cluster, POD, "a", spec={"nodeName": "n"})
    api = cluster.direct()
    for grace_s, left_s in ((20, 20), (60, 20), (5, 5)):
        await api.delete(POD, "default", "a", grace_s=grace_s)
        assert (await api.get(POD, "default", "a"))["metadata"]["deletionGracePeriodSeconds"] == left_s


async def test_a_raw_terminating_pod_outlives_patches(cluster: EmbeddedCluster) -> None:
    put(cluster, POD, "a", spec={"nodeName": "n"})
    item = cluster.store.get(POD, "default", "a")
    assert item is not None
    cluster.replace({**item, "metadata": {**item["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}})
    await cluster.direct().patch(POD, "default", "a", {"metadata": {"labels": {"l": "1"}}})
    assert names(cluster, POD) == ["a"]


async def test_quota_follows_raw_writes_too(cluster: EmbeddedCluster) -> None:
    put(cluster, RESOURCE_QUOTA, "q", spec={"hard": {"pods": "3", "requests.volcano.sh/vgpu-memory": "10k"}})
    limits = {"volcano.sh/vgpu-memory": "3000"}
    for name in ("a", "b"):
        put(cluster, POD, name, spec={"containers": [{"name": "c", "resources": {"limits": limits}}]})

    def used() -> Any:
        item = cluster.store.get(RESOURCE_QUOTA, "default", "q")
        assert item is not None
        return item["status"]["used"]

    assert used() == {"pods": "2", "requests.volcano.sh/vgpu-memory": "6k"}
    await cluster.direct().patch(POD, "default", "a", {"status": {"phase": "Succeeded"}}, "status")
    assert used() == {"pods": "1", "requests.volcano.sh/vgpu-memory": "3k"}
    cluster.remove(POD, "default", "b")
    assert used() == {"pods": "0", "requests.volcano.sh/vgpu-memory": "0"}


async def test_a_file_that_cannot_be_written_refuses_and_keeps_memory_as_it_was(tmp_path: Path) -> None:
    cluster = EmbeddedCluster(ManualClock(START_MS), derived_uid, tmp_path)
    api = cluster.direct()
    with sqlite3.connect(tmp_path / "cluster.db", timeout=0) as other:
        assert cluster._backing is not None
        cluster._backing._connection.execute("PRAGMA busy_timeout=0")
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(ApiError) as refused:
            await api.create(CONFIG_MAP, {"metadata": {"name": "a", "namespace": "default"}})
        assert refused.value.status == 500
        other.rollback()
    other.close()
    assert names(cluster, CONFIG_MAP) == []
    await api.create(CONFIG_MAP, {"metadata": {"name": "a", "namespace": "default"}})
    assert names(cluster, CONFIG_MAP) == ["a"]
    cluster.close()
