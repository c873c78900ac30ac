"""One task beyond what its queue deserves, where shares would leave a cluster idle (scheduling section 9 row 8).

Weights can give every queue a fraction that no task fits: two queues of one and a half cards each, and all tasks want
two. Where the plugin proportion has ``proportion.borrow``, and a pass placed nobody though somebody waits whom only
its queue's share keeps out, the queue with the lowest share may exceed it by one task, up to its real capability.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from scheduling.cycle.job import Job, Task
from scheduling.cycle.plugins.proportion import ProportionPlugin
from scheduling.reasons.kinds import QueueReason

if TYPE_CHECKING:
    from scheduling.cycle.actions.allocate import Allocation


def _kept_out(task: Task) -> bool:
    """Tell whether its queue stands against a task that waits."""
    return task.waits and isinstance(task.reason, QueueReason)


def borrow(allocation: Allocation) -> None:
    """After the turns of all: let one task borrow if nobody was placed or promised anything."""
    session = allocation.session
    lender = session.plugin("proportion")
    if not isinstance(lender, ProportionPlugin) or not lender.lends or session.gangs or session.evictions:
        return
    if any(job.pipelined for job in session.active.values()):
        return
    kept_out: dict[str, list[Job]] = {}
    for job in session.active.values():
        if job.turn_failed and any(_kept_out(task) for task in job.tasks):
            kept_out.setdefault(job.queue.name, []).append(job)
    for name in sorted(kept_out, key=lambda name: session.queue_order(session.queues[name])):
        for job in sorted(kept_out[name], key=session.job_order):
            lender.borrower = name
            allocation.again(job)
            lender.borrower = ""
            if session.gangs:
                return
