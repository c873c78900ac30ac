"""What a Queue says that means something else than one may think, told once as an event on it.

The sources are rows 10 and 11 of section 9 of the scheduling specification: ``deserved`` has no effect with the
proportion plugin (Q-15), and a zero for cpu or memory in a capability is no limit (Q-10).
"""

from __future__ import annotations

from collections.abc import Iterator

from events.kinds import QUEUE
from scheduling import quantity
from scheduling.objects import Queue
from scheduling.resources import CPU, MEMORY
from scheduling.state.model import Model
from services.binder.recorder import Recorder
from services.binder.written import Due
from services.runtime.kube_events import Subject

REASON = "QueueWarning"


class QueueWarnings:
    """Tells each text once for each Queue object."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._told: set[tuple[str, str]] = set()

    def due(self, model: Model) -> Iterator[Due]:
        """Record what is new; there is nothing to write."""
        found: set[tuple[str, str]] = set()
        for key in sorted(model.queues):
            queue = model.queues[key]
            for text in _texts(queue, model):
                found.add((queue.uid, text))
                if (queue.uid, text) not in self._told:
                    subject = Subject(QUEUE, "", queue.name, queue.uid)
                    self._recorder.emit(subject, "Warning", REASON, text, again=False)
        self._told = found
        yield from ()


def _texts(queue: Queue, model: Model) -> Iterator[str]:
    config = model.config
    if queue.deserved and config and config.plugin("proportion") and not config.plugin("capacity"):
        yield "spec.deserved has no effect: the proportion plugin shares the cluster by weight"
    for name in (CPU, MEMORY):
        if queue.capability and name in queue.capability and quantity.parse(queue.capability[name]) == 0:
            yield f"spec.capability: {name} 0 means no limit"
