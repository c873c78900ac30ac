"""deviceshare: the cards as filter and score (scheduling/AL-19, AL-26; devices section 4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from scheduling.cycle.bulk import cards_at
from scheduling.cycle.fitting import device_fit, refused_by_devices
from scheduling.cycle.job import Task
from scheduling.cycle.plugin import Plugin
from scheduling.devices.books import Fit, Misfit
from scheduling.nodes.columns import Codes, Integers, NodeColumns, Where
from scheduling.nodes.view import NodeView
from scheduling.reasons.kinds import Refused

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

    def check_at(self, task: Task, columns: NodeColumns, where: Where, codes: Codes) -> None:
        cards_at(task, columns, where, codes)

    def scores_at(self, task: Task, columns: NodeColumns, where: Where) -> Integers | None:
        demand, arguments, cards = task.traits.demand, self.session.env.args, columns.cards
        if demand.kind == "none" or not arguments.weight or not len(cards.free):
            return np.zeros(len(columns.live[where]), dtype=np.int64)
        request = demand.requests[0]
        if request.count != 1:
            return None
        takes = cards.takes(request, where)
        return cards.score(takes, request, arguments.policy, where) * (arguments.weight * _MILLI)

    def weights(self) -> Sequence[int]:
        return (self.session.env.args.weight,)
