"""The configuration that is in force, from the ConfigMaps that were observed (scheduling/CFG-4a, CFG-6, CFG-6a).

It changes at the place of the log where the ConfigMap was observed (devices/N-16). A refused file leaves the last good
one in force; if none was ever good and nothing was decided yet, there is no configuration and nothing is decided.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduling.config.model import ConfigReport, SchedulerConfig
from scheduling.config.parse import default_config, parse
from scheduling.devices.arguments import parse_deviceshare
from scheduling.devices.config import parse_device_config
from scheduling.devices.environment import DeviceEnv
from scheduling.state.model import Model

_KEPT = "the last good configuration stays in force"


def scheduler_config_changed(model: Model) -> None:
    """Take in the scheduler's ConfigMap as it is now: it may be deleted, or never have been there."""
    namespace, name, key = model.scope.scheduler_config
    found = model.config_maps.get(f"{namespace}/{name}")
    if found is None:
        _without_file(model, f"{namespace}/{name}")
        return
    model.config_seen = True
    text = found.data.get(key)
    missing = ConfigReport(None, (f"ConfigMap {found.key}: key {key} not found",))
    report = missing if text is None else parse(text)
    if report.config is not None:
        model.config, model.config_report, model.config_accepted = report.config, report, True
        model.config_text = text or ""
        return
    if not model.decided and not model.config_accepted:
        model.config, model.config_report = None, report
        return
    model.config_report = ConfigReport(None, report.errors, (*report.warnings, f"{name} was refused: {_KEPT}"))


def _without_file(model: Model, key: str) -> None:
    if not model.config_seen:
        model.config = default_config()
        model.config_report = ConfigReport(model.config)
        return
    warning = f"ConfigMap {key} was deleted: {_KEPT}"
    errors = () if model.config else model.config_report.errors
    model.config_report = ConfigReport(model.config, errors, (warning,))


def device_env(model: Model) -> tuple[DeviceEnv, tuple[str, ...]]:
    """Return the device environment of the configuration in force, and what to warn about."""
    share = _arguments(model.config, "deviceshare")
    namespace, name, key = model.scope.device_config
    predicates = _arguments(model.config, "predicates")
    arguments, _, warnings = parse_deviceshare(share, predicates, device_config=(namespace, name))
    found = model.config_maps.get(f"{arguments.config_namespace}/{arguments.config_name}")
    config, more = parse_device_config(found.data.get(key) if found else None)
    return DeviceEnv(config, arguments), (*warnings, *more)


def _arguments(config: SchedulerConfig | None, plugin: str) -> Mapping[str, Any] | None:
    option = config.plugin(plugin) if config else None
    return option.arguments if option else None
