"""What a valid ``volcano-scheduler.conf`` says, as values (scheduling/CFG-1 to CFG-5)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

#: Switches that are off when absent; all others are on (CFG-3).
OFF_WHEN_ABSENT = frozenset({"enableHierarchy", "enabledClusterOrder"})


@dataclass(frozen=True)
class PluginOption:
    """One plugin entry of a tier: its arguments as written and the switches that are set (CFG-2, CFG-3)."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    switches: Mapping[str, bool] = field(default_factory=dict)

    def on(self, switch: str) -> bool:
        """Tell whether a switch is on; an absent one has its default (CFG-3)."""
        return self.switches.get(switch, switch not in OFF_WHEN_ABSENT)


@dataclass(frozen=True)
class SchedulerConfig:
    """A valid configuration. Unknown plugins are not in it (CFG-8)."""

    actions: tuple[str, ...]
    tiers: tuple[tuple[PluginOption, ...], ...]
    action_arguments: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def plugin(self, name: str) -> PluginOption | None:
        """Return the first entry of a plugin, None if it is not configured."""
        return next((option for tier in self.tiers for option in tier if option.name == name), None)


@dataclass(frozen=True)
class ConfigReport:
    """What reading a configuration gave: ``config`` is None if it was refused, and then ``errors`` say why."""

    config: SchedulerConfig | None
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
