"""Room for a gang that is passed over again and again (scheduling section 9 row 7).

By default a gang that finds no place leaves all of it to others (AL-13), so a big one may starve behind small ones that
take every card as it becomes free. With ``gang-reservation-cycles: K`` of the action allocate, a gang at the head of
its queue that was passed over K times has its turn before all others and keeps what it could be placed on for the rest
of the action; what becomes free adds up until it fits. It was passed over when its turn failed and others were placed
in the same cycle: where nobody is placed, nothing is taken from it.

Nothing is kept for a gang that is larger than its queue's share, or that would not fit if all of ours left the
cluster: that would hold others back for ever (Q-11a). What is kept is tried anew in each cycle, in the order of the
queues, so two gangs never block each other: the first gets all that it can use.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from scheduling import resources
from scheduling.config.arguments import integer
from scheduling.cycle import snapshot
from scheduling.cycle.finder import Finder
from scheduling.cycle.job import INQUEUE, Job
from scheduling.cycle.memo import Memo
from scheduling.cycle.plugins.queues import QueuePlugin
from scheduling.cycle.session import Session
from scheduling.cycle.statement import Statement
from scheduling.status import ALLOC

if TYPE_CHECKING:
    from scheduling.cycle.actions.allocate import Allocation

NAME, ARGUMENT = "allocate", "gang-reservation-cycles"


class Reservations:
    """The reservations of one run of allocate."""

    def __init__(self, allocation: Allocation) -> None:
        self._allocation = allocation
        self._session = allocation.session
        self._after = integer(self._session.config.action_arguments.get(NAME, {}), ARGUMENT, 0)
        self._heads: list[Job] = []
        self._kept: list[Statement] = []

    def take(self) -> None:
        """Before the turns of all: let those that were passed over too often keep what they could have."""
        if self._after <= 0:
            return
        self._heads = self._find_heads()
        for job in self._heads:
            if job.book.passed_over >= self._after:
                self._try(job)

    def end(self) -> None:
        """After the turns of all: give back what was kept, and count who was passed over."""
        for statement in reversed(self._kept):
            statement.undo(0)
        for job in self._heads:
            others = any(gang.group != job.key for gang in self._session.gangs)
            if job.turn_failed and others and job.book.passed_over < self._after:
                job.passed_over = job.book.passed_over + 1

    def _find_heads(self) -> list[Job]:
        """Return the first job of each queue, in the order of the queues."""
        first: dict[str, Job] = {}
        for job in self._session.active.values():
            if not self._allocation.takes_part(job) or job.filled:
                continue
            known = first.get(job.queue.name)
            if known is None or self._session.job_order(job) < self._session.job_order(known):
                first[job.queue.name] = job
        return sorted(first.values(), key=lambda job: self._session.queue_order(job.queue))

    def _try(self, job: Job) -> None:
        statement = Statement(self._session)
        finder = Finder(self._session, NAME)
        for task in job.waiting():
            self._allocation.place(statement, finder, task)
            if self._session.ready(job):
                statement.commit(job)
                return
        if not len(statement) or not self._share_suffices(job) or not self._fits_without_others(job):
            statement.discard()
            job.failed_roles.clear()
            return
        job.turn_failed = True
        self._allocation.reserved.add(job.key)
        self._kept.append(statement)

    def _share_suffices(self, job: Job) -> bool:
        """Tell whether the queue would take what the gang needs if it had nothing else."""
        needed = job.waiting()[: max(job.minimum - job.ready, 0)]
        own = [task.charge for task in job.tasks if task.status in ALLOC or task in needed]
        plugins = [plugin for plugin in self._session.all_plugins() if isinstance(plugin, QueuePlugin)]
        return all(plugin.takes_alone(job.queue, resources.total(own)) for plugin in plugins)

    def _fits_without_others(self, job: Job) -> bool:
        """Tell whether the gang could be placed if all other pods of ours were gone."""
        session, model = self._session, self._session.model
        own = {task.uid for task in job.tasks}
        nodes = dict(model.nodes)
        for name, view in nodes.items():
            for uid in view.tasks:
                if uid in session.tasks and uid not in own:
                    nodes[name] = nodes[name].without_task(uid)
        alone = replace(
            model,
            nodes=nodes,
            pods={uid: model.pods[uid] for uid in sorted(own)},
            members={job.key: own},
            groups={job.key: replace(job.entry, book=job.book.model_copy(update={"phase": INQUEUE}))},
            promises={},
        )
        world = Session(alone, session.config, snapshot.take(alone, session.config, Memo()), session.time_ms)
        return self._allocation.alone(world, job.key)
