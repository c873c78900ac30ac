"""The device ConfigMap's ``device-config.yaml`` (devices/N-14 to N-17).

One bad value never voids the rest: the key takes its default (inside a geometry, the group is dropped) and a warning
names it. Unknown keys are gathered into one warning. Only what the scheduler uses is kept; the agent's keys are
checked and forgotten.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from events import names
from scheduling.config.plain import Unreadable, load
from scheduling.config.plain import type_name as type_of
from scheduling.devices.arguments import show
from scheduling.devices.geometry import Geometry, Group, Instance

_GROUP_NAME = re.compile(r"[^-\[\],:;\s]+")
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)
_INTEGER_MAX = 2**53  # beyond any card; keeps products small
_COUNT_MAX = 4096  # slices of one type on one card
_SHOWN_MAX = 120  # characters of a value in a warning
_IGNORED_TEXTS = ("resourcePriorityName",)
_IGNORED_SWITCHES = ("overwriteEnv", "disableCoreLimit", "passDeviceSpecs")
_IGNORED_SCALES = ("deviceMemoryScaling", "deviceCoreScaling")


@dataclass(frozen=True)
class DeviceConfig:
    """What the scheduler takes from the device ConfigMap (N-14); the defaults hold without one.

    ``factor`` is the MiB per unit of memory, at least 1 (C-20). ``default_memory`` 0 means the whole card (R-5),
    ``default_number`` 0 that a memory limit alone is no request (R-3).
    """

    number_name: str = names.VGPU_NUMBER
    memory_name: str = names.VGPU_MEMORY
    percentage_name: str = names.VGPU_MEMORY_PERCENTAGE
    cores_name: str = names.VGPU_CORES
    default_memory: int = 0
    default_cores: int = 0
    default_number: int = 1
    factor: int = 1
    geometries: tuple[Geometry, ...] = ()


@lru_cache(maxsize=16)
def parse_device_config(text: str | None) -> tuple[DeviceConfig, tuple[str, ...]]:
    """Read ``device-config.yaml``; None if there is no such ConfigMap or key. Returns the values and the warnings."""
    if text is None:
        return DeviceConfig(), ()
    try:
        content, repeated = load(text)
        json.dumps(content, ensure_ascii=False).encode()  # escapes can name code points that no text may hold
    except (Unreadable, ValueError, OverflowError) as fault:
        return DeviceConfig(), (f"device-config.yaml is no readable YAML, default values are used: {_line(fault)}",)
    reader = _Reader()
    reader.warnings.extend(repeated)
    config = _read(reader, content)
    if reader.unknown:
        reader.warnings.append(f"unknown keys are ignored: {', '.join(dict.fromkeys(reader.unknown))}")
    return config, tuple(reader.warnings)


def _line(fault: Exception) -> str:
    """Return what is wrong in one line that can be written anywhere."""
    text = "a character that cannot be written" if isinstance(fault, UnicodeError) else str(fault)
    return " ".join(text.split())[:300]


def _read(reader: _Reader, content: Any) -> DeviceConfig:
    top = reader.mapping("device-config.yaml", content)
    reader.known("", top, {"nvidia", "vnpus"})
    section = _Section(reader, "nvidia", reader.mapping("nvidia", top.get("nvidia")))
    for key in _IGNORED_TEXTS:
        section.text(key, "")
    for key in _IGNORED_SWITCHES:
        section.switch(key)
    for key in _IGNORED_SCALES:
        section.scale(key)
    section.integer("deviceSplitCount", 10)
    config = DeviceConfig(
        number_name=section.text("resourceCountName", names.VGPU_NUMBER),
        memory_name=section.text("resourceMemoryName", names.VGPU_MEMORY),
        percentage_name=section.text("resourceMemoryPercentageName", names.VGPU_MEMORY_PERCENTAGE),
        cores_name=section.text("resourceCoreName", names.VGPU_CORES),
        default_memory=section.integer("defaultMemory", 0),
        default_cores=section.integer("defaultCores", 0, highest=100),
        default_number=section.integer("defaultGPUNum", 1),
        factor=section.integer("gpuMemoryFactor", 1) or 1,
        geometries=tuple(_geometries(section)),
    )
    reader.known("nvidia.", section.content, section.read)
    return config


class _Reader:
    """Collects what is wrong."""

    def __init__(self) -> None:
        self.warnings: list[str] = []
        self.unknown: list[str] = []

    def warn(self, path: str, value: Any, wanted: str) -> None:
        shown = show(value)
        shown = shown if len(shown) <= _SHOWN_MAX else shown[:_SHOWN_MAX] + "..."
        self.warnings.append(f"{path}: want {wanted}, got {type_of(value)} {shown}")

    def mapping(self, path: str, value: Any) -> Mapping[Any, Any]:
        if isinstance(value, dict):
            return value
        if value is not None:
            self.warn(path, value, "a map")
        return {}

    def known(self, prefix: str, content: Mapping[Any, Any], keys: set[str]) -> None:
        self.unknown.extend(prefix + show(key) for key in content if key not in keys)

    def whole(self, path: str, value: Any) -> int | None:
        """Return a whole number, also one written in quotes, which gets a warning (N-14a); None if it is neither."""
        if isinstance(value, bool):
            return None
        if isinstance(value, str) and _WHOLE.fullmatch(value):
            self.warnings.append(f'{path}: the number "{value}" is written in quotes')
            value = int(value)
        return value if isinstance(value, int) and abs(value) <= _INTEGER_MAX else None


class _Section:
    """One map of the file: typed access by key, each default given by the caller. Remembers which keys are known."""

    def __init__(self, reader: _Reader, path: str, content: Mapping[Any, Any]) -> None:
        self.reader, self.path, self.content = reader, path, content
        self.read: set[str] = set()

    def get(self, key: str) -> Any:
        self.read.add(key)
        return self.content.get(key)

    def text(self, key: str, default: str) -> str:
        value = self.get(key)
        if isinstance(value, str):
            return value or default
        if value is not None:
            self.reader.warn(f"{self.path}.{key}", value, "a text")
        return default

    def switch(self, key: str) -> None:
        value = self.get(key)
        if value is not None and not isinstance(value, bool):
            self.reader.warn(f"{self.path}.{key}", value, "true or false")

    def scale(self, key: str) -> None:
        value = self.get(key)
        number = self.reader.whole(f"{self.path}.{key}", value) if not isinstance(value, float) else value
        if value is not None and not (number is not None and number > 0):
            self.reader.warn(f"{self.path}.{key}", value, "a number above 0")

    def integer(self, key: str, default: int, highest: int = _INTEGER_MAX) -> int:
        value = self.get(key)
        if value is None:
            return default
        number = self.reader.whole(f"{self.path}.{key}", value)
        if number is not None and 0 <= number <= highest:
            return number
        self.reader.warn(
            f"{self.path}.{key}", value, "a whole number" + (f" up to {highest}" if highest <= 100 else "")
        )
        return default

    def items(self, key: str) -> list[Any]:
        value = self.get(key)
        if isinstance(value, list):
            return value
        if value is not None:
            self.reader.warn(f"{self.path}.{key}", value, "a list")
        return []


def _geometries(nvidia: _Section) -> list[Geometry]:
    found = []
    for place, item in enumerate(nvidia.items("knownMigGeometries")):
        path = f"nvidia.knownMigGeometries[{place}]"
        entry = _Section(nvidia.reader, path, nvidia.reader.mapping(path, item))
        models = []
        for model in entry.items("models"):
            if isinstance(model, str) and model:
                models.append(model)
            else:
                nvidia.reader.warn(f"{path}.models", model, "a model name")
        groups = _groups(entry)
        nvidia.reader.known(f"{path}.", entry.content, entry.read)
        found.append(Geometry(tuple(models), groups))
    return found


def _groups(entry: _Section) -> tuple[Group, ...]:
    groups: dict[str, Group] = {}
    for place, item in enumerate(entry.items("allowedGeometries")):
        path = f"{entry.path}.allowedGeometries[{place}]"
        fault, group = _group(entry.reader, path, place, item)
        if group is not None and group.name in groups:
            fault, group = f"the name {group.name} is taken", None
        if group is None:
            name = item.get("group") if isinstance(item, dict) else None
            entry.reader.warnings.append(f"{path}: group {show(name)[:_SHOWN_MAX]} is dropped: {fault}")
        else:
            groups[group.name] = group
    return tuple(groups.values())


def _group(reader: _Reader, path: str, place: int, item: Any) -> tuple[str, Group | None]:
    """Read one group (N-17); what is wrong with it, or the group."""
    if not isinstance(item, dict):
        return f"want a map, got {type_of(item)}", None
    if "geometries" not in item and "name" in item and "group" not in item:
        reader.warnings.append(f"{path}: the short form is read as group{place + 1}; the node agent does not know it")
        item = {"group": f"group{place + 1}", "geometries": [item]}
    reader.known(f"{path}.", item, {"group", "geometries"})
    name, listed = item.get("group"), item.get("geometries")
    if not isinstance(name, str) or not _GROUP_NAME.fullmatch(name):
        return "its name must be a text without blanks and -[],:;", None
    if not isinstance(listed, list) or not listed:
        return "it needs a list of at least one instance", None
    instances: dict[str, Instance] = {}
    for number, raw in enumerate(listed):
        fault, instance = _instance(reader, f"{path}.geometries[{number}]", raw)
        if instance is None:
            return fault, None
        if instance.name in instances:
            return f"instance {instance.name} is there twice", None
        instances[instance.name] = instance
    return "", Group(name, tuple(instances.values()))


def _instance(reader: _Reader, path: str, raw: Any) -> tuple[str, Instance | None]:
    if not isinstance(raw, dict):
        return f"an instance must be a map, got {type_of(raw)}", None
    reader.known(f"{path}.", raw, {"name", "memory", "count"})
    name = raw.get("name")
    if not isinstance(name, str) or not name:
        return f"name of an instance must be a text, got {type_of(name)} {show(name)[:_SHOWN_MAX]}", None
    memory, count = reader.whole(f"{path}.memory", raw.get("memory")), reader.whole(f"{path}.count", raw.get("count"))
    if memory is None or memory <= 0:
        return f"memory of {name} must be a whole number above 0, got {show(raw.get('memory'))[:_SHOWN_MAX]}", None
    if count is None or not 0 < count <= _COUNT_MAX:
        return f"count of {name} must be a whole number above 0, got {show(raw.get('count'))[:_SHOWN_MAX]}", None
    return "", Instance(name, memory, count)
