"""Reading ``volcano-scheduler.conf``: text in, a configuration or the reasons against it out (CFG-1 to CFG-12).

Nothing here raises. What makes a file unusable is an error, and then the whole file is refused, never read in part;
everything else that its author would want to know is a warning. All errors are reported at once. Tiers and plugin
entries are counted from 0, as the items of a list are elsewhere (devices/X-2).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from scheduling.config import known
from scheduling.config.arguments import as_boolean
from scheduling.config.model import ConfigReport, PluginOption, SchedulerConfig
from scheduling.config.plain import Plain, Unreadable, load, shown, type_name
from scheduling.devices.arguments import parse_deviceshare

_TOP_KEYS = ("actions", "tiers", "configurations", "metrics")
_ENTRY_KEYS = frozenset({"name", "arguments"}) | known.SWITCHES


@dataclass
class _Findings:
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@lru_cache(maxsize=16)  # a list tells of it again each time, to every reader of the log
def parse(text: str) -> ConfigReport:
    """Read a configuration; the report's ``config`` is None if the file is refused."""
    found = _Findings()
    try:
        document, repeated = load(text)
    except Unreadable as error:
        return ConfigReport(None, (str(error),))
    found.warnings += repeated
    if document is None:
        document = {}
    if not isinstance(document, dict):
        return ConfigReport(None, (f"configuration must be a map, got {type_name(document)}",))
    found.warnings += [f"unknown key {key}" for key in document if key not in _TOP_KEYS]
    actions = _actions(document.get("actions"), found)
    tiers = _tiers(document.get("tiers"), found)
    action_arguments = _configurations(document.get("configurations"), found)
    if not isinstance(document.get("metrics") or {}, dict):
        found.errors.append(f"metrics must be a map, got {type_name(document['metrics'])}")
    _conflicts(tiers, found)
    _devices(tiers, found)
    _judge_arguments(tiers, action_arguments, found)
    if found.errors:
        return ConfigReport(None, tuple(found.errors), tuple(found.warnings))
    config = SchedulerConfig(actions, _usable(tiers, found), action_arguments)
    return ConfigReport(config, (), tuple(found.warnings))


def default_config() -> SchedulerConfig:
    """Return what is in force where there is no configuration at all (CFG-4a)."""
    share = PluginOption("deviceshare", {"deviceshare.VGPUEnable": True, "deviceshare.SchedulePolicy": "binpack"})
    second = _options("drf", share, "predicates", "proportion", "nodeorder", "binpack")
    return SchedulerConfig(("enqueue", "allocate", "backfill"), (_options("priority", "gang", "conformance"), second))


def builtin_default() -> SchedulerConfig:
    """Return the reference's built-in default, which knows overcommit and no vGPU (CFG-4)."""
    second = _options("overcommit", "drf", "predicates", "proportion", "nodeorder")
    return SchedulerConfig(("enqueue", "allocate", "backfill"), (_options("priority", "gang", "conformance"), second))


def _options(*entries: str | PluginOption) -> tuple[PluginOption, ...]:
    return tuple(entry if isinstance(entry, PluginOption) else PluginOption(entry) for entry in entries)


def _actions(value: Plain, found: _Findings) -> tuple[str, ...]:
    """Read the action names; an unknown or empty one refuses the file (CFG-6), and so do rivals (GP-1)."""
    if not isinstance(value, str | None):
        found.errors.append(f"actions must be a string of names separated by commas, got {type_name(value)}")
        return ()
    actions = tuple(name.strip() for name in (value or "").split(","))
    found.errors += [f"failed to find Action {name}" for name in actions if name not in known.ACTIONS]
    found.errors += [
        f"actions {whole} and {single} cannot be configured together"
        for whole in ("gangpreempt", "gangreclaim")
        for single in ("preempt", "reclaim")
        if whole in actions and single in actions
    ]
    return actions


@dataclass(frozen=True)
class _Entry:
    """One plugin entry and its place, which messages name."""

    tier: int
    option: PluginOption

    @property
    def place(self) -> str:
        return f"tier {self.tier} plugin {self.option.name}"


def _tiers(value: Plain, found: _Findings) -> list[list[_Entry]]:
    """Read the tiers; a file of another shape is refused, not read as empty (CFG-6b)."""
    if not isinstance(value, list) or not value:
        found.errors.append("no tiers" if not value else f"tiers must be a list, got {type_name(value)}")
        return []
    return [_tier(number, item, found) for number, item in enumerate(value)]


def _tier(number: int, value: Plain, found: _Findings) -> list[_Entry]:
    entries = value.get("plugins") if isinstance(value, dict) else None
    if not isinstance(entries, list) or not entries:
        found.errors.append(f"tier {number} has no plugins")
        return []
    found.warnings += [f"tier {number}: unknown key {key}" for key in value if key != "plugins"]
    read = (_entry(number, place, item, found) for place, item in enumerate(entries))
    return [entry for entry in read if entry is not None]


def _entry(tier: int, place: int, value: Plain, found: _Findings) -> _Entry | None:
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str) or not name:
        found.errors.append(f"tier {tier} plugin {place} has no name")
        return None
    where = f"tier {tier} plugin {name}"
    arguments = value.get("arguments")
    if not isinstance(arguments, dict | None):
        found.errors.append(f"{where}: arguments must be a map, got {type_name(arguments)}")
    switches = dict(_switches(where, value, found))
    found.warnings += [_unknown_key(where, name, key) for key in value if key not in _ENTRY_KEYS]
    return _Entry(tier, PluginOption(name, arguments if isinstance(arguments, dict) else {}, switches))


def _switches(where: str, entry: Mapping[str, Any], found: _Findings) -> Iterator[tuple[str, bool]]:
    """Read the switches that are set; what is neither a boolean nor a boolean string refuses the file (CFG-3a)."""
    for key, value in entry.items():
        if key not in known.SWITCHES or value is None:
            continue
        setting = as_boolean(value)
        if setting is None:
            found.errors.append(f"{where}: {key} must be true or false, got {shown(value)}")
        else:
            yield key, setting


def _unknown_key(where: str, plugin: str, key: str) -> str:
    """Warn of a key that is ignored; one that is an argument in the wrong place is told its place (CFG-2a)."""
    misplaced = key.startswith(f"{plugin}.") or key in known.PLUGIN_ARGUMENTS.get(plugin, {})
    return f"{where}: unknown key {key}" + (", belongs under arguments" if misplaced else "")


def _configurations(value: Plain, found: _Findings) -> dict[str, Mapping[str, Any]]:
    """Read the arguments of the actions; the first entry of a name counts (CFG-5)."""
    if not isinstance(value, list | None):
        found.errors.append(f"configurations must be a list, got {type_name(value)}")
        return {}
    result: dict[str, Mapping[str, Any]] = {}
    for place, item in enumerate(value or []):
        entry = item if isinstance(item, dict) else {}
        name, arguments = entry.get("name"), entry.get("arguments")
        if not isinstance(item, dict) or not isinstance(arguments, dict | None):
            found.errors.append(f"configurations[{place}] must be a map with name and a map of arguments")
        elif not isinstance(name, str) or name not in known.ACTIONS:
            found.warnings.append(f"configurations[{place}]: no action {shown(name)}, ignored")
        elif name in result:
            found.warnings.append(f"configurations[{place}]: {name} is configured before, ignored")
        else:
            result[name] = arguments or {}
    return result


def _conflicts(tiers: list[list[_Entry]], found: _Findings) -> None:
    """Refuse plugins that exclude each other, in whatever tiers they stand (CFG-7, CFG-13 capacity)."""
    options = [entry.option for tier in tiers for entry in tier]
    names = {option.name for option in options}
    hierarchy = any(option.name == "drf" and option.on("enableHierarchy") for option in options)
    if hierarchy and "proportion" in names:
        found.errors.append("proportion and drf with hierarchy enabled conflicts")
    if {"capacity", "proportion"} <= names:
        found.errors.append("plugins capacity and proportion cannot be configured together")


def _devices(tiers: list[list[_Entry]], found: _Findings) -> None:
    """Judge the device arguments, in the old place too (CFG-12, devices/P-12, P-15, X-2)."""
    _, errors, warnings = parse_deviceshare(_first(tiers, "deviceshare"), _first(tiers, "predicates"))
    found.errors += errors
    found.warnings += warnings


def _first(tiers: list[list[_Entry]], name: str) -> Mapping[str, Any] | None:
    found = (entry.option.arguments for tier in tiers for entry in tier if entry.option.name == name)
    return next(found, None)


def _judge_arguments(
    tiers: list[list[_Entry]], action_arguments: Mapping[str, Mapping[str, Any]], found: _Findings
) -> None:
    for entry in (entry for tier in tiers for entry in tier):
        if entry.option.name in known.PLUGINS and entry.option.name != "deviceshare":
            allowed = known.PLUGIN_ARGUMENTS.get(entry.option.name, {})
            found.warnings += known.check(entry.place, entry.option.arguments, allowed)
    for name, arguments in action_arguments.items():
        found.warnings += known.check(f"action {name}", arguments, known.ACTION_ARGUMENTS.get(name, {}))


def _usable(tiers: list[list[_Entry]], found: _Findings) -> tuple[tuple[PluginOption, ...], ...]:
    """Return the tiers without unknown plugins (CFG-8) and without second entries of a plugin, which warn."""
    seen: set[str] = set()
    result: list[tuple[PluginOption, ...]] = []
    for tier in tiers:
        kept: list[PluginOption] = []
        for entry in tier:
            name = entry.option.name
            if name not in known.PLUGINS:
                found.warnings.append(f"Failed to get plugin {name}.")
            elif name in seen:
                found.warnings.append(f"{entry.place}: configured before, ignored")
            else:
                if name in known.WITHOUT_EFFECT:
                    found.warnings.append(f"{entry.place}: {known.WITHOUT_EFFECT[name]}")
                kept.append(entry.option)
                seen.add(name)
        result.append(tuple(kept))
    return tuple(result)
