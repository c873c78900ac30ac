"""The name ``volcano`` is refused while Volcano's own scheduler leads (design section 7)."""

from __future__ import annotations

from typing import Any

import pytest
from support.service_world import START_MS, World

from events.kinds import LEASE
from services.runtime.beside import alive, refusal


def lease(**spec: Any) -> dict[str, Any]:
    base = {"holderIdentity": "vc-1", "renewTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15}
    return {"metadata": {"namespace": "volcano-system", "name": "vc-scheduler"}, "spec": {**base, **spec}}


@pytest.mark.parametrize(
    ("spec", "after_s", "holder"),
    [
        ({}, 14, "vc-1"),
        ({}, 15, ""),
        ({"holderIdentity": ""}, 0, ""),
        ({"renewTime": "nonsense"}, 0, ""),
        ({"renewTime": None}, 0, ""),
        ({"leaseDurationSeconds": None}, 14, "vc-1"),
    ],
)
def test_a_lease_is_alive_until_it_runs_out(spec: dict[str, Any], after_s: int, holder: str) -> None:
    assert alive(lease(**spec), START_MS + after_s * 1000) == holder


async def test_the_name_is_refused_only_while_somebody_leads() -> None:
    world = World()
    assert await refusal(world.api, world.clock, ["gpuledger", "volcano"]) == ""
    world.store.put(LEASE, lease())
    assert "vc-1 holds Lease volcano-system/vc-scheduler" in await refusal(world.api, world.clock, ["volcano"])
    assert await refusal(world.api, world.clock, ["gpuledger"]) == ""
    world.clock.time_ms += 60_000
    assert await refusal(world.api, world.clock, ["volcano"]) == ""
