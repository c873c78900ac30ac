"""One object that no log can hold is there as its identity, is told of with the reason, and holds up nobody."""

from __future__ import annotations

from typing import Any

import pytest
import structlog

from events import codec
from events.kinds import NAMESPACE, POD_GROUP, QUEUE, Kind
from services.cluster import defaults
from services.simulator.system import System


async def test_what_cannot_be_recorded_is_named_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MESSAGE_BYTES_MAX", 20_000)
    system = System()
    large = {f"example.com/r{number}": "1" for number in range(2_000)}
    kinds: list[tuple[Kind, dict[str, Any]]] = [
        (NAMESPACE, {"metadata": {"name": "default"}}),
        (QUEUE, {"metadata": {"name": "default"}, "spec": {"weight": 1}, "status": {"state": "Open"}}),
        (POD_GROUP, {"metadata": {"name": "bad", "namespace": "default"}, "spec": {"minResources": large}}),
        (POD_GROUP, {"metadata": {"name": "good", "namespace": "default"}, "spec": {"minMember": 3}}),
    ]
    for kind, item in kinds:
        item = {"apiVersion": kind.api_version, "kind": kind.name, **item}
        defaults.apply(kind, item)
        system.store.put(kind, item)
    with structlog.testing.capture_logs() as told:
        await system.settle()
        await system.deliver()
    groups = system.model.groups
    assert set(groups) == {"default/bad", "default/good"}
    assert groups["default/good"].group.min_member == 3
    warnings = [line for line in told if line["log_level"] == "warning"]
    assert [line["object"] for line in warnings] == ["PodGroup/default/bad"]
    assert "above the 20000 of a message" in warnings[0]["why"]
