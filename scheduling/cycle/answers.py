"""How the answers of the plugins are combined, over all tiers and switches (scheduling/CFG section 1.3)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cmp_to_key
from typing import TYPE_CHECKING, Any

from scheduling.config.model import SchedulerConfig
from scheduling.cycle.job import Job, Task
from scheduling.cycle.plugin import SWITCHES, Plugin, Vote
from scheduling.cycle.stages import UNTOLD, Stages
from scheduling.nodes.view import NodeView
from scheduling.objects import Queue
from scheduling.reasons.kinds import Invalid, QueueReason, Refused
from scheduling.resources import Vector

if TYPE_CHECKING:
    from scheduling.cycle.session import Session


class Answers:
    """The open plugins, asked together."""

    def __init__(self, stages: Stages = UNTOLD) -> None:
        self.stages = stages
        self._tiers: list[list[Plugin]] = []
        self._asked: dict[str, list[list[Plugin]]] = {}
        self._flat: dict[str, list[Plugin]] = {}

    def open_plugins(self, session: Session, config: SchedulerConfig, plugins: Mapping[str, type[Plugin]]) -> None:
        """Open the configured plugins in tier order (AL-2); a name that is not there answers nothing (CFG-8)."""
        for tier in config.tiers:
            opened: list[Plugin] = []
            for option in tier:
                if option.name in plugins:
                    with self.stages.during("plugin", option.name):
                        opened.append(plugins[option.name](session, option))
            self._tiers.append(opened)
        self._asked, self._flat = {}, {}

    def _tiers_of(self, answer: str) -> list[list[Plugin]]:
        """Return the plugins that give this answer and have its switch on, tier by tier."""
        found = self._asked.get(answer)
        if found is None:
            switch = SWITCHES[answer]
            found = self._asked[answer] = [
                [plugin for plugin in tier if _gives(plugin, answer) and (switch is None or plugin.option.on(switch))]
                for tier in self._tiers
            ]
        return found

    def plugins(self, answer: str) -> list[Plugin]:
        """Return the plugins that give this answer, in tier order."""
        found = self._flat.get(answer)
        if found is None:
            found = self._flat[answer] = [plugin for tier in self._tiers_of(answer) for plugin in tier]
        return found

    def all_plugins(self) -> list[Plugin]:
        """Return the open plugins, in tier order."""
        return [plugin for tier in self._tiers for plugin in tier]

    def giving(self, answer: str) -> list[Plugin]:
        """Return the open plugins that give an answer which is not voted on."""
        found = self._flat.get(answer)
        if found is None:
            found = self._flat[answer] = [plugin for plugin in self.all_plugins() if _gives(plugin, answer)]
        return found

    def plugin(self, name: str) -> Plugin | None:
        """Return an open plugin by its name."""
        return next((plugin for tier in self._tiers for plugin in tier if plugin.name == name), None)

    def queue_order(self, queue: Queue) -> tuple[Any, ...]:
        """Return a queue's place (section 4.7): plugins, then older, then name."""
        return (*(plugin.queue_key(queue) for plugin in self.plugins("queue_key")), queue.created, queue.name)

    def job_order(self, job: Job) -> tuple[Any, ...]:
        """Return a job's place (section 4.7): plugins, then older, then ``<ns>/<pg>``. It changes with placements."""
        return (*self.job_rank(job), job.group.created, job.key)

    def job_rank(self, job: Job) -> tuple[Any, ...]:
        """Return a job's place as far as plugins tell it."""
        return tuple(plugin.job_key(job) for plugin in self.plugins("job_key"))

    def task_order(self, task: Task) -> tuple[Any, ...]:
        """Return a task's place in its job (section 4.7)."""
        return (*(plugin.task_key(task) for plugin in self.plugins("task_key")), _TaskTie(task))

    def invalid(self, job: Job) -> Invalid | None:
        """Return why a job cannot be scheduled: the first failure (PG-9), None if it can."""
        return next((found for plugin in self.plugins("valid") if (found := plugin.valid(job))), None)

    def ready(self, job: Job) -> bool:
        """Tell whether a job may be bound (PG-10): all must say yes."""
        return all(plugin.ready(job) for plugin in self.plugins("ready"))

    def pipelined(self, job: Job) -> bool:
        """Tell whether a job is pipelined (PG-11), by votes."""
        return self._vote("pipelined", lambda plugin: plugin.pipelined(job))

    def enqueueable(self, job: Job) -> bool:
        """Tell whether a job may be enqueued, by votes."""
        return self._vote("enqueueable", lambda plugin: plugin.enqueueable(job))

    def _vote(self, answer: str, ask: Callable[[Plugin], Vote]) -> bool:
        for tier in self._tiers_of(answer):
            yes = False
            for plugin in tier:
                vote = ask(plugin)
                if vote is Vote.NO:
                    return False
                yes = yes or vote is Vote.YES
            if yes:
                return True
        return True

    def starving(self, job: Job) -> bool:
        """Tell whether a job is starving (PG-11): all of the first tier that answers; nobody answers: no."""
        for tier in self._tiers_of("starving"):
            if tier:
                return all(plugin.starving(job) for plugin in tier)
        return False

    def overused(self, queue: Queue) -> bool:
        """Tell whether a queue is overused (Q-16): one says so."""
        return any(plugin.overused(queue) for plugin in self.plugins("overused"))

    def holds(self, task: Task, charge: Vector) -> QueueReason | None:
        """Return why the queue does not take what the task would really hold (Q-17a), None if it does."""
        return next((found for plugin in self.plugins("holds") if (found := plugin.holds(task, charge))), None)

    def preemptive(self, queue: Queue, task: Task) -> bool:
        """Tell whether a queue may take room from others for a task: all must say yes."""
        return all(plugin.preemptive(queue, task) for plugin in self.plugins("preemptive"))

    def preemptable(self, preemptor: Task, candidates: Sequence[Task]) -> list[Task]:
        """Return whom the preemptor may evict, in the given order; see ``_victims``."""
        left = [task for task in candidates if not any(p.spares(preemptor, task) for p in self.plugins("spares"))]
        return self._victims("preemptable", left, lambda plugin, tasks: plugin.preemptable(preemptor, tasks))

    def reclaimable(self, reclaimer: Task, candidates: Sequence[Task]) -> list[Task]:
        """Return whom a task of another queue may evict, in the given order; see ``_victims``."""
        left = [task for task in candidates if not any(p.keeps(reclaimer, task) for p in self.plugins("keeps"))]
        return self._victims("reclaimable", left, lambda plugin, tasks: plugin.reclaimable(reclaimer, tasks))

    def _victims(
        self, answer: str, candidates: Sequence[Task], ask: Callable[[Plugin, Sequence[Task]], list[Task]]
    ) -> list[Task]:
        """Inside a tier only whom all name; the first tier with an answer decides.

        A veto is final (PG-11b): plugins that ``counts_down`` are asked last, of whom all others named, and their no
        holds whichever tier they are in.
        """
        counting = [plugin for plugin in self.plugins(answer) if plugin.counts_down]
        for tier in self._tiers_of(answer):
            named = list(candidates)
            for plugin in tier:
                if not plugin.counts_down:
                    found = {task.uid for task in ask(plugin, named)}
                    named = [task for task in named if task.uid in found]
            for plugin in counting:
                named = ask(plugin, named)
            if named and tier:
                return named
        return []

    def prepare(self, task: Task) -> str:
        """Return why no node can do (pre-predicate), in the words of POD-4; empty if some may."""
        return next((text for plugin in self.plugins("prepare") if (text := plugin.prepare(task))), "")

    def check(self, task: Task, view: NodeView) -> Refused | None:
        """Return why a node does not take a task: the first error in tier order."""
        for plugin in self.plugins("check"):
            refused = plugin.check(task, view)
            if refused is not None:
                return refused
        return None

    def scores(self, task: Task, views: Sequence[NodeView]) -> dict[str, int]:
        """Return the sum of all scores by node name, in thousandths (AL-23)."""
        total = {view.name: 0 for view in views}
        with self.stages.during("scoring"):
            for plugin in self.plugins("scores"):
                for name, score in plugin.scores(task, views).items():
                    total[name] += score
        return total


def _gives(plugin: Plugin, answer: str) -> bool:
    return getattr(type(plugin), answer) is not getattr(Plugin, answer)


def _compare(left: Task, right: Task) -> int:
    """Compare by the number at the end of the names, else by age, else by uid (section 4.7)."""
    one, two = left.traits.number, right.traits.number
    if one is not None and two is not None and one != two:
        return -1 if one < two else 1
    first, second = (left.pod.created, left.uid), (right.pod.created, right.uid)
    return -1 if first < second else int(first > second)


_TaskTie = cmp_to_key(_compare)


def in_order(items: Iterable[Job], answers: Answers) -> list[Job]:
    """Return jobs in their order as of now."""
    return sorted(items, key=answers.job_order)
