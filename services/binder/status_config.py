"""Warnings and refusals of the configuration, told as events on the ConfigMaps that they are about (CFG-6)."""

from __future__ import annotations

from collections.abc import Iterator

from events.kinds import CONFIG_MAP
from scheduling.state.model import Model
from services.binder.recorder import Recorder
from services.binder.written import Due
from services.runtime.kube_events import Subject


class ConfigStatus:
    """Tells each text once for each form of the ConfigMap."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._told: set[tuple[str, str, str, str]] = set()

    def due(self, model: Model) -> Iterator[Due]:
        """Record what is new; there is nothing to write."""
        report = model.config_report
        namespace, name, _ = model.scope.scheduler_config
        found = {
            *self._texts(model, namespace, name, "ConfigRefused", report.errors),
            *self._texts(model, namespace, name, "ConfigWarning", report.warnings),
            *self._texts(model, *_device_config(model), "ConfigWarning", model.device_warnings),
        }
        for where, reason, text, version in sorted(found - self._told):
            space, _, of = where.partition("/")
            config = model.config_maps.get(where)
            subject = Subject(CONFIG_MAP, space, of, config.uid if config else "")
            self._recorder.emit(subject, "Warning", reason, text)
            self._told.add((where, reason, text, version))
        self._told &= found
        yield from ()

    def _texts(
        self, model: Model, namespace: str, name: str, reason: str, texts: tuple[str, ...]
    ) -> set[tuple[str, str, str, str]]:
        key = f"{namespace}/{name}"
        config = model.config_maps.get(key)
        return {(key, reason, text, config.version if config else "") for text in texts}


def _device_config(model: Model) -> tuple[str, str]:
    arguments = model.env.args
    return arguments.config_namespace, arguments.config_name
