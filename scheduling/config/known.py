"""What a configuration may name: actions, plugins, switches and the arguments of each with their types.

Sources: scheduling/CFG-2 (switches), CFG-13 (actions and plugins), PG-4a, GP-1, AL-20, AL-21, AL-24, AL-25, Q-21,
section 9 rows 7, 8 and 16;
the arguments of deviceshare are judged by ``scheduling.devices.arguments``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from fractions import Fraction
from typing import Any, Final

from scheduling.config import arguments

ACTIONS: Final = frozenset({"enqueue", "allocate", "backfill", "preempt", "reclaim", "gangpreempt", "gangreclaim"})

PLUGINS: Final = frozenset(
    {
        "priority", "gang", "conformance", "drf", "predicates", "proportion", "nodeorder", "binpack", "deviceshare",
        "overcommit", "capacity", "sla", "tdm", "rescheduling",
    }
)  # fmt: skip

#: Plugins that are taken but do nothing here, and why.
WITHOUT_EFFECT: Final[Mapping[str, str]] = {
    "rescheduling": "no effect, it works through the action shuffle, which does not exist here",
}

#: The switches of a plugin entry, in the spelling that is the format's own (CFG-2).
SWITCHES: Final = frozenset(
    {
        "enableJobOrder", "enableHierarchy", "enableJobReady", "enableJobPipelined", "enableTaskOrder",
        "enablePreemptable", "enableReclaimable", "enablePreemptive", "enableQueueOrder", "enabledClusterOrder",
        "enablePredicate", "enableBestNode", "enableNodeOrder", "enableTargetJob", "enableReservedNodes",
        "enableJobEnqueued", "enabledVictim", "enableJobStarving", "enabledOverused", "enabledAllocatable",
        "enabledHyperNodeOrder", "enabledSubJobReady", "enabledSubJobPipelined", "enabledSubJobOrder",
        "enabledHyperNodeGradient",
    }
)  # fmt: skip

#: A time of day to another one, as tdm takes it.
WINDOW: Final = re.compile(r"(?:[01]?[0-9]|2[0-3]):[0-5][0-9]-(?:[01]?[0-9]|2[0-3]):[0-5][0-9]", re.ASCII)

#: Reads one argument only to see whether it can be read; what it cannot read it warns of.
Check = Callable[[Mapping[str, Any], str, list[str]], object]


def _integer(found: Mapping[str, Any], key: str, warnings: list[str]) -> object:
    return arguments.integer(found, key, 0, warnings)


def _number(found: Mapping[str, Any], key: str, warnings: list[str]) -> object:
    return arguments.number(found, key, Fraction(0), warnings)


def _boolean(found: Mapping[str, Any], key: str, warnings: list[str]) -> object:
    return arguments.boolean(found, key, False, warnings)


def _string(found: Mapping[str, Any], key: str, warnings: list[str]) -> object:
    return arguments.string(found, key, "", warnings)


def _duration(found: Mapping[str, Any], key: str, warnings: list[str]) -> object:
    return arguments.duration(found, key, 0, warnings)


def _window(found: Mapping[str, Any], key: str, warnings: list[str]) -> object:
    text = arguments.string(found, key, "", warnings)
    if text and not WINDOW.fullmatch(text.strip()):
        warnings.append(f"Could not parse argument: {text} for key {key} to HH:MM-HH:MM")
    return text


def _anything(_found: Mapping[str, Any], _key: str, _warnings: list[str]) -> object:
    return None


_PREDICATES = (
    "NodeAffinity", "NodePorts", "TaintToleration", "PodAffinity", "NodeVolumeLimits", "VolumeZone",
    "PodTopologySpread", "VolumeBinding",
)  # fmt: skip
_NODE_ORDER = (
    "leastrequested", "mostrequested", "balancedresource", "nodeaffinity", "podaffinity", "tainttoleration",
    "imagelocality", "podtopologyspread",
)  # fmt: skip
_QUEUE_PLUGIN: Mapping[str, Check] = {"queue.vgpuAccounting": _string}

#: By plugin: its arguments and how each is read. A key that ends in ``.`` stands for all that begin with it.
PLUGIN_ARGUMENTS: Final[Mapping[str, Mapping[str, Check]]] = {
    "predicates": {
        **{f"predicate.{name}Enable": _boolean for name in _PREDICATES},
        # The old home of the legacy sharing switches (devices/P-15); the device rules judge them.
        "predicate.GPUSharingEnable": _anything,
        "predicate.GPUNumberEnable": _anything,
    },
    "nodeorder": {f"{name}.weight": _integer for name in _NODE_ORDER},
    "binpack": {
        "binpack.weight": _integer,
        "binpack.cpu": _integer,
        "binpack.memory": _integer,
        "binpack.resources": _string,
        "binpack.resources.": _integer,
    },
    "gang": {"gang.reportUnschedulable": _boolean, "gang.runningFirst": _boolean},
    "overcommit": {"overcommit-factor": _number},
    "sla": {"sla-waiting-time": _duration},
    "tdm": {"tdm.revocable-zone.": _window, "tdm.evict.period": _duration},
    "rescheduling": {
        "interval": _duration,
        "metricsPeriod": _duration,
        "strategies": _anything,
        "queueSelector": _anything,
        "labelSelector": _anything,
    },
    "proportion": {**_QUEUE_PLUGIN, "proportion.borrow": _boolean},
    "capacity": _QUEUE_PLUGIN,
}

_CACHE: Mapping[str, Check] = {"predicateErrorCacheEnable": _boolean}
_GANG: Mapping[str, Check] = {"maxDomains": _integer, "allowWholeBundle": _boolean}

#: By action: its arguments and how each is read.
ACTION_ARGUMENTS: Final[Mapping[str, Mapping[str, Check]]] = {
    "enqueue": {"inqueue-timeout": _duration},
    "allocate": {
        **_CACHE,
        "minimum-feasible-nodes": _integer,
        "minimum-percentage-nodes-to-find": _integer,
        "percentage-nodes-to-find": _integer,
        "gang-reservation-cycles": _integer,
    },
    "backfill": _CACHE,
    "preempt": _CACHE,
    "reclaim": _CACHE,
    "gangpreempt": {**_CACHE, **_GANG},
    "gangreclaim": {**_CACHE, **_GANG},
}


def check(where: str, found: Mapping[str, Any], allowed: Mapping[str, Check]) -> Iterable[str]:
    """Return the warnings about arguments that are unknown or of the wrong type (CFG-11)."""
    warnings: list[str] = []
    for key in found:
        prefix = next((name for name in allowed if name.endswith(".") and key.startswith(name)), "")
        reader = allowed.get(key) or allowed.get(prefix)
        if reader is None:
            warnings.append(f"{where}: unknown argument {key}")
        else:
            reader(found, key, warnings)
    return warnings
