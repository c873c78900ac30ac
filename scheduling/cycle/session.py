"""One cycle's view of the world: the snapshot, what the plugins answer together, and what was tried so far.

The nodes are an overlay over the state's immutable ``NodeView``s: a trial puts another view in a node's place, undoing
it puts the old one back, and the state never changes.
"""

from __future__ import annotations

from collections.abc import Mapping

from scheduling.config.arguments import boolean
from scheduling.config.model import SchedulerConfig
from scheduling.cycle.answers import Answers
from scheduling.cycle.bulk import Bulk
from scheduling.cycle.classes import PodClass, plain_cluster
from scheduling.cycle.job import Job, Placement, Task
from scheduling.cycle.memo import Memo
from scheduling.cycle.plugin import Plugin
from scheduling.cycle.snapshot import Snapshot, raw_accounting
from scheduling.cycle.traits import charged
from scheduling.devices.books import NodeDevices
from scheduling.devices.claims import Claim, planned_claim
from scheduling.nodes.view import NodeTask, NodeView
from scheduling.objects import Queue
from scheduling.reasons.kinds import HasChildren, NotOpen, QueueReason, RootTakesNone
from scheduling.resources import Vector
from scheduling.state.model import Evicted, Gang, Model
from scheduling.status import ALLOC, TaskStatus

ROOT = "root"


class Session(Answers):
    """The world of one cycle; actions change it through ``Statement`` only.

    ``views`` are the nodes by name as tried so far, ``planned`` the devices that pipelined tasks will have.
    ``gangs`` and ``evictions`` are what was committed, in order. ``explains`` names the PodGroup for whose tasks the
    answers of all nodes are kept, empty for none.
    """

    def __init__(
        self,
        model: Model,
        config: SchedulerConfig,
        snapshot: Snapshot,
        time_ms: int,
        memo: Memo | None = None,
        placements_max: int | None = None,
        explains: str = "",
    ) -> None:
        super().__init__()
        self.explains = explains
        self.model, self.config, self.time_ms = model, config, time_ms
        self.env = model.env
        self.jobs, self.queues = snapshot.jobs, snapshot.queues
        self.tasks = snapshot.tasks
        self.views: dict[str, NodeView] = dict(model.nodes)
        self.planned: dict[str, dict[str, Claim]] = {}
        self.device_books: dict[str, tuple[NodeView, Mapping[str, Claim], tuple[NodeDevices, NodeDevices]]] = {}
        self.raw = raw_accounting(config)
        self.memo = memo or Memo()
        self.cluster = self.memo.look_at(self.views, model.others)
        self.names: list[str] = self.memo.names
        self.total: Vector = self.memo.total
        self.plain = False
        self.search_start = model.search_start
        self.gangs: list[Gang] = []
        self.placements, self._placements_max = 0, placements_max
        self.evictions: list[Evicted] = []
        self.parents = {queue.parent for queue in model.queues.values() if queue.parent}

    def open(self, plugins: Mapping[str, type[Plugin]]) -> None:
        """Open the plugins in tier order (AL-2) and put the tasks in order."""
        self.open_plugins(self, self.config, plugins)
        for job in self.jobs.values():
            if not job.ordered:
                job.tasks.sort(key=self.task_order)
                job.ordered = True
        self.bulk = Bulk(self)
        self.plain = plain_cluster(self)

    # --- queues ---

    def allocatable(self, task: Task) -> QueueReason | None:
        """Return why the task's queue does not take it (Q-4, Q-17), None if it does."""
        closed = self.closed(task.job.queue)
        if closed:
            return closed
        return next((found for plugin in self.plugins("allocatable") if (found := plugin.allocatable(task))), None)

    def closed(self, queue: Queue) -> QueueReason | None:
        """Return why a queue takes nobody, whatever is free (Q-4a, Q-4b), None if it takes jobs."""
        if queue.name == ROOT:
            return RootTakesNone()
        if queue.name in self.parents:
            return HasChildren(queue.name)
        return None if queue.open else NotOpen(queue.name, queue.state)

    @property
    def full(self) -> bool:
        """Tell whether as much was placed as one pass may place."""
        return self._placements_max is not None and self.placements >= self._placements_max

    def admit(self, job: Job) -> None:
        """Turn a Pending job into Inqueue (PG-4); what it reserves counts at once (Q-18)."""
        job.phase, job.admitted, job.refusal = "Inqueue", True, None
        for plugin in self.plugins("enqueued"):
            plugin.enqueued(job)

    # --- trials ---

    def class_of(self, task: Task) -> PodClass:
        """Return what is known of a plain pod's class, up to date."""
        assert task.traits.kind is not None, f"{task.uid} is of no class"
        known = self.memo.class_known(task.traits.kind)
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
