"""preempt: a starving job takes the places of others in its queue (scheduling/CFG-13, PG-11 to PG-11c).

First between jobs of one queue, each needy job as one statement; then inside a job, where a task may take the place
of one of lower priority.
"""

from __future__ import annotations

from functools import partial

from scheduling.cycle.eviction.needy import may_preempt, needs, needy_jobs, queues_in_order, seekers
from scheduling.cycle.eviction.room import PLACED
from scheduling.cycle.eviction.trade import Trade, candidates_by_node, share_of
from scheduling.cycle.job import Job, Task
from scheduling.cycle.session import Session

REASON = "preempt"


def execute(session: Session) -> None:
    """Run the action."""
    if session.full:
        return
    jobs = needy_jobs(session)
    for queue in queues_in_order(session, jobs):
        there = candidates_by_node(session, partial(_placed_in, queue))
        for job in jobs[queue]:
            if session.starving(job):
                others = _without(there, job)
                if others:
                    _trade(session, job).place_all(others, may_preempt)
    for name in sorted(jobs):
        for job in jobs[name]:
            _inside(session, job)


def _placed_in(queue: str, task: Task) -> bool:
    return task.status in PLACED and task.job.queue.name == queue


def _placed_of(job: Job, task: Task) -> bool:
    return task.status in PLACED and task.job is job


def _without(candidates: dict[str, list[Task]], job: Job) -> dict[str, list[Task]]:
    left = {name: [task for task in tasks if task.job is not job] for name, tasks in candidates.items()}
    return {name: tasks for name, tasks in left.items() if tasks}


def _trade(session: Session, job: Job) -> Trade:
    return Trade(session, job, REASON, _rule, session.preemptable, lambda job: share_of(session, job.tasks))


def _rule(task: Task, victim: Task) -> str:
    if victim.job is task.job or victim.job.priority < task.job.priority:
        return "scheduling/PG-11a: lower priority"
    return "scheduling/Q-25: larger share"


def _inside(session: Session, job: Job) -> None:
    """Let higher tasks of a job take the places of its lower ones, one by one."""
    for task in seekers(job):
        own = candidates_by_node(session, partial(_placed_of, job))
        if not own or not needs(session, job, task) or not may_preempt(task):
            return
        trade = _trade(session, job)
        if not trade.place(task, own) or not trade.close():
            trade.drop()
            return
