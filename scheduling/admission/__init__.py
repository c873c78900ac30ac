"""What may be written of the batch system's own kinds: defaults, and refusals with the exact texts that users know.

Pure: ``complete_and_judge`` takes a verb (``create``, ``update``, ``status``, ``delete``), the kind, the new and the
old form, and the cluster as it is; it fills the new form in, in place, or raises ``Denied``. The embedded cluster asks
it at its front door, the controller's webhook for a real API server. What enters a cluster by another way is never
judged here.
"""

from __future__ import annotations

from events.canonical import Json
from events.kinds import POD, POD_GROUP, QUEUE, VOLCANO_JOB, Kind
from scheduling.admission import jobs, podgroups, pods, queues
from scheduling.admission.lookup import Denied, Lister

#: The kinds that there are rules for.
KINDS = (VOLCANO_JOB, POD_GROUP, QUEUE, POD)


def complete_and_judge(
    verb: str, kind: Kind, new: Json | None, old: Json | None, lister: Lister, *, check_allocated_pods: bool = False
) -> None:
    """Complete the new form in place. Raises Denied.

    ``check_allocated_pods`` also refuses to delete a queue that holds pods (scheduling/Q-5).
    """
    if kind == VOLCANO_JOB:
        jobs.admit(verb, new, old, lister)
    elif kind == POD_GROUP:
        podgroups.admit(verb, new, old, lister)
    elif kind == QUEUE:
        queues.admit(verb, new, old, lister, check_allocated_pods=check_allocated_pods)
    elif kind == POD:
        pods.admit(verb, new, old, lister)


__all__ = ["KINDS", "Denied", "Lister", "complete_and_judge"]
