"""preempt: a starving job takes the places of others in its queue (scheduling/CFG-13, PG-11 to PG-11c).

First between jobs of one queue, each needy job as one statement; then inside a job, where a task may take the place
of one of lower priority.
"""

from __future__ import annotations

from scheduling.cycle.eviction.needy import may_preempt, needs, needy_jobs, queues_in_order, seekers
from scheduling.cycle.eviction.room import PLACED
from scheduling.cycle.eviction.trade import Rules, Trade, by_node, share_of, tasks_of
from scheduling.cycle.job import Job, Task
from scheduling.cycle.session import Session

REASON = "preempt"


def execute(session: Session) -> None:
    """Run the action."""
    if session.full:
        return
    jobs = needy_jobs(session)
    rules = _rules(session)
    for queue in queues_in_order(session, jobs):
        there = by_node(session, (task for task in tasks_of(session) if _placed_in(task, queue)))
        for job in jobs[queue] if there else ():
            if session.starving(job):
                Trade(rules, job).place_all(there, may_preempt)
    for name in sorted(jobs):
        for job in jobs[name]:
            _inside(session, job)


def _rules(session: Session, inside: bool = False) -> Rules:
    return Rules(session, REASON, _rule, session.preemptable, lambda job: share_of(session, job.tasks), inside)


def _placed_in(task: Task, queue: str) -> bool:
    return task.status in PLACED and task.job.queue.name == queue


def _rule(task: Task, victim: Task) -> str:
    if victim.job is task.job or victim.job.priority < task.job.priority:
        return "scheduling/PG-11a: lower priority"
    return "scheduling/Q-25: larger share"


def _inside(session: Session, job: Job) -> None:
    """Let higher tasks of a job take the places of its lower ones, one by one."""
    rules = _rules(session, inside=True)
    for task in seekers(job):
        own = by_node(session, (other for other in job.tasks if other.status in PLACED))
        if not own or not needs(session, job, task) or not may_preempt(task):
            return
        trade = Trade(rules, job)
        if not trade.place(task, own) or not trade.close():
            trade.drop()
            return
