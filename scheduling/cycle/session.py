"""One cycle's view of the world: the snapshot, what the plugins answer together, and what was tried so far.

The nodes are an overlay over the state's immutable ``NodeView``s: a trial puts another view in a node's place, undoing
it puts the old one back, and the state never changes. Answers are combined as scheduling/CFG section 1.3 says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cmp_to_key
from typing import Any

from scheduling import resources
from scheduling.config.arguments import boolean
from scheduling.config.model import SchedulerConfig
from scheduling.cycle import messages
from scheduling.cycle.classes import PodClass, plain_cluster
from scheduling.cycle.job import Job, Placement, Task
from scheduling.cycle.memo import Memo
from scheduling.cycle.plugin import SWITCHES, Plugin, Refused, Vote
from scheduling.cycle.snapshot import Snapshot, raw_accounting
from scheduling.cycle.traits import charged
from scheduling.devices.books import NodeDevices
from scheduling.devices.claims import Claim, planned_claim
from scheduling.nodes.view import NodeTask, NodeView
from scheduling.objects import Queue
from scheduling.resources import Vector
from scheduling.state.model import Evicted, Gang, Model
from scheduling.status import ALLOC, TaskStatus

ROOT = "root"


class Session:
    """The world of one cycle; actions change it through ``Statement`` only.

    ``views`` are the nodes by name as tried so far, ``planned`` the devices that pipelined tasks will have.
    ``gangs`` and ``evictions`` are what was committed, in order.
    """

    def __init__(
        self,
        model: Model,
        config: SchedulerConfig,
        snapshot: Snapshot,
        time_ms: int,
        memo: Memo | None = None,
        placements_max: int | None = None,
    ) -> None:
        self.model, self.config, self.time_ms = model, config, time_ms
        self.env = model.env
        self.jobs, self.queues = snapshot.jobs, snapshot.queues
        self.tasks = snapshot.tasks
        self.views: dict[str, NodeView] = dict(model.nodes)
        self.names: list[str] = sorted(name for name, view in model.nodes.items() if view.node is not None)
        self.total: Vector = resources.total(self.views[name].room for name in self.names)
        self.planned: dict[str, dict[str, Claim]] = {}
        self.device_books: dict[str, tuple[NodeView, Mapping[str, Claim], tuple[NodeDevices, NodeDevices]]] = {}
        self.raw = raw_accounting(config)
        self.memo = memo or Memo()
        self.cluster = self.memo.look_at(self.views, model.others)
        self.plain = False
        self.search_start = model.search_start
        self.gangs: list[Gang] = []
        self.placements, self._placements_max = 0, placements_max
        self.evictions: list[Evicted] = []
        self.parents = {queue.parent for queue in model.queues.values() if queue.parent}
        self._tiers: list[list[Plugin]] = []
        self._asked: dict[str, list[list[Plugin]]] = {}

    def open(self, plugins: Mapping[str, type[Plugin]]) -> None:
        """Open the plugins in tier order (AL-2) and put the tasks in order."""
        for tier in self.config.tiers:
            opened = [plugins[option.name](self, option) for option in tier if option.name in plugins]
            self._tiers.append(opened)
        for job in self.jobs.values():
            if not job.settled:
                job.tasks.sort(key=self.task_order)
        self.plain = plain_cluster(self)

    # --- asking plugins ---

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
        return [plugin for tier in self._tiers_of(answer) for plugin in tier]

    def all_plugins(self) -> list[Plugin]:
        """Return the open plugins, in tier order."""
        return [plugin for tier in self._tiers for plugin in tier]

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

    def invalid(self, job: Job) -> str:
        """Return why a job cannot be scheduled: the first failure (PG-9), empty if it can."""
        return next((text for plugin in self.plugins("valid") if (text := plugin.valid(job))), "")

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

    def allocatable(self, task: Task) -> str:
        """Return why the task's queue does not take it (Q-4, Q-17), empty if it does."""
        closed = self.closed(task.job.queue)
        if closed:
            return closed
        return next((text for plugin in self.plugins("allocatable") if (text := plugin.allocatable(task))), "")

    def holds(self, task: Task, charge: Vector) -> str:
        """Return why the queue does not take what the task would really hold (Q-17a), empty if it does."""
        return next((text for plugin in self.plugins("holds") if (text := plugin.holds(task, charge))), "")

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
        for plugin in self.plugins("scores"):
            for name, score in plugin.scores(task, views).items():
                total[name] += score
        return total

    # --- queues ---

    def closed(self, queue: Queue) -> str:
        """Return why a queue takes nobody, whatever is free (Q-4a, Q-4b), empty if it takes jobs."""
        if queue.name == ROOT:
            return messages.ROOT_TAKES_NONE
        if queue.name in self.parents:
            return messages.has_children(queue.name)
        return "" if queue.open else messages.not_open(queue)

    @property
    def full(self) -> bool:
        """Tell whether as much was placed as one pass may place."""
        return self._placements_max is not None and self.placements >= self._placements_max

    def admit(self, job: Job) -> None:
        """Turn a Pending job into Inqueue (PG-4); what it reserves counts at once (Q-18)."""
        job.phase, job.admitted, job.refusal = "Inqueue", True, ""
        for plugin in self.plugins("enqueued"):
            plugin.enqueued(job)

    # --- trials ---

    def class_of(self, task: Task) -> PodClass:
        """Return what is known of a plain pod's class, up to date."""
        assert task.traits.kind is not None, f"{task.uid} is of no class"
        known = self.memo.classes.setdefault(task.traits.kind, PodClass())
        known.refresh(self, task)
        return known

    def _show(self, view: NodeView) -> None:
        """Put a node's new view in place."""
        self.views[view.name] = view
        self.memo.changed.append(view.name)

    def put(self, task: Task, status: TaskStatus, placement: Placement) -> None:
        """Place a Pending task on a node: Allocated on what is idle, or Pipelined on what will be."""
        view = self.views[placement.node]
        booked = NodeTask(task.pod, task.traits.request, status)
        if not placement.allocation and not placement.gpu_index:
            self._show(view.with_task(booked))
        elif status is TaskStatus.PIPELINED:
            claim = planned_claim(task.pod, self.env, placement.allocation, placement.gpu_index)
            self.planned[view.name] = {**self.planned.get(view.name, {}), task.uid: claim}
            self._show(view.with_task(booked))
        else:
            claim = planned_claim(task.pod, self.env, placement.allocation, placement.gpu_index)
            self._show(view.with_task(booked, view.devices.with_claim(claim)))
        self.plain = self.plain and not task.pod.spec.get("affinity")
        task.job.set_status(task, status)
        task.node, task.placement, task.held = placement.node, placement, placement.held
        task.charge = charged(task.traits, task.held, self.env.number_name)
        for plugin in self.plugins("allocated"):
            plugin.allocated(task)

    def take_off(self, task: Task) -> None:
        """Take a task that ``put`` placed off its node again: it is Pending."""
        for plugin in self.plugins("deallocated"):
            plugin.deallocated(task)
        self._show(self.views[task.node].without_task(task.uid))
        planned = self.planned.get(task.node)
        if planned and task.uid in planned:
            self.planned[task.node] = {uid: claim for uid, claim in planned.items() if uid != task.uid}
        task.job.set_status(task, TaskStatus.PENDING)
        task.node, task.placement = "", None
        task.charge = task.held = task.traits.asked

    def release(self, task: Task) -> None:
        """A placed task makes way: Releasing, its room is there for promises only (F-7)."""
        for plugin in self.plugins("deallocated"):
            plugin.deallocated(task)
        view = self.views[task.node]
        booked = view.tasks[task.uid]
        self._show(view.with_task(NodeTask(booked.pod, booked.request, TaskStatus.RELEASING)))
        task.job.set_status(task, TaskStatus.RELEASING)

    def restore(self, task: Task, status: TaskStatus) -> None:
        """Undo ``release``: the task keeps exactly what it had."""
        view = self.views[task.node]
        booked = view.tasks[task.uid]
        self._show(view.with_task(NodeTask(booked.pod, booked.request, status)))
        task.job.set_status(task, status)
        if status in ALLOC:
            for plugin in self.plugins("allocated"):
                plugin.allocated(task)

    def argument(self, action: str, key: str, default: bool) -> bool:
        """Return a boolean argument of an action (CFG-5)."""
        return boolean(self.config.action_arguments.get(action, {}), key, default)


def _gives(plugin: Plugin, answer: str) -> bool:
    return getattr(type(plugin), answer) is not getattr(Plugin, answer)


def _number(name: str) -> int | None:
    """Return the numeric last part of a name of at least three parts."""
    parts = name.split("-")
    last = parts[-1]
    return int(last) if len(parts) >= 3 and last.isascii() and last.isdigit() else None


def _compare(left: Task, right: Task) -> int:
    """Compare by the number at the end of the names, else by age, else by uid (section 4.7)."""
    one, two = _number(left.name), _number(right.name)
    if one is not None and two is not None and one != two:
        return -1 if one < two else 1
    first, second = (left.pod.created, left.uid), (right.pod.created, right.uid)
    return -1 if first < second else int(first > second)


_TaskTie = cmp_to_key(_compare)


def in_order(items: Iterable[Job], session: Session) -> list[Job]:
    """Return jobs in their order as of now."""
    return sorted(items, key=session.job_order)
