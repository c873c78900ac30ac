"""deviceshare: the cards as filter and score (scheduling/AL-19, AL-26; devices section 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from scheduling.cycle.fitting import device_fit, refused_by_devices
from scheduling.cycle.job import Task
from scheduling.cycle.plugin import Plugin, Refused
from scheduling.devices.books import Fit, Misfit
from scheduling.nodes.view import NodeView

_MILLI = 1000


class DevicesharePlugin(Plugin):
    """Asks the books of a node's devices; what they answer is remembered by them."""

    name = "deviceshare"

    def check(self, task: Task, view: NodeView) -> Refused | None:
        if task.traits.demand.kind == "none":
            return None
        _, answer = device_fit(self.session, task, view)
        return refused_by_devices(answer) if isinstance(answer, Misfit) else None

    def scores(self, task: Task, views: Sequence[NodeView]) -> Mapping[str, int]:
        """The node score of devices/F-13; 0 unless ``deviceshare.ScheduleWeight`` is set."""
        if task.traits.demand.kind == "none" or not self.session.env.args.weight:
            return {}
        answers = ((view.name, device_fit(self.session, task, view)[1]) for view in views)
        return {name: answer.score * _MILLI for name, answer in answers if isinstance(answer, Fit)}
