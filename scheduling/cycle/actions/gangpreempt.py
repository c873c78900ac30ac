"""gangpreempt: a starving job takes the places of whole gangs of lower priority (scheduling/GP-1 to GP-6)."""

from __future__ import annotations

from typing import Final

from scheduling.cycle.eviction.bundles import Bundle, bundles_of
from scheduling.cycle.eviction.gangs import GangTrade, allows_whole
from scheduling.cycle.eviction.needy import needy_jobs, queues_in_order
from scheduling.cycle.eviction.trade import Rules, share_of
from scheduling.cycle.job import Job, Task
from scheduling.cycle.session import Session

REASON: Final = "gangpreempt"


def execute(session: Session) -> None:
    """Run the action."""
    if session.full:
        return
    jobs = needy_jobs(session)
    rules = Rules(session, REASON, _rule, session.preemptable, lambda job: share_of(session, job.tasks))
    for queue in queues_in_order(session, jobs):
        for job in jobs[queue]:
            if session.starving(job) and job.waiting():
                _make_room(rules, job)


def _make_room(rules: Rules, job: Job) -> None:
    session, asker = rules.session, job.waiting()[0]
    whole, vetoes = allows_whole(session, REASON), session.plugins("spares")

    def may_go(task: Task) -> bool:
        return task.traits.preemptable and not any(plugin.spares(asker, task) for plugin in vetoes)

    bundles: list[Bundle] = []
    for other in session.standing.in_key_order():
        if other.queue.name == job.queue.name and other.priority < job.priority:
            bundles += bundles_of(other, may_go, whole)
    if bundles:
        GangTrade(rules, job, lambda _: True).make_room(bundles, session.job_rank)


def _rule(task: Task, victim: Task) -> str:
    return "scheduling/GP-2: lower priority"
