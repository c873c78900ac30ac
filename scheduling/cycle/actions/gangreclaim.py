"""gangreclaim: a queue takes back what others hold too much, gang by gang (scheduling/GP-1 to GP-6)."""

from __future__ import annotations

from typing import Final

from scheduling.cycle.actions.reclaim import queue_share
from scheduling.cycle.eviction.bundles import Bundle, bundles_of
from scheduling.cycle.eviction.gangs import GangTrade, allows_whole
from scheduling.cycle.eviction.needy import needy_jobs, queues_in_order
from scheduling.cycle.eviction.trade import Rules
from scheduling.cycle.job import Job, Task
from scheduling.cycle.plugins.queues import QueuePlugin
from scheduling.cycle.session import Session

REASON: Final = "gangreclaim"


def execute(session: Session) -> None:
    """Run the action."""
    if session.full:
        return
    jobs = needy_jobs(session)
    rules = Rules(session, REASON, _rule, session.reclaimable, lambda job: queue_share(session, job.queue.name))
    for name in queues_in_order(session, jobs):
        queue = session.queues[name]
        for job in jobs[name]:
            if not session.overused(queue) and session.starving(job) and job.waiting():
                _make_room(rules, job)


def _make_room(rules: Rules, job: Job) -> None:
    session, asker = rules.session, job.waiting()[0]
    whole, vetoes = allows_whole(session, REASON), session.plugins("keeps")

    def may_go(task: Task) -> bool:
        return task.traits.preemptable and not any(plugin.keeps(asker, task) for plugin in vetoes)

    def shrink(bundle: Bundle) -> Bundle | None:
        return _exceeding(session, asker, bundle)

    bundles: list[Bundle] = []
    for other in session.standing.in_key_order():
        if other.queue.name != job.queue.name and other.queue.reclaimable:
            bundles += bundles_of(other, may_go, whole)
    if bundles:
        trade = GangTrade(rules, job, lambda task: session.preemptive(task.job.queue, task))
        trade.make_room(bundles, lambda other: queue_share(session, other.queue.name), shrink)


def _exceeding(session: Session, asker: Task, bundle: Bundle) -> Bundle | None:
    """Return what of a bundle its queue may lose as things stand: while it holds more than its deserved.

    A whole bundle goes entirely, if the queue holds too much before it goes.
    """
    named = list(bundle.tasks)
    for plugin in session.plugins("reclaimable"):
        if isinstance(plugin, QueuePlugin):
            named = plugin.reclaimable(asker, named)
    left = {task.uid for task in named}
    tasks = tuple(task for task in bundle.tasks if task.uid in left)
    if not tasks:
        return None
    return bundle if bundle.whole else Bundle(bundle.job, tasks, False)


def _rule(task: Task, victim: Task) -> str:
    return f"scheduling/GP-2: queue {victim.job.queue.name} above its deserved"
