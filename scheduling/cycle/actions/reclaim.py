"""reclaim: a queue takes back what others hold beyond what they deserve (scheduling/CFG-13, PG-11a to PG-11c)."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from scheduling.cycle.eviction.needy import needy_jobs, queues_in_order
from scheduling.cycle.eviction.trade import Trade, candidates_by_node, share_of
from scheduling.cycle.job import Job, Task
from scheduling.cycle.plugins.queues import QueuePlugin
from scheduling.cycle.session import Session
from scheduling.cycle.waterfill import share
from scheduling.objects import Queue
from scheduling.status import TaskStatus

REASON = "reclaim"


def execute(session: Session) -> None:
    """Run the action."""
    if session.full:
        return
    jobs = needy_jobs(session)
    for name in queues_in_order(session, jobs):
        queue = session.queues[name]
        if session.overused(queue):
            continue
        others = candidates_by_node(session, partial(may_give, queue))
        for job in jobs[name]:
            if others and session.starving(job) and not session.overused(queue):
                _trade(session, job).place_all(others, lambda task: session.preemptive(task.job.queue, task))


def may_give(queue: Queue, task: Task) -> bool:
    """Tell whether a task runs in another queue that gives back what it holds too much."""
    owner = task.job.queue
    return task.status is TaskStatus.RUNNING and owner.name != queue.name and owner.reclaimable


def _trade(session: Session, job: Job) -> Trade:
    return Trade(session, job, REASON, _rule, session.reclaimable, lambda job: queue_share(session, job.queue.name))


def _rule(task: Task, victim: Task) -> str:
    return f"scheduling/PG-11a: queue {victim.job.queue.name} above its deserved"


def queue_share(session: Session, name: str) -> Fraction:
    """Return what a queue holds of what it deserves (Q-13), without a queue plugin of the cluster."""
    for plugin in session.plugins("reclaimable"):
        if isinstance(plugin, QueuePlugin):
            account = plugin.account(name)
            return share(account.allocated, account.deserved)
    tasks = (task for job in session.jobs.values() if job.queue.name == name for task in job.tasks)
    return share_of(session, tasks)
