"""sla: whoever has waited too long is let in (scheduling/CFG-13).

A job's limit is the annotation of its PodGroup, else the argument; without one, or with one that is no duration above
zero, the job has none. Jobs are ordered by when their time is up, those without limit last.
"""

from __future__ import annotations

from typing import Any, Final

from scheduling.config.arguments import as_duration, duration
from scheduling.cycle.job import Job
from scheduling.cycle.plugin import Plugin, Vote

_ARGUMENT: Final = "sla-waiting-time"
#: The annotation, and its older spelling.
_ANNOTATIONS: Final = ("volcano.sh/sla-waiting-time", "sla-waiting-time")
_MS: Final = 1000


class SlaPlugin(Plugin):
    """Votes for a job once its time is up, and abstains before."""

    name = "sla"

    def opened(self) -> None:
        self._default = duration(self.arguments, _ARGUMENT, 0)

    def _deadline(self, job: Job) -> int | None:
        """Return when a job's time is up (Unix milliseconds), None if it has no limit."""
        written = job.group.annotations
        text = next((written[key] for key in _ANNOTATIONS if key in written), None)
        limit = self._default if text is None else as_duration(text)
        return job.group.created * _MS + limit if limit else None

    def job_key(self, job: Job) -> Any:
        deadline = self._deadline(job)
        return (deadline is None, deadline or 0)

    def _vote(self, job: Job) -> Vote:
        deadline = self._deadline(job)
        return Vote.YES if deadline is not None and self.session.time_ms > deadline else Vote.ABSTAIN

    def enqueueable(self, job: Job) -> Vote:
        return self._vote(job)

    def until(self, job: Job) -> int | None:
        deadline = self._deadline(job)
        return deadline + 1 if deadline is not None and deadline >= self.session.time_ms else None

    def pipelined(self, job: Job) -> Vote:
        return self._vote(job)
