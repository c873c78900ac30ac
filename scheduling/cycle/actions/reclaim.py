"""reclaim: a queue takes back what others hold beyond what they deserve (scheduling/CFG-13, PG-11a to PG-11c)."""

from __future__ import annotations

from fractions import Fraction

from scheduling.cycle.eviction.needy import needy_jobs, queues_in_order
from scheduling.cycle.eviction.trade import Rules, Trade, by_node, share_of, tasks_of
from scheduling.cycle.job import Task
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
    rules = Rules(session, REASON, _rule, session.reclaimable, lambda job: queue_share(session, job.queue.name))
    for name in queues_in_order(session, jobs):
        queue = session.queues[name]
        if session.overused(queue):
            continue
        others = by_node(session, (task for task in tasks_of(session) if may_give(task, queue)))
        for job in jobs[name]:
            if others and session.starving(job) and not session.overused(queue):
                Trade(rules, job).place_all(others, lambda task: session.preemptive(task.job.queue, task))


def may_give(task: Task, queue: Queue) -> bool:
    """Tell whether a task runs in another queue that gives back what it holds too much."""
    owner = task.job.queue
    return task.status is TaskStatus.RUNNING and owner.name != queue.name and owner.reclaimable


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
