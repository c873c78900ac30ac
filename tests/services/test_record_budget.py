"""Records and bytes on the log because of one pod with its automatic PodGroup: 8 and 6 KB at most (design 3)."""

from __future__ import annotations

import pytest
from support.service_world import World

from events.codec import Message, size_of
from events.kinds import POD
from services.cluster.direct import DirectApi
from services.cluster.nodeagent import NodeAgents
from services.controller.manager import ControllerManager

RECORDS, BYTES = 8, 6_000
CARDS = "".join(f"GPU-{card},10,81920,NVIDIA-A100-SXM4-80GB,true,hami-core:" for card in range(8))


class Life:
    """A cluster with controllers and node agents, in which pods are created, run and are deleted."""

    def __init__(self) -> None:
        self.world = World()
        self.direct = DirectApi(self.world.embedded)
        self.controllers = ControllerManager(self.direct, self.world.clock)
        self.agents = NodeAgents(self.direct, self.world.clock)
        amounts = {"cpu": "128", "memory": "1024Gi", "pods": "250", "volcano.sh/vgpu-number": "80",
                   "volcano.sh/vgpu-memory": "655360", "volcano.sh/vgpu-cores": "800"}  # fmt: skip
        self.world.put(
            {
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": "node-0001", "annotations": {"volcano.sh/node-vgpu-register": CARDS}},
                "status": {"allocatable": amounts, "capacity": amounts},
            }
        )  # fmt: skip

    async def create(self, name: str) -> None:
        limits = {"volcano.sh/vgpu-number": "1", "volcano.sh/vgpu-memory": "8000", "volcano.sh/vgpu-cores": "10"}
        container = {"name": "main", "image": "registry.example.test/train:1", "resources": {"limits": limits}}
        meta = {"name": name, "namespace": "team-a"}
        spec = {"schedulerName": "gpuledger", "containers": [container]}
        await self.direct.create(POD, {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec})

    async def settle(self) -> None:
        for _ in range(100):
            busy = [
                await self.controllers.step(), await self.world.watcher.step(), await self.world.scheduler.step(),
                await self.world.binder.step(), await self.agents.step(), await self.world.status.step(),
            ]  # fmt: skip
            if not any(busy):
                return
        raise AssertionError("not at rest")

    async def messages(self) -> list[Message]:
        return [message for _, message in await self.world.log.read(0, 100_000)]


@pytest.mark.parametrize("together", [10, 100])
async def test_a_pod_costs_at_most_eight_records_and_six_kilobytes(together: int) -> None:
    life = Life()
    await life.settle()
    before = len(await life.messages())
    names = [f"train-{index:04d}" for index in range(together)]
    for name in names:
        await life.create(name)
    await life.settle()
    assert all(life.world.get(POD, name)["status"]["phase"] == "Running" for name in names if together <= 80)
    for name in names:
        await life.direct.delete(POD, "team-a", name)
    await life.settle()
    found = (await life.messages())[before:]
    assert len(found) <= RECORDS * together
    size = sum(map(size_of, found))
    print(f"{len(found) / together} records, {size / together} bytes a pod")
    assert size <= BYTES * together


async def test_a_pod_that_comes_alone_has_its_batches_for_itself_and_costs_six_kilobytes_still() -> None:
    life = Life()
    await life.settle()
    before = len(await life.messages())
    await life.create("train-0001")
    await life.settle()
    await life.direct.delete(POD, "team-a", "train-0001")
    await life.settle()
    found = (await life.messages())[before:]
    assert len(found) <= RECORDS + 1
    assert sum(map(size_of, found)) <= BYTES + 1_000
