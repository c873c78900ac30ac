"""The exact names of section 1 of the device rules, read from the rules themselves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from events import names
from scheduling.devices.environment import DeviceEnv

_SPEC = (Path(__file__).parents[3] / "docs" / "spec" / "devices.md").read_text()


def row(rule: str) -> str:
    found = re.search(rf"^\| {rule} \|(.*)$", _SPEC, re.MULTILINE)
    assert found is not None, rule
    return found.group(1)


@pytest.mark.parametrize(
    ("rule", "used"),
    [
        ("C-1", [names.VGPU_NUMBER]),  # devices/C-1
        ("C-2", [names.VGPU_MEMORY]),  # devices/C-2
        ("C-3", [names.VGPU_MEMORY_PERCENTAGE]),  # devices/C-3
        ("C-4", [names.VGPU_CORES]),  # devices/C-4
        ("C-5", [names.GPU_MEMORY]),  # devices/C-5
        ("C-6", [names.GPU_NUMBER]),  # devices/C-6
        ("C-8", [names.VGPU_MODE]),  # devices/C-8
        ("C-9", [names.PODGROUP_POLICY]),  # devices/C-9
        ("C-10", [names.USE_GPU_UUID, names.NOUSE_GPU_UUID]),  # devices/C-10
        ("C-11", [names.USE_GPU_TYPE, names.NOUSE_GPU_TYPE]),  # devices/C-11
        ("C-12", [names.VGPU_NODE]),  # devices/C-12
        ("C-13", [names.VGPU_TIME]),  # devices/C-13
        ("C-14", [names.VGPU_IDS]),  # devices/C-14
        ("C-15", [names.DEVICES_TO_ALLOCATE]),  # devices/C-15
        ("C-16", [names.BIND_PHASE]),  # devices/C-16
        ("C-17", [names.BIND_TIME]),  # devices/C-17
        ("C-18", [names.GPU_INDEX, names.PREDICATE_TIME]),  # devices/C-18
        ("C-19", [names.GROUP_NAME, names.VOLCANO_GROUP_NAME]),  # devices/C-19
        ("C-21", [names.NODE_REGISTER]),  # devices/C-21
        ("C-22", [names.UNHEALTHY_IDS]),  # devices/C-22
        ("C-23", [names.VGPU_NODE_LOCK]),  # devices/C-23
        ("C-24", [names.GPUSHARE_NODE_LOCK]),  # devices/C-24
        ("C-27", list(names.DEVICE_CONFIG)),  # devices/C-27
        ("C-29", list(names.SCHEDULER_CONFIG)),  # devices/C-29
    ],
)
def test_a_name_is_spelled_as_the_rule_has_it(rule: str, used: list[str]) -> None:
    written = re.findall(r"`([^`]+)`", row(rule))
    assert set(used) <= set(written)


def test_the_defaults_are_the_constants() -> None:
    """devices/C-1, C-2, C-3, C-4."""
    env = DeviceEnv()
    found = (env.number_name, env.memory_name, env.percentage_name, env.cores_name)
    assert found == (names.VGPU_NUMBER, names.VGPU_MEMORY, names.VGPU_MEMORY_PERCENTAGE, names.VGPU_CORES)
