"""One cycle's view of the world: the snapshot, what the plugins answer together, and what was tried so far.

The nodes are an overlay over the state's immutable ``NodeView``s: a trial puts another view in a node's place, undoing
it puts the old one back, and the state never changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from scheduling.config.arguments import boolean
from scheduling.config.model import SchedulerConfig
from scheduling.cycle.answers import Answers
from scheduling.cycle.bulk import Bulk
from scheduling.cycle.classes import PodClass, plain_cluster
from scheduling.cycle.job import Job, Placement, Task
from scheduling.cycle.memo import Memo
from scheduling.cycle.plugin import Plugin
from scheduling.cycle.resting import Bench, Gate, Rest
from scheduling.cycle.stages import UNTOLD, Stages
from scheduling.cycle.standing import Standing
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
    ``gangs`` and ``evictions`` are what was committed, in order. ``active`` are the jobs that are looked at, by key, in
    key order at first; ``tried`` are those that something was tried with. ``moves`` counts what was tried in all.
    ``notes`` take down what the outcome of the turn that goes on follows from (``cycle.resting``). ``explains`` names
    the PodGroup for whose tasks the answers of all nodes are kept, empty for none. ``stages`` is told what goes on.
    """

    def __init__(
        self,
        model: Model,
        config: SchedulerConfig,
        standing: Standing,
        time_ms: int,
        memo: Memo | None = None,
        placements_max: int | None = None,
        explains: str = "",
        stages: Stages = UNTOLD,
    ) -> None:
        super().__init__(stages)
        self.explains = explains
        self.model, self.config, self.time_ms = model, config, time_ms
        self.env = model.env
        self.standing = standing
        self.jobs, self.queues, self.tasks = standing.jobs, standing.queues, standing.tasks
        self.views: dict[str, NodeView] = dict(model.nodes)
        self.planned: dict[str, dict[str, Claim]] = {}
        self.device_books: dict[str, tuple[NodeView, Mapping[str, Claim], tuple[NodeDevices, NodeDevices]]] = {}
        self.raw = standing.raw
        self.memo = memo or Memo()
        self.cluster = self.memo.look_at(self.views, model.others)
        self.names: list[str] = self.memo.names
        self.total: Vector = self.memo.total
        standing.measure(self.total)
        self.active = {key: standing.jobs[key] for key in sorted(standing.active) if key in standing.jobs}
        self.tried: dict[str, Job] = {}
        self.promised: dict[str, Task] = {}
        self.moves = 0
        self.notes: Rest | None = None
        self._doors: dict[str, object] = {}
        self.plain = False
        self.search_start = model.search_start
        self.gangs: list[Gang] = []
        self.placements, self._placements_max = 0, placements_max
        self.evictions: list[Evicted] = []
        self.parents = {queue.parent for queue in model.queues.values() if queue.parent}

    def open(self, plugins: Mapping[str, type[Plugin]]) -> None:
        """Open the plugins in tier order (AL-2) and put the tasks in order."""
        self.open_plugins(self, self.config, plugins)
        for job in self.active.values():
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
        self.moves += 1
        for plugin in self.plugins("enqueued"):
            plugin.enqueued(job)

    # --- jobs that rest (cycle.resting) ---

    def wake(self, job: Job) -> None:
        """Look at a job that was at rest."""
        self.standing.wake(job)
        self.active[job.key] = job

    def take_down(self, job: Job) -> Rest:
        """Take down what the outcome of a job's turn follows from, until ``notes`` is None again."""
        if job.notes is None:
            job.notes = Rest(job)
        self.notes = job.notes
        return job.notes

    def bench(self, where: str, queue: str) -> Bench | None:
        """Return the jobs of a queue that wait at rest, None if there are none."""
        return self.standing.benches[where].get(queue)

    def door(self, queue: Queue) -> object:
        """Return why a queue takes nobody in this cycle, in whatever way; it changes with nothing that is tried."""
        found = self._doors.get(queue.name)
        if found is None:
            found = self._doors[queue.name] = (
                self.closed(queue),
                *(plugin.blocked(queue.name) for plugin in self.giving("blocked")),
            )
        return found

    def stamp(self, queue: Queue) -> object:
        """Return what a queue as a whole is judged by, None if that was changed in this cycle."""
        found = [plugin.stamp(queue.name) for plugin in self.giving("stamp")]
        return None if None in found else (self.door(queue), found)

    def room_of(self, gate: Gate) -> Callable[[str], int | Fraction]:
        """Return how much room there is now for one more, by the resource's name."""
        name, what, queue = gate
        plugin = self.plugin(name)
        assert plugin is not None, f"{name} was asked and is open"
        return plugin.room(what, queue)

    @property
    def timeless(self) -> bool:
        """Whether what is said of nodes is the same at any time."""
        return all(plugin.timeless for plugin in self.all_plugins())

    @property
    def nodes_at(self) -> tuple[int, int]:
        """Which state of all nodes, and of what rules about nodes refer to, this is."""
        return self.memo.moves, self.model.changes.others

    # --- promises (PG-11c) ---

    def promise(self, task: Task) -> None:
        """Keep a task's place for it."""
        task.promised = True
        self.promised[task.uid] = task

    def promised_jobs(self) -> list[Job]:
        """Return the jobs that places are kept for, in key order."""
        found = {task.job.key: task.job for task in self.promised.values() if task.promised}
        return [found[key] for key in sorted(found)]

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
        self.memo.moves += 1

    def _set(self, task: Task, status: TaskStatus) -> None:
        task.job.set_status(task, status)
        self.tried[task.job.key] = task.job
        self.moves += 1

    def looked_at(self) -> list[str]:
        """Return the PodGroups of which something new may be said, in order, those without a job included."""
        return sorted(self.standing.active.union(self.tried))

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
        self._set(task, status)
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
        self._set(task, TaskStatus.PENDING)
        task.node, task.placement = "", None
        task.charge = task.held = task.traits.asked

    def release(self, task: Task) -> None:
        """A placed task makes way: Releasing, its room is there for promises only (F-7)."""
        for plugin in self.plugins("deallocated"):
            plugin.deallocated(task)
        view = self.views[task.node]
        booked = view.tasks[task.uid]
        self._show(view.with_task(NodeTask(booked.pod, booked.request, TaskStatus.RELEASING)))
        self._set(task, TaskStatus.RELEASING)

    def restore(self, task: Task, status: TaskStatus) -> None:
        """Undo ``release``: the task keeps exactly what it had."""
        view = self.views[task.node]
        booked = view.tasks[task.uid]
        self._show(view.with_task(NodeTask(booked.pod, booked.request, status)))
        self._set(task, status)
        if status in ALLOC:
            for plugin in self.plugins("allocated"):
                plugin.allocated(task)

    def argument(self, action: str, key: str, default: bool) -> bool:
        """Return a boolean argument of an action (CFG-5)."""
        return boolean(self.config.action_arguments.get(action, {}), key, default)
