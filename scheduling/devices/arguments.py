"""The ``deviceshare`` arguments of the scheduler configuration (devices/P-1 to P-16, X-1 to X-3).

Parsing is a function of the arguments alone, so a key that is removed returns to its default (P-13). A value of a
wrong type leaves the default and gives a warning; errors refuse the whole configuration (P-12, X-2).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from events.names import DEVICE_CONFIG
from scheduling.config.plain import type_name as type_of

#: A rule's identity: its label pairs sorted by key (X-3).
Rule: TypeAlias = tuple[tuple[str, str], ...]

BINPACK, SPREAD = "binpack", "spread"
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_FALSE = frozenset({"0", "f", "F", "FALSE", "false", "False"})
_RULES = "deviceshare.GPUExclusiveRules"
_ASCEND = ("deviceshare.AscendMindClusterVNPUEnable", "deviceshare.AscendHAMiVNPUEnable")
_MISSING = object()


@dataclass(frozen=True)
class DeviceShareArgs:
    """What the device plugin is told. ``policy`` is ``binpack``, ``spread`` or empty; ``weight`` is never negative."""

    vgpu: bool = False
    sharing: bool = False
    number: bool = False
    node_lock: bool = False
    policy: str = ""
    weight: int = 0
    config_name: str = DEVICE_CONFIG[1]
    config_namespace: str = DEVICE_CONFIG[0]
    rules: tuple[Rule, ...] = ()


class _Reader:
    """Reads one argument after the other and collects warnings (P-11)."""

    def __init__(self, arguments: Mapping[str, Any]) -> None:
        self.arguments = arguments
        self.warnings: list[str] = []

    def boolean(self, key: str) -> bool:
        value = self.arguments.get(key, _MISSING)
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value in _TRUE | _FALSE:
            return value in _TRUE
        self._refuse(key, value, "bool")
        return False

    def integer(self, key: str) -> int:
        value = self.arguments.get(key, _MISSING)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        self._refuse(key, value, "int")
        return 0

    def text(self, key: str, default: str) -> str:
        value = self.arguments.get(key, _MISSING)
        if isinstance(value, str):
            return value
        self._refuse(key, value, "string")
        return default

    def _refuse(self, key: str, value: Any, kind: str) -> None:
        if value is not _MISSING:
            self.warnings.append(f"Could not parse argument: {show(value)} for key {key} to {kind}")


def parse_deviceshare(
    arguments: Mapping[str, Any] | None,
    predicates_arguments: Mapping[str, Any] | None,
    *,
    device_config: tuple[str, str] = DEVICE_CONFIG[:2],
) -> tuple[DeviceShareArgs, tuple[str, ...], tuple[str, ...]]:
    """Read the arguments of the plugins ``deviceshare`` and ``predicates`` (P-15); None: not configured.

    ``device_config`` is the device ConfigMap (namespace, name) where the arguments name none (P-7).
    Returns the values, the errors that refuse the configuration (P-12, X-2) and the warnings.
    """
    reader, old = _Reader(arguments or {}), _Reader(predicates_arguments or {})
    sharing, sharing_old = reader.boolean("deviceshare.GPUSharingEnable"), old.boolean("predicate.GPUSharingEnable")
    number, number_old = reader.boolean("deviceshare.GPUNumberEnable"), old.boolean("predicate.GPUNumberEnable")
    rules, rule_errors, rule_warnings = parse_rules(reader.arguments.get(_RULES))
    values = DeviceShareArgs(
        vgpu=reader.boolean("deviceshare.VGPUEnable"),
        sharing=sharing or sharing_old,
        number=number or number_old,
        node_lock=reader.boolean("deviceshare.NodeLockEnable"),
        policy=_policy(reader),
        weight=max(reader.integer("deviceshare.ScheduleWeight"), 0),
        config_name=reader.text("deviceshare.KnownGeometriesCMName", device_config[1]),
        config_namespace=reader.text("deviceshare.KnownGeometriesCMNamespace", device_config[0]),
        rules=rules,
    )
    ascend = [f"{key} is out of scope and has no effect" for key in _ASCEND if reader.boolean(key)]
    errors = (*_conflicts(values), *rule_errors)
    return values, errors, (*reader.warnings, *old.warnings, *ascend, *rule_warnings)


def _policy(reader: _Reader) -> str:
    policy = reader.text("deviceshare.SchedulePolicy", "")
    if policy in ("", BINPACK, SPREAD):
        return policy
    reader.warnings.append(f'unknown deviceshare.SchedulePolicy "{policy}"')
    return ""


def _conflicts(values: DeviceShareArgs) -> list[str]:
    """P-12: the first conflict in the given order."""
    if values.sharing and values.number:
        return ["can not define true in both gpu sharing and gpu number"]
    if (values.sharing or values.number) and values.vgpu:
        return ["gpu-share and vgpu can't be used together"]
    return []


def parse_rules(value: Any) -> tuple[tuple[Rule, ...], tuple[str, ...], tuple[str, ...]]:
    """Read the exclusivity rules (X-1 to X-3): rules without repetition in the given order, errors, warnings.

    With an error there are no rules at all: a rule is never used in part.
    """
    if value is None:
        return (), (), ()
    if not isinstance(value, list):
        return (), (f"{_RULES} must be a list of label maps, got {type_of(value)}",), ()
    rules: dict[Rule, None] = {}
    errors: list[str] = []
    warnings: list[str] = []
    for place, item in enumerate(value):
        if not isinstance(item, Mapping):
            errors.append(f"{_RULES}[{place}] must be a map of label to value, got {type_of(item)}")
        elif not item:
            warnings.append(f"{_RULES}[{place}] is empty and is skipped")
        else:
            errors.extend(_rule_errors(place, item))
            rules.setdefault(tuple(sorted((show(key), show(label)) for key, label in item.items())))
    return (() if errors else tuple(rules)), tuple(errors), tuple(warnings)


def _rule_errors(place: int, item: Mapping[Any, Any]) -> list[str]:
    wrong = [(key, key if not isinstance(key, str) else label) for key, label in item.items()]
    return [
        f"{_RULES}[{place}].{show(key)} must be a string, got {type_of(found)} {show(found)}"
        for key, found in wrong
        if not isinstance(found, str)
    ]


def show(value: Any) -> str:
    """Return a value as it reads in messages: texts as they are, everything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def rule_id(rule: Rule) -> str:
    """Return a rule's identity as text, for records and audits (X-3)."""
    return ",".join(f"{key}={value}" for key, value in rule)


def matching(rules: tuple[Rule, ...], labels: Mapping[str, str]) -> tuple[Rule, ...]:
    """Return the rules that a pod with these labels matches: every label of the rule with the equal value (X-1)."""
    return tuple(rule for rule in rules if all(labels.get(key) == value for key, value in rule))
