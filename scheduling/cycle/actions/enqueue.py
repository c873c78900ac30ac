"""enqueue: which PodGroups are let in (scheduling/AL-4, PG-4, PG-4a).

Queues and jobs are taken in their order; what a job reserves counts for those after it at once, and a refused one does
not stop them.
"""

from __future__ import annotations

from scheduling.config.arguments import duration
from scheduling.cycle.accounts import min_resources, reserves_nothing
from scheduling.cycle.job import INQUEUE, PENDING_PHASE, Job
from scheduling.cycle.resting import OUTSIDE, Line
from scheduling.cycle.session import Session
from scheduling.reasons.causes import Cause
from scheduling.reasons.kinds import ReservationReleased
from scheduling.status import ALLOC

NAME = "enqueue"
_TIMEOUT, _TIMEOUT_TEXT = 600_000, "10m"
_ARGUMENT = "inqueue-timeout"


def execute(session: Session) -> None:
    """Judge every Pending job."""
    timeout_ms, told = _timeout(session)
    if timeout_ms:
        for job in session.active.values():
            _release(session, job, timeout_ms, told)
    lines: dict[str, Line] = {}
    for job in session.active.values():
        if job.phase == PENDING_PHASE and not job.held_back:
            line = lines.get(job.queue.name)
            if line is None:
                line = lines[job.queue.name] = Line(session, session.bench(OUTSIDE, job.queue.name))
            line.push(session.job_order(job), job)
    for name, bench in session.standing.benches[OUTSIDE].items():
        if name not in lines and not bench.undisturbed(session):
            lines[name] = Line(session, bench)
    for name in sorted(lines, key=lambda name: session.queue_order(session.queues[name])):
        line = lines[name]
        while line:
            line.look()
            found = line.pop()
            if found is not None:
                session.take_down(found)
                _judge(session, found)
                session.notes = None


def until(session: Session, job: Job) -> int | None:
    """Return when a job is judged otherwise by time alone (PG-4a), in Unix milliseconds."""
    timeout_ms, _ = _timeout(session)
    since = job.book.phase_since_ms
    return since + timeout_ms if timeout_ms and since and since + timeout_ms > session.time_ms else None


def _timeout(session: Session) -> tuple[int, ReservationReleased]:
    """Return how long a reservation without tasks is kept, in milliseconds (0: for ever), and what is said then."""
    arguments = session.config.action_arguments.get(NAME, {})
    timeout_ms = duration(arguments, _ARGUMENT, _TIMEOUT)
    written = arguments.get(_ARGUMENT)
    return timeout_ms, ReservationReleased(written if isinstance(written, str) and timeout_ms else _TIMEOUT_TEXT)


def _release(session: Session, job: Job, timeout_ms: int, told: ReservationReleased) -> None:
    """Take an old reservation without any task back, and keep the job out for as long as it had it (PG-4a)."""
    since = job.book.phase_since_ms
    if not since:
        return
    late = session.time_ms - since >= timeout_ms
    if job.phase == INQUEUE and late and not job.tasks and min_resources(session, job) and not reserves_nothing(job):
        job.phase, job.held_back, job.event = PENDING_PHASE, True, told
    elif job.phase == PENDING_PHASE and not late and job.book.cause == Cause.RELEASED:
        job.held_back, job.event = True, told


def _judge(session: Session, job: Job) -> None:
    if job.group.automatic and not job.pending and not job.count(ALLOC):
        # It reserves nothing; its next pod brings it back here.
        return
    job.refusal = session.closed(job.queue)
    if job.refusal:
        return
    running = 0 < job.minimum <= job.ready
    refused = job.group.automatic and bool(job.tasks) and all(task.traits.refused for task in job.tasks)
    if running or refused or job.group.min_resources is None or session.enqueueable(job):
        session.admit(job)
