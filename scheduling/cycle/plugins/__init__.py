"""The plugins by name (scheduling/CFG-13). A name that is configured and not here answers nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from scheduling.cycle.plugin import Plugin
from scheduling.cycle.plugins.binpack import BinpackPlugin
from scheduling.cycle.plugins.capacity import CapacityPlugin
from scheduling.cycle.plugins.conformance import ConformancePlugin
from scheduling.cycle.plugins.deviceshare import DevicesharePlugin
from scheduling.cycle.plugins.drf import DrfPlugin
from scheduling.cycle.plugins.gang import GangPlugin
from scheduling.cycle.plugins.nodeorder import NodeorderPlugin
from scheduling.cycle.plugins.overcommit import OvercommitPlugin
from scheduling.cycle.plugins.predicates import PredicatesPlugin
from scheduling.cycle.plugins.priority import PriorityPlugin
from scheduling.cycle.plugins.proportion import ProportionPlugin
from scheduling.cycle.plugins.sla import SlaPlugin
from scheduling.cycle.plugins.tdm import TdmPlugin

PLUGINS: Final[Mapping[str, type[Plugin]]] = {
    plugin.name: plugin
    for plugin in (
        PriorityPlugin,
        GangPlugin,
        ConformancePlugin,
        DrfPlugin,
        DevicesharePlugin,
        PredicatesPlugin,
        ProportionPlugin,
        NodeorderPlugin,
        BinpackPlugin,
        OvercommitPlugin,
        CapacityPlugin,
        SlaPlugin,
        TdmPlugin,
    )
}
